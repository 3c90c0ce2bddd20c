"""Which bucket an event belongs to, and where runs of equal keys are cut (language text §11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.keys import java_text, key_group
from nadi.kernel.rows.compile import compile_row
from nadi.kernel.rows.flow import Flow
from nadi.lang.tree import Type
from nadi.pipeline.inputs.keygroups import key_groups
from nadi.plan.nodes import App, Attr, Expr, Schema
from nadi.plan.render import written
from nadi.plan.sharding import keys_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """Arrays of one length: the indices of the events that are kept, and for each its bucket, key-group and run within its message."""

    kept: Ints
    buckets: Ints
    groups: Ints
    runs: Ints


Splitter = Callable[[pa.RecordBatch, Ints, int], Split]
"""(events, index of each event's message, input partition) → split."""


def make_splitter(app: App, stream: str, schema: Schema, buckets: int) -> Splitter:
    """How the events of a stream are spread over the buckets, as the app's sharding says."""
    if app.sharding.kind == "key":
        expression = dict(app.sharding.keys).get(stream)
        if expression is None:  # no query of a sharded app reads this stream
            return _to_one_bucket
        texts = _texts_of(expression, schema)
        return lambda batch, message, _partition: _by_key(texts(batch), message, buckets)
    if app.sharding.kind == "partition":
        return lambda batch, message, partition: _all_to(partition % buckets, batch)
    return _to_one_bucket


def make_any_splitter(app: App, stream: str, schema: Schema, buckets: int) -> Splitter:
    """As `make_splitter`, for events from outside of any stream: those that a query makes otherwise are split by what says which state they meet.

    Raises ValueError where no one value of an event says that.
    """
    if app.sharding.kind != "key" or stream in dict(app.sharding.keys):
        return make_splitter(app, stream, schema, buckets)
    keys = keys_of(app, stream)
    if len(keys) > 1:
        named = " and ".join(map(written, keys))
        raise ValueError(f"the state that an event of '{stream}' meets is found by {named}, which may differ")
    if not keys:
        return _to_one_bucket
    texts = _texts_of(keys[0], schema)
    return lambda batch, message, _partition: _by_key(texts(batch), message, buckets)


def _to_one_bucket(batch: pa.RecordBatch, _message: Ints, _partition: int) -> Split:
    return _all_to(0, batch)


def _all_to(bucket: int, batch: pa.RecordBatch) -> Split:
    n = batch.num_rows
    zeros = np.zeros(n, np.int64)
    return Split(np.arange(n), np.full(n, bucket, np.int64), zeros, zeros)


def _texts_of(expression: Expr, schema: Schema) -> Callable[[pa.RecordBatch], pa.Array]:
    """The text of each event's key, null where it has none."""
    if isinstance(expression, Attr):
        position = expression.position
        return lambda batch: _attribute_texts(batch.column(position), expression.type)
    key_of = compile_row(expression, Flow(key_group), {})
    width = len(schema)

    def computed(batch: pa.RecordBatch) -> pa.Array:
        columns = [batch.column(i).to_pylist() for i in range(width)]
        keys = [key_of(row, 0) for row in zip(*columns)]
        return pa.array([None if k is None else java_text(k, expression.type) for k in keys], pa.string())

    return computed


def _attribute_texts(column: pa.Array, kind: Type) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    coded = column.dictionary_encode()
    texts = pa.array([None if v is None else java_text(v, kind) for v in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


def _by_key(texts: pa.Array, message: Ints, buckets: int) -> Split:
    coded = texts.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    group_of_code = key_groups(coded.dictionary)
    kept = np.flatnonzero(codes >= 0)
    codes, message = codes[kept], message[kept]
    groups = group_of_code[codes] if len(kept) else np.zeros(0, np.int64)
    return Split(kept, groups * buckets // KEY_GROUPS, groups, _runs(codes, message))


def _runs(codes: Ints, message: Ints) -> Ints:
    """The number of the run of equal keys within its message, for each event."""
    n = len(codes)
    if n == 0:
        return np.zeros(0, np.int64)
    new_message = np.empty(n, bool)
    new_message[0] = True
    new_message[1:] = message[1:] != message[:-1]
    new_run = new_message.copy()
    new_run[1:] |= codes[1:] != codes[:-1]
    run = np.cumsum(new_run) - 1
    first = np.maximum.accumulate(np.where(new_message, run, 0))
    return run - first
