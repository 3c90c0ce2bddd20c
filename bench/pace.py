"""How fast the app of the suite `state` gets its input: a file says how far, in batches of how many events, and when each is there.

The measured node reads from a file that is there from the beginning. So that the state can be filled in large batches, measured with small ones back to
back, and then get one batch every so often, the node's cuts are made by a `PacedCutMaker`. It is the pipeline's own but for what it believes to wait.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import msgspec

from nadi.metrics import Progress
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.cutting.cuts import Cut, Waiting
from nadi.pipeline.spec import AppSpec

LOOK = 0.005  # seconds between two looks at the pace
INPUT = (0, 0)  # the app has one input of one partition


class Pace(msgspec.Struct, frozen=True):
    """Events before position `upto` are given, in batches of `step`: all at once where `period` (s) is 0, else one batch at the end of each period that began
    with `since` (s since the epoch), where the app stood at position `base`. `over`: nothing comes after `upto`.

    >>> pace = Pace(upto=300, step=100, period=2.0, since=1000.0, base=0)
    >>> [pace.released(now) for now in (1001.9, 1002.0, 1005.0, 1099.0)]
    [0, 100, 200, 300]
    >>> pace.release_of(100)
    1004.0
    """

    upto: int
    step: int
    period: float = 0.0
    since: float = 0.0
    base: int = 0
    over: bool = False

    def released(self, now: float) -> int:
        """The position before which events are there."""
        if not self.period:
            return self.upto
        return min(self.upto, self.base + self.step * max(0, int((now - self.since) / self.period)))

    def release_of(self, position: int) -> float:
        """When the batch that begins at a position is there (s since the epoch)."""
        return self.since + self.period * ((position - self.base) // self.step + 1)

    def room(self, position: int, now: float) -> int:
        """How many events the next batch of an app takes that stands at a position."""
        return max(0, min(self.step, self.released(now) - position))


def write_pace(path: Path, pace: Pace) -> None:
    """Tell the node; it hears of it within milliseconds."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(msgspec.json.encode(pace))
    fresh.replace(path)


def read_pace(path: Path) -> Pace:
    """What was told last."""
    return msgspec.json.decode(path.read_bytes(), type=Pace)


class PacedCutMaker(CutMaker):
    """Makes cuts of what the pace gives.

    The events are of another time than the machine's clock, which a cut of all that is there has, and one of timers only. So one event more than a batch takes
    is always said to wait, and where none is to be taken no cut is made.
    """

    def __init__(self, spec: AppSpec, path: Path) -> None:
        """`path` is the file that says the pace."""
        super().__init__(spec)
        self._path = path
        self._pace = read_pace(path)
        self._room = 0

    def next_look(self, known: Progress | None) -> float:
        return min(LOOK, super().next_look(known))

    def _next(self, start: Cut, current: Progress | None) -> Cut | None:
        waiting = self._waiting(start)
        if self._room > 0:
            return super()._next(start, current)
        self._report(start, waiting, drained=False)
        return None

    def _waiting(self, start: Cut) -> list[Waiting]:
        self._pace = read_pace(self._path)
        found = super()._waiting(start)
        for i, waiting in enumerate(found):
            if waiting.place == INPUT:
                self._room = min(self._pace.room(waiting.start, time.time()), waiting.end - waiting.start - 1)
                found[i] = replace(waiting, end=waiting.start + self._room + 1 if self._room > 0 else waiting.start)
        return found

    def _limit(self, progress: Progress | None) -> int | None:
        return max(1, self._room)

    def _all_finished(self, waiting: list[Waiting]) -> bool:
        return self._pace.over and not any(w.end > w.start for w in waiting)
