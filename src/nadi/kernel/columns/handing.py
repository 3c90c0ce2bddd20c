"""What columns hand on to rows: stretches as arrivals at the places of those that they come from (columns/rows.md#side-by-side)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.stretch import Array, Longs, Stretch, values_of
from nadi.kernel.contract import ARRIVAL_COLUMNS, POSITION, RUN, ArrivalBatch
from nadi.plan.nodes import Schema

_ORDER, _ORDINAL, _PARTITION = range(3)


class Handing:
    """`handed` as `nadi.plan.columns.islands` has it: by input the streams that one event of it comes to on rows, in order."""

    def __init__(self, handed: Mapping[str, Sequence[str]], schemas: Mapping[str, Schema]) -> None:
        self._handed = {root: tuple(streams) for root, streams in handed.items()}
        self._schemas = {
            stream: pa.schema([*arrow_schema(schemas[stream]), *ARRIVAL_COLUMNS])
            for root, streams in handed.items()
            for stream in streams
            if stream != root
        }

    def arrivals(
        self, given: Sequence[ArrivalBatch], streams: Mapping[str, Stretch], own: Sequence[ArrivalBatch]
    ) -> list[ArrivalBatch]:
        """What rows get.

        Args:
            given: the arrivals that columns took.
            streams: what they made of them.
            own: the arrivals that go to rows anyway.

        Of an input that hands something on, positions are the numbers of chunks, and runs are the turns in which one chunk and what was made of it come.
        """
        made = {s: _Made(streams[s]) for s in self._schemas if s in streams}
        if not made:
            return list(own)
        places = _Places(given)
        result = [a for a in own if a.input not in self._handed]
        for root, order in self._handed.items():
            ordinals = [a.ordinal for a in given if a.input == root]
            # what comes of several inputs has its turn among the chunks of each
            here = np.isin(places.marks[_ORDINAL], ordinals)
            turn = np.zeros(places.marks.shape[1], np.int64)
            for stream in order if root in order else (root, *order):
                if stream == root:
                    result += [places.numbered(a, turn) for a in own if a.input == root and a.batch.num_rows]
                    turn += 1
                elif stream in made:
                    result += made[stream].batches(stream, self._schemas[stream], places.marks, here, turn)
                    turn += made[stream].counts(len(turn))
        return result


class _Made:
    """A stretch that is handed on: the chunk of its input in which each event came, and which of the chunks made of that it is in, from 0."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self._origin = stretch.chunk if stretch.origin is None else stretch.origin
        self._opens = np.concatenate([[True], (np.diff(stretch.chunk) != 0) | (np.diff(self._origin) != 0)])
        first = np.concatenate([[True], np.diff(self._origin) != 0])
        turns = np.cumsum(self._opens) - 1
        self._within = turns - turns[np.flatnonzero(first)][np.cumsum(first) - 1]

    def counts(self, size: int) -> Longs:
        """How many chunks were made of each."""
        return np.bincount(self._origin[self._opens], minlength=size)

    def batches(self, stream: str, schema: pa.Schema, marks: Array, here: Array, turn: Longs) -> Iterator[ArrivalBatch]:
        """The events that came of some chunks, by partition of their input."""
        at = np.flatnonzero(here[self._origin])
        if not len(at):
            return
        whole = len(at) == len(self._stretch)
        some = self._stretch if whole else self._stretch.take(at)
        origin = self._origin if whole else self._origin[at]
        group = np.zeros(len(some), np.int64) if some.group is None else some.group
        columns = [
            *(column.array() for column in some.columns),
            pa.array(marks[_ORDER, origin]),
            pa.array(origin),
            pa.array((turn[origin] + self._within[at]).astype(np.int32)),
            pa.array(some.ts),
            pa.array(group.astype(np.int16)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        found, which = np.unique(marks[[_ORDINAL, _PARTITION]][:, origin], axis=1, return_inverse=True)
        for number, (ordinal, partition) in enumerate(found.T.tolist()):
            rows = batch if found.shape[1] == 1 else batch.filter(pa.array(which.reshape(-1) == number))
            yield ArrivalBatch(stream, ordinal, partition, rows)


class _Places:
    """The chunks of arrivals as columns number them: `marks` has order time, ordinal, partition, position and run of each."""

    def __init__(self, given: Sequence[ArrivalBatch]) -> None:
        found, self._local, start = [], [], 0
        for arrival in given:
            if not arrival.batch.num_rows:
                continue
            order, position, run = (_column(arrival, c.name) for c in ARRIVAL_COLUMNS[:3])
            opens = np.concatenate([[True], (np.diff(position) != 0) | (np.diff(run) != 0)])
            count = int(np.count_nonzero(opens))
            source = np.full(count, arrival.ordinal), np.full(count, arrival.partition)
            found.append(np.stack([order[opens], *source, position[opens], run[opens]]))
            self._local.append((arrival, start + np.cumsum(opens) - 1))
            start += count
        made = np.concatenate(found, axis=1)
        sorted_ = np.lexsort(made[::-1])
        self.marks: Array = made[:, sorted_]
        self._numbers = np.empty(len(sorted_), np.int64)
        self._numbers[sorted_] = np.arange(len(sorted_))

    def numbered(self, arrival: ArrivalBatch, turn: Longs) -> ArrivalBatch:
        """An arrival of an input whose chunks are known by their numbers."""
        local = next(local for known, local in self._local if known is arrival)
        numbers, batch = self._numbers[local], arrival.batch
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns[POSITION] = pa.array(numbers)
        columns[RUN] = pa.array(turn[numbers].astype(np.int32))
        return replace(arrival, batch=pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema))


def _column(arrival: ArrivalBatch, name: str) -> Longs:
    values: Longs = values_of(arrival.batch.column(name)).astype(np.int64)
    return values
