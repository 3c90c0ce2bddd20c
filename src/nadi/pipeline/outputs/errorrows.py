"""Rows for the error store (`nadi.io.errorstore`): from messages that could not be decoded, events that a query could not process, payloads that a target
refused. Each has what sending it again needs beside its payload (`again`), or why that cannot be (`final`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nadi.io.contract import Connector, Delivery, Refusal
from nadi.io.errorstore import Row, payload_fields
from nadi.kernel.contract import GROUP, NUMBER, TS, Failure
from nadi.kernel.control import CONTROL
from nadi.pipeline.inputs.faults import plain_values
from nadi.plan.nodes import App


def undecodable_row(app: str, cut: int, sources: Mapping[int, Connector], told: Sequence[Any]) -> Row:
    """The row for an undecodable message; `told` as in fat rows, `sources` by ordinal."""
    ordinal, partition, position, time, reason, payload, beside = told
    source = sources[ordinal]
    row = _row("source", f"source {source.type} of {source.stream}", app, source.stream, time)
    row |= {"partition": partition, "position": position, "reason": reason}
    row |= payload_fields(bytes(payload)) | {"cut": cut}
    if "final" in beside:
        return row | {"final": beside["final"]}
    return row | {"again": {"ordinal": ordinal, **{name: value for name, value in beside.items() if value}}}


def failure_row(app: App, cut: int, bucket: int, failure: Failure) -> Row:
    """The row for an event that a query could not process in a bucket."""
    row = _row("query", f"query of {failure.stream}", app.name, failure.stream, failure.timestamp)
    reason = f"[{failure.condition}] {failure.message}"
    inexact: list[object] = []

    def as_text(value: object) -> str:
        inexact.append(value)
        return str(value)

    payload = json.dumps(failure.row, default=as_text)
    row |= {"partition": None, "position": None, "reason": reason, "payload": payload, "cut": cut}
    final = _final(app, failure) or ("a value of the event has no form in JSON" if inexact else "")
    if final:
        return row | {"final": final}
    return row | {"again": {"bucket": bucket, "group": failure.group}}


def _final(app: App, failure: Failure) -> str:
    """Why a failed event cannot be sent again, "" where it can be."""
    if failure.stream == CONTROL:
        return ""
    if failure.stream not in app.streams:
        return "only events of streams can be sent again"
    if failure.condition == "OUTPUT_VALUE":
        return "the event was processed: only its row for the sinks could not be made"
    return ""


def refused_row(app: str, sink: Connector, delivery: Delivery, rows: tuple[int, int], refusal: Refusal) -> Row:
    """The row for a payload that a target refused; `rows` are the indices [first, end) of its rows. Key-group and number of the first say which it is."""
    first, end = rows
    row = _row("sink", f"sink {sink.type} of {sink.stream}", app, sink.stream, delivery.batch.column(TS)[first].as_py())
    place = {
        "partition": delivery.batch.column(GROUP)[first].as_py(),
        "position": delivery.batch.column(NUMBER)[first].as_py(),
    }
    row |= place | {"reason": refusal.reason}
    row |= payload_fields(bytes(delivery.payloads[refusal.index])) | {"cut": delivery.cut}
    batch = delivery.batch.slice(first, end - first)
    columns = [plain_values(batch.column(c.name).to_pylist(), c.type) for c in sink.schema.columns]
    of = [list(values) for values in zip(*columns)] or [[] for _ in range(batch.num_rows)]
    kept = list(zip(batch.column(TS).to_pylist(), of))
    return row | {"again": {"ordinal": sink.ordinal, "bucket": delivery.bucket, "rows": kept}}


def _row(kind: str, origin: str, app: str, stream: str, time: int) -> Row:
    return {"time": time, "app": app, "kind": kind, "origin": origin, "stream": stream}
