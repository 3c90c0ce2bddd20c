"""What hosts and the coordinator have measured of an app since they were last asked: sums for meters, and pairs (ms, how often) for timers.

A host tells of a cut with its receipt, in a map `m`: `marks` {key: events}, `times` {key: [ns in all, how often]}, `orders` [[log time (ms), events]]. A key
is `<Type>/<function>/<element>`. The coordinator puts the cuts between two snapshots of an app together (`Tally`); what a cut took is one pair, so that a
timer sees as many values as there were cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

MOST = 64  # pairs of one timer between two snapshots; from there on the last ones are put together


class Key(NamedTuple):
    """What was measured: as in a metric's name, without app and metric."""

    type: str
    element: str
    function: str = ""

    @property
    def packed(self) -> str:
        """As it travels.

        >>> Key("Sources", "In", "http").packed, Key.read("Queries//a/b")
        ('Sources/http/In', Key(type='Queries', element='a/b', function=''))
        """
        return f"{self.type}/{self.function}/{self.element}"

    @staticmethod
    def read(packed: str) -> Key:
        """A key that has travelled."""
        kind, function, element = packed.split("/", 2)
        return Key(kind, element, function)


Pair = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """See the module's text. `delays` are how long (ms) events took from their log time to the commit of their cut, with how many did."""

    marks: Mapping[Key, int] = field(default_factory=dict)
    times: Mapping[Key, tuple[Pair, ...]] = field(default_factory=dict)
    delays: tuple[Pair, ...] = ()


NOTHING = Measured()


class Tally:
    """What was measured and not told of yet. From any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._marks: dict[str, int] = {}
        self._times: dict[str, list[Pair]] = {}
        self._delays: list[Pair] = []

    def add(self, told: Iterable[Mapping[str, Any]], committed: float) -> None:
        """What the buckets of a cut have told (their maps `m`), which was committed at this time (ms since the epoch)."""
        with self._lock:
            for one in told:
                for key, events in one.get("marks", {}).items():
                    self._marks[key] = self._marks.get(key, 0) + events
                for key, (spent, calls) in one.get("times", {}).items():
                    if calls > 0:
                        _append(self._times.setdefault(key, []), (spent / calls / 1e6, calls))
                for order, events in one.get("orders", ()):
                    _append(self._delays, (max(0.0, committed - order), events))

    def take(self) -> Measured:
        """All of it, and begin anew."""
        with self._lock:
            if not (self._marks or self._times or self._delays):
                return NOTHING
            marks, times, delays = self._marks, self._times, self._delays
            self._marks, self._times, self._delays = {}, {}, []
        return Measured(
            {Key.read(key): events for key, events in marks.items()},
            {Key.read(key): tuple(pairs) for key, pairs in times.items()},
            tuple(delays),
        )


def _append(pairs: list[Pair], pair: Pair) -> None:
    """Add a pair; to the last one, where there are enough."""
    if len(pairs) < MOST:
        pairs.append(pair)
        return
    (before, many), (value, n) = pairs[-1], pair
    pairs[-1] = ((before * many + value * n) / (many + n), many + n)
