"""Events of fault streams that come from outside the kernels: undecodable messages, and what targets refused (`nadi.io.faultlog`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector, Delivery, Messages, Undecodable
from nadi.io.errorstore import payload_fields
from nadi.io.faultlog import Fault
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import GROUP, NUMBER, TS
from nadi.lang.tree import Type
from nadi.pipeline.inputs.pieces import FaultEvents, Ints, Piece, Taken
from nadi.pipeline.inputs.splitters import Split, Splitter
from nadi.plan.nodes import App, Schema

_BEHIND = np.iinfo(np.int32).max  # the run of faults: behind the events of their message
_FLOATING = (Type.FLOAT, Type.DOUBLE)


def fault_stream(stream: str) -> str:
    """The key of the fault stream of a stream."""
    return f"!{stream}"


def has_fault_stream(app: App, stream: str) -> bool:
    """Whether `@OnError(action='STREAM')` says that what fails at a stream goes to its fault stream."""
    return fault_stream(stream) in app.streams


# ---- undecodable messages --------------------------------------------------------------------------------------------


def undecodable_events(app: App, source: Connector, split: Splitter) -> FaultEvents | None:
    """What makes events of undecodable messages of a source; None where its stream has no fault stream.

    The attributes of such an event are null, `_error` says why and has the message. It goes where an event without a key can be: nothing that is keyed
    takes it.
    """
    key = fault_stream(source.stream)
    if key not in app.streams:
        return None
    schema = app.streams[key].schema

    def events(messages: Messages, partition: int, failures: Sequence[Undecodable]) -> Piece:
        failures = sorted(failures, key=lambda f: f.position)
        places = {position: i for i, position in enumerate(messages.positions.tolist())}
        message = np.array([places.get(f.position, 0) for f in failures], np.int64)
        texts = [undecodable_text(source, partition, f) for f in failures]
        batch = _null_events(schema, texts)
        known = split(batch.select(source.schema.names), message, partition)
        buckets, groups = (np.zeros(len(failures), np.int64) for _ in range(2))
        buckets[known.kept], groups[known.kept] = known.buckets, known.groups
        runs = np.full(len(failures), _BEHIND, np.int64)
        return Piece(key, batch, message, None, Split(np.arange(len(failures)), buckets, groups, runs))

    return events


def undecodable_text(source: Connector, partition: int, failure: Undecodable) -> str:
    """`_error` of an undecodable message: what is wrong, where it stands, and the message itself (Base64 where it is no text)."""
    given = payload_fields(failure.payload)
    coded = f" ({given['encoding']})" if "encoding" in given else ""
    place = f"source {source.type} of {source.stream}, {partition}/{failure.position}"
    return f"UNDECODABLE: {failure.reason} ({place}); message{coded}: {given['payload']}"


def _null_events(schema: Schema, texts: Sequence[str]) -> pa.RecordBatch:
    types = arrow_schema(schema)
    columns = [pa.nulls(len(texts), field.type) for field in list(types)[:-1]]
    return pa.RecordBatch.from_arrays([*columns, _errors(texts)], schema=types)


def _errors(texts: Sequence[str]) -> pa.Array:
    """`_error` is an object, which travels as JSON."""
    return pa.array([json.dumps(text) for text in texts], pa.string())


# ---- what targets refused --------------------------------------------------------------------------------------------


def fault_record(clock: int, sink: Connector, delivery: Delivery, first: int, end: int, text: str) -> Fault:
    """The record for the rows [first, end) of a delivery; `clock` is that of the cut, ms."""
    rows = delivery.batch.slice(first, end - first)
    columns = [plain_values(rows.column(c.name).to_pylist(), c.type) for c in sink.schema.columns]
    values = [list(row) for row in zip(*columns)]
    return Fault(
        time=clock,
        stream=sink.stream,
        sink=sink.ordinal,
        cut=delivery.cut,
        bucket=delivery.bucket,
        group=rows.column(GROUP)[0].as_py(),
        number=rows.column(NUMBER)[0].as_py(),
        error=text,
        rows=list(zip(rows.column(TS).to_pylist(), values)),
    )


def plain_values(values: Iterable[object], kind: Type) -> list[object]:
    """The values of a column as JSON has them; it has no numbers for what is none."""
    if kind not in _FLOATING:
        return list(values)
    return [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in values]


@dataclass(frozen=True, slots=True)
class Reentry:
    """The records of the fault log; `schemas` are those of the fault streams by their keys.

    A record of a stream that has no fault stream any more (the app's text was changed) makes nothing.
    """

    schemas: Mapping[str, Schema]
    buckets: int

    def __call__(self, messages: Messages, partition: int) -> Taken:
        of: dict[str, list[tuple[int, Fault]]] = {}
        assert not isinstance(messages.payloads, pa.RecordBatch)
        for i, line in enumerate(messages.payloads):
            fault = msgspec.json.decode(line, type=Fault)
            of.setdefault(fault_stream(fault.stream), []).append((i, fault))
        return Taken([self._piece(key, faults) for key, faults in of.items() if key in self.schemas])

    def _piece(self, key: str, faults: Sequence[tuple[int, Fault]]) -> Piece:
        each = [(i, fault, ts, row) for i, fault in faults for ts, row in fault.rows]
        types = arrow_schema(self.schemas[key])
        kinds = [c.type for c in self.schemas[key].columns]
        columns = [
            pa.array(typed_values([row[c] for *_, row in each], kinds[c]), field.type)
            for c, field in enumerate(list(types)[:-1])
        ]
        batch = pa.RecordBatch.from_arrays([*columns, _errors([f.error for _, f, _, _ in each])], schema=types)
        buckets = _ints(f.bucket % self.buckets for _, f, _, _ in each)
        groups = _ints(f.group for _, f, _, _ in each)
        runs = np.zeros(len(each), np.int64)  # what was refused together is one chunk
        split = Split(np.arange(len(each)), buckets, groups, runs)
        return Piece(key, batch, _ints(i for i, *_ in each), _ints(ts for _, _, ts, _ in each), split)


def typed_values(values: Sequence[object], kind: Type) -> list[object]:
    """What `plain_values` was given."""
    if kind not in _FLOATING:
        return list(values)
    return [float(v) if isinstance(v, str) else v for v in values]


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def reentry(app: App, buckets: int) -> Reentry:
    """What makes events of the fault log of an app."""
    return Reentry({key: s.schema for key, s in app.streams.items() if key.startswith("!")}, buckets)
