"""Plain values as MessagePack, so that they come back as they were: None, bool, int, float, str, bytes, and lists, tuples, dicts and sets of them.

Extension types 1 to 4 are tuples, sets, frozen sets and dicts with keys other than text; each holds a MessagePack array (of items, or of tuples of key and
value).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

_TUPLE, _SET, _FROZEN_SET, _DICT = 1, 2, 3, 4


def _pack_rare(value: Any) -> Any:
    raise NotImplementedError(f"{type(value).__name__} cannot be kept in state")


def unpack_rare(code: int, data: memoryview) -> Any:
    items = unpack(bytes(data))
    if code == _TUPLE:
        return tuple(items)
    if code == _DICT:
        return dict(items)
    return set(items) if code == _SET else frozenset(items)


def mark(value: Any) -> Any:
    """What MessagePack has no form of its own for becomes an extension value, so that it comes back as it was."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, tuple):
        return _extension(_TUPLE, value)
    if kind is list:
        return value if ATOMS.issuperset(map(type, value)) else [mark(x) for x in value]
    if kind is dict:
        if all(type(k) is str for k in value):
            return {k: mark(v) for k, v in value.items()}
        return _extension(_DICT, value.items())
    if kind is set or kind is frozenset:
        # sorted, because equal states shall be equal bytes
        return _extension(_SET if kind is set else _FROZEN_SET, sorted(value, key=repr))
    return value


def _extension(code: int, items: Collection[Any]) -> Any:
    plain = ATOMS.issuperset(map(type, items))
    return msgspec.msgpack.Ext(code, ENCODER.encode(items if plain else [mark(x) for x in items]))


ATOMS = frozenset({int, float, str, bool, bytes, type(None)})
ENCODER = msgspec.msgpack.Encoder(enc_hook=_pack_rare)
_DECODER = msgspec.msgpack.Decoder(ext_hook=unpack_rare)


def pack(value: Any) -> bytes:
    """A plain value as bytes.

    >>> unpack(pack((1, [2.5, None], {"a": (3,)})))
    (1, [2.5, None], {'a': (3,)})
    """
    return ENCODER.encode(mark(value))


def unpack(data: bytes) -> Any:
    """The value that `pack` was given."""
    return _DECODER.decode(data)
