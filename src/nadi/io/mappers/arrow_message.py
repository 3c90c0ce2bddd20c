"""An Arrow IPC message that a stranger may have written → its batches, or why it is none.

Arrow reads a message without looking into it: offsets may lead out of its buffers, texts may be no UTF-8, and a few bytes may say that they become gigabytes (a
compressed buffer says how long it will be, a batch how many rows it has, which columns of nulls need no bytes for). So sizes are read from the message before
Arrow makes room for them, and what it has made is validated in full.

    Message      { version, header type, header, length of the body }
    RecordBatch  { rows, nodes, buffers (offset, length), compression }      DictionaryBatch { id, RecordBatch, is delta }
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

LARGEST = 256 << 20
"""Bytes that the buffers of a compressed message may become."""
ROWS_PER_BYTE = 8  # a column of bools has eight
SPARE_ROWS = 1_024  # of nothing but nulls

_DICTIONARY, _BATCH = 2, 3
_BUFFER = struct.Struct("<qq")
_LONG = struct.Struct("<q")


class Unsound(ValueError):
    """A message that is not to be read; the text says why."""


def batches_of(payload: bytes) -> list[pa.RecordBatch]:
    """The batches of an Arrow IPC stream, all they have in them checked.

    Raises:
        Unsound: it is none, or its sizes or contents cannot be.
    """
    try:
        unpacked = sum(_checked_size(message) for message in _messages(payload))
        if unpacked > LARGEST:
            raise Unsound(f"its {len(payload):,} bytes say that they become {unpacked:,}; {LARGEST:,} is the most")
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            found = list(reader)
        for batch in found:
            batch.validate(full=True)
    except Unsound:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as reason:
        raise Unsound(f"not an Arrow IPC stream: {reason}") from None
    return found


def _messages(payload: bytes) -> Iterator[pa.ipc.Message]:
    yield from pa.ipc.MessageReader.open_stream(pa.py_buffer(payload))


def _checked_size(message: pa.ipc.Message) -> int:
    """How many bytes its compressed buffers say they become. Errors: Unsound, struct.error."""
    metadata = message.metadata.to_pybytes()
    root = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    kind, batch = root.byte(1), root.table(2)
    if batch is not None and kind == _DICTIONARY:
        batch = batch.table(1)
    if batch is None or kind not in (_DICTIONARY, _BATCH):
        return 0
    unpacked = 0
    if batch.table(3) is not None:
        unpacked = sum(_unpacked(message.body, offset, length) for offset, length in batch.buffers(2))
    size = max(unpacked, message.body.size if message.body is not None else 0)
    rows = batch.long(0)
    if not 0 <= rows <= size * ROWS_PER_BYTE + SPARE_ROWS:
        raise Unsound(f"{size:,} bytes cannot be {rows:,} rows")
    return unpacked


def _unpacked(body: pa.Buffer, offset: int, length: int) -> int:
    """How long a compressed buffer says it becomes; it is as long as it is where it begins with -1."""
    if not length:
        return 0
    if offset < 0 or length < _LONG.size or offset + length > body.size:
        raise Unsound("a buffer is outside of the message")
    (size,) = _LONG.unpack_from(body, offset)
    if size < -1:
        raise Unsound("a buffer has a negative length")
    return int(length if size == -1 else size)


class _Table:
    """A table of a flatbuffer; fields by their number, None or 0 where they are not written. Errors: struct.error (outside of the bytes)."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - struct.unpack_from("<i", data, at)[0]

    def table(self, number: int) -> _Table | None:
        at = self._place(number)
        return _Table(self._data, at + self._unsigned(at)) if at else None

    def byte(self, number: int) -> int:
        at = self._place(number)
        return self._data[at] if at else 0

    def long(self, number: int) -> int:
        at = self._place(number)
        return int(_LONG.unpack_from(self._data, at)[0]) if at else 0

    def buffers(self, number: int) -> list[tuple[int, int]]:
        at = self._place(number)
        if not at:
            return []
        at += self._unsigned(at)
        count = self._unsigned(at)
        if at + 4 + count * _BUFFER.size > len(self._data):
            raise Unsound("a list of buffers is outside of the message")
        return [(o, n) for o, n in _BUFFER.iter_unpack(self._data[at + 4 : at + 4 + count * _BUFFER.size])]

    def _place(self, number: int) -> int:
        (size,) = struct.unpack_from("<H", self._data, self._fields)
        if 4 + 2 * number >= size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * number)
        return self._at + offset if offset else 0

    def _unsigned(self, at: int) -> int:
        return int(struct.unpack_from("<I", self._data, at)[0])
