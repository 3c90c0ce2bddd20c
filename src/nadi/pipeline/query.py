"""One app as one streaming query: source → shuffle by bucket → kernels → sinks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from nadi.errors import Diagnostic, NadiError, error, raised
from nadi.pipeline.inputs.source import AppSource
from nadi.pipeline.outputs.sink import AppSink
from nadi.pipeline.session import activate, driver_jvm
from nadi.pipeline.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_NAMED = re.compile(r"nadi\.errors\.exceptions\.(\w+): (?:[^\[\n]*: )?\[([A-Z0-9_]+)\] ([^\n]*)")


def start_query(session: SparkSession, spec: AppSpec) -> StreamingQuery:
    """Start (or go on with) the query of an app in a session of its own. Its checkpoint is in the state folder."""
    # it takes a while to load: `Node` does that while Java starts
    from nadi.pipeline.kernelstage import OUTPUT, KernelStage, PandasKernelStage

    activate(session)
    session.conf.set("spark.sql.shuffle.partitions", str(spec.partitions))
    session.dataSource.register(AppSource)
    session.dataSource.register(AppSink)
    described = spec.to_json()
    buckets = session.readStream.format(AppSource.name()).option("spec", described).load().groupBy("bk")
    if begun_in_pandas(spec.place.state / "checkpoint"):
        done = buckets.transformWithStateInPandas(PandasKernelStage(spec, spec.labels), OUTPUT, "Append", "None")
    else:
        done = buckets.transformWithState(KernelStage(spec, spec.labels), OUTPUT, "Append", "None")
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


def begun_in_pandas(checkpoint: Path) -> bool:
    """Whether the stateful stage of a checkpoint is that over pandas: Spark goes on with the one that it finds noted there."""
    noted = (path for path in (checkpoint / "state" / "0" / "_metadata").glob("**/*") if path.is_file())
    return any(b"transformWithStateInPandas" in path.read_bytes() for path in noted)


def named_failure(app: str, reason: BaseException, log: object) -> NadiError:
    """The named condition in what Spark tells of a failed query: the last one that Python raised below, or SPARK_FAILED."""
    if isinstance(reason, NadiError):
        return reason
    text = str(reason)
    found = _NAMED.findall(text)
    if found:
        siddhi_class, condition, message = found[-1]
        return raised(Diagnostic(condition, siddhi_class, message))
    if "No space left on device" in text:
        return error("DISK_FULL", path=log)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), "")
    return error("SPARK_FAILED", app=app, reason=told or (lines[0] if lines else type(reason).__name__), log=log)
