"""`@map(type='arrow')` and `@map(type='parquet')`: events as they are, without a text between.

Source: a message is an Arrow IPC stream (all its rows are one chunk), or a row of a typed log (parquet files). Columns belong to attributes by
name, or as `@attributes(a='column')` says; ints are widened, whole numbers must be in range; dates and timestamps become ms for a long.
A message without a column, or with one of another kind, is one failure; a number out of range fails its row.
Sink: an IPC stream per chunk. Parquet is for files, whose sink writes whole batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from nadi.io.contract import Connector, Decoded, Messages, Undecodable
from nadi.io.mappers.arrow_message import Unsound, batches_of
from nadi.io.mappers.columns import chunk_bounds
from nadi.io.mappers.mapannotation import attribute_mapping, invalid, payload_annotation
from nadi.io.mappers.stretch import Stretch
from nadi.io.mappers.typed_rows import decode_typed, fit, misfit, row_text
from nadi.io.registry import MapperKind, map_type


class ArrowSource:
    """The decoder of Arrow IPC messages and typed rows."""

    def __init__(self, connector: Connector) -> None:
        self._schema = connector.schema
        self._names = attribute_mapping(connector)

    def decode(self, messages: Messages) -> Decoded:
        if isinstance(messages.payloads, pa.RecordBatch):
            return decode_typed(self._schema, messages, messages.payloads, self._names)
        found = Stretch(self._schema)
        for i, payload in enumerate(messages.payloads):
            position = int(messages.positions[i])
            try:
                batches = batches_of(payload)
            except Unsound as e:
                found.fail(Undecodable(position, str(e), bytes(payload)))
                continue
            reason = misfit(self._schema, batches[0], self._names) if batches else ""
            if reason:  # said once: a few bytes may be many rows
                found.fail(Undecodable(position, reason, bytes(payload)))
                continue
            for rows in batches:
                self._add(i, position, rows, found)
        return found.finish()

    def _add(self, index: int, position: int, rows: pa.RecordBatch, found: Stretch) -> None:
        batch, faults = fit(self._schema, rows, self._names)
        if faults:
            keep = np.ones(rows.num_rows, np.bool_)
            keep[list(faults)] = False
            batch = batch.filter(pa.array(keep))
        for row, reason in faults.items():
            found.fail(Undecodable(position, reason, row_text(rows, row)))
        found.add_batch(batch, np.full(batch.num_rows, index, np.int64))


class ArrowSink:
    """The encoder: an IPC stream per chunk; nothing for parquet, whose files are made of the batch itself."""

    def __init__(self, connector: Connector) -> None:
        if payload_annotation(connector) is not None:
            raise invalid(connector, "@payload is for text; here the columns are written as they are")
        self._names = list(connector.schema.names)
        self._whole = map_type(connector) == "parquet"

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        if self._whole or batch.num_rows == 0:
            return [], []
        rows = batch.select(self._names)
        firsts = chunk_bounds(batch).tolist()
        ends = [*firsts[1:], batch.num_rows]
        return [ipc_bytes(rows.slice(a, b - a)) for a, b in zip(firsts, ends)], firsts


def ipc_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


KIND = MapperKind(source=ArrowSource, sink=ArrowSink, content_type="application/octet-stream", loops=())
