"""How much is measured of each app: nothing, what costs next to nothing, or all.

Hosts are told the level with each cut, so that it can be switched while an app runs. What an app puts out never depends on it.
"""

from __future__ import annotations

from enum import IntEnum
from threading import Lock


class Level(IntEnum):
    """Of an app. BASIC has sources, sinks, tables, delays and sizes; DETAIL has streams, queries, windows, aggregations, triggers and mappers besides."""

    OFF = 0
    BASIC = 1
    DETAIL = 2


def read_level(text: str) -> Level | None:
    """A level by its name in whatever case; None where there is none of this name.

    >>> read_level("detail"), read_level("all")
    (<Level.DETAIL: 2>, None)
    """
    return Level.__members__.get(text.strip().upper())


class Levels:
    """The level of each app of a node, OFF for those that were never given one. From any thread; `of` is asked for each cut."""

    def __init__(self) -> None:
        self._levels: dict[str, Level] = {}
        self._lock = Lock()
        self._muted = False

    def of(self, app: str) -> Level:
        """What hosts are to measure of an app."""
        return Level.OFF if self._muted else self._levels.get(app, Level.OFF)

    def given(self, app: str) -> Level:
        """What an app was given, also while all is muted."""
        return self._levels.get(app, Level.OFF)

    def set(self, app: str, level: Level) -> bool:
        """Give an app a level; whether it had another one."""
        with self._lock:
            before = self._levels.get(app, Level.OFF)
            self._levels[app] = level
        return before is not level

    def forget(self, app: str) -> None:
        """An app has gone."""
        with self._lock:
            self._levels.pop(app, None)

    def mute(self, muted: bool) -> None:
        """Have nothing measured of any app, or again what each was given."""
        self._muted = muted
