"""What columns hand on to rows: stretches as arrivals at the places of those that they come from (design §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.stretch import Array, Longs, Stretch, values_of
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.plan.nodes import Schema

_ORDER, _ORDINAL, _PARTITION, _POSITION, _RUN = range(5)


class Handing:
    """`handed` as `nadi.plan.islands` has it: by input the streams that one event of it comes to on rows, in order."""

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

        Events at the same place come in the order in which batches stand in the result, as heads of a merge that is stable.
        """
        if not any(stream in streams for stream in self._schemas):
            return list(own)
        places = _places(given)
        behind = [a for a in own if a.input not in self._handed]
        for root, order in self._handed.items():
            if root not in order:
                behind += [a for a in own if a.input == root]
            for stream in order:
                if stream == root:
                    behind += [a for a in own if a.input == root]
                elif stream in streams:
                    behind += self._batches(stream, streams[stream], places)
        return behind

    def _batches(self, stream: str, made: Stretch, places: Array) -> Iterator[ArrivalBatch]:
        """The events of a stream by input and partition."""
        at = places[:, made.chunk if made.origin is None else made.origin]
        runs = at[_RUN] if made.origin is None else at[_RUN] + _within(made.chunk, made.origin)
        group = np.zeros(len(made), np.int64) if made.group is None else made.group
        marks = (
            pa.array(at[_ORDER]),
            pa.array(at[_POSITION]),
            pa.array(runs.astype(np.int32)),
            pa.array(made.ts),
            pa.array(group.astype(np.int16)),
        )
        columns = [*(column.array() for column in made.columns), *marks]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schemas[stream])
        found, which = np.unique(at[[_ORDINAL, _PARTITION]], axis=1, return_inverse=True)
        for number, (ordinal, partition) in enumerate(found.T.tolist()):
            rows = batch if found.shape[1] == 1 else batch.filter(pa.array(which.reshape(-1) == number))
            yield ArrivalBatch(stream, ordinal, partition, rows)


def _within(chunk: Longs, origin: Longs) -> Longs:
    """Which of the chunks of its origin each event is in, from 0."""
    opens = np.concatenate([[True], np.diff(origin) != 0])
    turns = np.concatenate([[0], np.cumsum(np.diff(chunk) != 0)])
    made: Longs = turns - turns[np.flatnonzero(opens)][np.cumsum(opens) - 1]
    return made


def _places(given: Sequence[ArrivalBatch]) -> Array:
    """The places of the chunks of arrivals, by their numbers: order time, ordinal, partition, position, run."""
    found = []
    for arrival in given:
        if not arrival.batch.num_rows:
            continue
        order, position, run = (values_of(arrival.batch.column(c.name)).astype(np.int64) for c in ARRIVAL_COLUMNS[:3])
        opens = np.concatenate([[True], (np.diff(position) != 0) | (np.diff(run) != 0)])
        count = int(np.count_nonzero(opens))
        source = np.full(count, arrival.ordinal), np.full(count, arrival.partition)
        found.append(np.stack([order[opens], *source, position[opens], run[opens]]))
    made = np.concatenate(found, axis=1)
    return made if len(found) == 1 else made[:, np.lexsort(made[::-1])]
