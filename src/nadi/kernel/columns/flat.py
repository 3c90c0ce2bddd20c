"""State as flat arrays: what a segment of a dump and a delta of this kernel are made of.

Format (version 1): the bytes `C` 0x01, two bytes of zero, the length of the head (4 bytes), the head, then the arrays one after the other,
each at a multiple of 8 bytes from the start. All is little endian. The head is MessagePack, a list with one entry for each block, in order:

    [element, key-group, letter, keys, [[name, dtype, length] for each array]]

`letter` says what kind of change it is, `keys` how many keys begin in it; what the arrays mean is the operator's.
Payloads of the rows kernel begin with other bytes (MessagePack's array of four), so that each kernel knows its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from nadi.errors import NadiError, error
from nadi.kernel.columns.stretch import Array
from nadi.kernel.damage import fitting

MAGIC = b"C\x01\x00\x00"
BLOCK_BYTES = 1 << 20
OF_EACH = "y"
"""The letter of blocks that each bucket has for itself, whichever key-groups it has."""
_LENGTH = struct.Struct("<I")
_Head = list[tuple[str, int, str, int, list[tuple[str, str, int]]]]
_DECODER = msgspec.msgpack.Decoder(_Head)
_KNOWN = {
    np.dtype(kind).str: np.dtype(kind) for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}
"""The types that arrays have: numbers and truth values, never objects."""
_GROUPS = 1 << 15


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
    """The blocks of a payload. What is here may come from a stranger: nothing is read outside of the payload, or as something else than numbers.

    Errors: STATE_NOT_READABLE.
    """
    head, at = _head(payload)
    for element, group, letter, keys, arrays in head:
        if not (0 <= group < _GROUPS and keys >= 0):
            raise _unreadable(f"'{element}' has the key-group {group} and {keys} keys")
        found = {}
        for name, dtype, size in arrays:
            found[name], at = _array(payload, at, f"'{name}' of '{element}'", dtype, size)
        yield Block(element, group, letter, found, keys)


def _head(payload: bytes) -> tuple[_Head, int]:
    """The head of a payload, and where its first array begins."""
    if payload[:4] != MAGIC:
        raise _unreadable("it is not a state of the columns kernel of this version")
    try:
        (length,) = _LENGTH.unpack_from(payload, 4)
        head = _DECODER.decode(memoryview(payload)[8 : 8 + length])
    except (struct.error, UnicodeDecodeError, msgspec.MsgspecError) as problem:
        raise _unreadable(f"its head is damaged: {problem}") from problem
    at = 8 + length
    return head, at + -at % 8


def _array(payload: bytes, at: int, what: str, dtype: str, size: int) -> tuple[Array, int]:
    """An array that stands at some place, and where the next one begins."""
    kind = _KNOWN.get(dtype)
    if kind is None:
        raise _unreadable(f"{what} is of the type {dtype[:20]!r}")
    end = at + size * kind.itemsize
    if size < 0 or end > len(payload):
        raise _unreadable(f"{what} has {size} values, and the state ends before")
    if not size:
        return np.zeros(0, kind), at
    found = np.frombuffer(payload, kind, size, at)
    if kind.kind == "b" and found.view(np.uint8).max() > 1:
        raise _unreadable(f"{what} has truth values that are none")
    return found, end + -end % 8


def _unreadable(reason: str) -> NadiError:
    return error("STATE_NOT_READABLE", reason=reason)


def put_back(apply: Callable[[Block], None], block: Block) -> None:
    """Have an operator take a block, whose arrays may be any.

    Errors: STATE_NOT_READABLE, with what the operator met.
    """
    with fitting(f"'{block.element}'"):
        apply(block)


def elements_of(payload: bytes) -> set[str]:
    """The ids of the elements that a payload tells of."""
    return {element for element, *_rest in _head(payload)[0]} if payload else set()


def _padding(size: int) -> bytes:
    return b"\0" * (-size % 8)
