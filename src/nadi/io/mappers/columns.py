"""Between stream schemas and Arrow: types, batches out of columns, bounds of chunks, values as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nadi.io.contract import Decoded, Messages, SourceMapper
from nadi.kernel.contract import CHUNK, GROUP
from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

ARROW: dict[Type, pa.DataType] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.FLOAT: pa.float32(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
    Type.OBJECT: pa.string(),  # holds JSON
}
INT_RANGE = {Type.INT: (-(2**31), 2**31 - 1), Type.LONG: (-(2**63), 2**63 - 1)}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of a stream as Arrow has them."""
    return pa.schema([pa.field(c.name, ARROW[c.type]) for c in schema.columns])


def batch_of(schema: Schema, columns: Sequence[Sequence[object] | pa.Array]) -> pa.RecordBatch:
    """A batch from columns of one length, Python values of the right types or Arrow arrays."""
    arrays = [
        given if isinstance(given, pa.Array) else pa.array(given, ARROW[c.type])
        for c, given in zip(schema.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def chunk_bounds(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The first row of every chunk of an output batch: rows of equal group and chunk number that follow each other."""
    if batch.num_rows == 0:
        return np.zeros(0, np.int64)
    groups, chunks = batch.column(GROUP).to_numpy(), batch.column(CHUNK).to_numpy()
    changes = (groups[1:] != groups[:-1]) | (chunks[1:] != chunks[:-1])
    return np.concatenate(([0], np.flatnonzero(changes) + 1)).astype(np.int64)


def shortest_doubles(array: pa.Array) -> pa.Array:
    """Float32 values as the doubles that print as short as the float32 does (1.1f as 1.1, not 1.10000002384)."""
    return pc.cast(pc.cast(array, pa.string()), pa.float64())


def as_text(array: pa.Array, kind: Type) -> pa.Array:
    """Values as strings: numbers as short as they read back exactly, with a point for float and double (1.0); null stays null."""
    if kind in (Type.STRING, Type.OBJECT):
        return array
    text = pc.cast(array, pa.string())
    if kind in (Type.FLOAT, Type.DOUBLE):
        whole = pc.match_substring_regex(text, r"^-?\d+$")
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
        for short, java in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            text = pc.if_else(pc.equal(text, short), java, text)
    return text


def with_event_time(mapper: SourceMapper, attribute: str) -> SourceMapper:
    """The mapper with `event.time`: an event's own timestamp is the value of a long attribute, the log's time where that is null."""
    return _EventTime(mapper, attribute)


class _EventTime:
    def __init__(self, inner: SourceMapper, attribute: str) -> None:
        self._inner = inner
        self._attribute = attribute

    def decode(self, messages: Messages) -> Decoded:
        found = self._inner.decode(messages)
        own = found.batch.column(self._attribute)
        if own.null_count:
            own = pc.coalesce(own, pa.array(messages.times[found.message]))
        timestamps: npt.NDArray[np.int64] = own.to_numpy(zero_copy_only=False).astype(np.int64)
        return Decoded(found.batch, found.message, timestamps, found.failures)
