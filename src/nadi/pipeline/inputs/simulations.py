"""Events of simulations: from records of the control log to events of streams, split over the buckets as those of a source are.

Each event is a chunk of its own, however many of them a record has: what comes of them does not depend on how they were gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa

from nadi.io.controllog import Simulated
from nadi.kernel.arrow import arrow_schema
from nadi.lang.tree import Type
from nadi.pipeline.inputs.faults import typed_values
from nadi.pipeline.inputs.misfit import Misfit
from nadi.pipeline.inputs.pieces import Piece
from nadi.pipeline.inputs.splitters import Splitter, make_any_splitter
from nadi.plan.nodes import App, Schema

BROKEN = (ValueError, TypeError, OverflowError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class SimulationTake:
    """What is made of the simulated events of an app."""

    app: App
    buckets: int
    _splitters: dict[str, Splitter] = field(default_factory=dict)

    def __call__(self, records: Sequence[tuple[int, Simulated]]) -> Iterator[Piece | tuple[int, str]]:
        """The events of records, each with its index among the messages; or the index of a record that does not fit the app, and why."""
        by_stream: dict[str, list[tuple[int, Simulated]]] = {}
        for i, simulated in records:
            by_stream.setdefault(simulated.stream, []).append((i, simulated))
        for stream, some in by_stream.items():
            try:
                yield self._piece(stream, some)
            except Misfit as reason:
                if len(some) == 1:
                    yield some[0][0], str(reason)
                    continue
                for i, simulated in some:  # those that fit are taken
                    yield from self([(i, simulated)])

    def _piece(self, stream: str, some: Sequence[tuple[int, Simulated]]) -> Piece:
        """Raises Misfit where one of the records does not fit."""
        schema, split = self._stream(stream)
        counts = [len(simulated.stamps) for _, simulated in some]
        if any(_is_torn(simulated, len(schema)) for _, simulated in some):
            raise Misfit(f"wanted are values of {', '.join(schema.names)}")
        columns = [[v for _, s in some for v in s.columns[at]] for at in range(len(schema))]
        batch = columns_of(schema, columns, sum(counts))
        message = np.repeat(np.array([i for i, _ in some], np.int64), counts)
        stamps = np.array([stamp for _, s in some for stamp in s.stamps], np.int64)
        places = split(batch, message, 0)
        within = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
        return Piece(stream, batch, message, stamps, replace(places, runs=within[places.kept]))

    def _stream(self, name: str) -> tuple[Schema, Splitter]:
        stream = self.app.streams.get(name)
        if stream is None:
            raise Misfit(f"the app has no stream '{name}' any more")
        if name not in self._splitters:
            try:
                self._splitters[name] = make_any_splitter(self.app, name, stream.schema, self.buckets)
            except ValueError as reason:
                raise Misfit(str(reason)) from reason
        return stream.schema, self._splitters[name]


def columns_of(schema: Schema, columns: Sequence[Sequence[object]], count: int) -> pa.RecordBatch:
    """The values of some events by attribute. Raises Misfit."""
    types = arrow_schema(schema)
    try:
        made: list[pa.Array] = [
            pa.array(_plain(values, column.type), types.field(i).type)
            for i, (values, column) in enumerate(zip(columns, schema.columns, strict=True))
        ]
    except BROKEN as problem:
        raise Misfit(f"its values do not fit the stream: {problem}") from problem
    if not made:
        raise Misfit("the stream has no attributes")
    return pa.RecordBatch.from_arrays(made, schema=types)


def _plain(values: Sequence[object], kind: Type) -> list[object]:
    if kind is Type.OBJECT:
        return [None if v is None else msgspec.json.encode(v).decode() for v in values]
    return typed_values(values, kind)


def _is_torn(simulated: Simulated, width: int) -> bool:
    return len(simulated.columns) != width or any(len(c) != len(simulated.stamps) for c in simulated.columns)
