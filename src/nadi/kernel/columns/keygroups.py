"""The key-groups of the keys in a table. Where there need not be a compiler, `nadi.kernel.keytexts` does the same."""

from __future__ import annotations

import numpy as np

from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import KeyTable, check_parts
from nadi.kernel.columns.stretch import Array, Longs
from nadi.kernel.contract import KEY_GROUPS


def groups_of(keys: KeyTable, ids: Longs, lengths: Array | None = None) -> Array:
    """The key-group of each of some keys (int16). With `lengths`, of each id, the key of a partition is so many bytes at the beginning of a text."""
    ends, texts = keys.packed(ids)
    if lengths is not None:
        check_parts(ends, lengths[ids])
    stops = ends[1:] if lengths is None else (ends[:-1] + lengths[ids]).astype(np.int32)
    found: Array = key_groups(ends[:-1], stops, texts)
    return found


@loop
def key_groups(starts, stops, texts):  # type: ignore[no-untyped-def]
    """The key-groups of texts, which lie in `texts` from `starts` to `stops`: `nadi.kernel.keys.key_group`."""
    made = np.empty(len(starts), np.int16)
    for i in range(len(made)):
        start, size = int(starts[i]), int(stops[i] - starts[i])
        value = 0
        for at in range(start, start + size // 4 * 4, 4):
            block = 0
            for j in range(4):
                block |= int(texts[at + j]) << (8 * j)
            value ^= _mixed(block)
            value = ((value << 13) | (value >> 19)) & 0xFFFFFFFF
            value = (value * 5 + 0xE6546B64) & 0xFFFFFFFF
        block = 0
        for j in range(size % 4):
            block |= int(texts[start + size // 4 * 4 + j]) << (8 * j)
        if size % 4:
            value ^= _mixed(block)
        value ^= size
        value = ((value ^ (value >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        value = ((value ^ (value >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        made[i] = (value ^ (value >> 16)) % KEY_GROUPS
    return made


@loop
def _mixed(block):  # type: ignore[no-untyped-def]
    block = (block * 0xCC9E2D51) & 0xFFFFFFFF
    return (((block << 15) | (block >> 17)) * 0x1B873593) & 0xFFFFFFFF
