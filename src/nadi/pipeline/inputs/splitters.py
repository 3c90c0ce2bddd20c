"""Which bucket an event belongs to, and where runs of equal keys are cut (semantics/tables.md#partitions)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.keytexts import key_groups, texts_of
from nadi.plan.nodes import App, Schema
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
        texts = texts_of(expression, schema)
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
    texts = texts_of(keys[0], schema)
    return lambda batch, message, _partition: _by_key(texts(batch), message, buckets)


def _to_one_bucket(batch: pa.RecordBatch, _message: Ints, _partition: int) -> Split:
    return _all_to(0, batch)


def _all_to(bucket: int, batch: pa.RecordBatch) -> Split:
    n = batch.num_rows
    zeros = np.zeros(n, np.int64)
    return Split(np.arange(n), np.full(n, bucket, np.int64), zeros, zeros)


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
