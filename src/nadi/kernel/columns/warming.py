"""Compiling ahead: all loops that an app needs on columns, so that others find them in the cache."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.tables import target_of
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.lang.tree import Type
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App, Schema
from nadi.plan.walk import read

_VALUES: dict[Type, list[Any]] = {
    Type.STRING: ["a", "b", None, "a"],
    Type.BOOL: [True, False, None, True],
    Type.OBJECT: [None, None, None, None],
}
_NUMBERS = [1, 2, None, 3]


def warm(app: App, registry: Any, outputs: Collection[str] = ()) -> int:
    """Make the columns kernel of an app, and let it see some events, so that everything is compiled; how many of its queries run there."""
    part = islands(app)
    if not part.order:
        return 0
    produced = {target_of(q) for q in app.queries if q.id in part.order}
    inputs = {source for q in app.queries if q.id in part.order for source in read(q).values()}
    inputs -= produced | app.tables.keys()
    here = [key for key in outputs if key in produced] if part.mixed else list(outputs)
    kernels = [ColumnsKernel(app, registry, here, part) for _ in range(2)]
    kernel, other = kernels
    kernel.start(0)
    for turn in range(3):
        kernel.process(list(_events(app, inputs, 10 * turn)), 10 * turn + 9)
        if turn < 2:
            kernel.delta()
    state = [*kernel.dump()]
    kernel.process(list(_events(app, inputs, 40)), 10_000_000)
    other.load([*state, kernel.delta()])
    other.process(list(_events(app, inputs, 50)), 10_000_001)
    return len(part.order)


def _events(app: App, inputs: Collection[str], start: int) -> Iterator[ArrivalBatch]:
    """Two messages of two events for each input."""
    for ordinal, stream in enumerate(sorted(inputs)):
        schema: Schema = app.streams[stream].schema
        types = arrow_schema(schema)
        given = [
            pa.array(_VALUES.get(c.type, _NUMBERS), field.type) for c, field in zip(schema.columns, types, strict=True)
        ]
        places = [[start] * 4, [start, start, start + 1, start + 1], [0] * 4, [start] * 4, [0] * 4]
        marks = [pa.array(values, f.type) for values, f in zip(places, ARRIVAL_COLUMNS, strict=True)]
        batch = pa.RecordBatch.from_arrays([*given, *marks], schema=pa.schema([*types, *ARRIVAL_COLUMNS]))
        yield ArrivalBatch(stream, ordinal, 0, batch)
