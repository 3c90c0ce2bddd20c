"""The events of a cut message by message, in the order in which a kernel sees them, to find the one that hosts die of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nadi.kernel.contract import ORDER, POSITION, ArrivalBatch
from nadi.pipeline.cutting.cuts import Place
from nadi.pipeline.inputs.fatrows import Gathered


@dataclass(frozen=True, slots=True)
class One:
    """The events that one message has in a bucket; the kernel's clock goes to `until`."""

    place: Place
    position: int
    arrival: ArrivalBatch
    until: int


def one_by_one(gathered: Gathered) -> Iterator[One]:
    """Each message of a cut by (order time, input, partition, position)."""
    found: list[tuple[tuple[int, int, int, int, int], ArrivalBatch, int, int]] = []
    for number, arrival in enumerate(gathered.arrivals):
        orders = arrival.batch.column(ORDER).to_numpy()
        positions = arrival.batch.column(POSITION).to_numpy()
        begins = np.flatnonzero(np.diff(positions, prepend=-1)).tolist()
        for begin, end in zip(begins, [*begins[1:], len(positions)], strict=True):
            key = int(orders[begin]), arrival.ordinal, arrival.partition, int(positions[begin]), number
            found.append((key, arrival, begin, end))
    for (until, ordinal, partition, position, _), arrival, begin, end in sorted(found, key=lambda f: f[0]):
        # a slice would have an offset, and kernels read buffers from their beginning
        rows = arrival.batch.take(pa.array(np.arange(begin, end)))
        yield One((ordinal, partition), position, replace(arrival, batch=rows), until)
