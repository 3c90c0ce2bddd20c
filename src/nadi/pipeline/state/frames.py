"""How the state of a bucket becomes frames, and frames a state again.

A base stream is a sequence of records: 1 byte kind (1: segment), 8 bytes length (big endian), MessagePack `[element, key-group, payload]`; a delta is
the same with kind 2 and the delta itself. Kinds 3 and 4 are the same packed: 8 bytes the payload's length, and the payload (of a segment) or the delta by zstd.
Streams are cut into frames anywhere; every delta begins a new frame. `nadi.pipeline.state.layout` says under which keys.

What is large is packed: Spark hands a state over at 60 MB a second, and packing makes a third of it at some hundred MB a second.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from nadi.kernel.contract import Segment
from nadi.pipeline.hosting.protocol import Part
from nadi.pipeline.state.layout import POLICY

_RECORD = struct.Struct("!BQ")
_SEGMENT, _DELTA, _PACKED_SEGMENT, _PACKED_DELTA = 1, 2, 3, 4
_LARGE = 4 * 1024  # bytes from which on something is packed
_LENGTH = struct.Struct("!Q")
MOST = (1 << 32) - 1  # bytes that a payload can have; whoever could write to a state may claim more
_CODEC = pa.Codec("zstd", compression_level=1)
_ARRAY_OF_3 = b"\x93"
_BINARY = struct.Struct("!BI")  # MessagePack's bin 32
_BINARY_32 = 0xC6
_BODY = msgspec.msgpack.Decoder(tuple[str, int, memoryview])


def base_stream(segments: Iterable[Segment]) -> Iterator[bytes]:
    """The records of a base, in pieces: a payload may have hundreds of MB and is not copied."""
    for segment in segments:
        named = msgspec.msgpack.encode(segment.element) + msgspec.msgpack.encode(segment.group)
        kind, payload = _packed(_SEGMENT, segment.payload)
        head = _ARRAY_OF_3 + named + _BINARY.pack(_BINARY_32, len(payload))
        yield _RECORD.pack(kind, len(head) + len(payload)) + head
        yield payload


def delta_stream(delta: bytes) -> Iterator[bytes]:
    """The record of a delta; nothing for an empty one."""
    if delta:
        kind, payload = _packed(_DELTA, delta)
        yield _RECORD.pack(kind, len(payload))
        yield payload


def _packed(kind: int, payload: bytes) -> tuple[int, bytes]:
    """A payload as a record has it, and the kind of that record. Runs in forked processes: bytes of Python, no memory of Arrow's."""
    if len(payload) < _LARGE:
        return kind, payload
    return kind + 2, _LENGTH.pack(len(payload)) + _CODEC.compress(payload, asbytes=True)


def _unpacked(kind: int, payload: memoryview) -> bytes:
    if kind in (_SEGMENT, _DELTA):
        return bytes(payload)
    (length,) = _LENGTH.unpack_from(payload)
    if length > MOST:
        raise ValueError(f"a payload claims to have {length} bytes, the most are {MOST}")
    with payload[_LENGTH.size :] as packed:
        try:
            found: bytes = _CODEC.decompress(packed, length, asbytes=True)
        except MemoryError as reason:
            raise ValueError(f"a payload claims to have {length} bytes, more than there is memory") from reason
    return found


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
    """The segments, then the deltas, of frames in the order of their keys. Raises ValueError where a record is cut short, or larger than MOST."""
    buffer = bytearray()
    wanted = _RECORD.size  # bytes until there is something to see
    for frame in frames:
        buffer += frame
        if len(buffer) < wanted:
            continue
        at = 0
        while len(buffer) - at >= _RECORD.size:
            kind, length = _RECORD.unpack_from(buffer, at)
            if length > 2 * MOST:
                raise ValueError(f"a record claims to have {length} bytes")
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
        if kind not in (_SEGMENT, _DELTA, _PACKED_SEGMENT, _PACKED_DELTA):
            raise ValueError(f"there is no record of kind {kind}")
        if kind in (_DELTA, _PACKED_DELTA):
            return _unpacked(kind, body)
        element, group, payload = _BODY.decode(body)
        with payload:  # a buffer that somebody looks at cannot be cut
            return Segment(element, group, _unpacked(kind, payload))
