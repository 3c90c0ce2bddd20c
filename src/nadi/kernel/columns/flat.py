"""State as flat arrays: what a segment of a dump and a delta of this kernel are made of.

Format (version 1): the bytes `C` 0x01, two bytes of zero, the length of the head (4 bytes), the head, then the arrays one after the other,
each at a multiple of 8 bytes from the start. All is little endian. The head is MessagePack, a list with one entry for each block, in order:

    [element, key-group, letter, keys, [[name, dtype, length] for each array]]

`letter` says what kind of change it is, `keys` how many keys begin in it; what the arrays mean is the operator's.
Payloads of the rows kernel begin with other bytes (MessagePack's array of four), so that each kernel knows its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from nadi.errors import error
from nadi.kernel.columns.stretch import Array

MAGIC = b"C\x01\x00\x00"
BLOCK_BYTES = 1 << 20
OF_EACH = "y"
"""The letter of blocks that each bucket has for itself, whichever key-groups it has."""
_LENGTH = struct.Struct("<I")
_Head = list[tuple[str, int, str, int, list[tuple[str, str, int]]]]
_DECODER = msgspec.msgpack.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class Block:
    """A change of one element in one key-group: arrays by name. `keys`: how many keys begin in it."""

    element: str
    group: int
    letter: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    keys: int = 1


def encode(blocks: Iterable[Block]) -> bytes:
    """Blocks as a payload, b"" where there are none.

    >>> [block.letter for block in decode(encode([Block("q/window", 0, "s", {"ts": np.arange(3)})]))]
    ['s']
    """
    given = list(blocks)
    if not given:
        return b""
    head = [
        (b.element, b.group, b.letter, b.keys, [(name, a.dtype.str, len(a)) for name, a in b.arrays.items()])
        for b in given
    ]
    told = msgspec.msgpack.encode(head)
    parts: list[bytes | memoryview] = [MAGIC, _LENGTH.pack(len(told)), told]
    parts.append(_padding(8 + len(told)))
    for block in given:
        for array in block.arrays.values():
            parts.append(np.ascontiguousarray(array).data.cast("B") if len(array) else b"")
            parts.append(_padding(array.nbytes))
    return b"".join(parts)


def decode(payload: bytes) -> Iterator[Block]:
    """The blocks of a payload. Errors: STATE_NOT_READABLE."""
    if payload[:4] != MAGIC:
        raise error("STATE_NOT_READABLE", reason="it is not a state of the columns kernel of this version")
    (length,) = _LENGTH.unpack_from(payload, 4)
    at = 8 + length
    at += -at % 8
    for element, group, letter, keys, arrays in _DECODER.decode(memoryview(payload)[8 : 8 + length]):
        found = {}
        for name, dtype, size in arrays:
            found[name] = np.frombuffer(payload, dtype, size, at)
            at += found[name].nbytes + -found[name].nbytes % 8
        yield Block(element, group, letter, found, keys)


def elements_of(payload: bytes) -> set[str]:
    """The ids of the elements that a payload tells of."""
    if not payload:
        return set()
    (length,) = _LENGTH.unpack_from(payload, 4)
    return {element for element, *_rest in _DECODER.decode(memoryview(payload)[8 : 8 + length])}


def _padding(size: int) -> bytes:
    return b"\0" * (-size % 8)
