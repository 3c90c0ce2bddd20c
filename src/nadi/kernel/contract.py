"""What a kernel is, whatever it is made of: a pure state machine over arrivals, with a clock of its own.

An **arrival** is one chunk: the events of one message of an input, or, in an app that is sharded by key, a run of events
with equal keys within it. Arrivals come in the order (order time, input, partition, position, run); a chunk is never merged with another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.plan.nodes import OnDemand

KEY_GROUPS = 128

# Columns that stand after the attributes in the tables of arrivals and outputs.
ORDER = "__order"  # int64: order time, ms
POSITION = "__position"  # int64: position in the log of the partition
RUN = "__run"  # int32: number of the run of equal keys within the message
TS = "__ts"  # int64: the event's own timestamp, ms
GROUP = "__group"  # int16: key-group, 0 where the app is not sharded by key
NUMBER = "__number"  # int64: number of an output row within (output, key-group), from 0
CHUNK = "__chunk"  # int64: number of the output row that opens the chunk, within (output, key-group)

ARRIVAL_COLUMNS = (
    pa.field(ORDER, pa.int64(), nullable=False),
    pa.field(POSITION, pa.int64(), nullable=False),
    pa.field(RUN, pa.int32(), nullable=False),
    pa.field(TS, pa.int64(), nullable=False),
    pa.field(GROUP, pa.int16(), nullable=False),
)
OUTPUT_COLUMNS = (
    pa.field(NUMBER, pa.int64(), nullable=False),
    pa.field(CHUNK, pa.int64(), nullable=False),
    pa.field(TS, pa.int64(), nullable=False),
    pa.field(GROUP, pa.int16(), nullable=False),
)


@dataclass(frozen=True, slots=True)
class ArrivalBatch:
    """Arrivals of one partition of one input, in order.

    `input` is the key of the stream, `ordinal` its place among the app's inputs, `batch` has the attributes of the stream and ARRIVAL_COLUMNS.
    """

    input: str
    ordinal: int
    partition: int
    batch: pa.RecordBatch


Row = tuple[Any, ...]
"""The values of an event or of a row of a table."""

Arrivals = Sequence[ArrivalBatch]


@dataclass(frozen=True, slots=True)
class Failure:
    """An event that a query could not process: it was dropped at the stream that delivered it (or sent to its fault stream)."""

    stream: str
    timestamp: int
    row: tuple[object, ...]
    condition: str
    message: str
    routed: bool  # whether it went to the fault stream
    group: int = 0  # the key-group in which it failed


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one `process` gave: per output stream its attributes and OUTPUT_COLUMNS, and the events that failed."""

    batches: dict[str, pa.RecordBatch]
    failures: tuple[Failure, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # events that passed each stream, for metrics
    orders: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    """The clock of the kernel when each row of a batch came out, ms; not before that of the row before."""


@dataclass(frozen=True, slots=True)
class Segment:
    """State of one element in one key-group, in the format of `nadi.kernel.rows.state` or `nadi.kernel.columns.flat`.

    A large one is several segments, which follow each other and are to be loaded in this order.
    """

    element: str
    group: int
    payload: bytes


class Kernel(Protocol):
    """The engine of one bucket."""

    def start(self, now: int) -> None:
        """Begin at clock `now` (ms): timers of the start, `at 'start'` triggers. Not called on a kernel that was loaded."""
        ...

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        """Take arrivals in order, timers in between at their due times, then the timers due up to `until` (ms)."""
        ...

    def next_timer(self) -> int | None:
        """When the next timer is due, ms of the arrival clock; None where none waits (or only event time moves them)."""
        ...

    def delta(self) -> bytes:
        """What changed since the last `delta` (or `dump`, or `load`); empty bytes where nothing did."""
        ...

    def dump(self) -> Iterable[Segment]:
        """All state, by element and key-group."""
        ...

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state: segments of a dump first, then deltas in the order in which they were made."""
        ...

    def find(self, question: OnDemand) -> list[Row]:
        """The rows of a store that an on-demand find is about, before its selection. Changes nothing."""
        ...

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        """What the selection of a find makes of such rows (of all buckets together): grouping, order, limits."""
        ...

    def size(self) -> dict[str, int]:
        """How many entries (events, groups, rows, partial matches) each element holds, by element id."""
        ...
