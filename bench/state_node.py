"""The node of the suite `state`: `bench.node` with a stage that notes what each batch wrote into the state store, batches noted while it runs, and paced input.

python -m bench.state_node PLAN, as `bench.node`; it is killed, so nothing may be kept until its end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench import timed
from bench.node import SPARK_CONF, batches_of, spark_only, tell
from bench.pace import PacedSource
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.inputs.fatrows import unpack
from nadi.pipeline.kernelstage import OUTPUT, KernelStage
from nadi.pipeline.node import AppProgress, AppText, NodeOptions, make_spec, node_lock
from nadi.pipeline.outputs.sink import AppSink
from nadi.pipeline.run import end_session
from nadi.pipeline.session import SessionOptions, activate, build_session, driver_jvm
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.supervisor import supervise

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class StatePlan(msgspec.Struct, frozen=True):
    """What the node has to do: an app, as its pace says (`bench.pace`); batches are noted in the file `batches`."""

    state: str
    text: str
    batches: str
    master: str
    conf: dict[str, str] = {}


class NotingStage(KernelStage):
    """The stateful stage, with a note of each bucket and batch."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        begin = time.time()
        for done in super().handleInputRows(key, rows, timerValues):
            told = unpack(bytes(done.meta))
            names = ("bucket", "cut", "feeding", "loading", "memory", "snapshot", "state_bytes", "state_written")
            noted = {name: told[name] for name in names}
            timed.stopwatch().note("stage", begin, time.time() - begin, **noted, events=sum(told["in"].values()))
            yield done


def start_noting(session: SparkSession, spec: AppSpec) -> StreamingQuery:
    """As `nadi.pipeline.query.start_query`, with the stage that notes and paced cuts."""
    activate(session)
    session.conf.set("spark.sql.shuffle.partitions", str(spec.partitions))
    session.dataSource.register(PacedSource)
    session.dataSource.register(AppSink)
    described = spec.to_json()
    rows = session.readStream.format(PacedSource.name()).option("spec", described).load()
    stage = NotingStage(spec, spec.labels)
    done = rows.groupBy("bk").transformWithState(stage, OUTPUT, "Append", "None")
    query: StreamingQuery = (
        done.writeStream.format(AppSink.name())
        .option("spec", described)
        .option("jvm", str(driver_jvm(session)))
        .option("checkpointLocation", str(spec.place.state / "checkpoint"))
        .outputMode("append")
        .queryName(spec.app)
        .start()
    )
    return query


class BatchNotes:
    """Appends the batches of a query to a file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = -1
        self.queries: list[StreamingQuery] = []

    def note(self) -> None:
        for query in self.queries:
            fresh = [b for b in batches_of(query) if b.id > self._seen]
            if fresh:
                self._seen = fresh[-1].id
                with self._path.open("ab") as out:
                    out.write(b"".join(msgspec.json.encode(b) + b"\n" for b in fresh))


def main() -> int:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=StatePlan)
    # the last batches are all that is asked for twice a second
    conf = {**SPARK_CONF, "spark.sql.streaming.numRecentProgressUpdates": "50", **spark_only(plan.conf)}
    session = build_session(SessionOptions(plan.master, Path(plan.state) / "logs", conf, "nadi bench"))
    try:
        count, jvm = os.cpu_count() or 1, driver_jvm(session)
        ready = hosts(count, jvm)
        for index in range(count):
            ready.call(index, {"op": "ping"})
        tell("ready", jvm=jvm, t=time.time())
        notes = BatchNotes(Path(plan.batches))
        options = NodeOptions(
            Path(plan.state), plan.master, plan.conf, until_end=True, engine="bench.timed", connectors="bench.timed"
        )
        spec = make_spec(AppText(plan.text), timed.plan_app(plan.text), options, count, "")

        def start(own: SparkSession, wanted: AppSpec) -> StreamingQuery:
            notes.queries.append(start_noting(own, wanted))
            return notes.queries[-1]

        def show(p: AppProgress) -> None:
            notes.note()
            counts = {"in": sum(p.events_in.values()), "out": sum(p.events_out.values())}
            tell("running", batches=p.batches, error=p.last_error, state=p.state_bytes, **counts)

        with node_lock(options.state):  # whoever asks for a revision looks for it
            (ended,) = supervise(session, [spec], options, threading.Event(), show, start).apps
        notes.note()
        told = {"state": ended.state, "error": str(ended.error or ""), "restarts": ended.progress.restarts}
        tell("ended", **told, errors=ended.progress.errors, out=sum(ended.progress.events_out.values()))
    finally:
        end_session(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
