"""One app of a node on its way: opened, run, tried again, stopped. Its supervisor has it take steps, in one thread; what takes long is done by workers.

begin ──► opening ──► running ──► ending ──► ended
  ▲                      │ fails
  └────── waiting ◄──────┘
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import refused
from nadi.io.remotefiles import is_remote
from nadi.io.retry import Policy
from nadi.io.sinks.log import new_lines
from nadi.metrics import Said
from nadi.metrics.measured import NOTHING
from nadi.pipeline import stoptimes
from nadi.pipeline.circuits import Circuits
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.share import Share
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.hostmemory import memory_warnings
from nadi.pipeline.live import Live, remove_live, write_live
from nadi.pipeline.node import AppExit, AppProgress, NodeOptions
from nadi.pipeline.places import OwnHosts, Placement
from nadi.pipeline.profile import Profiler
from nadi.pipeline.queries import Queries, Running
from nadi.pipeline.query import named_failure
from nadi.pipeline.revision.journalneeds import JournalNeeds
from nadi.pipeline.revision.retention import RetentionCheck
from nadi.pipeline.revision.revisions import Keeping, Revisions, sweep
from nadi.pipeline.revision.upgrade import is_old, upgraded
from nadi.pipeline.session import driver_lost, own_session
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TELL = 0.5  # seconds between two snapshots of an app at least, …
SNAPSHOTS = 20  # … and so many a second of all apps: with 100 busy ones they took a third of the node's time
RATE_OVER = 5.0  # seconds that a rate is about
QUIET = 5.0  # seconds after which an app is looked at should nobody ring, and told of though nothing has changed; each time in a row twice as many …
QUIETEST = 60.0  # … up to so many, while it rests
UNNAMED_TRIES = 3
FENCED_EARLY = 60.0  # seconds of a run in which a host of the run before may still be alive, and take a sink's producer away from it
DRAINS_WITHIN = 60.0  # seconds for the cut under way to end before an app moves to other hosts
RESTARTS = Policy(500, 30_000)

OnProgress = Callable[[AppProgress], object]
MakeCuts = Callable[[AppSpec], CutMaker]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the apps of a node have in common."""

    session: SparkSession
    jvm: int
    coordinator: Coordinator
    queries: Queries
    workers: Executor
    options: NodeOptions
    stop: StopRequest
    tell: OnProgress
    make_cuts: MakeCuts
    sharing: Callable[[], bool]  # whether apps share a query that are not pinned
    several: Callable[[], bool]  # whether there are other apps
    count: Callable[[], int]  # how many apps there are
    own: OwnHosts


class Supervised:
    """See the module's text. `changed` is called, from any thread, when there is a step to take."""

    def __init__(self, spec: AppSpec, shared: Shared, changed: Callable[[], None]) -> None:
        self._spec = spec
        self._shared = shared
        self._ring = changed
        self._logs = shared.options.state.resolve() / "logs" / "spark.log"
        self._keeping = Keeping(shared.options.persistence, shared.options.state)
        self._circuits = Circuits(spec)
        self._profiler = Profiler(spec.app, spec.place.state) if spec.profile else None
        self._over = threading.Event()
        self._leaving = False
        self._retention = RetentionCheck(spec, shared.options.persistence, self._over)
        self._progress = AppProgress(spec.app)
        self._seen: list[tuple[float, int]] = []
        self._told = 0.0
        self._fresh = True
        self._quiet = QUIET
        self._log_seen = new_lines(spec.place.state, {})[1]
        self._step: Callable[[float], None] = self._begin
        self._group: Group | None = None
        self._running: Running | None = None
        self._placement = Placement(spec, shared.own, shared.sharing, shared.several)
        self._left: AppSpec | None = None  # how it was served before it moved to other hosts, which do not know yet
        self._drained_at = 0.0
        self._outcome: tuple[str, NadiError | None] = ("stopped", None)
        self._revisions: Revisions | None = None
        self._work: Future[Any] | None = None
        self._tries, self._reached, self._retry_at, self._asked = 0, -1, 0.0, 0.0
        self._entered_at, self._fenced = 0.0, 0
        self._owes = False  # the run before has left a cut
        self._last_try = False  # the run for it alone, after a stop, has begun
        self.result: AppExit | None = None
        sweep(spec.place.state)
        refused.watch(spec.place.state, self._told_of)
        JournalNeeds(spec, self._keeping, self._over).begin()
        self._retention.begin()

    def step(self, now: float) -> None:
        """Go on as far as it can without waiting."""
        if self.result is not None:
            return
        before: Callable[[float], None] | None = None
        while self.result is None and self._step != before:
            before = self._step
            self._step(now)

    def due(self, now: float) -> float:
        """When it is to take its next step should nobody ring before. Times are those of the monotonic clock."""
        if self._step == self._waiting:
            return self._retry_at
        if self._step == self._moving:
            return self._drained_at if self._drained_at > now else math.inf
        if self._step != self._run:
            return math.inf  # a worker is at it, and rings
        if self._asked:
            return min(now + QUIET, stoptimes.next_look(self._asked, now))
        return self._told + tell_every(self._shared.count()) if self._fresh else now + QUIET

    @property
    def spec(self) -> AppSpec:
        """The app."""
        return self._spec

    @property
    def query(self) -> Running | None:
        """The query that carries it, or did last."""
        return self._running

    @property
    def entered(self) -> bool:
        """Whether a query carries it now."""
        return self._group is not None

    @property
    def leaving(self) -> bool:
        """Whether it was asked to stop while its node goes on."""
        return self._leaving

    def leave(self) -> None:
        """Stop between two cuts, while the node goes on. Returns at once; from any thread."""
        self._leaving = True
        self._ring()

    def _stops(self) -> bool:
        return self._leaving or self._shared.stop.is_set()

    def lose(self) -> None:
        """The JVM is gone."""
        if self.result is None and self._step == self._forgetting:
            self._finish()
        elif self.result is None and self._leaving:
            self._end("stopped")
        elif self.result is None and not self._shared.stop.is_set():
            self._end("failed", error("SPARK_GONE", app=self._spec.app, log=self._logs))

    def close(self) -> None:
        """Let go of what is still open, or is being opened."""
        self._over.set()
        self._leave()
        if self._step == self._opening and self._work is not None:
            self._work.add_done_callback(_close_opened)

    # ---- steps

    def _begin(self, now: float) -> None:
        if self._stops():
            if not self._owes or self._last_try or stoptimes.gives_up(self._asked, now, lambda: True):
                self._end("stopped")
                return
            self._last_try = True
        if self._placement.wanted(now, Share(now)) is not None:  # what the run before has done is known by now
            self._move()
        self._work = self._shared.workers.submit(self._open)
        self._work.add_done_callback(lambda _done: self._ring())
        self._step = self._opening

    def _open(self) -> tuple[Group, Running]:
        """In a worker: the group, and the query that carries it."""
        if is_old(self._spec):
            self._spec = upgraded(lambda: own_session(self._shared.session, self._spec.app), self._spec)
        settings = self._shared.options.settings()
        interval = settings.interval(is_remote(settings.state_url)) / 1000
        conduct, level = self._placement.conduct, partial(self._shared.options.levels.of, self._spec.app)
        group = Group(self._spec, self._told_of, self._shared.make_cuts, interval, conduct, level)
        try:
            if self._left is not None:
                self._shared.own.left(self._left, group.spec)
                self._left = None
            return group, self._shared.queries.of(self._spec, self._placement.place.alone)
        except BaseException:
            group.close()
            raise

    def _told_of(self) -> None:
        self._fresh = True
        self._ring()

    def _opening(self, now: float) -> None:
        assert self._work is not None
        if not self._work.done():
            return
        try:
            self._group, self._running = self._work.result()
        except Exception as reason:
            self._recover(named_failure(self._spec.app, reason, self._logs))
            return
        if self._running.run.over:  # the query ended while the app was opened: nobody would ever ask for its cuts
            self._leave()
            self._step = self._begin
            return
        self._revisions = Revisions(self._group, self._keeping, str(self._shared.session.version), self._ring)
        write_live(self._spec.place.state, Live(self._group.spec, self._shared.jvm))
        self._shared.coordinator.enter(self._group, self._running.run)
        self._entered_at = now
        self._note(now, "running")
        self._step = self._run

    def _run(self, now: float) -> None:
        group, revisions = self._group, self._revisions
        assert group is not None
        assert revisions is not None
        if group.failure is not None:
            self._recover(group.failure)
            return
        if self._running is not None and self._running.run.over:  # it was released while this app entered it
            self._leave()
            self._step = self._begin
            return
        if self._stops() and not self._asked:
            self._asked = now
        if self._asked or group.status.finished:
            group.hold()
            if group.rests or self._gives_up(group, now):
                self._work = self._shared.workers.submit(self._last_of, group, revisions)
                self._work.add_done_callback(lambda _done: self._ring())
                self._step = self._ending
                return
        self._look(now, "stopping" if self._asked else "running")
        revisions.look()
        if (
            self._asked or revisions.is_busy
        ):  # another run of the group would delete what a revision reads that is being made
            return
        place = self._placement.wanted(now, group.share)
        if place is not None:
            self._work = self._shared.workers.submit(self._shared.queries.of, self._spec, place.alone)
            self._work.add_done_callback(lambda _done: self._ring())
            self._drained_at = now + DRAINS_WITHIN
            self._step = self._moving

    def _gives_up(self, group: Group, now: float) -> bool:
        """Whether a stop waits for the cut under way no longer. The host in which a kernel computes then is killed; its neighbours go on in another one."""
        if stoptimes.gives_up(self._asked, now, lambda: self._shared.coordinator.computes(group)):
            self._shared.coordinator.abandon(group)
            return True
        return stoptimes.is_late(self._asked, now)

    def _last_of(self, group: Group, revisions: Revisions) -> None:
        """In a worker: what is done before it ends. An app that has drained is over only when those who read what it gives know it."""
        if self._drained(group):
            group.say_last()
        else:
            revisions.before_stop()

    def _drained(self, group: Group) -> bool:
        return self._spec.drains and group.status.finished and group.rests

    def _moving(self, now: float) -> None:
        """To another place, once a query runs there: another run of the group begins, and the old one can do nothing any more. Where its hosts are others, too,
        the cut under way is waited for, as these would write it once more; unless it is what they die of."""
        assert self._work is not None
        assert self._group is not None
        if self._stops() or self._group.failure is not None:
            self._placement.stay()
            self._step = self._run
            return
        if not self._placement.in_haste(now):
            if self._placement.drains:
                self._group.hold()
                if not self._group.rests and now < self._drained_at:
                    return
            if not self._work.done():
                return
        before = self._running
        self._leave()
        self._move()
        if before is not None:
            self._shared.workers.submit(self._release, before, self._work)
        self._step = self._begin

    def _move(self) -> None:
        before, self._spec = self._spec, self._placement.move(self._spec)
        if self._spec.offset != before.offset:
            self._left = self._left or before

    def _release(self, before: Running, opened: Future[Running]) -> None:
        """In a worker: let go of the query that it has left, unless it goes on in it."""
        if opened.exception() is not None or opened.result() is not before:
            self._shared.queries.release(before)

    def _ending(self, _now: float) -> None:
        assert self._work is not None
        assert self._group is not None
        if not self._work.done():
            return
        problem = self._work.exception()
        if problem is not None:
            self._recover(named_failure(self._spec.app, problem, self._logs))
        else:
            self._end("stopped" if self._asked and not self._group.status.finished else "finished")

    def _waiting(self, now: float) -> None:
        if self._stops() or now >= self._retry_at:
            self._step = self._begin

    # ---- failures

    def _recover(self, failure: NadiError) -> None:
        """Wait for the next attempt, or end. A stop has one more run take the cut that is left, unless an input or a target is away."""
        at = -1 if self._group is None else self._group.at.n
        self._tries, self._reached = (self._tries + 1, at) if at == self._reached else (1, at)
        if failure.condition == "EVENT_SET_ASIDE" and self._group is not None:
            self._left = self._left or self._group.spec  # Java may still ask hosts for the run that has died of it
            self._tries = 0  # the cut is another one now
        self._leave()
        if isinstance(failure, ConnectionUnavailableException):
            self._owes = False
        final = self._final(failure)
        if self._stops() and (self._last_try or not self._owes or final is not None):
            self._end("stopped")
        elif final is not None:
            self._end("failed", final)
        else:
            now = time.monotonic()
            self._note(now, "waiting", last_error=str(failure), restarts=self._progress.restarts + 1)
            self._retry_at = now + RESTARTS.delay(max(1, self._tries)) / 1000
            self._step = self._waiting

    def _final(self, failure: NadiError) -> NadiError | None:
        """The error to end with; None where another attempt may help."""
        if isinstance(failure, ConnectionUnavailableException) or failure.condition == "EVENT_SET_ASIDE":
            return None
        if failure.condition == "FENCED" and (self._is_fenced_early() or self._is_fenced_by_its_own()):
            return None
        if failure.condition not in ("SPARK_FAILED", "HOST_FAILED"):
            return failure
        if self._tries < UNNAMED_TRIES:
            return None
        reason = failure.diagnostic.message
        return error("PIPELINE_FAILED", app=self._spec.app, times=self._tries, reason=reason, log=self._logs)

    def _is_fenced_early(self) -> bool:
        """Whether it may have been a host of the run before, which has lived on for a moment, that took a producer over. Only a few times in a row: two nodes
        that were started together with the same producers would otherwise take them from each other for ever."""
        early = time.monotonic() - self._entered_at < FENCED_EARLY
        self._fenced = self._fenced + 1 if early else 0
        return early and self._fenced <= UNNAMED_TRIES

    def _is_fenced_by_its_own(self) -> bool:
        """Whether it may have been a host of this very run: on a cluster one that could not be reached for a while may have had a bucket before, or since."""
        return self._spec.cluster and self._tries < UNNAMED_TRIES

    def _leave(self) -> None:
        """Let go of the group; the query goes on with others."""
        if self._revisions is not None:
            self._revisions.close()
            self._revisions = None
        if self._group is not None:
            self._owes = self._group.owes
            self._shared.coordinator.leave(self._group)
            self._group.close()
            self._group = None
            remove_live(self._spec.place.state)

    # ---- telling

    def _look(self, now: float, state: str) -> None:
        since = now - self._told
        if self._fresh:
            self._quiet = QUIET
        if since < (tell_every(self._shared.count()) if self._fresh else self._quiet):
            return
        if not self._fresh and self._group is not None and self._group.rests:
            self._quiet = min(2 * self._quiet, QUIETEST)
        self._note(now, state)

    def _note(self, now: float, state: str, **changes: Any) -> None:
        self._fresh = False
        folder, group = self._spec.place.state, self._group
        known = None if group is None else group.shown
        if known is not None:
            totals = known.totals
            changes |= {
                "batches": known.n,
                **{name: getattr(totals, name) for name in ("events_in", "events_out", "errors", "set_aside")},
                "rate": self._rate(now, sum(totals.events_in.values())),
                "entries": known.entries,
                "state_bytes": known.state_bytes,
                "warnings": (*self._retention.warnings, *memory_warnings(known.memory, self._spec.host_memory)),
            }
        elif state == "running" and not (group and group.has_committed):  # a kill behind a commit loses numbers
            state = "starting"
        status = None if group is None else group.status
        if status is not None:
            changes |= {"lag": status.waiting, "away": status.away}
        if self._running is not None and not driver_lost():
            changes["batch_ms"] = self._shared.queries.last_batch(self._running)
            if self._profiler is not None:
                self._profiler.look(self._running.query)
        changes["carried"] = group is not None
        changes["measured"] = NOTHING if group is None else group.tally.take()
        changes["circuits"] = self._circuits.look(status)
        changes["refused"] = refused.count(folder)
        said, self._log_seen = new_lines(folder, self._log_seen)
        self._progress = dataclasses.replace(
            self._progress, state=state, said=tuple(Said(*line) for line in said), **changes
        )
        self._told = now
        self._shared.tell(self._progress)

    def _rate(self, now: float, events: int) -> float:
        self._seen = [s for s in self._seen if now - s[0] < RATE_OVER] + [(now, events)]
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def _end(self, state: str, failure: NadiError | None = None) -> None:
        """End as soon as the hosts have forgotten the app, or do not do so in time."""
        self._outcome = state, failure
        if driver_lost():
            self._finish()
            return
        self._work = self._shared.workers.submit(self._shared.own.forget, self._spec)
        self._work.add_done_callback(lambda _done: self._ring())
        self._step = self._forgetting

    def _forgetting(self, _now: float) -> None:
        assert self._work is not None
        if self._work.done():
            self._work.result()
            self._finish()

    def _finish(self) -> None:
        state, failure = self._outcome
        if self._profiler is not None:
            self._profiler.finish(None if self._running is None or driver_lost() else self._running.query)
        told = {} if failure is None else {"last_error": str(failure), "crashed": is_crash(failure)}
        self._note(time.monotonic(), state, **told)
        self._leave()
        self.result = AppExit(self._spec.app, state, self._progress, failure)


def tell_every(apps: int) -> float:
    """Seconds between two snapshots of an app whose numbers change.

    >>> tell_every(1), tell_every(10), tell_every(100)
    (0.5, 0.5, 5.0)
    """
    return max(TELL, apps / SNAPSHOTS)


def _close_opened(opening: Future[tuple[Group, Running]]) -> None:
    """Close what was opened when nobody wanted it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[0].close()


def lost(ended: AppExit) -> bool:
    """Whether an app ended because the JVM under it did."""
    return ended.error is not None and is_crash(ended.error)


def is_crash(failure: NadiError) -> bool:
    """Whether a failure is that of the JVM."""
    return failure.condition == "SPARK_GONE"
