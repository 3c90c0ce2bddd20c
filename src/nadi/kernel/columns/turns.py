"""Events that come from outside for a stream that a query makes (what failed there and is sent again): a batch is taken in parts around them.

Results do not depend on how arrivals are split, so that these may stand alone, as the only events of their stream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.contract import ORDER, POSITION, RUN, ArrivalBatch, Failure, Outputs

Part = tuple[list[ArrivalBatch], int | None]
"""Arrivals, and the clock at which they end (ms), None for that of the whole."""


def in_turns(arrivals: Sequence[ArrivalBatch], made: Collection[str]) -> Iterator[Part]:
    """Arrivals in parts, in order; each chunk for one of the streams `made` is a part of its own."""
    taken = [0] * len(arrivals)
    until = list(taken)
    for place, number, end in sorted(chunk for n, a in enumerate(arrivals) for chunk in _chunks(a, n)):
        if arrivals[number].input not in made:
            until[number] = end
            continue
        yield [*_slices(arrivals, taken, until)], place[0]
        taken[:] = until
        until[number] = end
        yield [*_slices(arrivals, taken, until)], place[0]
        taken[:] = until
    yield [*_slices(arrivals, taken, until)], None


def _chunks(arrival: ArrivalBatch, number: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The place of each chunk of a batch, the batch, and the row behind it."""
    names = arrival.batch.schema.names
    orders, positions, runs = (arrival.batch.column(names.index(n)).to_pylist() for n in (ORDER, POSITION, RUN))
    for row, (order, position, run) in enumerate(zip(orders, positions, runs)):
        if row + 1 == len(orders) or (positions[row + 1], runs[row + 1]) != (position, run):
            yield (order, arrival.ordinal, arrival.partition, position, run), number, row + 1


def _slices(arrivals: Sequence[ArrivalBatch], taken: Sequence[int], until: Sequence[int]) -> Iterator[ArrivalBatch]:
    for arrival, start, end in zip(arrivals, taken, until, strict=True):
        if end > start:
            yield replace(arrival, batch=arrival.batch.slice(start, end - start))


def together(parts: Iterable[Outputs]) -> Outputs:
    """What the parts of a batch gave, as what the batch gave."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    orders: dict[str, list[npt.NDArray[np.int64]]] = {}
    counts: dict[str, int] = {}
    failures: list[Failure] = []
    for part in parts:
        for stream, batch in part.batches.items():
            batches.setdefault(stream, []).append(batch)
            orders.setdefault(stream, []).append(part.orders[stream])
        for stream, count in part.counts.items():
            counts[stream] = counts.get(stream, 0) + count
        failures += part.failures
    whole = {
        stream: some[0] if len(some) == 1 else pa.Table.from_batches(some).combine_chunks().to_batches()[0]
        for stream, some in batches.items()
    }
    return Outputs(whole, tuple(failures), counts, {stream: np.concatenate(some) for stream, some in orders.items()})
