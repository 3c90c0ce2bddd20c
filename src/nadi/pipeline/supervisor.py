"""Runs apps: one query each, restarted with back-off when it fails, stopped between two batches.

    report = run([AppText(text)], NodeOptions(until_end=True), print)

A failure has a name. Those that time can cure (an input or target that is away, a host that died) are tried again for ever, with the state visible in the
progress; what Spark reports without a name is tried again a few times, or for ever where it says that the machine is too busy; every other
named condition ends the app. When the JVM itself is gone, its apps end with SPARK_GONE and the node starts them in another one (`run.py`).
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.retry import Policy
from nadi.io.sinks.log import new_lines
from nadi.pipeline.circuits import Circuits
from nadi.pipeline.cutting import cutlogs
from nadi.pipeline.cutting.cutmaker import read_status, stop_flag
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.live import Live, remove_live, write_live
from nadi.pipeline.node import AppExit, AppProgress, AppText, ExitReport, NodeOptions
from nadi.pipeline.profile import Profiler
from nadi.pipeline.progress import read_progress
from nadi.pipeline.query import named_failure, start_query
from nadi.pipeline.revision.retention import RetentionCheck
from nadi.pipeline.revision.revisions import Keeping, Revisions, sweep
from nadi.pipeline.session import driver_jvm, driver_lost, own_session
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOOK = 0.1  # seconds
TELL = 0.5
RATE_OVER = 5.0
UNNAMED_TRIES = 3
OVERLOADED = "Python worker failed to connect back"  # Spark's words where a worker did not start in time
STOPS_WITHIN = 60.0
LOST_WITHIN = 3.0  # seconds that a dying JVM is waited for
RESTARTS = Policy(500, 30_000)

OnProgress = Callable[[AppProgress], object]
StartQuery = Callable[["SparkSession", AppSpec], "StreamingQuery"]


class Supervised:
    """One app of a node, run in a thread of its own."""

    def __init__(
        self,
        session: SparkSession,
        spec: AppSpec,
        options: NodeOptions,
        stop: threading.Event,
        tell: OnProgress,
        start: StartQuery = start_query,
    ) -> None:
        self._session = session
        self._start = start
        self._spec = spec
        self._logs = options.state.resolve() / "logs" / "spark.log"
        self._keeping = Keeping(options.persistence, options.state)
        self._circuits = Circuits(spec)
        self._profiler = Profiler(spec.app, spec.place.state) if spec.profile else None
        self._stop = stop
        self._tell = tell
        self._retention = RetentionCheck(spec, options.persistence, stop)
        self._progress = AppProgress(spec.app)
        self._seen: list[tuple[float, int]] = []
        self._told = 0.0
        self._log_seen = new_lines(spec.place.state, {})[1]
        self.result: AppExit | None = None

    def run(self) -> None:
        """Run to the end; `result` has how it ended."""
        tries, reached = 0, -1
        sweep(self._spec.place.state)
        self._retention.begin()
        while True:
            try:
                self._end(self._once(own_session(self._session, self._spec.app)))
                return
            except Exception as reason:
                failure = named_failure(self._spec.app, reason, self._logs)
            if driver_lost(within=LOST_WITHIN if unreachable(failure) else 0.0) and not self._stop.is_set():
                self._end("failed", error("SPARK_GONE", app=self._spec.app, log=self._logs))
                return
            known = read_progress(self._spec.place.state)
            at = known.n if known is not None else 0
            tries, reached = (tries + 1, at) if at == reached else (1, at)
            if self._stop.is_set():
                self._end("stopped")
                return
            if (final := self._final(failure, tries)) is not None:
                self._end("failed", final)
                return
            restarts = self._progress.restarts + 1
            self._note("waiting", last_error=str(failure), restarts=restarts)
            self._stop.wait(RESTARTS.delay(tries) / 1000)

    def _final(self, failure: NadiError, tries: int) -> NadiError | None:
        """The error to end with; None where another attempt may help."""
        if isinstance(failure, ConnectionUnavailableException):
            return None
        if failure.condition not in ("SPARK_FAILED", "HOST_FAILED"):
            return failure
        if tries < UNNAMED_TRIES or OVERLOADED in str(failure):
            return None
        reason = failure.diagnostic.message
        return error("PIPELINE_FAILED", app=self._spec.app, times=tries, reason=reason, log=self._logs)

    def _once(self, session: SparkSession) -> str:
        """One run of the query; "finished" or "stopped". Raises what ended it otherwise."""
        state = self._spec.place.state
        for old in state.glob("stop-*"):
            old.unlink()
        spec = dataclasses.replace(self._spec, epoch=cutlogs.take_over(self._spec))
        query = self._start(session, spec)
        revisions = Revisions(self._session, spec, self._keeping)
        write_live(state, Live(spec, driver_jvm(session), str(query.id)))
        try:
            how = self._watch(query, spec, revisions)
            self._phases(query)
            return how
        finally:
            revisions.leave()
            remove_live(state)
            if not driver_lost() and query.isActive:
                query.stop()

    def _watch(self, query: StreamingQuery, spec: AppSpec, revisions: Revisions) -> str:
        state = spec.place.state
        asked = 0.0
        while query.isActive:
            status = read_status(state)
            mine = status if status is not None and status.epoch == spec.epoch else None
            if mine is not None and mine.finished:
                revisions.before_stop()
                return "finished"
            if self._stop.is_set() and not asked:
                stop_flag(state, spec.epoch).touch()
                asked = time.monotonic()
            if asked and mine is not None and mine.stopped:
                revisions.before_stop()
                return "stopped"
            if asked and time.monotonic() - asked > STOPS_WITHIN:
                return "stopped"
            self._look(query, "stopping" if asked else "running")
            revisions.look()
            query.awaitTermination(LOOK)
        failure = query.exception()
        raise (
            failure
            if failure is not None
            else error("SPARK_FAILED", app=spec.app, reason="the query ended", log=self._logs)
        )

    # ---- telling

    def _look(self, query: StreamingQuery, state: str) -> None:
        now = time.monotonic()
        if now - self._told < TELL:
            return
        self._phases(query)
        known = read_progress(self._spec.place.state)
        if state == "running" and known is None:
            state = "starting"
        self._note(state)

    def _phases(self, query: StreamingQuery) -> None:
        """Take over how long the last batch was in which phase."""
        if self._profiler is not None:
            self._profiler.look(query)
        last: Any = query.lastProgress
        if last is not None:
            self._progress = dataclasses.replace(self._progress, batch_ms=dict(last.durationMs))

    def _note(self, state: str, **changes: Any) -> None:
        folder = self._spec.place.state
        known, status = read_progress(folder), read_status(folder)
        if known is not None:
            totals = known.totals
            changes |= {
                "batches": known.n,
                "events_in": totals.events_in,
                "events_out": totals.events_out,
                "errors": totals.errors,
                "rate": self._rate(sum(totals.events_in.values())),
                "entries": known.entries,
                "state_bytes": known.state_bytes,
                "warnings": (*self._retention.warnings, *memory_warnings(known.memory, self._spec.host_memory)),
            }
        if status is not None:
            changes |= {"lag": status.waiting, "away": status.away}
        changes["circuits"] = self._circuits.look(status)
        said, self._log_seen = new_lines(folder, self._log_seen)
        self._progress = dataclasses.replace(self._progress, state=state, said=tuple(said), **changes)
        self._told = time.monotonic()
        self._tell(self._progress)

    def _rate(self, events: int) -> float:
        now = time.monotonic()
        self._seen = [s for s in self._seen if now - s[0] < RATE_OVER] + [(now, events)]
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def _end(self, state: str, failure: NadiError | None = None) -> None:
        if not driver_lost():
            hosts(self._spec.hosts, driver_jvm(self._session)).forget(self._spec.id)
        if self._profiler is not None:
            self._profiler.finish()
        self._note(state, **({"last_error": str(failure)} if failure is not None else {}))
        self.result = AppExit(self._spec.app, state, self._progress, failure)


def memory_warnings(memory: Mapping[str, int], limit: int) -> tuple[str, ...]:
    """What is said of hosts that hold more than `limit` MB (0: no bound).

    >>> memory_warnings({"0": 5_000_000, "1": 2_000_000}, 3)[0].split("(")[0].strip()
    '[HOST_MEMORY] host 0 holds 5 MB of memory, 3 MB are meant for it'
    """
    over = {host: held // 1_000_000 for host, held in sorted(memory.items()) if limit and held > limit * 1_000_000}
    return tuple(str(error("HOST_MEMORY", host=host, held=held, limit=limit)) for host, held in over.items())


def unreachable(failure: NadiError) -> bool:
    """Whether a failure looks as if nobody answered in the JVM: it may still be on its way out."""
    return failure.condition == "SPARK_FAILED" and re.search(r"Py4J|Connection|Errno|Answer", str(failure)) is not None


def lost(ended: AppExit) -> bool:
    """Whether an app ended because the JVM under it did."""
    return ended.error is not None and ended.error.condition == "SPARK_GONE"


def supervise(
    session: SparkSession,
    specs: Sequence[AppSpec],
    options: NodeOptions,
    stop: threading.Event,
    tell: OnProgress,
    start: StartQuery = start_query,
) -> ExitReport:
    """Run all apps until each has ended; `start` makes the query of an app (the benchmark has another one to compare with)."""
    running = [Supervised(session, spec, options, stop, tell, start) for spec in specs]
    threads = [threading.Thread(target=r.run, name=f"app {s.app}") for r, s in zip(running, specs, strict=True)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # in steps, so that signals of the main thread are handled
    except BaseException:
        stop.set()  # Spark goes away now: that is no failure to recover from
        raise
    exits = []
    for r, spec in zip(running, specs, strict=True):
        gone = error("SPARK_FAILED", app=spec.app, reason="its supervisor ended", log="")
        exits.append(r.result or AppExit(spec.app, "failed", AppProgress(spec.app), gone))
    return ExitReport(tuple(exits))


__all__ = ["AppExit", "AppProgress", "AppText", "ExitReport", "NodeOptions", "supervise"]
