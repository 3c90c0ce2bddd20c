"""The texts of the keys of many events, and the key-groups of many texts: what `nadi.kernel.keys` gives, without a Python object for each.

Word after word of all texts that have one, so that a batch with a hundred thousand keys costs some milliseconds. Hosts of the rows kernel have no compiler;
`nadi.kernel.columns.keygroups` has a compiled loop for the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.keys import java_text, key_group
from nadi.kernel.rows.compile import compile_row
from nadi.kernel.rows.flow import Flow
from nadi.lang.tree import Type
from nadi.plan import plan_app
from nadi.plan.nodes import Attr, Expr, Partition, Schema, ValueKey

Texts = Callable[[pa.RecordBatch], pa.Array]
"""The text of each event's key, null where it has none."""
Words = npt.NDArray[np.uint32]
_FIRST, _SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_SHIFTS = np.arange(0, 32, 8, dtype=np.uint32)


def key_groups(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """The key-group of each text; none of them is null.

    >>> key_groups(pa.array(["", "hello"])).tolist()
    [0, 71]
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"\0", np.uint8)
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    value = np.zeros(len(texts), np.uint32)
    whole = sizes >> 2
    active = np.flatnonzero(whole)
    for word in range(int(whole.max(initial=0))):
        active = active[whole[active] > word]
        mixed = value[active] ^ _scrambled(_bytes(data, starts[active] + 4 * word, 4))
        value[active] = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    for size in (1, 2, 3):
        tails = np.flatnonzero(sizes & 3 == size)
        value[tails] ^= _scrambled(_bytes(data, starts[tails] + 4 * whole[tails], size))
    value ^= sizes.astype(np.uint32)
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    value = (value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    groups: npt.NDArray[np.int64] = ((value ^ (value >> np.uint32(16))) % np.uint32(KEY_GROUPS)).astype(np.int64)
    return groups


def _bytes(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], count: int) -> Words:
    """Some bytes from each place as a number, the first one the least."""
    found = data[at[:, None] + np.arange(count)].astype(np.uint32)
    together: Words = np.bitwise_or.reduce(found << _SHIFTS[:count], axis=1, dtype=np.uint32)
    return together


def _scrambled(block: Words) -> Words:
    return _rotated(block * _FIRST, 15) * _SECOND


def _rotated(value: Words, bits: int) -> Words:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))


def texts_of(expression: Expr, schema: Schema, strict: bool = True) -> Texts:
    """What gives the texts of a key that is an expression over the attributes of an event. Where it is not `strict`, an event whose key fails has none."""
    if isinstance(expression, Attr):
        position = expression.position
        return lambda batch: attribute_texts(batch.column(position), expression.type)
    key_of = compile_row(expression, Flow(key_group), {})
    width = len(schema)

    def computed(batch: pa.RecordBatch) -> pa.Array:
        columns = [batch.column(i).to_pylist() for i in range(width)]
        keys = [key(row) for row in zip(*columns)]
        return pa.array([None if k is None else java_text(k, expression.type) for k in keys], pa.string())

    def key(row: tuple[object, ...]) -> object:
        try:
            return key_of(row, 0)
        except NadiError:
            if strict:
                raise
            return None

    return computed


def attribute_texts(column: pa.Array, kind: Type) -> pa.Array:
    """The texts of the values of an attribute."""
    if pa.types.is_string(column.type):
        return column
    coded = column.dictionary_encode()
    texts = pa.array([None if v is None else java_text(v, kind) for v in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


def texts_of_key(text: str, schema: Schema) -> Texts:
    """As `texts_of`, not strict, for a key that is written as an expression over the attributes of a stream. Errors: those of the language and of the plan."""
    columns = ", ".join(f"`{c.name}` {c.type}" for c in schema.columns)
    app = plan_app(
        f"define stream Keyed ({columns}); partition with ({text} of Keyed) begin from Keyed select * insert into Out; end;",
        default_registry(),
    )
    (partition,) = app.elements
    assert isinstance(partition, Partition)
    (key,) = partition.keys
    assert isinstance(key, ValueKey)
    return texts_of(key.value, schema, strict=False)
