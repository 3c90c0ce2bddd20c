"""How the state of a bucket becomes frames, and frames a state again.

A base stream is a sequence of records: 1 byte kind (1: segment), 8 bytes length (big endian), MessagePack `[element, key-group, payload]`; a delta is
the same with kind 2 and the delta itself. Streams are cut into frames anywhere; every delta begins a new frame. `nadi.pipeline.state.layout` says under which
keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec

from nadi.kernel.contract import Segment
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.state.layout import POLICY

_RECORD = struct.Struct("!BQ")
_SEGMENT, _DELTA = 1, 2
_ARRAY_OF_3 = b"\x93"
_BINARY = struct.Struct("!BI")  # MessagePack's bin 32
_BINARY_32 = 0xC6
_BODY = msgspec.msgpack.Decoder(tuple[str, int, memoryview])


def base_stream(segments: Iterable[Segment]) -> Iterator[bytes]:
    """The records of a base, in pieces: a payload may have hundreds of MB and is not copied."""
    for segment in segments:
        named = msgspec.msgpack.encode(segment.element) + msgspec.msgpack.encode(segment.group)
        head = _ARRAY_OF_3 + named + _BINARY.pack(_BINARY_32, len(segment.payload))
        yield _RECORD.pack(_SEGMENT, len(head) + len(segment.payload)) + head
        yield segment.payload


def delta_stream(delta: bytes) -> Iterator[bytes]:
    """The record of a delta; nothing for an empty one."""
    if delta:
        yield _RECORD.pack(_DELTA, len(delta))
        yield delta


def to_frames(stream: Iterable[bytes], size: int = POLICY.frame_bytes) -> list[bytes]:
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
    """The segments, then the deltas, of frames in the order of their keys. Raises ValueError where a record is cut short."""
    buffer = bytearray()
    wanted = _RECORD.size  # bytes until there is something to see
    for frame in frames:
        buffer += frame
        if len(buffer) < wanted:
            continue
        at = 0
        while len(buffer) - at >= _RECORD.size:
            kind, length = _RECORD.unpack_from(buffer, at)
            wanted = _RECORD.size + length
            if len(buffer) - at < wanted:
                break
            yield _part(kind, buffer, at + _RECORD.size, at + wanted)
            at += wanted
            wanted = _RECORD.size
        del buffer[:at]
    if buffer:
        raise ValueError("the last record is cut short")


def _part(kind: int, buffer: bytearray, start: int, end: int) -> Segment | bytes:
    with memoryview(buffer) as whole, whole[start:end] as body:
        if kind == _DELTA:
            return bytes(body)
        element, group, payload = _BODY.decode(body)
        with payload:  # a buffer that somebody looks at cannot be cut
            return Segment(element, group, bytes(payload))
