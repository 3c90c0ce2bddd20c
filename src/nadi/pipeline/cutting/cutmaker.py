"""Making cuts: asks the inputs what they hold, the clock and the kernels' timers, plans, and appends to the cut log.

Lives in the coordinator; one run of a group, one maker. It never waits: where there is nothing to do it says when to look again, and its inputs ring when
something has come. What a group has committed is acknowledged to the inputs.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np

from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import ClockedLog, Connector, Log, Messages, TimedLog
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import FAULTS
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.io.registry import source_traits
from nadi.io.retention import Kept
from nadi.io.wakes import Wakes
from nadi.io.wallclock import WALL
from nadi.kernel.control import CONTROL
from nadi.metrics import Progress
from nadi.pipeline.cutting.backlog import bounded
from nadi.pipeline.cutting.cutlogs import open_cut_log
from nadi.pipeline.cutting.cuts import Cut, Place, Situation, Waiting, plan_cut
from nadi.pipeline.cutting.drain import closing_clock, is_drained, keeps_own, staying
from nadi.pipeline.cutting.frontier import Frontier, beside, frontier_of, within
from nadi.pipeline.cutting.makers import Maker
from nadi.pipeline.cutting.restored import begin_cut, begin_highs
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import AbsentElement, App, Rate, WindowCall
from nadi.plan.walk import inside

LOOK = 0.005  # seconds between looks at inputs that cannot ring
AWAY_LOOK = 0.25  # seconds between looks at an input that is away
HEARTBEAT = 5.0  # seconds after which inputs are looked at though none has rung


@dataclasses.dataclass(frozen=True, slots=True)
class SourceStatus:
    """How it is with the inputs: the cut the group stands at, waiting messages per stream, inputs that are away (stream → reason; ordinal → since when, ms).

    `finished`: all finite inputs are at their end and this cut has everything; where the app drains, it has all that it is to take.
    """

    n: int
    waiting: dict[str, int] = dataclasses.field(default_factory=dict)
    away: dict[str, str] = dataclasses.field(default_factory=dict)
    since: dict[int, int] = dataclasses.field(default_factory=dict)
    finished: bool = False


def acts_by_itself(app: App) -> bool:
    """Whether something may happen without any input ever: triggers, windows like `cron`, idle playback; and where the clock is not that of the
    events, absent patterns and rates.
    """
    if app.triggers or (app.playback is not None and app.playback.idle is not None):
        return True
    live = app.playback is None
    return any(
        (live and isinstance(node, AbsentElement))
        or (live and isinstance(node, Rate) and node.every is not None)
        or (isinstance(node, WindowCall) and node.traits.first)
        for root in (*app.elements, *app.windows.values())
        for node in inside(root)
    )


def _begin(log: Log, place: Place, start: Cut) -> int:
    """Where a partition is taken from that no cut has yet. What one has that came later than others of its input has come after the app's start, whatever that
    begins with: the end of the others, or a time."""
    ordinal, partition = place
    came_later = any(known == ordinal for known, _ in start.ends)
    return log.oldest(partition) if came_later and isinstance(log, Kept) else log.beginning(partition)


class CutMaker:
    """See the module's text."""

    def __init__(self, spec: AppSpec) -> None:
        self._spec = spec
        self._state = spec.place.state
        app = spec.plan()
        self._sources = {c.ordinal: c for c in spec.sources(app)}
        self._logs: dict[int, Log] = {ordinal: spec.open_log(c) for ordinal, c in self._sources.items()}
        self._cuts = open_cut_log(spec, spec.epoch)
        self._by = Maker.of(spec)
        self._eager = acts_by_itself(app)
        self._drains = spec.drains
        self._away: dict[int, tuple[float, str]] = {}
        self._gone: dict[int, int] = {}  # since when, ms
        self._highs: tuple[int, dict[Place, int]] | None = None
        self._acknowledged = -1
        self._bound: int | None = None
        self.wanted = False
        """Whether somebody waits for the first cut, though nothing may have come yet."""
        self.status = SourceStatus(0)
        self.quiet: int | None = None
        """Up to which clock the last look has found that nothing has come (ms), None where it has found something, or cannot tell."""

    # ---- the coordinator's questions

    def initial(self) -> Cut:
        """Cut 0, where everything begins: made once, then always the same; after a restore its cut, which an empty log begins with."""
        if self._spec.begin:
            restored, highs = begin_cut(self._spec.begin), begin_highs(self._spec.begin)
            self._highs = None if highs is None else (restored.n, highs)
            if self._cuts.last() is None:
                self._cuts.append(restored)
            return restored
        found = self._cuts.at(0)
        if found is not None:
            return found
        begins = {
            (ordinal, partition): log.beginning(partition)
            for ordinal, log in self._logs.items()
            for partition in range(log.partitions())
        }
        made = Cut(0, self._spec.epoch, 0, 0, begins, by=self._by)
        self._cuts.append(made)
        return made

    def at(self, n: int) -> Cut:
        """A cut that was committed. Errors: CUT_LOG_MISMATCH where the log does not have it."""
        found = self._cuts.at(n)
        if found is None:
            raise self._mismatch(n)
        return found

    def next(self, start: Cut, known: Progress | None) -> Cut | None:
        """The cut after `start`, None where there is nothing to do; `known` is what the group told after `start`, None where nobody knows.

        A cut that the log has already is given again as it is. Errors: CUT_LOG_MISMATCH, CUT_FENCED, those of the inputs that are final.
        """
        if (logged := self.logged(start)) is not None:
            return logged
        self._acknowledge(start)
        cut = self._next(start, known)
        if cut is not None:
            self._cuts.append(cut)
        return cut

    def last(self) -> int:
        """The last cut that the log has, -1 for none."""
        found = self._cuts.last()
        return -1 if found is None else found.n

    def logged(self, start: Cut) -> Cut | None:
        """The cut after `start` that the log has already. Errors: CUT_LOG_MISMATCH."""
        last = self._cuts.last()
        if last is None or last.n < start.n:
            raise self._mismatch(start.n)
        return self._cuts.at(start.n + 1) if last.n > start.n else None

    def amend(self, cut: Cut) -> None:
        """Make it durable that messages of the newest cut are set aside. Errors: those of the log."""
        self._cuts.amend(cut)

    def next_look(self, known: Progress | None) -> float:
        """In how many seconds the inputs are to be looked at though none of them has rung."""
        waits = [HEARTBEAT]
        if known is not None and known.due is not None and (self._bound is None or known.due <= self._bound):
            waits.append(max(0.0, (known.due - WALL.now()) / 1000))  # else an input rings when it is due
        if self._away:
            waits.append(AWAY_LOOK)
        now = time.monotonic()
        for log in self._logs.values():
            if not isinstance(log, Wakes):
                waits.append(LOOK)
            elif (at := log.next_look()) is not None:
                waits.append(max(0.0, at - now))
        return min(waits)

    def wake(self, tell: Callable[[], None]) -> None:
        """Have `tell` called by the inputs, from any thread, when something may have come."""
        for log in self._logs.values():
            if isinstance(log, Wakes):
                log.wake(tell)

    def type_of(self, ordinal: int) -> str:
        """The type of an input."""
        return self._sources[ordinal].type

    def read(self, place: Place, start: int, end: int) -> Iterator[Messages]:
        """The messages of an input's partition in [start, end). Errors: those of the input."""
        ordinal, partition = place
        return self._logs[ordinal].read(partition, start, end)

    def close(self) -> None:
        """Let go of the inputs."""
        for log in self._logs.values():
            log.close()

    def _mismatch(self, n: int) -> Exception:
        last = self._cuts.last()
        return error("CUT_LOG_MISMATCH", folder=self._state / "cuts", last=-1 if last is None else last.n, known=n)

    # ---- planning

    def _next(self, start: Cut, current: Progress | None) -> Cut | None:
        wall = WALL.now()  # before the ends, so that what comes later is not older than the clock
        self.quiet = None
        waiting = self._waiting(start)
        clocks = self._clocks()
        closes_at = closing_clock(clocks, self._said()) if self._drains else None
        drained = current is not None and is_drained(waiting, clocks, start.clock, closes_at)
        self._report(start, waiting, drained)
        idle = self._left_out()
        if idle is None:
            return None  # an input that is away may come back in time
        frontier = frontier_of(clocks)
        limit = self._limit(current)
        if frontier is not None:
            if frontier.time < 0:
                return None  # a writer has not said anything yet
            waiting = within(waiting, frontier, clocks, self._later_than)
            waiting = [self._beside(w, frontier, wall, limit) if w.place not in clocks else w for w in waiting]
            wall = min(wall, frontier.time)
        if closes_at is not None:
            wall = max(closes_at, start.clock)
        size = sum(w.end - w.start for w in waiting)
        lost = start.n > 0 and current is None
        unknown = any(w.place not in start.ends for w in waiting)  # where a new input begins is fixed by a cut
        eager = lost or unknown or (start.n == 0 and (self._eager or self.wanted))
        due = None if current is None else current.due
        if self._drains:
            eager, due = current is None or (closes_at is not None and start.clock < closes_at), None
        if not size and not eager and not (due is not None and due <= max(wall, start.clock)):
            self.quiet = None if self._drains else max(wall, start.clock)
            return None
        highs = self._highs_after(start, current)
        known = tuple(self._with_times(w, highs.get(w.place), size, limit, start.n == 0) for w in waiting)
        horizon = None
        if limit is not None and size > limit and any(w.times is None and w.end > w.start for w in known):
            known, horizon = bounded(known, limit, self._time_at, self._later_than)
            limit = None
        return plan_cut(start, Situation(known, wall, horizon, due, eager, limit, idle), self._spec.epoch, self._by)

    def _clocks(self) -> dict[Place, int | None]:
        """How far the writers of inputs have come that say it, by the last look; `_bound` is the least of it."""
        found = {
            (ordinal, partition): log.reached(partition)
            for ordinal, log in self._logs.items()
            if isinstance(log, ClockedLog)
            for partition in range(log.partitions())
        }
        self._bound = min((clock for clock in found.values() if clock is not None), default=None)
        return found

    def _beside(self, waiting: Waiting, frontier: Frontier, wall: int, limit: int | None) -> Waiting:
        """What waits of an input that is no channel; what a user asks for and what sinks refused waits for nobody."""
        if self._sources[waiting.place[0]].stream in (CONTROL, FAULTS):
            return waiting
        most = waiting.end - waiting.start if limit is None else limit
        return beside(waiting, frontier, wall, most, self._time_at)

    def _said(self) -> dict[Place, int]:
        """The last words of writers of inputs that say how far they have come."""
        return {
            (ordinal, partition): log.said(partition)
            for ordinal, log in self._logs.items()
            if isinstance(log, ClockedLog)
            for partition in range(log.partitions())
        }

    def _time_at(self, place: Place, position: int, end: int) -> int | None:
        """The log time of the first message in [position, end); None where there is none."""
        ordinal, partition = place
        log = self._logs[ordinal]
        if isinstance(log, TimedLog):
            return log.time_at(partition, position, end)
        for stop in (position + 1, end):  # positions may have gaps
            for messages in log.read(partition, position, stop):
                if len(messages):
                    return int(messages.times[0])
        return None

    def _later_than(self, place: Place, time: int, end: int) -> int | None:
        """The first position before `end` that is later than a time, `end` where there is none; None where the log does not tell."""
        ordinal, partition = place
        log = self._logs[ordinal]
        if not isinstance(log, TimedLog):
            return None
        found = log.later_than(partition, time)
        return end if found is None else min(end, found)

    def _waiting(self, start: Cut) -> list[Waiting]:
        """What waits in every partition that can be asked."""
        found: list[Waiting] = []
        for ordinal, log in self._logs.items():
            if self._drains and not keeps_own(self._sources[ordinal]):
                found.extend(staying(start.ends, ordinal))
                continue
            mine: list[Waiting] = []
            try:
                for partition in range(log.partitions()):
                    place = (ordinal, partition)
                    begin = start.ends[place] if place in start.ends else _begin(log, place, start)
                    mine.append(Waiting(place, begin, max(begin, log.end(partition))))
            except ConnectionUnavailableException as reason:
                since, _ = self._away.get(ordinal, (time.monotonic(), ""))
                self._away[ordinal] = (since, reason.diagnostic.message)
                self._gone.setdefault(ordinal, WALL.now())
            else:
                self._away.pop(ordinal, None)
                self._gone.pop(ordinal, None)
                found.extend(mine)
        return found

    def _left_out(self) -> tuple[int, ...] | None:
        """The inputs that are away for long enough to go on without them; None while one of them still has time."""
        patience = self._spec.order_idle / 1000
        if any(time.monotonic() - since < patience for since, _ in self._away.values()):
            return None
        return tuple(sorted(self._away))

    def _limit(self, progress: Progress | None) -> int | None:
        """How many messages a cut may take: the bound of events, and that of bytes by the average so far."""
        bounds = [self._spec.max_events] if self._spec.max_events > 0 else []
        if self._spec.max_bytes > 0 and progress is not None:
            totals = progress.totals
            events = sum(totals.events_in.values())
            if events and totals.bytes_in:
                bounds.append(max(1, self._spec.max_bytes * events // totals.bytes_in))
        return min(bounds) if bounds else None

    def _with_times(self, waiting: Waiting, high: int | None, size: int, limit: int | None, first: bool) -> Waiting:
        wanted = waiting.end - waiting.start
        if limit is not None and size > limit:
            wanted = min(wanted, limit)
        elif first:
            wanted = min(wanted, 1)
        else:
            wanted = 0
        times = None
        if wanted:
            ordinal, partition = waiting.place
            times = self._logs[ordinal].times(partition, waiting.start, waiting.start + wanted)
        return dataclasses.replace(waiting, high=high, times=times)

    def _highs_after(self, start: Cut, current: Progress | None) -> dict[Place, int]:
        """The running maxima of log times after cut `start`; read again where the note of them was lost."""
        if self._highs is None or self._highs[0] != start.n:
            found = current.high_of() if current is not None else self._highs_read_again(start)
            self._highs = (start.n, found)
        return self._highs[1]

    def _highs_read_again(self, cut: Cut) -> dict[Place, int]:
        found = dict(cut.highs)
        before = self._cuts.at(cut.n - 1) if cut.n else None
        if before is None:
            return found
        for place, end in cut.ends.items():
            begin = cut.start_of(place, before)
            if begin < end and place[0] in self._logs:
                for messages in self._logs[place[0]].read(place[1], begin, end):
                    if len(messages):
                        high = int(np.max(messages.times))
                        found[place] = max(high, found.get(place, high))
        return found

    # ---- telling

    def _acknowledge(self, start: Cut) -> None:
        if self._acknowledged == start.n:
            return
        try:
            for (ordinal, partition), end in start.ends.items():
                if ordinal in self._logs:  # an app that was changed may have had more inputs
                    self._logs[ordinal].acknowledge(partition, end)
        except ConnectionUnavailableException:
            return  # asked for again with the next cut; nothing depends on it
        self._acknowledged = start.n

    def _report(self, start: Cut, waiting: list[Waiting], drained: bool) -> None:
        per_stream: dict[str, int] = {}
        for w in waiting:
            stream = self._sources[w.place[0]].stream
            if stream in (CONTROL, FAULTS):
                continue  # no input of the user's
            per_stream[stream] = per_stream.get(stream, 0) + w.end - w.start
        away = {self._sources[ordinal].stream: reason for ordinal, (_, reason) in self._away.items()}
        begun = start.n > 0 or not self._eager
        finished = not away and (drained if self._drains else begun and self._all_finished(waiting))
        self.status = SourceStatus(start.n, per_stream, away, dict(self._gone), finished)

    def _all_finished(self, waiting: list[Waiting]) -> bool:
        """Whether a run to the end is at it: every input that can have an end has come there, and nothing of it waits, nor of what sinks refused."""
        finite = {c.ordinal for c in self._sources.values() if _may_end(c)}
        awaited = finite | {c.ordinal for c in self._sources.values() if c.stream == FAULTS}
        if not self._spec.until_end or not finite or any(w.end > w.start for w in waiting if w.place[0] in awaited):
            return False
        return all(self._logs[ordinal].finished() for ordinal in finite)


def _may_end(source: Connector) -> bool:
    """Whether an input can come to an end; what is not known here is asked (`Log.finished`)."""
    if source.type in (CONTROL_TYPE, FAULTS_TYPE):
        return False
    traits = source_traits(source.type)
    return traits is None or not traits.endless
