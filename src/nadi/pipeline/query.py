"""A run of groups as one streaming query: the connector's source, for a group that is spread over hosts a shuffle by bucket, the connector's sink."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nadi.errors import Diagnostic, NadiError, error, raised
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.session import activate, driver_jvm, is_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

CONNECTOR = "nadi.Connector"
HOST = "nadi.pipeline.executor.host"

_NAMED = re.compile(
    r"nadi\.errors\.exceptions\.(\w+): (?:[^\[\n]*: )?\[([A-Z0-9_]+)\] ([^\n]*?)(?: SQLSTATE: \w{5})?(?:\n|$)"
)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a query is started with: its name in Spark and for people, the run that the coordinator knows it by, the coordinator's socket; into how many
    partitions events are spread by bucket (0: the hosts do all in one stage); a folder for Spark's checkpoint, which nothing depends on; the hosts' logs."""

    name: str
    run: str
    coordinator: Path
    partitions: int
    checkpoint: Path
    logs: Path


def start_query(session: SparkSession, plan: QueryPlan) -> StreamingQuery:
    """Start a query in a session of its own."""
    activate(session)
    conf = session.sparkContext.getConf()
    # other machines may have their Python elsewhere, and do not have the folder of the logs
    cluster = is_cluster(session.sparkContext.master)
    python = conf.get("spark.pyspark.python", sys.executable) if cluster else sys.executable
    options = {
        "coordinator": str(plan.coordinator),
        "query": plan.run,
        "hosts.base": str(hosts_folder(driver_jvm(session)).parent),
        "hosts.command": "\n".join([python, "-m", HOST]),
        "logs": "" if cluster else str(plan.logs),
    }
    rows = session.readStream.format(CONNECTOR).options(**options).load()
    if plan.partitions:
        rows = rows.repartition(plan.partitions, "bk")
    query: StreamingQuery = (
        rows.writeStream.format(CONNECTOR)
        .options(**options)
        .option("checkpointLocation", plan.checkpoint.as_uri())
        .outputMode("append")
        .queryName(plan.name)
        .start()
    )
    return query


def at_work(durations: Mapping[str, int]) -> dict[str, int]:
    """What Spark tells of a batch by phase, ms, without the time in which there was nothing to do: `latestOffset` waits for the next batch.

    >>> at_work({"latestOffset": 2900, "addBatch": 30, "triggerExecution": 2940})
    {'addBatch': 30, 'triggerExecution': 40}
    """
    waited = durations.get("latestOffset", 0)
    return {
        name: ms - waited if name == "triggerExecution" else ms
        for name, ms in durations.items()
        if name != "latestOffset"
    }


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
