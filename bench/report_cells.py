"""What the tables of reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Table = tuple[str, Sequence[str], list[list[str]]]
"""Caption, header, rows."""


def of(told: dict[str, Any], digits: int = 0) -> str:
    """A median with least and greatest."""
    if not told["count"]:
        return "–"
    return f"{told['median']:,.{digits}f} [{told['min']:,.{digits}f}–{told['max']:,.{digits}f}]"


def ratio(value: float | None, base: float | None) -> str:
    """A value to another one, where there are both."""
    return f"{value / base:.2f}" if value and base else "–"
