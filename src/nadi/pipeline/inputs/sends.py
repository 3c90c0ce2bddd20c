"""What goes to a sink once more. By itself, as the processes of Spark that only pass it on import it, and should start quickly."""

from __future__ import annotations

from typing import Any

import msgspec


class Send(msgspec.Struct, frozen=True, array_like=True):
    """A payload that was refused and goes to the same sink again; `rows` are `[timestamp (ms), [values]]`, `position` is where the control log asks for it."""

    position: int
    sink: int
    payload: bytes
    rows: list[tuple[int, list[Any]]]
