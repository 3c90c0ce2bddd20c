"""Reading the state of a bucket from a state log: every piece is checked before a kernel sees any of it, and read while the kernel loads what came before."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from nadi.errors import NadiError, error
from nadi.kernel.contract import Segment
from nadi.pipeline.state.frames import from_frames
from nadi.pipeline.statelog.chunks import Chunk, Index
from nadi.pipeline.statelog.lines import Base, Line, Piece
from nadi.pipeline.statelog.names import named
from nadi.pipeline.statelog.objects import BASE, DELTA, HEAD, MAGIC, new_check
from nadi.pipeline.statelog.store import ObjectStore

AHEAD = 32 * 1024 * 1024  # bytes that are read ahead at most, besides the read that comes next

Part = Segment | bytes


def load(store: ObjectStore, line: Line, bucket: int, into: Callable[[Iterator[Part]], None]) -> NadiError | None:
    """Load the state of a bucket, by the older line where the newest base is damaged; -> that damage.

    `into` is `Kernel.load`, which forgets what an attempt before has loaded. Errors: STATE_LOG_DAMAGED where both are, STATE_LOG_FAILED; then the kernel is
    of no use.
    """
    try:
        _load(store, line, bucket, into)
    except NadiError as damage:
        other = line.fallback
        if damage.condition != "STATE_LOG_DAMAGED" or other is None:
            raise
        try:
            _load(store, other, bucket, into)
        except NadiError as reason:
            raise (damage if reason.condition == "STATE_LOG_DAMAGED" else reason) from reason
        return damage
    return None


def _load(store: ObjectStore, line: Line, bucket: int, into: Callable[[Iterator[Part]], None]) -> None:
    with closing(parts(store, line, bucket)) as found:
        into(found)


def parts(store: ObjectStore, line: Line, bucket: int) -> Generator[Part, None, None]:
    """The segments of the base, then the deltas, as `Kernel.load` takes them. Nothing that is damaged is given, but what came before it is.

    Errors: STATE_LOG_DAMAGED with the object and what is wrong, STATE_LOG_FAILED.
    """
    chain = _Chain(bucket)
    reads: list[_Read] = []
    chunks: list[Chunk] = []
    if line.base is not None:
        chain.cut = line.base.cut
        chain.before = line.base.piece.check
        index = read_index(store, line.base, bucket)
        chunks = index.chunks
        reads += [_Read(index.objects[chunk.object][0], chunk.offset, chunk.length) for chunk in index.chunks]
    if line.since is not None:
        chain.before = line.since.check
    reads += [_Read(piece.object, piece.offset, piece.length) for piece in line.deltas]
    with closing(_read_ahead(store, reads)) as found:
        for chunk, (read, content) in zip(chunks, found):
            yield from _chunk(store, bucket, chunk, read, content)
        for piece, (_, content) in zip(line.deltas, found, strict=True):
            yield _delta(store, chain, piece, content)


def read_index(store: ObjectStore, base: Base, bucket: int) -> Index:
    """Which chunks a base has. Errors: STATE_LOG_DAMAGED, STATE_LOG_FAILED."""
    piece = base.piece
    content = _get(store, _Read(piece.object, piece.offset, piece.length))
    try:
        found = _whole(content, piece.length)
        if new_check(found).hexdigest() != piece.check:
            raise _Damage("its bytes are not those that were committed")
        _head(piece, bucket, BASE, found)
        return _INDEX.decode(memoryview(found)[HEAD.size :])
    except (_Damage, *_TORN) as reason:
        raise _damaged(store, piece.id, bucket, reason) from reason


@dataclass(slots=True)
class _Chain:
    """Where in the chain of deltas a reader is: after a piece with this check, of a cut not after `cut`."""

    bucket: int
    cut: int = -1
    before: str = ""


class _Damage(Exception):
    """What is wrong with a piece."""


# ---- reads


@dataclass(frozen=True, slots=True)
class _Read:
    """What is read at once."""

    object: str
    offset: int
    length: int


_Found = tuple[_Read, bytes | None]
"""What was read; None where the object is not there."""


def _read_ahead(store: ObjectStore, wanted: Iterable[_Read]) -> Generator[_Found, None, None]:
    """What the store has for each read, in their order."""
    reads = iter(wanted)
    waiting: deque[tuple[_Read, Future[bytes | None]]] = deque()
    held = 0
    pool = ThreadPoolExecutor(store.ahead, "state log")
    try:
        left = next(reads, None)
        while left is not None or waiting:
            while left is not None and len(waiting) < store.ahead and (not waiting or held + left.length <= AHEAD):
                waiting.append((left, pool.submit(_get, store, left)))
                held += left.length
                left = next(reads, None)
            read, coming = waiting.popleft()
            held -= read.length
            yield read, coming.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _get(store: ObjectStore, read: _Read) -> bytes | None:
    try:
        return store.get(read.object, read.offset, read.length)
    except FileNotFoundError:
        return None


def _whole(content: bytes | None, length: int) -> bytes:
    if content is None:
        raise _Damage("it is missing")
    if len(content) != length:
        raise _Damage("it is cut short")
    return content


# ---- contents


def _chunk(store: ObjectStore, bucket: int, chunk: Chunk, read: _Read, content: bytes | None) -> Iterator[Part]:
    """The segments of a chunk."""
    try:
        found = _whole(content, chunk.length)
        if new_check(found).digest() != chunk.check:
            raise _Damage("its bytes are not those that were written")
        yield from from_frames([found])
    except (_Damage, *_TORN) as reason:
        raise _damaged(store, f"{read.object}@{read.offset}", bucket, reason) from reason


def _delta(store: ObjectStore, chain: _Chain, piece: Piece, content: bytes | None) -> bytes:
    try:
        found = _whole(content, piece.length)
        if new_check(found).hexdigest() != piece.check:
            raise _Damage("its bytes are not those that were committed")
        cut, before = _head(piece, chain.bucket, DELTA, found)
        if cut <= chain.cut:
            raise _Damage(f"it is of cut {cut}, the piece before it of cut {chain.cut}")
        if before != chain.before:
            raise _Damage("it does not follow the piece before it")
        (delta,) = from_frames([memoryview(found)[HEAD.size :]])
        if not isinstance(delta, bytes):
            raise _Damage("it is no delta")
    except (_Damage, *_TORN) as reason:
        raise _damaged(store, piece.id, chain.bucket, reason) from reason
    chain.cut, chain.before = cut, piece.check
    return delta


_INDEX = msgspec.msgpack.Decoder(Index)
_TORN = (ValueError, struct.error, msgspec.MsgspecError, pa.ArrowException)
"""What reading a record raises that is none."""


def _head(piece: Piece, bucket: int, kind: bytes, content: bytes) -> tuple[int, str]:
    """The cut of a piece and the check of the piece before it, where its head is that of this piece."""
    if len(content) < HEAD.size:
        raise _Damage("it is cut short")
    magic, found, of, cut, epoch, before = HEAD.unpack_from(content)
    name = named(piece.object)
    if magic[:-1] != MAGIC[:-1] or found != kind:
        raise _Damage(f"it is no {'base' if kind == BASE else 'delta'} of a state log")
    if magic != MAGIC:
        raise error("STATE_FORMAT", found=magic[-1], known=MAGIC[-1])
    if of != bucket:
        raise _Damage(f"it is of bucket {of}")
    if (cut, epoch) != (name.cut, name.epoch):
        raise _Damage(f"it is of cut {cut} and epoch {epoch}")
    return cut, before.hex() if before.strip(b"\0") else ""


def _damaged(store: ObjectStore, piece: str, bucket: int, reason: Exception) -> NadiError:
    return error("STATE_LOG_DAMAGED", object=piece, store=store.name, bucket=bucket, reason=reason)
