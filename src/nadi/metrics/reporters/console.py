"""A reporter to standard output: a line for each metric."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TextIO

from nadi.metrics.registry import Snapshot
from nadi.metrics.reporters.fields import fields_of


class ConsoleReporter:
    """Writes to `out`, standard output unless it is given."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out

    def report(self, snapshot: Snapshot) -> None:
        """Write all of it at once."""
        when = datetime.fromtimestamp(snapshot.at / 1000).astimezone().isoformat(timespec="seconds")
        lines = [f"---- metrics {when}"]
        lines += [f"{in_line(name.full)} {line_of(fields_of(value))}" for name, value in snapshot.values]
        print("\n".join(lines), file=self._out, flush=True)

    def close(self) -> None:
        """There is nothing to close."""


def in_line(name: str) -> str:
    """A name without what would end its line: users choose parts of it.

    >>> in_line("a\\nb")
    'a?b'
    """
    return "".join(c if c.isprintable() else "?" for c in name)


def line_of(fields: dict[str, float | str]) -> str:
    """Fields in a line.

    >>> line_of({"count": 3, "mean_rate": 0.123456, "rate_unit": "events/second"})
    'count=3 mean_rate=0.1235 rate_unit=events/second'
    """
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in fields.items()
    )
