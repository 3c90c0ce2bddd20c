"""Rows for the error store (`nadi.io.errorstore`): from messages that could not be decoded, events that a query could not process, payloads that a target
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nadi.io.contract import Connector, Delivery, Refusal
from nadi.io.errorstore import payload_fields
from nadi.kernel.contract import GROUP, NUMBER, TS, Failure


def undecodable_row(app: str, cut: int, sources: Mapping[int, Connector], told: Sequence[Any]) -> dict[str, object]:
    """The row for an undecodable message; `told` as in fat rows, `sources` by ordinal."""
    ordinal, partition, position, time, reason, payload = told
    source = sources[ordinal]
    row: dict[str, object] = {
        "time": time,
        "app": app,
        "origin": f"source {source.type} of {source.stream}",
        "stream": source.stream,
        "partition": partition,
        "position": position,
        "reason": reason,
    }
    return row | payload_fields(bytes(payload)) | {"cut": cut}


def failure_row(app: str, cut: int, failure: Failure) -> dict[str, object]:
    """The row for an event that a query could not process."""
    row: dict[str, object] = {
        "time": failure.timestamp,
        "app": app,
        "origin": f"query of {failure.stream}",
        "stream": failure.stream,
        "partition": None,
        "position": None,
        "reason": f"[{failure.condition}] {failure.message}",
    }
    return row | {"payload": json.dumps(failure.row, default=str), "cut": cut}


def refused_row(
    app: str, origin: str, stream: str, delivery: Delivery, first: int, refusal: Refusal
) -> dict[str, object]:
    """The row for a payload that a target refused; `first` is the index of the payload's first row, whose key-group and number say which it is."""
    row: dict[str, object] = {
        "time": delivery.batch.column(TS)[first].as_py(),
        "app": app,
        "origin": origin,
        "stream": stream,
        "partition": delivery.batch.column(GROUP)[first].as_py(),
        "position": delivery.batch.column(NUMBER)[first].as_py(),
        "reason": refusal.reason,
    }
    return row | payload_fields(bytes(delivery.payloads[refusal.index])) | {"cut": delivery.cut}
