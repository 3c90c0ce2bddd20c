"""Rows with timestamps, of whatever source, as events: what has no timestamps of its own gets them, what is outside of the bounds is left out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import count

import structlog

from nadi.plan.nodes import Schema
from nadi.server.simulation.events import UNSET, Event
from nadi.server.simulation.values import converted

TOLD = 5  # bad rows of a source that the log names; the others are counted

log = structlog.get_logger("nadi.server")

Stamped = tuple[int | None, Sequence[object]]
"""A row: its timestamp (ms), where it has one, and its values."""


class BadRow(ValueError):
    """Why a row is none."""


class Judge:
    """Makes events of the rows of a source; those that do not fit are skipped, and the log says so."""

    def __init__(self, what: str, app: str, stream: str, schema: Schema) -> None:
        self._what = what
        self._app = app
        self._stream = stream
        self._schema = schema
        self.skipped = 0

    def events(
        self, rows: Iterable[Stamped | BadRow], start: int, interval: int, begin: int
    ) -> Generator[Event, None, None]:
        """Rows without timestamps get those from `begin` on, `interval` apart (ms); those with earlier ones than `start` are left out."""
        made = count(begin, interval)
        for number, row in enumerate(rows, 1):
            try:
                if isinstance(row, BadRow):
                    raise row
                stamp, values = row
                fitting = converted(values, self._schema)
            except ValueError as reason:
                self._skip(number, reason)
                continue
            if stamp is None:
                yield Event(next(made), self._app, self._stream, fitting)
            elif start == UNSET or stamp >= start:
                yield Event(stamp, self._app, self._stream, fitting)
        if self.skipped > TOLD:
            log.warning("rows were skipped", source=self._what, stream=self._stream, rows=self.skipped)

    def _skip(self, number: int, reason: ValueError) -> None:
        self.skipped += 1
        if self.skipped <= TOLD:
            log.warning("a row is skipped", source=self._what, stream=self._stream, row=number, reason=str(reason))


def timestamp_of(value: object) -> int:
    """A timestamp, ms, as files and tables have it. Raises BadRow."""
    try:
        found = int(str(value).strip())
    except ValueError:
        found = -1
    if not 0 <= found < 1 << 62:
        raise BadRow(f"{str(value)[:60]!r} is no timestamp in ms")
    return found
