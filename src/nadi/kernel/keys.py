"""Keys and key-groups: the text of a key as Java prints it, and the group in which its state moves (semantics/expressions.md#keys)."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from nadi.functions.arithmetic import java_text
from nadi.kernel.contract import KEY_GROUPS

__all__ = [
    "COUNTER",
    "NUMBERS",
    "bucket_of_group",
    "counted_group",
    "flow_key_group",
    "java_text",
    "key_group",
    "murmur3",
]

_MASK = 0xFFFFFFFF
COUNTER = "\x00"
"""Opens the flow key of the numbers of a key-group, so that they stay in that group's segment."""
NUMBERS = "/output"
"""Ends the id of the element that has these numbers of an output."""


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32-bit, as an unsigned int.

    >>> hex(murmur3(b"hello"))
    '0x248bfa47'
    """
    value = seed
    whole = len(data) >> 2
    # written out: this is what dumping many keys takes most of its time for
    for block in Struct(f"<{whole}I").unpack_from(data):
        block = (block * 0xCC9E2D51) & _MASK
        value ^= (((block << 15) | (block >> 17)) * 0x1B873593) & _MASK
        value = ((value << 13) | (value >> 19)) & _MASK
        value = (value * 5 + 0xE6546B64) & _MASK
    if tail := data[whole << 2 :]:
        block = (int.from_bytes(tail, "little") * 0xCC9E2D51) & _MASK
        value ^= (((block << 15) | (block >> 17)) * 0x1B873593) & _MASK
    value ^= len(data)
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & _MASK
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & _MASK
    return value ^ (value >> 16)


@lru_cache(maxsize=1 << 16)
def key_group(text: str) -> int:
    """The key-group of a key's text: 0 to KEY_GROUPS - 1; never changes between versions.

    >>> key_group("")
    0
    """
    return murmur3(text.encode("utf-8", "surrogatepass")) % KEY_GROUPS


def flow_key_group(key: str) -> int:
    """The key-group of a flow key in an app that is sharded by key: state outside partitions ("") belongs to group 0."""
    return key_group(key) if key else 0


def counted_group(element: str, key: str) -> int | None:
    """The key-group whose numbers an element keeps under a flow key; None where it keeps something else, under a key of events, which may be any text.

    >>> counted_group("Out/output", COUNTER + "5"), counted_group("Out/output", ""), counted_group("query/window", COUNTER + "5")
    (5, 0, None)
    """
    return int(key.removeprefix(COUNTER) or 0) if element.endswith(NUMBERS) else None


def bucket_of_group(group: int, buckets: int) -> int:
    """Buckets are ranges of key-groups.

    >>> [bucket_of_group(group, 4) for group in (0, 31, 32, 127)]
    [0, 0, 1, 3]
    """
    return group * buckets // KEY_GROUPS
