"""The pipeline without shuffle, state and kernel: its own source, its own hosts and its own sink stage, and nothing between them.

The writer takes the fat rows of the source as they are and has a host turn them into outputs with a kernel that copies; everything before and after that is
the pipeline's code. It is what reading, decoding, encoding, writing and a batch of Spark cost: nothing that nadi runs can be faster.
This module is also the engine (`NodeOptions.engine`) of such a run.
"""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from nadi.kernel.contract import GROUP, POSITION, TS, Arrivals, Kernel, Outputs, Segment
from nadi.pipeline import engine
from nadi.pipeline.hosting.hostclient import hosts
from nadi.pipeline.inputs.fatrows import pack
from nadi.pipeline.inputs.source import AppSource
from nadi.pipeline.kernelstage import query_id
from nadi.pipeline.outputs.sinkstage import AppWriter, Written
from nadi.pipeline.session import activate, driver_jvm
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.layout import Directory
from nadi.plan.nodes import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

plan_app = engine.plan_app


class CopyingKernel:
    """Gives what it gets: the rows of the input, numbered by their positions, each a chunk of its own."""

    def __init__(self, output: str) -> None:
        self._output = output

    def start(self, now: int) -> None:
        """Nothing begins."""

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        if not arrivals:
            return Outputs({})
        made = [_numbered(a.batch) for a in arrivals]
        return Outputs({self._output: made[0] if len(made) == 1 else _joined(made)})

    def next_timer(self) -> int | None:
        return None

    def delta(self) -> bytes:
        return b""

    def dump(self) -> Iterable[Segment]:
        return ()

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """There is no state."""

    def size(self) -> dict[str, int]:
        return {}


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    attributes = [name for name in batch.schema.names if not name.startswith("__")]
    number, ts, group = (batch.column(batch.schema.get_field_index(n)) for n in (POSITION, TS, GROUP))
    columns = [*(batch.column(batch.schema.get_field_index(n)) for n in attributes), number, number, ts, group]
    return pa.RecordBatch.from_arrays(columns, names=[*attributes, "__number", "__chunk", TS, GROUP])


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    """A kernel that copies its one input to the one output."""
    (output,) = outputs
    return CopyingKernel(output)


class IdentityWriter(DataSourceStreamArrowWriter):
    """As the pipeline's writer, on the rows of the source. A task is a bucket here."""

    def __init__(self, spec: AppSpec, jvm: int) -> None:
        self._spec = spec
        self._writer = AppWriter(spec, jvm)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        heads: list[bytes] = []
        bodies: list[bytes] = []
        for batch in iterator:
            heads.extend(batch.column(batch.schema.get_field_index("head")).to_pylist())
            bodies.extend(batch.column(batch.schema.get_field_index("body")).to_pylist())
        if not heads:
            return Written(())
        context = TaskContext.get()
        bucket = 0 if context is None else context.partitionId()
        place = {"query": query_id(), "bucket": bucket}
        head = {"op": "process", **place, "heads": heads, "directory": Directory().pack()}
        told = hosts(self._spec.hosts).call_app(self._spec, bucket, head, bodies).head
        meta = pa.array([pack({**told, **place, "state_bytes": 0, "state_written": 0})], pa.binary())
        return self._writer.write(iter([pa.RecordBatch.from_arrays([meta], names=["meta"])]))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages, batchId)


class IdentitySink(DataSource):
    """Options as those of the pipeline's sink."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._spec = AppSpec.from_json(options["spec"])
        self._jvm = int(options["jvm"])

    @classmethod
    def name(cls) -> str:
        return "bench_identity"

    def streamWriter(self, schema: object, overwrite: bool) -> IdentityWriter:  # noqa: N802
        return IdentityWriter(self._spec, self._jvm)


def start_identity(session: SparkSession, spec: AppSpec) -> StreamingQuery:
    """As `nadi.pipeline.query.start_query`, without the middle."""
    activate(session)
    session.dataSource.register(AppSource)
    session.dataSource.register(IdentitySink)
    described = spec.to_json()
    query: StreamingQuery = (
        session.readStream.format(AppSource.name())
        .option("spec", described)
        .load()
        .writeStream.format(IdentitySink.name())
        .option("spec", described)
        .option("jvm", str(driver_jvm(session)))
        .option("checkpointLocation", str(spec.place.state / "checkpoint"))
        .outputMode("append")
        .queryName(spec.app)
        .start()
    )
    return query
