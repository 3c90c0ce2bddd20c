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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.batches import Watch
from bench.plan import Plan, Task
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.node import AppProgress, AppText, NodeOptions, make_spec
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, build_session, driver_jvm
from nadi.pipeline.slots import with_slots
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import supervise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_CONF = {"spark.sql.streaming.numRecentProgressUpdates": "20000"}


def tell(at: str, **more: Any) -> None:
    sys.stdout.write(msgspec.json.encode({"at": at, **more}).decode() + "\n")
    sys.stdout.flush()


class Commands:
    """What the one who started this node says on standard input."""

    def __init__(self) -> None:
        self.over = False
        self._current = StopRequest()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self) -> StopRequest:
        """The event that stops the app about to be started."""
        with self._lock:
            self._current = StopRequest()
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


def options_of(plan: Plan, task: Task) -> NodeOptions:
    """How `task` is run."""
    module = "bench.identity" if task.identity else task.module
    conf = {**task.conf, "nadi.buckets": "1"} if task.identity else task.conf
    return NodeOptions(Path(plan.state), plan.master, conf, task.until_end, engine=module, connectors=task.module)


def spec_of(task: Task, options: NodeOptions) -> AppSpec:
    """What a node knows of the app of a task."""
    from bench import timed

    return make_spec(AppText(task.text), timed.plan_app(task.text), options, os.cpu_count() or 1, "")


def run_task(session: SparkSession, plan: Plan, task: Task, stop: StopRequest) -> dict[str, Any]:
    """Run one app; what is told of it at its end."""
    options = options_of(plan, task)
    spec = spec_of(task, options)
    watch = Watch()
    timer: list[threading.Timer] = []

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
    with watch.noting():
        report = supervise(session, [spec], options, stop, show, watch.start, watch.make_cuts)
    for one in timer:
        one.cancel()
    (ended,) = report.apps
    result = {
        "app": spec.app,
        "state": ended.state,
        "error": str(ended.error or ""),
        "restarts": ended.progress.restarts,
        "buckets": spec.buckets,
        "in": sum(ended.progress.events_in.values()),
        "out": sum(ended.progress.events_out.values()),
        "errors": ended.progress.errors,
        "state_bytes": ended.progress.state_bytes,
        "batches": watch.batches(),
    }
    shutil.rmtree(spec.place.state / "log", ignore_errors=True)
    return result


def main() -> int:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    commands = Commands()
    master = with_slots(plan.master, 1)  # as many as a node of its own would have
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
