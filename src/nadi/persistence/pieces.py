"""The state of a bucket cut into pieces, the blobs of a revision: what did not change since the last revision makes the same piece and is not written again.

A piece holds the segments of one element in up to 16 key-groups that follow each other, at most about 8 MB of them (what is larger is in several pieces), or
deltas of about 1 MB. Its content is a stream of
`nadi.kernel.segments`, stored with zstd.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from nadi.kernel.contract import Segment
from nadi.kernel.segments import Part, is_flat, key_count, parts_of, reader, stream_of
from nadi.persistence.contract import Sink

GROUPS = 16
SEGMENT_BYTES = 8 << 20
DELTA_BYTES = 1 << 20
COMPRESSION = "zstd"
MOST = 1 << 32  # bytes of a piece at most: it has one segment or delta that is larger than the usual ones
_STEP = 1 << 20  # bytes handed to the compressor in one go
_LONG = 16 << 20  # bytes that are read in one go: more than a segment usually has
_ADDRESS = re.compile("[0-9a-f]{64}")


class Piece(msgspec.Struct, frozen=True):
    """A piece as the manifest has it: `element` and `groups` (first, last) of segments, "" of deltas; `keys` flow keys that begin in it;
    `bytes` before compression, `stored` after it; `sha256` of the content before compression, the blob's address. `flat`: whether the columns kernel wrote
    its segments, None where that is not said (of deltas, and in older revisions).
    """

    element: str
    groups: tuple[int, int]
    keys: int
    bytes: int
    stored: int
    sha256: str
    compression: str = COMPRESSION
    flat: bool | None = None

    @property
    def deltas(self) -> bool:
        """Whether it holds deltas."""
        return not self.element


@dataclass(slots=True)
class Cut:
    """The parts that will be one piece."""

    element: str
    block: int = 0
    flat: bool | None = None
    parts: list[Part] = field(default_factory=list)
    size: int = 0

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.size += len(part.payload) if isinstance(part, Segment) else len(part)

    def digest(self) -> tuple[str, int]:
        """The address, and the length of the content."""
        made, size = hashlib.sha256(), 0
        for data in stream_of(self.parts):
            made.update(data)
            size += len(data)
        return made.hexdigest(), size

    def described(self, address: str, size: int, stored: int) -> Piece:
        """As the manifest has it."""
        segments = [part for part in self.parts if isinstance(part, Segment)]
        groups = [s.group for s in segments] or [0]
        keys = sum(key_count(s.payload) for s in segments)
        return Piece(self.element, (min(groups), max(groups)), keys, size, stored, address, flat=self.flat)


def cut(parts: Iterable[Part]) -> Iterator[Cut]:
    """Parts, in their order, as the contents of pieces. One piece is held at a time."""
    held: Cut | None = None
    for part in parts:
        element = part.element if isinstance(part, Segment) else ""
        block = part.group // GROUPS if isinstance(part, Segment) else 0
        flat = is_flat(part.payload) if isinstance(part, Segment) else None
        full = held is not None and held.size >= (SEGMENT_BYTES if element else DELTA_BYTES)
        if held is not None and ((held.element, held.block, held.flat) != (element, block, flat) or full):
            yield held
            held = None
        if held is None:
            held = Cut(element, block, flat)
        held.add(part)
    if held is not None:
        yield held


def store(content: Cut, sink: Sink) -> int:
    """Write the content of a piece, compressed; how many bytes that were."""
    counted = _Counted(sink)
    with pa.CompressedOutputStream(pa.PythonFile(counted, mode="w"), COMPRESSION) as out:
        for data in stream_of(content.parts):
            view = memoryview(data)
            for start in range(0, len(view), _STEP):
                out.write(view[start : start + _STEP])
    return counted.size


class _Counted:
    """The file that the compressor writes to."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.size = 0

    def write(self, data: Any) -> int:
        self._sink.write(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """The sink is closed by who opened it."""


def check(piece: Piece) -> None:
    """Refuse what no writer says: an address becomes the name of a file, and a length that of a buffer. Raises ValueError."""
    if not _ADDRESS.fullmatch(piece.sha256):
        raise ValueError(f"the address of a piece is {piece.sha256[:80]!r}, not 64 hexadecimal digits")
    if not 0 <= piece.bytes <= MOST or min(piece.stored, piece.keys, *piece.groups) < 0:
        raise ValueError(f"piece {piece.sha256[:12]}… claims a length, or a number, that none can have")


def load(piece: Piece, stored: Iterable[bytes]) -> Iterator[Part]:
    """The parts of a piece; they count only when all have come.

    Raises:
        ValueError: it is not what the manifest says, in words.
    """
    checked = _Checked(_decompressed(piece, stored), piece.bytes)
    yield from parts_of(checked.read)
    if checked.digest() != piece.sha256:
        raise ValueError("its content does not have the checksum that the revision tells")


def is_damaged(piece: Piece, stored: Iterable[bytes]) -> bool:
    """Whether a blob that could not be loaded has another content than it was given, and is not only of a kind that is not known here."""
    if piece.compression != COMPRESSION:
        return False
    checked = _Checked(_decompressed(piece, stored), piece.bytes)
    try:
        while checked.read(_STEP):
            pass
    except ValueError:
        return True
    return checked.digest() != piece.sha256


def _decompressed(piece: Piece, stored: Iterable[bytes]) -> Callable[[int], bytes]:
    if piece.compression != COMPRESSION:
        raise ValueError(f"it is compressed with {piece.compression}, this nadi reads {COMPRESSION}")
    source = _Source(reader(stored))
    try:
        stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), COMPRESSION)
    except OSError as problem:
        raise ValueError(str(problem)) from problem

    def read(size: int) -> bytes:
        try:
            return bytes(stream.read(size))
        except OSError as problem:
            raise ValueError(f"it cannot be decompressed: {problem}") from problem

    return read


class _Source:
    """The file that the decompressor reads."""

    closed = False

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read = read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """The pieces are closed by who opened them."""


class _Checked:
    """Adds up the checksum of what is read; a damaged length asks for no more memory than there is content."""

    def __init__(self, read: Callable[[int], bytes], content: int) -> None:
        self._read = read
        self._left = content
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._some(min(size, self._left + 1))
        self._left -= len(data)
        self._hash.update(data)
        return data

    def _some(self, size: int) -> bytes:
        """A buffer for all that is asked for is made when that has come, not when it is claimed."""
        if size <= _LONG:
            return self._read(size)
        steps, left = [], size
        while left and (data := self._read(min(left, _LONG))):
            steps.append(data)
            left -= len(data)
        return b"".join(steps)

    def digest(self) -> str:
        return self._hash.hexdigest()
