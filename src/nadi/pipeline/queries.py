"""The Spark queries of a node: which app runs in which, starting them when the first of their apps comes, seeing when they end.

Where a node has several apps they share a query: each query costs a thread, files and planning of its own in every batch. In the shared one all buckets of
an app live in one host, which does all in one stage. An app that needs more than its share (`nadi.pipeline.coordinator.share`) gets a query of its own, where
its buckets are spread over the hosts, and comes back when it is calm.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nadi.errors import NadiError, error
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.run import QueryRun
from nadi.pipeline.query import QueryPlan, at_work, named_failure, start_query
from nadi.pipeline.session import own_session
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SHARED = "*"
"""The name of the query that apps share."""
LOOK = 5.0  # seconds between two questions whether a query runs: its end is heard of at once
ASK = 0.5  # seconds between two questions how long the last batch took

StartQuery = Callable[["SparkSession", QueryPlan], "StreamingQuery"]


def query_names(apps: Iterable[str]) -> tuple[str, ...]:
    """The queries that a node may have: one that apps share, and one for each that outgrows it.

    >>> query_names(["A", "B"])
    ('*', 'A', 'B')
    """
    return (SHARED, *apps)


@dataclass(slots=True)
class Running:
    """A query that runs: in Spark, and as the coordinator has it."""

    query: StreamingQuery
    run: QueryRun
    checkpoint: Path
    ended: bool = False
    looked: float = 0.0
    asked: float = 0.0
    batch: int = -1
    batch_ms: dict[str, int] = field(default_factory=dict)


class Queries:
    """Those of a node. Used from several threads."""

    def __init__(
        self,
        session: SparkSession,
        coordinator: Coordinator,
        logs: Path,
        changed: Callable[[], None],
        start: StartQuery = start_query,
    ) -> None:
        """`changed` is called, from any thread, when a query has ended."""
        self._session = session
        self._changed = changed
        self._coordinator = coordinator
        self._logs = logs
        self._start = start
        self._running: dict[str, Running] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._kept = False
        self._lock = threading.Lock()

    def of(self, spec: AppSpec, alone: bool) -> Running:
        """The query of an app, its own or the one that apps share, started where it does not run. Errors: SPARK_FAILED, whatever Spark reports."""
        name = spec.app if alone else SHARED
        with self._lock_of(name):
            found = self._running.get(name)
            if found is None:
                found = self._running[name] = self._begin(name, spec.partitions if alone and spec.buckets > 1 else 0)
            return found

    def keep(self) -> Running:
        """Start the query that apps share, where it does not run; from now on it goes on also without any. Errors: SPARK_FAILED, whatever Spark reports."""
        self._kept = True
        with self._lock_of(SHARED):
            found = self._running.get(SHARED)
            if found is None:
                found = self._running[SHARED] = self._begin(SHARED, 0)
            return found

    def release(self, running: Running) -> None:
        """End a query that no app is in any more."""
        name = running.run.query
        with self._lock_of(name):
            if running.run.groups or self._running.get(name) is not running or (self._kept and name == SHARED):
                return
            running.query.stop()
            self._forget(name, running)

    def _lock_of(self, name: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(name, threading.Lock())

    def _begin(self, name: str, partitions: int) -> Running:
        """`partitions`: into so many its events are spread; 0: one host does all."""
        run = self._coordinator.begin_run(name, partitions > 0)
        # Spark wants a folder for its own log of batches. Each run has a fresh one: where a group goes on, its commit record says.
        checkpoint = self._coordinator.socket.parent / f"checkpoint-{run.name}"
        plan = QueryPlan(name, run.name, self._coordinator.socket, partitions, checkpoint, self._logs)
        try:
            query = self._start(own_session(self._session, name), plan)
        except BaseException:
            self._coordinator.end_run(run)
            raise
        running = Running(query, run, checkpoint)
        threading.Thread(target=self._await, args=(running,), name=f"query {name}", daemon=True).start()
        return running

    def _await(self, running: Running) -> None:
        with suppress(Exception):  # what it failed with is asked for where it is looked at; the JVM may be gone
            running.query.awaitTermination()
        running.ended = True
        self._changed()

    def look(self) -> list[tuple[Running, NadiError]]:
        """The queries that have ended, each with why; they are forgotten, and start again when one of their apps comes."""
        ended = []
        now = time.monotonic()
        for name, running in list(self._running.items()):
            if not running.ended and now - running.looked < LOOK:
                continue
            running.looked = now
            if running.query.isActive:
                continue
            failure = running.query.exception()
            reason = (
                failure
                if failure is not None
                else error("SPARK_FAILED", app=name, reason="the query ended", log=self._logs)
            )
            with self._lock_of(name):
                self._forget(name, running)
            ended.append((running, named_failure(name, reason, self._logs / "spark.log")))
        return ended

    def last_batch(self, running: Running) -> dict[str, int]:
        """How long its last batch was in which phase, ms; Spark is asked once for all the apps of a query."""
        now, batch = time.monotonic(), running.run.batch
        if batch != running.batch and now - running.asked >= ASK:
            running.asked, running.batch = now, batch
            last: Any = running.query.lastProgress
            running.batch_ms = {} if last is None else at_work(dict(last.durationMs))
        return running.batch_ms

    def close(self) -> None:
        """Stop all."""
        for name, running in list(self._running.items()):
            if running.query.isActive:
                running.query.stop()
            self._forget(name, running)

    def _forget(self, name: str, running: Running) -> None:
        self._coordinator.end_run(running.run)
        self._running.pop(name, None)
        shutil.rmtree(running.checkpoint, ignore_errors=True)
