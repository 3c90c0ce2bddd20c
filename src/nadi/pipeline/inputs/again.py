"""What the control log has: changes, events of simulations, and what is sent again out of the error store, which becomes messages of sources, events of
streams, payloads for sinks.

A record has all that is needed (`nadi.io.controllog.Again`), so that what comes of it is a function of the logs, like everything else. What does not fit
the app (its text may have changed since) goes to the error store with the reason, and stops nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector, Messages, Undecodable
from nadi.io.controllog import Again, ControlMapper, Record, Simulated
from nadi.io.faultlog import FAULTS
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.control import CONTROL
from nadi.lang.tree import Type
from nadi.pipeline.inputs.faults import typed_values, undecodable_events
from nadi.pipeline.inputs.misfit import Misfit
from nadi.pipeline.inputs.pieces import Decoding, Ints, Piece, Taken
from nadi.pipeline.inputs.sends import Send
from nadi.pipeline.inputs.simulations import SimulationTake
from nadi.pipeline.inputs.splitters import Split, make_splitter
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import App, Schema
from nadi.received import is_deep

_DECODE = msgspec.json.Decoder(Record).decode
_BROKEN = (ValueError, TypeError, OverflowError, KeyError, pa.ArrowException)


def decoding(spec: AppSpec, app: App, source: Connector) -> Decoding:
    """What makes events of the messages of a source."""
    split = make_splitter(app, source.stream, source.schema, spec.buckets)
    return Decoding(source.stream, spec.source_mapper(source), split, undecodable_events(app, source, split))


def beside(messages: Messages, index: int | None) -> dict[str, Any]:
    """What a log told beside a payload, for when it is sent again; or why that cannot be."""
    if isinstance(messages.payloads, pa.RecordBatch):
        return {"final": "it is a row of a file of typed columns, which has no messages"}
    properties = dict(messages.properties[index]) if messages.properties and index is not None else {}
    if UNREADABLE in properties:
        return {"final": "it is no message: the input says what is wrong with it"}
    return {"header": list(messages.header), "properties": properties}


def control_take(spec: AppSpec, app: App, control: Connector) -> ControlTake:
    """What is made of the control log of an app."""
    sources = {c.ordinal: c for c in spec.sources(app) if c.stream not in (CONTROL, FAULTS)}
    sinks = {c.ordinal: c for c in spec.load_connectors().connectors(app, "sink")}
    split = make_splitter(app, control.stream, control.schema, spec.buckets)
    changes = Decoding(control.stream, ControlMapper(), split)
    return ControlTake(spec, app, sources, sinks, changes, SimulationTake(app, spec.buckets), control.ordinal)


@dataclass
class _Found:
    """What records have come to so far."""

    pieces: list[Piece] = field(default_factory=list)
    told: list[list[Any]] = field(default_factory=list)
    sends: list[tuple[int, Send]] = field(default_factory=list)


@dataclass(frozen=True)
class ControlTake:
    """See `nadi.pipeline.inputs.pieces.Take`: changes as events of the control input, events of simulations, and what is sent again."""

    spec: AppSpec
    app: App
    sources: Mapping[int, Connector]
    sinks: Mapping[int, Connector]
    changes: Decoding
    simulations: SimulationTake
    ordinal: int
    _inputs: dict[int, Decoding] = field(default_factory=dict)

    def __call__(self, messages: Messages, partition: int) -> Taken:
        assert not isinstance(messages.payloads, pa.RecordBatch)
        found = _Found()
        changes: list[int] = []
        simulated: list[tuple[int, Simulated]] = []
        batches: dict[tuple[int, int, tuple[str, ...]], list[tuple[int, Again]]] = {}
        for i, record in enumerate(map(_DECODE, messages.payloads)):
            again = record.again
            if record.simulated is not None:
                simulated.append((i, record.simulated))
                continue
            if again is None or again.kind == "control":
                changes.append(i)
                continue
            try:
                self.check(again)
                if again.kind == "source":
                    batches.setdefault((again.ordinal, again.partition, again.header), []).append((i, again))
                elif again.kind == "query":
                    found.pieces.append(self._event(again, i))
                else:
                    found.sends.append((again.bucket % self.spec.buckets, self._send(again, messages.positions[i])))
            except Misfit as reason:
                found.told.append(self._misfit(again, messages, i, str(reason)))
        if changes:
            at = np.array(changes, np.int64)
            taken = self.changes(_at(messages, at, [messages.payloads[i] for i in changes]), partition)
            found.pieces.extend(replace(piece, message=at[piece.message]) for piece in taken.pieces)
        for made in self.simulations(simulated):
            if isinstance(made, Piece):
                found.pieces.append(made)
            else:
                found.told.append(
                    self._told(messages, made[0], f"a simulated event cannot be taken: {made[1]}", made[1])
                )
        for (ordinal, of, header), records in batches.items():
            self._decode(ordinal, of, header, records, messages, found)
        return Taken(found.pieces, (), tuple(found.told), tuple(found.sends))

    # ---- whether it can be

    def check(self, again: Again) -> None:
        """Raises Misfit where the app as it is now cannot take it."""
        if again.kind == "source":
            self._of(self.sources, again, "source")
        elif again.kind == "query":
            self._columns(again)
        elif again.kind == "sink":
            sink = self._of(self.sinks, again, "sink")
            if any(len(row) != len(sink.schema) for _ts, row in again.rows) or not again.rows:
                raise Misfit(f"the stream '{again.stream}' has other attributes now")
            self._send(again, 0)

    def _of(self, known: Mapping[int, Connector], again: Again, what: str) -> Connector:
        found = known.get(again.ordinal)
        if found is None or found.stream != again.stream:
            raise Misfit(f"the app has no such {what} of '{again.stream}' any more")
        return found

    # ---- sources

    def _decode(
        self,
        ordinal: int,
        partition: int,
        header: tuple[str, ...],
        records: Sequence[tuple[int, Again]],
        messages: Messages,
        found: _Found,
    ) -> None:
        """Messages that a source had in one partition, as it decodes them now. They come where the control log has them."""
        at = np.array([i for i, _ in records], np.int64)
        properties = [again.properties for _, again in records]
        given = _at(messages, at, [again.payload for _, again in records])
        given = replace(given, header=header, properties=properties if any(properties) else ())
        taken = self._input(ordinal)(given, partition)
        for piece in taken.pieces:
            found.pieces.append(replace(piece, message=at[piece.message]))
        of = {int(messages.positions[i]): (i, again) for i, again in records}
        found.told.extend(self._undecodable(failure, *of[failure.position], messages) for failure in taken.failures)

    def _undecodable(self, failure: Undecodable, index: int, again: Again, messages: Messages) -> list[Any]:
        """As if it were met for the first time."""
        facts = {"header": list(again.header), "properties": again.properties}
        time = int(messages.times[index])
        return [again.ordinal, again.partition, again.position, time, failure.reason, failure.payload, facts]

    def _input(self, ordinal: int) -> Decoding:
        if ordinal not in self._inputs:
            self._inputs[ordinal] = decoding(self.spec, self.app, self.sources[ordinal])
        return self._inputs[ordinal]

    # ---- streams

    def _event(self, again: Again, index: int) -> Piece:
        """An event at its own time, in the state in which it failed."""
        batch = self._columns(again)
        sharded = self.app.sharding.kind == "key"
        bucket = again.group * self.spec.buckets // KEY_GROUPS if sharded else again.bucket % self.spec.buckets
        split = Split(*(_ints(x) for x in (0, bucket, again.group if sharded else 0, 0)))
        return Piece(again.stream, batch, _ints(index), _ints(again.time), split)

    def _columns(self, again: Again) -> pa.RecordBatch:
        stream = self.app.streams.get(again.stream)
        if stream is None:
            raise Misfit(f"the app has no stream '{again.stream}' any more")
        return event_columns(stream.schema, again.payload)

    # ---- sinks

    def _send(self, again: Again, position: int) -> Send:
        sink = self.sinks[again.ordinal]
        send = Send(int(position), again.ordinal, again.payload, again.rows)
        rows_of([send], sink.schema)
        return send

    def _misfit(self, again: Again, messages: Messages, i: int, reason: str) -> list[Any]:
        return self._told(messages, i, f"error {again.error} could not be sent again: {reason}", reason, again.payload)

    def _told(self, messages: Messages, i: int, why: str, final: str, payload: bytes | None = None) -> list[Any]:
        """A row for the error store about a record: `payload`, or else the whole of it."""
        place = [self.ordinal, 0, int(messages.positions[i]), int(messages.times[i])]
        return [*place, why, messages.payloads[i] if payload is None else payload, {"final": final}]


def event_columns(schema: Schema, payload: bytes) -> pa.RecordBatch:
    """The values of one event, a JSON list, as columns. Raises Misfit."""
    try:
        if is_deep(payload):
            raise Misfit("it is nested too deep")
        values = json.loads(payload)
        if not isinstance(values, list) or len(values) != len(schema):
            raise Misfit(f"wanted is a JSON list of {len(schema)} values: {', '.join(schema.names)}")
        given = [
            json.dumps(v) if c.type is Type.OBJECT and v is not None else v for c, v in zip(schema.columns, values)
        ]
        types = arrow_schema(schema)
        columns = [pa.array([value], field.type) for value, field in zip(given, types)]
    except _BROKEN as problem:
        raise Misfit(f"its values do not fit the stream: {problem}") from problem
    return pa.RecordBatch.from_arrays(columns, schema=types)


def rows_of(sends: Sequence[Send], schema: Schema) -> pa.RecordBatch:
    """The attributes of all rows of some sends. Raises Misfit."""
    types = arrow_schema(schema)
    rows = [row for send in sends for _ts, row in send.rows]
    try:
        columns = [
            pa.array(typed_values([row[i] for row in rows], column.type), types.field(i).type)
            for i, column in enumerate(schema.columns)
        ]
    except (*_BROKEN, IndexError) as problem:
        raise Misfit(f"its rows do not fit the stream: {problem}") from problem
    return pa.RecordBatch.from_arrays(columns, schema=types)


def _at(messages: Messages, at: Ints, payloads: Sequence[bytes]) -> Messages:
    return Messages(messages.positions[at], messages.times[at], payloads)


def _ints(value: int) -> Ints:
    return np.array([value], np.int64)
