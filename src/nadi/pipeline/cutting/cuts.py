"""Planning of cuts: pure, given what the inputs hold, what the clock says and when the next timer is due.

A **cut** is one batch: the end position of every input partition, the clock, the epoch of who made it. It is what every retry, restart
and replay of the batch goes by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nadi.pipeline.cutting.makers import Maker

Place = tuple[int, int]
"""An input partition: (ordinal of the source, partition)."""
Positions = Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """Batch `n`; `clock` and `started` (the clock at which kernels begin) in ms.

    `ends` are exclusive. `begins` has the first position of partitions that this cut is the first to have. `highs` is the running maximum of log
    times before the start of this cut's range (ms), for partitions that had messages: carried along, so that order times do not depend on where
    cuts fall. `idle` are the ordinals of inputs that could not be asked and were left out. `aside` are the positions of messages that are set aside, as hosts
    died of them: they are errors, and no events. It alone may be added to a cut that is logged. `by` says what has made it; it does not make it another cut.
    """

    n: int
    epoch: int
    clock: int
    started: int
    ends: Positions
    begins: Positions = field(default_factory=dict)
    highs: Positions = field(default_factory=dict)
    idle: tuple[int, ...] = ()
    by: Maker = field(default_factory=Maker, compare=False)
    aside: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)

    def to_offset(self) -> dict[str, Any]:
        """As JSON has it: Spark's offset, and a line of the cut log."""
        offset: dict[str, Any] = {"n": self.n, "epoch": self.epoch, "clock": self.clock, "started": self.started}
        for name, positions in (("ends", self.ends), ("begins", self.begins), ("highs", self.highs)):
            nested: dict[str, dict[str, Any]] = {}
            for (ordinal, partition), value in sorted(positions.items()):
                nested.setdefault(str(ordinal), {})[str(partition)] = value
            offset[name] = nested
        offset["idle"] = {str(ordinal): True for ordinal in self.idle}
        if self.aside:
            nested = {}
            for (ordinal, partition), several in sorted(self.aside.items()):
                nested.setdefault(str(ordinal), {})[str(partition)] = list(several)
            offset["aside"] = nested
        if self.by.nadi:
            offset["by"] = self.by.to_json()
        return offset

    @staticmethod
    def from_offset(offset: Mapping[str, Any]) -> Cut:
        """The inverse of `to_offset`."""

        def flat(name: str) -> dict[Place, int]:
            nested = offset.get(name, {})
            return {(int(o), int(p)): int(v) for o, partitions in nested.items() for p, v in partitions.items()}

        n, epoch, clock, started = (int(offset[name]) for name in ("n", "epoch", "clock", "started"))
        idle = tuple(sorted(int(o) for o in offset.get("idle", {})))
        by = Maker.from_json(offset.get("by", ()))
        aside = {
            (int(o), int(p)): tuple(map(int, several))
            for o, partitions in offset.get("aside", {}).items()
            for p, several in partitions.items()
        }
        return Cut(n, epoch, clock, started, flat("ends"), flat("begins"), flat("highs"), idle, by, aside)

    def without(self, place: Place, position: int) -> Cut:
        """The same cut with one more message set aside."""
        several = {*self.aside.get(place, ()), position}
        return replace(self, aside={**self.aside, place: tuple(sorted(several))})

    @property
    def set_aside(self) -> int:
        """How many messages of it are set aside: what an attempt at the cut gave that knew of fewer is not used."""
        return sum(map(len, self.aside.values()))

    def start_of(self, place: Place, before: Cut) -> int:
        """Where this cut's range of a partition starts, given the cut before it."""
        found = before.ends.get(place)
        return self.begins.get(place, self.ends[place]) if found is None else found


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in one partition: [start, end), the running maximum of log times before `start` (None: there was no message).

    `times` are log times from `start` on where they are known without reading, at least as many as a bounded cut can take.
    """

    place: Place
    start: int
    end: int
    high: int | None = None
    times: npt.NDArray[np.int64] | None = None

    def orders(self) -> npt.NDArray[np.int64]:
        """Order times of the known stretch, before any cap."""
        assert self.times is not None
        running = np.maximum.accumulate(self.times)
        return running if self.high is None else np.maximum(running, self.high)


@dataclass(frozen=True, slots=True)
class Taken:
    """How far a cut goes.

    `last` is the greatest order time taken from partitions with known times, where the cut leaves some of their messages behind (None
    where it leaves none); `unknown` is whether it takes messages whose times are not known.
    """

    ends: dict[Place, int]
    last: int | None
    unknown: bool


def choose_ends(waiting: Sequence[Waiting], limit: int | None) -> Taken:
    """Take at most about `limit` messages, from partitions with known times in the order in which kernels will see them.

    Merged by (order time, input, partition, position), so that the sequence of messages over all cuts is the same whatever the limit.
    """
    size = sum(w.end - w.start for w in waiting)
    unknown = any(w.times is None and w.end > w.start for w in waiting)
    if limit is None or size <= limit:
        return Taken({w.place: w.end for w in waiting}, None, unknown)
    ends = {w.place: w.start for w in waiting}
    budget = limit
    for w in waiting:
        if w.times is None and w.end > w.start:
            share = max(1, limit * (w.end - w.start) // size)
            ends[w.place] = min(w.end, w.start + share)
            budget -= ends[w.place] - w.start
    known = sorted((w for w in waiting if w.times is not None and w.end > w.start), key=lambda w: w.place)
    last = _merge(known, max(1, budget), ends) if known else None
    left = any(ends[w.place] < w.end for w in known)
    return Taken(ends, last if left else None, unknown)


def _merge(known: Sequence[Waiting], budget: int, ends: dict[Place, int]) -> int | None:
    orders = [w.orders()[: min(budget, w.end - w.start)] for w in known]
    ranks = np.repeat(np.arange(len(known)), [len(o) for o in orders])
    merged = np.concatenate(orders)
    chosen = np.lexsort((ranks, merged))[:budget]
    if not len(chosen):
        return None
    for rank, count in enumerate(np.bincount(ranks[chosen], minlength=len(known))):
        ends[known[rank].place] += int(count)
    return int(merged[chosen[-1]])


@dataclass(frozen=True, slots=True)
class Situation:
    """What a cut is planned from.

    `wall` is the machine's clock (ms), taken before the inputs were looked at; `horizon` (ms) bounds the cut's clock where messages with later
    times are left behind; `due` when the next timer of the kernels is due (ms, None: none waits), `eager` whether a
    cut must be made even with nothing to take (kernels must start, or their timers are not known). `limit` bounds messages (None: no bound).
    """

    waiting: Sequence[Waiting]
    wall: int
    horizon: int | None = None
    due: int | None = None
    eager: bool = False
    limit: int | None = None
    idle: tuple[int, ...] = ()


def plan_cut(before: Cut, now: Situation, epoch: int, by: Maker | None = None) -> Cut | None:
    """The cut after `before`, made by who says so; None where there is no reason for one.

    The clock is the machine's, never going back; but where messages with known times are left behind it stays at the last order time taken, so
    that timers between this cut and the next fire in between.
    """
    input_waits = any(w.end > w.start for w in now.waiting)
    timer_due = now.due is not None and now.due <= max(now.wall, before.clock)
    if not (input_waits or timer_due or now.eager):
        return None
    taken = choose_ends(now.waiting, now.limit)
    clock = now.wall if taken.last is None or taken.unknown else min(now.wall, taken.last)
    if now.horizon is not None:
        clock = min(clock, now.horizon)
    clock = max(before.clock, clock)
    started = before.started if before.n else min([clock, *_first_times(now.waiting)])
    return Cut(
        before.n + 1,
        epoch,
        clock,
        started,
        {**before.ends, **taken.ends},
        {w.place: w.start for w in now.waiting if w.place not in before.ends},
        {w.place: w.high for w in now.waiting if w.high is not None},
        now.idle,
        by or Maker(),
    )


def _first_times(waiting: Sequence[Waiting]) -> list[int]:
    return [int(w.times[0]) for w in waiting if w.times is not None and len(w.times)]
