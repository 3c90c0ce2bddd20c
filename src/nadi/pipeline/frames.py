"""How the state of a bucket lies in Spark's state store: numbered frames of at most 2 MB in a MapState, and a directory at key -1.

The frames of a *generation* are a base (everything, as records) followed by deltas; the directory says which numbers belong to which.
A base stream is a sequence of records: 1 byte kind (1: segment), 8 bytes length (big endian), MessagePack `[element, key-group, payload]`; a delta is
the same with kind 2 and the delta itself. Streams are cut into frames anywhere; every new delta begins a new frame. Key → value of the MapState: long → binary.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from nadi.kernel.contract import Segment
from nadi.pipeline.protocol import Part

FRAME_BYTES = 2 * 1024 * 1024
DIRECTORY_KEY = -1
FORMAT = 1
_RECORD = struct.Struct("!BQ")
_SEGMENT, _DELTA = 1, 2
# A base is written anew when reading the deltas would cost more than reading it: their bytes and a share per frame, but not for less than the floor.
FLOOR = 1024 * 1024
COST_PER_FRAME = 16 * 1024


@dataclass(frozen=True, slots=True)
class Directory:
    """What a bucket has in the store: after cut `cut`, under `token` (random, new with every cut), frames [0, frames), the first
    `base_frames` of them the base. `started` is whether the kernel has begun.
    """

    token: str = ""
    cut: int = 0
    frames: int = 0
    base_frames: int = 0
    base_bytes: int = 0
    delta_bytes: int = 0
    version: int = FORMAT

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def unpack(value: bytes) -> Directory:
        return msgspec.msgpack.decode(value, type=Directory)

    @property
    def bytes(self) -> int:
        return self.base_bytes + self.delta_bytes

    def wants_base(self, delta: int) -> bool:
        """Whether, with a delta of so many bytes to come, a new base is cheaper in the long run."""
        deltas = self.frames - self.base_frames + 1
        return self.delta_bytes + delta + deltas * COST_PER_FRAME > max(FLOOR, self.base_bytes)

    def with_base(self, token: str, cut: int, frames: int, size: int) -> Directory:
        return Directory(token, cut, frames, frames, size, 0)

    def with_delta(self, token: str, cut: int, frames: int, size: int) -> Directory:
        return Directory(token, cut, self.frames + frames, self.base_frames, self.base_bytes, self.delta_bytes + size)


def base_stream(segments: Iterable[Segment]) -> Iterator[bytes]:
    """The records of a base."""
    for segment in segments:
        body = msgspec.msgpack.encode([segment.element, segment.group, segment.payload])
        yield _RECORD.pack(_SEGMENT, len(body)) + body


def delta_stream(delta: bytes) -> Iterator[bytes]:
    """The record of a delta; nothing for an empty one."""
    if delta:
        yield _RECORD.pack(_DELTA, len(delta)) + delta


def to_frames(stream: Iterable[bytes], size: int = FRAME_BYTES) -> list[bytes]:
    """Cut a stream of records into frames of at most `size` bytes."""
    frames: list[bytes] = []
    buffer = bytearray()
    for record in stream:
        buffer += record
        while len(buffer) >= size:
            frames.append(bytes(buffer[:size]))
            del buffer[:size]
    if buffer:
        frames.append(bytes(buffer))
    return frames


def from_frames(frames: Iterable[Part]) -> Iterator[Segment | bytes]:
    """The segments, then the deltas, of frames in the order of their numbers. Raises ValueError where a record is cut short."""
    buffer = bytearray()
    for frame in frames:
        buffer += frame
        at = 0
        while len(buffer) - at >= _RECORD.size:
            kind, length = _RECORD.unpack_from(buffer, at)
            if len(buffer) - at - _RECORD.size < length:
                break
            body = bytes(buffer[at + _RECORD.size : at + _RECORD.size + length])
            at += _RECORD.size + length
            if kind == _SEGMENT:
                element, group, payload = msgspec.msgpack.decode(body)
                yield Segment(element, group, payload)
            else:
                yield body
        del buffer[:at]
    if buffer:
        raise ValueError("the last record is cut short")
