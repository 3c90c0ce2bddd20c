"""The middle of the pipeline as a function from DataFrames to a DataFrame: encode → shuffle by bucket → kernel → typed rows.

Streaming DataFrames keep the kernels' state in Spark's state store, with live kernels in executor hosts; batch DataFrames run a kernel per
bucket inside the Python worker.
"""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from nadi.errors import did_you_mean, error
from nadi.errors.readable import readable
from nadi.framestack import with_room
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, OUTPUT_COLUMNS, TS, Outputs
from nadi.lang.tree import Type
from nadi.pipeline.engine import make_kernel, plan_app
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.inputs.fatrows import SCHEMA, from_ipc, gather, pack, to_arrow, to_ipc, unpack
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.pipeline.kernelstage import FRAME_KEY, FRAME_VALUE, process_rows, rows_of
from nadi.pipeline.labels import labels
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App, Schema

TIMESTAMP = "_timestamp"

SPARK_TYPES = {
    Type.STRING: "string",
    Type.INT: "int",
    Type.LONG: "bigint",
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.BOOL: "boolean",
    Type.OBJECT: "string",
}
_WIDER = {
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("float",),
    "string": ("varchar", "char"),
}
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_LOG = logging.getLogger("nadi")


def through_kernels(
    session: SparkSession,
    app: App,
    inputs: Mapping[str, DataFrame],
    output: str,
    timestamp: str | None,
    buckets: int | None,
) -> DataFrame:
    """See `nadi.App.stream`."""
    if output not in app.streams:
        raise error("STREAM_NOT_DEFINED", name=output, hint=did_you_mean(output, app.streams))
    streaming = _one_kind(inputs)
    _workers_as_here(session)
    partitions = int(session.conf.get("spark.sql.shuffle.partitions"))
    wanted = session.sparkContext.defaultParallelism if buckets is None else buckets
    count = 1 if app.sharding.kind == "single" else max(1, min(wanted, partitions))
    names = labels(count, partitions)
    spec = AppSpec(app.name, app.text, "", buckets=count, hosts=os.cpu_count() or 1, outputs=(output,))
    order = list(inputs)
    rows = reduce(
        DataFrame.union,
        [_encoded(app, spec, order.index(key), key, frame, timestamp, names) for key, frame in inputs.items()],
    )
    schema = app.streams[output].schema
    result = ", ".join(f"`{c.name}` {SPARK_TYPES[c.type]}" for c in schema.columns) + f", `{TIMESTAMP}` bigint"
    grouped = rows.groupBy("bk")
    if not streaming:
        return grouped.applyInArrow(_whole_kernel(spec, order, output), result)
    if session.conf.get(_PROVIDER, "") != _ROCKSDB:
        session.conf.set(_PROVIDER, _ROCKSDB)  # the only one that transformWithState runs on
    stage = TypedKernelStage(spec, names, order, output)
    return grouped.transformWithStateInPandas(stage, result, "Append", "None")


def _workers_as_here(session: SparkSession) -> None:
    """Let local workers run the Python that runs here.

    Spark starts `python3` from the search path unless PYSPARK_PYTHON says otherwise; that one need not have nadi when a program is started by
    the full path of its virtual environment's Python.
    """
    context = session.sparkContext
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _one_kind(inputs: Mapping[str, DataFrame]) -> bool:
    streaming = [key for key, frame in inputs.items() if frame.isStreaming]
    batch = [key for key, frame in inputs.items() if not frame.isStreaming]
    if streaming and batch:
        raise error("FRAMES_MIXED", streaming=streaming[0], batch=batch[0])
    if not inputs:
        raise error("STREAM_NOT_DEFINED", name="", hint="give at least one DataFrame")
    return bool(streaming)


# ---- in ------------------------------------------------------------------------------------------------------------


def _encoded(
    app: App,
    spec: AppSpec,
    ordinal: int,
    key: str,
    frame: DataFrame,
    timestamp: str | None,
    names: Sequence[int],
) -> DataFrame:
    if key not in app.streams:
        raise error("STREAM_NOT_DEFINED", name=key, hint=did_you_mean(key, app.streams))
    schema = app.streams[key].schema
    found = dict(frame.dtypes)
    columns = [_column(key, frame, found, c.name, c.type) for c in schema.columns]
    chosen = frame.select(*columns, _time(key, frame, found, timestamp).alias(TS))
    return chosen.mapInArrow(_encoder(spec, ordinal, key, schema, names, timestamp or ""), SCHEMA)


def _column(stream: str, frame: DataFrame, found: Mapping[str, str], name: str, kind: Type) -> Any:
    wanted = SPARK_TYPES[kind]
    if name not in found:
        raise error("COLUMN_MISSING", stream=stream, column=name, hint=did_you_mean(name, found))
    given = found[name].split("(")[0]
    if given == wanted:
        return frame[name]
    if given in _WIDER.get(wanted, ()):
        return frame[name].cast(wanted).alias(name)
    raise error("COLUMN_TYPE", stream=stream, column=name, found=found[name], wanted=f"{wanted} ({kind})")


def _time(stream: str, frame: DataFrame, found: Mapping[str, str], name: str | None) -> Any:
    """The event's timestamp (ms). Spark's current time is one for the whole batch, and the same when the batch is repeated."""
    if name is None:
        return F.unix_millis(F.current_timestamp())
    if name not in found:
        raise error("COLUMN_MISSING", stream=stream, column=name, hint=did_you_mean(name, found))
    if found[name] == "timestamp":
        return F.unix_millis(frame[name])
    if found[name] in ("bigint", "int"):
        return frame[name].cast("bigint")
    raise error("COLUMN_TYPE", stream=stream, column=name, found=found[name], wanted="bigint (ms) or timestamp")


Encoder = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _encoder(spec: AppSpec, ordinal: int, key: str, schema: Schema, names: Sequence[int], timestamp: str) -> Encoder:
    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        split = make_splitter(plan_app(spec.text), key, schema, spec.buckets)
        position, least, greatest = 0, None, None
        for sequence, batch in enumerate(batches):
            if not batch.num_rows:
                continue
            if batch.column(len(schema)).null_count:
                raise error(
                    "COLUMN_TYPE", stream=key, column=timestamp, found="null in a row", wanted="a time in every row"
                )
            times = batch.column(len(schema)).to_numpy()
            least = int(times.min()) if least is None else min(least, int(times.min()))
            greatest = int(times.max()) if greatest is None else max(greatest, int(times.max()))
            head = {"k": "events", "o": ordinal, "p": partition, "s": 0, "q": sequence, "t": True}
            found = _bodies(batch, schema, split(batch, np.arange(batch.num_rows), partition), times, position)
            yield to_arrow([(names[bucket], pack(head), body) for bucket, body in found])
            position += batch.num_rows
        if greatest is not None:
            clock = pack({"k": "clock", "n": 0, "clock": greatest, "started": least, "ranges": []})
            yield to_arrow([(label, clock, b"") for label in names])

    return encode


def _bodies(
    batch: pa.RecordBatch, schema: Schema, split: Any, times: Any, position: int
) -> Iterator[tuple[int, bytes]]:
    """(bucket, Arrow IPC stream) of every bucket that has rows."""
    fields = pa.schema([*arrow_schema(schema), *ARRIVAL_COLUMNS])
    for bucket in np.unique(split.buckets):
        part = np.flatnonzero(split.buckets == bucket)
        part = part[np.argsort(times[split.kept[part]], kind="stable")]  # kernels merge batches that are in order
        rows = split.kept[part]
        taken = batch.take(pa.array(rows))
        attributes = [taken.column(i).cast(fields.field(i).type) for i in range(len(schema))]
        stamps = times[rows]
        added = (stamps, position + rows, np.zeros(len(rows), np.int32), stamps, split.groups[part])
        columns = [*attributes, *(pa.array(a, f.type) for a, f in zip(added, ARRIVAL_COLUMNS, strict=True))]
        yield int(bucket), to_ipc(pa.RecordBatch.from_arrays(columns, schema=fields))


# ---- out -----------------------------------------------------------------------------------------------------------


def _typed(batch: pa.RecordBatch, width: int) -> pa.Table:
    """The attributes and the timestamp of output rows."""
    names = batch.schema.names
    columns = [*batch.columns[:width], batch.column(names.index(TS))]
    return pa.Table.from_arrays(columns, names=[*names[:width], TIMESTAMP])


def _tell_failures(failures: Sequence[str], count: int) -> None:
    if count:
        _LOG.warning(
            "%d events could not be processed, the first: %s", count, readable(failures[0]) if failures else ""
        )


def _whole_kernel(spec: AppSpec, order: Sequence[str], output: str) -> Callable[..., pa.Table]:
    """For `applyInArrow`: all rows of one bucket, from the start to the latest timestamp."""

    def run(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        app = plan_app(spec.text)
        schema = app.streams[output].schema
        rows: list[tuple[dict[str, Any], Part]] = [
            (unpack(head), body)
            for head, body in zip(table.column("head").to_pylist(), table.column("body").to_pylist(), strict=True)
        ]
        gathered = gather(rows, dict(enumerate(order)))
        kernel = make_kernel(app, (output,), int(key[0].as_py()))
        kernel.start(gathered.started)
        made: Outputs = with_room(lambda: kernel.process(gathered.arrivals, gathered.clock))
        _tell_failures([f.message for f in made.failures], len(made.failures))
        if output in made.batches:
            return _typed(made.batches[output], len(schema))
        return pa.schema([*arrow_schema(schema), pa.field(TIMESTAMP, pa.int64())]).empty_table()

    return run


class TypedKernelStage(StatefulProcessor):
    """Takes the rows of a bucket through its kernel in a host and gives those of one output."""

    def __init__(self, spec: AppSpec, names: Sequence[int], order: Sequence[str], output: str) -> None:
        self._spec = spec
        self._buckets = {label: bucket for bucket, label in enumerate(names)}
        self._streams = {str(i): key for i, key in enumerate(order)}
        self._output = output
        self._state: MapState | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("frames", FRAME_KEY, FRAME_VALUE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        assert self._state is not None
        bucket = self._buckets[int(key[0])]
        told, found = process_rows(
            self._spec, self._state, bucket, rows_of(rows), streams=self._streams, want=[self._output]
        )
        _tell_failures(told["failures"], told["failed"])
        for body in found:
            batch = from_ipc(body)
            width = batch.num_columns - len(OUTPUT_COLUMNS)
            yield _typed(batch, width).to_pandas(types_mapper=pd.ArrowDtype)

    def close(self) -> None:
        """Nothing is held."""
