"""What stands in a channel: batches with rows, and progress records, which alone say what counts.

A record is `NADIC`, the version (1 byte), its kind (1 byte: `b` or `p`), the length of its head (4 bytes, big endian), the head (a MessagePack array), and, of
a batch, its rows as an Arrow IPC stream.

- A **batch** has rows of one part of the channel, which one bucket of a producer gave in one cut: the columns of the stream, typed, and ROW_COLUMNS.
- A **progress record** says: producer P has come to clock C; the batches of its cut n lie there. Batches that no progress record names count for nobody: an
  attempt at a cut that failed may have left them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from nadi.errors import error
from nadi.kernel.contract import GROUP, NUMBER, ORDER, TS

MAGIC = b"NADIC"
VERSION = 1
_FRAME = struct.Struct(">5sBcI")

OPENS = "__opens"

ROW_COLUMNS = (
    pa.field(ORDER, pa.int64(), nullable=False),  # the producer's clock when the row came out, ms
    pa.field(TS, pa.int64(), nullable=False),  # the event's own timestamp, ms
    pa.field(GROUP, pa.int16(), nullable=False),  # the key-group in which the producer numbers it
    pa.field(NUMBER, pa.int64(), nullable=False),  # its number within (output, key-group)
    pa.field(OPENS, pa.bool_(), nullable=False),  # whether a chunk begins with it
)

OPEN, CUT, IDLE, CLOSE = "open", "cut", "idle", "close"
"""Kinds of progress: a run of the producer begins; a cut is done; nothing has come; nothing will come any more."""


class BatchHead(msgspec.Struct, array_like=True, frozen=True):
    """Who made a batch, in which cut; `groups` is (key-group, least number, greatest number) of its rows."""

    producer: str
    epoch: int
    cut: int
    bucket: int
    rows: int
    groups: tuple[tuple[int, int, int], ...]


class Piece(msgspec.Struct, array_like=True, frozen=True):
    """A batch that counts: its part, its place in the channel (-1: it is `inline`), how many chunks begin in it, its first and last order time, its bytes."""

    part: int
    place: int
    chunks: int
    first: int
    last: int
    inline: bytes = b""
    size: int = 0


class Progress(msgspec.Struct, array_like=True, frozen=True):
    """How far a producer has come: what it gives later has an order time of at least `clock` (ms).

    `epoch` is that of its run, `cut` the last one that it has done (-1: none), `before` the clock of its record before this one: rows whose order time is
    earlier count as of then. `ends` has how many chunks each part has from it, `pieces` are those of this cut, by part and bucket. `lasts` is the last number
    per key-group of `output`, where another producer may go on with it.
    """

    producer: str
    epoch: int
    kind: str
    cut: int
    clock: int
    before: int
    ends: tuple[int, ...]
    pieces: tuple[Piece, ...] = ()
    output: str = ""
    lasts: tuple[tuple[int, int], ...] = ()

    def is_beyond(self, positions: Mapping[int, int]) -> bool:
        """Whether some part has come further than its position here: then a reader that stands there needs this record, or one before it.

        >>> [Progress("A-1", 1, CUT, 3, 9, 8, (4, 2)).is_beyond({0: at, 1: 2}) for at in (3, 4)]
        [True, False]
        """
        ends = self.ends
        return any((ends[part] if part < len(ends) else 0) > position for part, position in positions.items())


_HEAD = msgspec.msgpack.Decoder(BatchHead)
_PROGRESS = msgspec.msgpack.Decoder(Progress)
_pack = msgspec.msgpack.Encoder().encode


def encode_batch(head: BatchHead, rows: pa.RecordBatch) -> bytes:
    """A batch as it stands in a channel."""
    packed = _pack(head)
    out = pa.BufferOutputStream()
    out.write(_FRAME.pack(MAGIC, VERSION, b"b", len(packed)) + packed)
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    encoded: bytes = out.getvalue().to_pybytes()
    return encoded


def decode_batch(record: bytes) -> tuple[BatchHead, pa.RecordBatch]:
    """The inverse. Errors: CHANNEL_RECORD."""
    head, rest = _framed(record, b"b")
    try:
        found = _HEAD.decode(head)
        return found, pa.ipc.open_stream(pa.py_buffer(rest)).read_next_batch()
    except (msgspec.MsgspecError, pa.ArrowException, OSError, StopIteration) as reason:
        raise error("CHANNEL_RECORD", reason=str(reason) or type(reason).__name__) from reason


def encode_progress(progress: Progress) -> bytes:
    """A progress record as it stands in a channel.

    >>> decode_progress(encode_progress(Progress("A-1", 3, CUT, 7, 1_000, 900, (4, 0)))).ends
    (4, 0)
    """
    packed = _pack(progress)
    return _FRAME.pack(MAGIC, VERSION, b"p", len(packed)) + packed


def decode_progress(record: bytes) -> Progress:
    """The inverse. Errors: CHANNEL_RECORD."""
    head, _rest = _framed(record, b"p")
    try:
        return _PROGRESS.decode(head)
    except msgspec.MsgspecError as reason:
        raise error("CHANNEL_RECORD", reason=str(reason)) from reason


def _framed(record: bytes, kind: bytes) -> tuple[memoryview, memoryview]:
    view = memoryview(record)
    if len(view) < _FRAME.size:
        raise error("CHANNEL_RECORD", reason=f"it has {len(view)} bytes")
    magic, version, found, length = _FRAME.unpack_from(view)
    if magic != MAGIC or found != kind:
        raise error("CHANNEL_RECORD", reason="it is none of nadi's, or of another kind")
    if version != VERSION:
        raise error("CHANNEL_RECORD", reason=f"it has version {version}, this nadi reads {VERSION}")
    end = _FRAME.size + length
    if end > len(view):
        raise error("CHANNEL_RECORD", reason="its head is cut off")
    return view[_FRAME.size : end], view[end:]


class Written(msgspec.Struct, array_like=True, frozen=True):
    """What a bucket leaves for the end of its cut: the batches that it has written, and the last number per key-group."""

    pieces: tuple[Piece, ...]
    lasts: tuple[tuple[int, int], ...] = ()


_WRITTEN = msgspec.msgpack.Decoder(Written)


def encode_written(written: Written) -> bytes:
    """As it travels in a receipt."""
    return _pack(written)


def decode_written(receipts: Sequence[bytes]) -> list[Written]:
    """The inverse, of all buckets."""
    return [_WRITTEN.decode(receipt) for receipt in receipts]
