"""`@sink(type='channel', …)`: rows into the parts of a channel, exactly once (`nadi.channels.options` has the options).

    host         write     rows of a bucket in a cut ──► batches, per part ──► the channel; where they lie ──► receipt
    coordinator  announce  the receipts of all buckets ──► one progress record: the cut counts

A batch counts when a progress record names it, and of a cut there is one such record: one that is done again finds it there. An attempt that failed, a
host that woke up, leave batches that nobody names. Who announces has claimed the producer under the epoch of its run (`begin`), and with that taken it from
every run before: the transport refuses what these announce.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.channels import options, progress
from nadi.channels.records import (
    ROW_COLUMNS,
    BatchHead,
    Piece,
    Progress,
    Written,
    decode_written,
    encode_batch,
    encode_written,
)
from nadi.channels.shares import by_key_group, opens_in
from nadi.channels.transport import Transport, open_transport
from nadi.errors import NadiError, Span, error
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.mappers.columns import chunk_bounds
from nadi.io.natsreach import reaches_of_channel
from nadi.io.registry import SinkKind
from nadi.io.retry import succeeded
from nadi.io.share import by_number
from nadi.kernel.contract import CHUNK, GROUP, NUMBER, TS
from nadi.kernel.keytexts import key_groups, texts_of_key
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits, Topics

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RECORD = 512 * 1024  # bytes of a batch, about
INLINE = 8 * 1024  # bytes of all batches of a bucket in a cut, up to which they travel in the progress record
WRITTEN = "written"


class ChannelSink:
    """Implements `Sink` and `Announcing`."""

    def __init__(self, connector: Connector, place: Place, transport: Transport) -> None:
        self._connector = connector
        self._filling = options.filling(connector, place)
        self._transport = transport
        self._texts = texts_of_key(self._filling.key, connector.schema) if self._filling.key else None
        self._floors: dict[int, int] | None = None
        self._tail: Progress | None = None
        self._begun: tuple[int, tuple[int, int]] | None = None
        self._lock = threading.Lock()

    # ---- in hosts

    def write(self, delivery: Delivery) -> Receipt:
        """Append the rows of a bucket; what a later run appends again nobody has named. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        pieces: list[Piece] = []
        records: list[tuple[int, bytes]] = []
        for part, rows in self._by_part(delivery):
            for record, piece in self._records(delivery, part, rows):
                pieces.append(piece)
                records.append((part, record))
        size = sum(piece.size for piece in pieces)
        self._transport.admit(size)
        if size <= INLINE:
            told = [_at(piece, -1, record) for piece, (_, record) in zip(pieces, records, strict=True)]
        else:
            places = self._transport.write(self._filling.producer, delivery.bucket, records)
            told = [_at(piece, place) for piece, place in zip(pieces, places, strict=True)]
        succeeded(self._transport.name)
        written = Written(tuple(told), self._lasts(delivery.batch))
        return Receipt(delivery.bucket, delivery.cut, {WRITTEN: encode_written(written)})

    def _by_part(self, delivery: Delivery) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each part, as they stand in the channel."""
        batch, parts = delivery.batch, self._parts(delivery.batch)
        opens = np.zeros(batch.num_rows, np.bool_)
        opens[chunk_bounds(batch)] = True
        rows = self._rows(delivery, opens_in(parts, opens))
        if batch.num_rows and (parts == parts[0]).all():
            if parts[0] >= 0:
                yield int(parts[0]), rows
            return
        for part in np.unique(parts[parts >= 0]).tolist():
            yield part, rows.take(pa.array(np.flatnonzero(parts == part)))

    def _parts(self, batch: pa.RecordBatch) -> Ints:
        """The part of each row; -1 where another producer has given it already."""
        count = self._filling.channel.parts
        if count == 1:
            found = np.zeros(batch.num_rows, np.int64)
        elif self._texts is not None:
            coded = self._texts(batch).dictionary_encode()
            groups = np.append(key_groups(coded.dictionary), 0)  # without a key: group 0
            found = by_key_group(groups[coded.indices.fill_null(len(groups) - 1).to_numpy()], count)
        else:
            found = by_number(_ints(batch, CHUNK), count)
        floors = self._known_floors()
        if floors:
            below = np.full(int(max(floors)) + 1, -1, np.int64)
            below[list(floors)] = list(floors.values())
            groups = _ints(batch, GROUP)
            floor = np.where(groups < len(below), below[np.minimum(groups, len(below) - 1)], -1)
            found = np.where(_ints(batch, NUMBER) <= floor, -1, found)
        return found

    def _known_floors(self) -> dict[int, int]:
        """What other producers of the output have given, where key-groups move."""
        if not self._filling.moves:
            return {}
        if self._floors is None:
            filling = self._filling
            self._floors = progress.floors(self._transport.tails(), filling.output, filling.producer)
        return self._floors

    def _rows(self, delivery: Delivery, opens: Bools) -> pa.RecordBatch:
        batch = delivery.batch
        names = self._connector.schema.names
        orders = delivery.orders
        if orders is None:
            orders = np.full(batch.num_rows, delivery.clock, np.int64)
        added = [
            pa.array(orders, pa.int64()),
            batch.column(batch.schema.get_field_index(TS)),
            batch.column(batch.schema.get_field_index(GROUP)),
            batch.column(batch.schema.get_field_index(NUMBER)),
            pa.array(opens),
        ]
        schema = pa.schema([*(batch.schema.field(name) for name in names), *ROW_COLUMNS])
        return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), *added], schema=schema)

    def _records(self, delivery: Delivery, part: int, rows: pa.RecordBatch) -> Iterator[tuple[bytes, Piece]]:
        """The batches of a part, none larger than the transport takes. Errors: REFUSED (a row that is)."""
        most = min(self._transport.largest(), RECORD)
        step = max(1, rows.num_rows * most // max(1, rows.nbytes) - 1)
        for at in range(0, rows.num_rows, step):
            yield from self._fitting(delivery, part, rows.slice(at, step))

    def _fitting(self, delivery: Delivery, part: int, rows: pa.RecordBatch) -> Iterator[tuple[bytes, Piece]]:
        head = BatchHead(
            self._filling.producer, delivery.epoch, delivery.cut, delivery.bucket, rows.num_rows, _groups(rows)
        )
        record = encode_batch(head, rows)
        if len(record) <= self._transport.largest():
            orders = rows.column(len(self._connector.schema))
            opens = rows.column(rows.num_columns - 1)
            yield record, Piece(part, -1, opens.true_count, orders[0].as_py(), orders[-1].as_py(), size=len(record))
            return
        if rows.num_rows == 1:
            reason = f"a row has {len(record)} bytes, {self._transport.largest()} is the most"
            raise error("REFUSED", connector=self._transport.name, reason=reason)
        half = rows.num_rows // 2
        yield from self._fitting(delivery, part, rows.slice(0, half))
        yield from self._fitting(delivery, part, rows.slice(half))

    def _lasts(self, batch: pa.RecordBatch) -> tuple[tuple[int, int], ...]:
        if not self._filling.moves:
            return ()
        return tuple((group, last) for group, _first, last in _groups(batch))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: `announce` does it."""

    # ---- in the coordinator

    @property
    def idle_after(self) -> int:
        return self._filling.idle

    def begin(self, epoch: int, cuts: tuple[int, int]) -> None:
        with self._lock:
            self._begun = epoch, cuts
            self._tail = None
            self._claimed()

    def announce(self, cut: int, clock: int, receipts: Sequence[Receipt]) -> None:
        with self._lock:
            written = decode_written([r.content[WRITTEN] for r in receipts])  # type: ignore[misc]  # bytes
            told = progress.advanced(self._claimed(), cut, clock, written)
            if told is not None:
                self._tell(told)

    def idle(self, clock: int) -> None:
        with self._lock:
            tail = self._claimed()
            if tail.clock + self._filling.idle <= clock:
                self._tell(progress.idled(tail, clock))

    def finish(self) -> None:
        with self._lock:
            self._tell(progress.closed(self._claimed()))

    def _claimed(self) -> Progress:
        """The last record of this producer, which is of this run. Errors: FENCED, CHANNEL_MISMATCH, CONNECTION_UNAVAILABLE."""
        if self._tail is not None:
            return self._tail
        assert self._begun is not None, "a run has begun before it tells anything"
        epoch, cuts = self._begun
        filling = self._filling
        tail = self._transport.claim(filling.producer)
        if tail is not None and tail.epoch == epoch and len(tail.ends) == filling.channel.parts:
            self._tail = tail  # of this run: what became of the last word was not known
        else:
            self._tell(progress.opened(tail, filling.producer, epoch, filling.channel.parts, filling.output, cuts))
        assert self._tail is not None
        return self._tail

    def _tell(self, told: Progress) -> None:
        self._tail = None
        self._transport.announce(self._filling.producer, told)
        self._tail = told
        succeeded(self._transport.name)

    def close(self) -> None:
        self._transport.close()


def _at(piece: Piece, place: int, inline: bytes = b"") -> Piece:
    return Piece(piece.part, place, piece.chunks, piece.first, piece.last, inline, piece.size)


def _ints(batch: pa.RecordBatch, name: str) -> Ints:
    column = batch.column(batch.schema.get_field_index(name))
    found: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _groups(rows: pa.RecordBatch) -> tuple[tuple[int, int, int], ...]:
    """(key-group, least number, greatest number) of rows."""
    groups, numbers = _ints(rows, GROUP), _ints(rows, NUMBER)
    if not len(groups):
        return ()
    if groups[0] == groups[-1] and (groups == groups[0]).all():
        return ((int(groups[0]), int(numbers.min()), int(numbers.max())),)
    found, which = np.unique(groups, return_inverse=True)
    least = np.full(len(found), np.iinfo(np.int64).max)
    most = np.full(len(found), -1)
    np.minimum.at(least, which, numbers)
    np.maximum.at(most, which, numbers)
    return tuple(zip(found.tolist(), least.tolist(), most.tolist(), strict=True))


def _open(connector: Connector, place: Place) -> Sink:
    return ChannelSink(connector, place, open_transport(options.filling(connector, place).channel))


def _check(connector: Connector, span: Span) -> None:
    filling = options.filling(connector, span=span)
    if not filling.key:
        return
    try:
        texts_of_key(filling.key, connector.schema)
    except NadiError as reason:
        wanted = f"an expression over the attributes of the stream ({reason.diagnostic.message})"
        raise options.invalid(connector, "sink", "key", filling.key, wanted, span) from None


@dataclass(frozen=True, slots=True)
class WholeRows:
    """The mapper of a channel: its batches are made of the rows themselves."""

    connector: Connector

    def encode(self, batch: pa.RecordBatch) -> tuple[Sequence[bytes], Sequence[int]]:
        return [], []


KIND = SinkKind(
    options.SINK_OPTIONS,
    _open,
    checks=(_check,),
    mapper=WholeRows,
    reaches=reaches_of_channel,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="rows count when a progress record names them, of which each batch has one",
        refuses="",
        announces=True,
        journal=False,
        local=False,
        header=False,
        topics=Topics(("name",), where=("transport", "kafka")),
        moved="",
        alone=(),
    ),
    loops=(),
)
