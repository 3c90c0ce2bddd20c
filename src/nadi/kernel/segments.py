"""State outside of a kernel: a dump and the deltas after it as one stream of bytes, which can be read without Spark and without this kernel.

Format (version 1): the five bytes `NADI` 0x01, then records. A record is a head of 13 bytes, big endian: kind (1 byte: 1 a segment, 2 a delta), key-group (2
bytes, 0 for a delta), length of the element's id (2 bytes, 0 for a delta), length of the payload (8 bytes); then the id in UTF-8 and the payload, in the
format of `nadi.kernel.rows.payloads`. Nobody joins records: a payload is held once, whatever its size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

import msgspec

from nadi.kernel.contract import Segment
from nadi.kernel.damage import fitting

MAGIC = b"NADI"
VERSION = 1
_HEAD = struct.Struct("!BHHQ")
_SEGMENT, _DELTA = 1, 2
_FLAT_HEAD = struct.Struct("<I")
_TRUE = 0xC3  # of MessagePack

Part = Segment | bytes
"""A segment of a dump, or a delta."""


def stream_of(parts: Iterable[Part]) -> Iterator[bytes]:
    """Parts as pieces of a stream.

    >>> list(parts_of(reader(stream_of([Segment("q/window", 0, b"x"), b"delta"]))))
    [Segment(element='q/window', group=0, payload=b'x'), b'delta']
    """
    yield MAGIC + bytes([VERSION])
    for part in parts:
        if isinstance(part, Segment):
            name = part.element.encode()
            yield _HEAD.pack(_SEGMENT, part.group, len(name), len(part.payload)) + name
            yield part.payload
        else:
            yield _HEAD.pack(_DELTA, 0, 0, len(part))
            yield part


def parts_of(read: Callable[[int], bytes]) -> Iterator[Part]:
    """The parts of a stream; `read(n)` gives its next n bytes, fewer only at the end.

    Raises:
        ValueError: it is no such stream, of another version, or cut short.
    """
    start = read(len(MAGIC) + 1)
    if start[: len(MAGIC)] != MAGIC:
        raise ValueError("it is not a state of nadi")
    if start[len(MAGIC) :] != bytes([VERSION]):
        raise ValueError(f"its version is {start[len(MAGIC) :].hex() or 'missing'}, this nadi reads {VERSION}")
    while head := read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise ValueError("it is cut short")
        kind, group, name, size = _HEAD.unpack(head)
        element, payload = read(name) if name else b"", read(size) if size else b""
        if len(element) < name or len(payload) < size:
            raise ValueError("it is cut short")
        if kind not in (_SEGMENT, _DELTA):
            raise ValueError(f"it has a record of the unknown kind {kind}")
        yield payload if kind == _DELTA else Segment(element.decode(), group, payload)


def reader(pieces: Iterable[bytes]) -> Callable[[int], bytes]:
    """`read(n)` over pieces of any size. What is read in one go out of one piece is copied once, and at most one piece is held."""
    waiting = iter(pieces)
    held = memoryview(b"")

    def read(size: int) -> bytes:
        nonlocal held
        if len(held) >= size:
            taken, held = bytes(held[:size]), held[size:]
            return taken
        made = bytearray(held)
        while len(made) < size:
            piece = next(waiting, None)
            if piece is None:
                held = memoryview(b"")
                break
            need = size - len(made)
            view = memoryview(piece)
            made += view[:need]
            held = view[need:]
        return bytes(made)

    return read


def is_flat(payload: bytes) -> bool:
    """Whether a segment's payload, or a delta, was written by the columns kernel (`nadi.kernel.columns.flat`).

    >>> is_flat(b"C"), is_flat(bytes([0x94, 2]))
    (True, False)
    """
    return payload[:1] == b"C"


_BOTH = b"B\x01\x00\x00"


def joined(rows: bytes, flat: bytes) -> bytes:
    """The delta of an app of which one kernel runs a part and the other the rest: `B` 0x01, two bytes of zero, the length of the rows kernel's delta
    (4 bytes, little endian), both deltas. Where one of them is empty the other is all.

    >>> halves(joined(b"rows", b"C...")), joined(b"", b"C..."), halves(b"rows"), halves(b"C...")
    ((b'rows', b'C...'), b'C...', (b'rows', b''), (b'', b'C...'))
    """
    return _BOTH + _FLAT_HEAD.pack(len(rows)) + rows + flat if rows and flat else rows or flat


def halves(delta: bytes) -> tuple[bytes, bytes]:
    """What the rows kernel and what the columns kernel wrote of a delta. Errors: STATE_NOT_READABLE."""
    if is_flat(delta):
        return b"", delta
    if delta[:4] != _BOTH:
        return delta, b""
    with fitting("a delta"):
        (length,) = _FLAT_HEAD.unpack_from(delta, 4)
    return delta[8 : 8 + length], delta[8 + length :]


def key_count(payload: bytes) -> int:
    """How many flow keys begin in a segment's payload, from its first bytes (`nadi.kernel.rows.payloads`).

    >>> from nadi.kernel.rows.payloads import encode_entries
    >>> key_count(encode_entries([("", "a", {}), ("", "b", {})])), key_count(encode_entries([("", "b", {})], continued=True))
    (2, 0)
    """
    if is_flat(payload):
        (length,) = _FLAT_HEAD.unpack_from(payload, 4)
        return sum(block[3] for block in msgspec.msgpack.decode(payload[8 : 8 + length]))
    start = 2 if payload[1:2] == b"\x01" else 3
    head = payload[start : start + 5]
    if not head:
        return 0
    continued = start == 3 and payload[2] == _TRUE
    if head[0] == 0xDC:
        return int.from_bytes(head[1:3], "big") - continued
    return (int.from_bytes(head[1:5], "big") if head[0] == 0xDD else head[0] & 0x0F) - continued
