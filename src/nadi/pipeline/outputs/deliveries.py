"""What goes to a sink in a cut: the rows of its stream, and behind them the payloads that are sent again.

A payload that is sent again is what it was, byte for byte, but for the numbers of its rows: these have key-group -1 and count on from the position of the
record that asks for it, so that a receiver that keeps the last number of each group does not take it for one that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from nadi.io.contract import Connector, Delivery, SinkMapper
from nadi.kernel.contract import OUTPUT_COLUMNS
from nadi.pipeline.inputs.again import rows_of
from nadi.pipeline.inputs.sends import Send

AGAIN = -1
"""The key-group of rows that are sent again."""
APART = 1 << 20
"""Rows of one payload have numbers from its position times this on: more than a payload ever has."""


def delivery(
    place: tuple[int, int], sink: Connector, mapper: SinkMapper, rows: pa.RecordBatch | None, sends: Sequence[Send]
) -> Delivery | None:
    """What a sink gets at (bucket, cut); None for nothing."""
    count = 0 if rows is None else rows.num_rows
    encoded, starts = mapper.encode(rows) if rows is not None and count else ([], [])
    if not sends:
        return Delivery(*place, rows, encoded, starts) if rows is not None and count else None
    payloads, firsts = [*encoded], [*starts]
    for send in sends:
        payloads.append(send.payload)
        firsts.append(count)
        count += len(send.rows)
    again = _numbered(sink, sends)
    whole = again if rows is None or not rows.num_rows else pa.concat_batches([rows, again.cast(rows.schema)])
    return Delivery(*place, whole, payloads, firsts)


def _numbered(sink: Connector, sends: Sequence[Send]) -> pa.RecordBatch:
    batch = rows_of(sends, sink.schema)
    firsts = [send.position * APART for send in sends for _row in send.rows]
    numbers = [send.position * APART + i for send in sends for i in range(len(send.rows))]
    times = [ts for send in sends for ts, _row in send.rows]
    added = [
        pa.array(values, column.type)
        for values, column in zip((numbers, firsts, times, [AGAIN] * len(times)), OUTPUT_COLUMNS, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=pa.schema([*batch.schema, *OUTPUT_COLUMNS]))
