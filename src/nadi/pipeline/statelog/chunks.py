"""A base is chunks and an index of them. A new base names the chunks of the one before that are as they were, and writes the others only. So a window of which
a tenth came and went is renewed by a tenth of its bytes, and the lines of two bases share what both have.

A chunk is some records of segments (`nadi.pipeline.state.frames`): one segment, or small ones together. The index is the piece of the base: its head, then
MessagePack of `Index`. It stands behind the last chunk. What is written goes into objects of about `OBJECT` bytes, so that old ones are soon of no use to
anybody; chunks of an object that is for the most part of no use any more are written once more.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from nadi.kernel.contract import Segment
from nadi.pipeline.state.frames import base_stream
from nadi.pipeline.statelog.lines import Base, Piece
from nadi.pipeline.statelog.names import base_name
from nadi.pipeline.statelog.objects import BASE, new_check, piece_head
from nadi.pipeline.statelog.store import ObjectStore

CHUNK = 256 * 1024  # bytes of payloads from which on a segment is a chunk of its own
OBJECT = 8 * 1024 * 1024  # bytes of chunks after which another object is begun
THIN = 2  # an object of which less than one in so many bytes is in use is not used any more
SHARE = 8  # the deltas may weigh one in so many parts of a base

Paced = Callable[[Iterable[bytes]], Iterable[bytes]]


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a chunk lies: the number of its object in the index, and so on. `content` is the hash of what it says, whatever its bytes are: 16 bytes."""

    object: int
    offset: int
    length: int
    check: bytes
    content: bytes


class Index(msgspec.Struct, frozen=True, array_like=True):
    """The objects that chunks are in, with the bytes of all chunks in each, also of those that this base does not use; the chunks in the order of the state."""

    objects: list[tuple[str, int]]
    chunks: list[Chunk]

    @property
    def size(self) -> int:
        """Bytes of the chunks."""
        return sum(chunk.length for chunk in self.chunks)

    def reusable(self) -> dict[bytes, tuple[str, Chunk]]:
        """The chunks that another base may name, by content, each with its object. Errors: none."""
        used: Counter[int] = Counter()
        for chunk in self.chunks:
            used[chunk.object] += chunk.length
        thick = {number for number, (_, held) in enumerate(self.objects) if used[number] * THIN >= held}
        return {chunk.content: (self.objects[chunk.object][0], chunk) for chunk in self.chunks if chunk.object in thick}


@dataclass(frozen=True, slots=True)
class Place:
    """Whose state a base is."""

    epoch: int
    cut: int
    bucket: int

    @property
    def head(self) -> bytes:
        """The head of its index."""
        return piece_head(BASE, self.bucket, self.cut, self.epoch)


def _as_it_comes(pieces: Iterable[bytes]) -> Iterable[bytes]:
    return pieces


def write_base(
    store: ObjectStore,
    place: Place,
    segments: Iterable[Segment],
    before: Index | None = None,
    paced: Paced = _as_it_comes,
) -> Base:
    """Put the base of a bucket, given as `Kernel.dump` gives it. A forked child may do it: plain Python and zstd.

    `before` is the index of the base that the line has: a chunk that it has is not written again. Errors: those of `ObjectStore.put`.
    """
    writing = _Writing(place, segments, before)
    while not writing.whole:
        name = base_name(place.epoch, place.cut, place.bucket)
        store.put(name, paced(writing.object(name)))
    return writing.base()


class _Writing:
    """A base on its way into objects, one after the other."""

    def __init__(self, place: Place, segments: Iterable[Segment], before: Index | None) -> None:
        self.whole = False
        self._place = place
        self._contents = _contents(segments)
        self._known = {} if before is None else before.reusable()
        self._held = {} if before is None else dict(before.objects)  # bytes of chunks by object
        self._numbers: dict[str, int] = {}
        self._chunks: list[Chunk] = []
        self._written = 0
        self._piece: Piece | None = None

    def object(self, name: str) -> Iterator[bytes]:
        """What the next object holds: chunks, and behind the last one the index."""
        own = 0
        self._held[name] = 0
        for content in self._contents:
            of = _hash(content)
            if (known := self._known.get(of)) is not None:
                there, chunk = known
                self._chunks.append(msgspec.structs.replace(chunk, object=self._number(there)))
                continue
            packed = b"".join(base_stream(content))
            self._chunks.append(Chunk(self._number(name), own, len(packed), new_check(packed).digest(), of))
            own += len(packed)
            self._held[name] = own
            self._written += len(packed)
            yield packed
            if own >= OBJECT:
                return
        yield self._end(name, own)

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _end(self, name: str, offset: int) -> bytes:
        index = Index([(each, self._held[each]) for each in self._numbers], self._chunks)
        piece = self._place.head + msgspec.msgpack.encode(index)
        self._piece = Piece(name, offset, len(piece), new_check(piece).hexdigest())
        self._written += len(piece)
        self.whole = True
        return piece

    def base(self) -> Base:
        """What a commit binds."""
        assert self._piece is not None
        size = self._piece.length + sum(chunk.length for chunk in self._chunks)
        others = tuple(name for name in self._numbers if name != self._piece.object)
        return Base(self._piece, self._place.cut, size, self._written, size // SHARE, others)


def _contents(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """The segments of each chunk."""
    held: list[Segment] = []
    size = 0
    for segment in segments:
        length = len(segment.payload)
        if held and size + length >= CHUNK:
            yield held
            held, size = [], 0
        held.append(segment)
        size += length
    if held:
        yield held


def _hash(segments: Iterable[Segment]) -> bytes:
    """What segments say, whatever packing makes of it."""
    found = hashlib.blake2b(digest_size=16)
    for segment in segments:
        named = msgspec.msgpack.encode((segment.element, segment.group, len(segment.payload)))
        found.update(named)
        found.update(segment.payload)
    return found.digest()
