"""A node that is measured: runs apps one after the other in one process, as `nadi run` would each, and tells of every batch.

python -m bench.node PLAN, where PLAN is a JSON file (`Plan`). Started by `run.py`. It is `nadi.pipeline` itself under the same supervisor; only the
command line is another one, so that a second app finds a warm Java machine, and Spark's record of every batch can be taken.

Lines on standard output are JSON: `{"at": "starting"|"running"|"ended", …}`. A line "stop" on standard input ends the app under way after its
batch; the end of the input ends everything.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.identity import start_identity
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.node import AppProgress, AppText, NodeOptions, make_spec
from nadi.pipeline.query import start_query
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, build_session, driver_jvm
from nadi.pipeline.slots import wanted, with_slots
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.supervisor import supervise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SPARK_CONF = {"spark.sql.streaming.numRecentProgressUpdates": "20000"}


class Task(msgspec.Struct, frozen=True):
    """One app to run; `identity` takes the pipeline without its middle; `at_most` ends it after so many seconds of its first batch (0: never).

    `module` has the engine and the connectors; `events`: the app is stopped once it has taken so many (0: never).
    """

    text: str
    until_end: bool
    identity: bool = False
    conf: dict[str, str] = {}
    at_most: float = 0.0
    module: str = "bench.timed"
    events: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What a node has to do: `state` is its state folder, `conf` settings of Spark that go before ours."""

    state: str
    tasks: list[Task]
    master: str = "local[*,4]"
    conf: dict[str, str] = {}


class Batch(msgspec.Struct, frozen=True):
    """A batch: begin (ms since the epoch), messages, Spark's `durationMs`, and its own times of the state store (ms, added up over buckets)."""

    id: int
    begin: int
    events: int
    ms: dict[str, int]
    state_rows: int = 0
    state_ms: dict[str, int] = {}


def spark_only(conf: Mapping[str, str]) -> dict[str, str]:
    """Those of Spark, which hold for a node; the others hold for an app.

    >>> spark_only({"spark.ui.enabled": "true", "nadi.kernel": "auto"})
    {'spark.ui.enabled': 'true'}
    """
    return {name: value for name, value in conf.items() if name.startswith("spark.")}


def tell(at: str, **more: Any) -> None:
    sys.stdout.write(msgspec.json.encode({"at": at, **more}).decode() + "\n")
    sys.stdout.flush()


class Commands:
    """What the one who started this node says on standard input."""

    def __init__(self) -> None:
        self.over = False
        self._current = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self) -> threading.Event:
        """The event that stops the app about to be started."""
        with self._lock:
            self._current = threading.Event()
            if self.over:
                self._current.set()
            return self._current

    def _listen(self) -> None:
        for _line in sys.stdin:
            with self._lock:
                self._current.set()
        with self._lock:
            self.over = True
            self._current.set()


def batches_of(query: StreamingQuery) -> list[Batch]:
    """All batches of a query, by Spark's progress; looks without a batch are left out."""
    found = {}
    for progress in query.recentProgress:
        told = msgspec.json.decode(progress.json)
        (source,) = told["sources"]
        start, end = _offset(source["startOffset"]), _offset(source["endOffset"])
        if end is None or (start is not None and start["n"] == end["n"]):
            continue
        begin = int(_epoch_ms(told["timestamp"]))
        operators = told.get("stateOperators") or []
        rows = sum(int(o.get("numRowsTotal", 0)) for o in operators)
        found[told["batchId"]] = Batch(
            told["batchId"],
            begin,
            _total(end) - _total(start or {}),
            dict(told["durationMs"]),
            rows,
            _state_ms(operators),
        )
    return [found[n] for n in sorted(found)]


def _state_ms(operators: list[dict[str, Any]]) -> dict[str, int]:
    """Times of Spark's state store: loading, updating, committing, with what RocksDB says of itself."""
    found: dict[str, int] = {}
    for told in operators:
        times = {name: value for name, value in told.items() if name.endswith("TimeMs")}
        times |= {
            name: value for name, value in told.get("customMetrics", {}).items() if "Latency" in name and "Ms" in name
        }
        for name, value in times.items():
            found[name] = found.get(name, 0) + int(value)
    return found


def _offset(told: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = msgspec.json.decode(told) if isinstance(told, str) else told
    return found


def _total(offset: dict[str, Any]) -> int:
    ends: dict[str, dict[str, int]] = offset.get("ends", {})
    return sum(end for partitions in ends.values() for end in partitions.values())


def _epoch_ms(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def options_of(plan: Plan, task: Task) -> NodeOptions:
    """How `task` is run."""
    module = "bench.identity" if task.identity else task.module
    conf = {**task.conf, "nadi.buckets": "1"} if task.identity else task.conf
    return NodeOptions(Path(plan.state), plan.master, conf, task.until_end, engine=module, connectors=task.module)


def spec_of(task: Task, options: NodeOptions) -> AppSpec:
    """What a node knows of the app of a task."""
    from bench import timed

    return make_spec(AppText(task.text), timed.plan_app(task.text), options, os.cpu_count() or 1, "")


def run_task(session: SparkSession, plan: Plan, task: Task, stop: threading.Event) -> dict[str, Any]:
    """Run one app; what is told of it at its end."""
    options = options_of(plan, task)
    spec = spec_of(task, options)
    queries: list[StreamingQuery] = []
    timer: list[threading.Timer] = []

    def start(own: SparkSession, wanted: AppSpec) -> StreamingQuery:
        queries.append(start_identity(own, wanted) if task.identity else start_query(own, wanted))
        return queries[-1]

    def show(p: AppProgress) -> None:
        if task.at_most and p.batches and not timer:
            timer.append(threading.Timer(task.at_most, stop.set))
            timer[0].daemon = True
            timer[0].start()
        if task.events and sum(p.events_in.values()) >= task.events:
            stop.set()
        counts = {"in": sum(p.events_in.values()), "out": sum(p.events_out.values())}
        tell("running", app=p.app, batches=p.batches, rate=p.rate, error=p.last_error, **counts)

    tell("starting", app=spec.app)
    report = supervise(session, [spec], options, stop, show, start)
    for one in timer:
        one.cancel()
    (ended,) = report.apps
    result = {
        "app": spec.app,
        "state": ended.state,
        "error": str(ended.error or ""),
        "restarts": ended.progress.restarts,
        "buckets": 1 if task.identity else spec.buckets,
        "in": sum(ended.progress.events_in.values()),
        "out": sum(ended.progress.events_out.values()),
        "errors": ended.progress.errors,
        "state_bytes": ended.progress.state_bytes,
        "batches": [b for query in queries for b in batches_of(query)],
    }
    shutil.rmtree(spec.place.state / "checkpoint", ignore_errors=True)
    return result


def main() -> int:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    commands = Commands()
    largest = max((spec_of(task, options_of(plan, task)) for task in plan.tasks), key=wanted)
    master = with_slots(plan.master, [largest], copies=False)  # as many as a node of its own would have
    session = build_session(
        SessionOptions(master, Path(plan.state) / "logs", {**SPARK_CONF, **plan.conf}, "nadi bench")
    )
    try:
        count = os.cpu_count() or 1
        ready = hosts(count, driver_jvm(session))
        for index in range(count):
            ready.call(index, {"op": "ping"})
        tell("ready")
        for task in plan.tasks:
            stop = commands.next()
            if commands.over:
                break
            tell("ended", **run_task(session, plan, task, stop))
    finally:
        end_session(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
