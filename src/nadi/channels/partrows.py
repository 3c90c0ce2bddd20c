"""The rows of a part in one cut of a producer, put together from the batches of its buckets, in the order in which readers take them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.channels.records import OPENS
from nadi.channels.tracks import Stretch
from nadi.errors import error
from nadi.kernel.contract import ORDER

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows with, for each, its order time (ms, ascending) and the number of its chunk in the part."""

    batch: pa.RecordBatch
    orders: Ints
    positions: Ints

    def between(self, start: int, end: int) -> Rows:
        """The rows of the chunks [start, end)."""
        a, b = np.searchsorted(self.positions, [start, end]).tolist()
        if (a, b) == (0, len(self.positions)):
            return self
        return Rows(self.batch.slice(a, b - a), self.orders[a:b], self.positions[a:b])

    def first_after(self, time: int, start: int) -> int | None:
        """The first chunk from `start` on that is later than a time, None where none is."""
        at = int(np.searchsorted(self.orders, time, side="right"))
        return None if at == len(self.orders) else max(start, int(self.positions[at]))


def merged(stretch: Stretch, batches: Sequence[pa.RecordBatch]) -> Rows:
    """What the pieces of a stretch have; rows of several buckets by order time, then by bucket. Errors: CHANNEL_RECORD."""
    batch = batches[0] if len(batches) == 1 else _together(batches)
    orders = _column(batch, ORDER).to_numpy()
    if len(batches) > 1 and bool((np.diff(orders) < 0).any()):
        places = np.argsort(orders, kind="stable")  # the rows of a chunk came out at one time: they stay together
        batch = batch.take(pa.array(places))
        orders = orders[places]
    opens = _column(batch, OPENS).to_numpy(zero_copy_only=False)
    positions = stretch.start - 1 + np.cumsum(opens, dtype=np.int64)
    if not len(opens) or not opens[0] or int(positions[-1]) + 1 != stretch.end:
        raise error("CHANNEL_RECORD", reason=f"the batches of chunks {stretch.start} to {stretch.end} have others")
    return Rows(batch, np.maximum(orders, stretch.floor), positions)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    try:
        return pa.Table.from_batches(list(batches)).combine_chunks().to_batches()[0]
    except pa.ArrowInvalid as reason:
        raise error("CHANNEL_RECORD", reason=str(reason)) from reason


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    if at < 0:
        raise error("CHANNEL_RECORD", reason=f"a batch has no column {name}")
    return batch.column(at)
