"""The state of a sequence: a row of words per key, and its blocks.

Blocks have the letter `r`. Texts (of keys, and of strings that matches keep) stand in `ends` and `texts`, and are named by their place there; `key` are the
keys, `rows` their rows as they are from now on, one after the other. There the first word tells only whether the sequence has begun: an element that has no
match has 0 for it. Words of matches that no element holds are 0. Outside of partitions there is one key without a text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.patterns.pooling import key_groups
from nadi.kernel.columns.patterns.runs import RunLayout
from nadi.kernel.columns.stretch import Array, Longs

_SWEEP = 1024  # keys from which on one looks for such that hold nothing


class KeyRows:
    """`table` numbers the keys and strings. `grouped`: the app is sharded by key, so that keys have key-groups."""

    def __init__(self, element: str, layout: RunLayout, grouped: bool) -> None:
        self.element = element
        self._partitioned = bool(layout.sources.keys)
        self._grouped = grouped and self._partitioned
        self._width = layout.key_width
        self._shape = np.array([len(layout.elements), layout.match_width], np.int64)
        self._texts = np.array([layout.word(number) for number in layout.strings()], np.int64)
        self.table = KeyTable()
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.table.clear()
        rows = self.table.room if self._partitioned else 1
        self.words = np.zeros(rows * self._width, np.int64)
        self.touched = np.zeros(rows, np.bool_)
        self._told = np.zeros(rows, np.bool_)
        self._limit = _SWEEP

    def ready(self) -> None:
        """Room for all ids."""
        room = self.table.room
        if self._partitioned and room > len(self.touched):
            self.words = _longer(self.words, room * self._width)
            self.touched, self._told = _longer(self.touched, room), _longer(self._told, room)

    def sweep(self) -> None:
        """Forget texts that nothing refers to, if there are many."""
        if self.table.count < self._limit:
            return
        used = np.zeros(self.table.room, np.bool_)
        _mark(self.words, self._width, self._shape, self._texts, used)
        if self._partitioned:
            used |= self._filled()
            used |= self._told
        ids = self.table.held()
        free = ids[~used[ids]]
        self.table.release(free)
        if self._partitioned:
            self.touched[free] = False
        self._limit = max(_SWEEP, 2 * self.table.count)

    def _filled(self) -> Array:
        """Which keys have begun, or hold a match."""
        found: Array = _filled(self.words, self._width)
        return found

    # ---- told

    def changes(self) -> Iterator[Block]:
        """The keys whose row changed."""
        keys = np.flatnonzero(self.touched)
        if len(keys):
            self._settle(keys)
            yield self._block(0, keys)

    def contents(self) -> Iterator[Block]:
        """All keys that are as if something had happened to them."""
        keys = np.flatnonzero(self._filled())
        self._told[:] = False
        self._settle(keys)
        self.touched[:] = False
        groups = key_groups(*self.table.packed(keys)) if self._grouped else np.zeros(len(keys), np.int16)
        most = max(1, BLOCK_BYTES // (8 * self._width + 32))
        for group in np.unique(groups):
            mine = keys[groups == group]
            for at in range(0, len(mine), most):
                yield self._block(int(group), mine[at : at + most])

    def _settle(self, keys: Longs) -> None:
        self.touched[keys] = False
        self._told[keys] = _some_filled(self.words, self._width, keys)

    def _block(self, group: int, keys: Longs) -> Block:
        rows, strings = _copied(self.words, self._width, self._shape, self._texts, keys)
        named = [keys] if self._partitioned else []
        ids = np.unique(np.concatenate([rows[strings], *named]))
        rows[strings] = np.searchsorted(ids, rows[strings])
        arrays: dict[str, Array] = {}
        if len(ids):
            arrays["ends"], arrays["texts"] = self.table.packed(ids)
        arrays["key"] = (np.searchsorted(ids, keys) if self._partitioned else keys).astype(np.int32)
        return Block(self.element, group, "r", {**arrays, "rows": rows}, keys=len(keys))

    # ---- put back

    def apply(self, block: Block) -> None:
        """Put back the rows of keys."""
        given = block.arrays
        ids = np.zeros(0, np.int64)
        if "ends" in given:
            buffers = [None, pa.py_buffer(given["ends"]), pa.py_buffer(given["texts"])]
            ids = self.table.number(pa.Array.from_buffers(pa.string(), len(given["ends"]) - 1, buffers)).astype(
                np.int64
            )
            self.ready()
        keys = ids[given["key"]] if self._partitioned else given["key"].astype(np.int64)
        _put(self.words, self._width, self._shape, self._texts, ids, keys, given["rows"])
        self._settle(keys)

    def size(self) -> int:
        """How many keys hold something."""
        return int(np.count_nonzero(self._filled()))


def _longer(array: Array, size: int) -> Array:
    made = np.zeros(size, array.dtype)
    made[: len(array)] = array
    return made


@loop
def _filled(words, width):  # type: ignore[no-untyped-def]
    made = np.zeros(len(words) // width, np.bool_)
    for g in range(len(made)):
        made[g] = words[g * width] != 0
    return made


@loop
def _some_filled(words, width, keys):  # type: ignore[no-untyped-def]
    made = np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        made[i] = words[keys[i] * width] != 0
    return made


@loop
def _held(words, row, shape, match):  # type: ignore[no-untyped-def]
    """Whether an element holds a match (from 1 on)."""
    found = False
    for slot in range(shape[0]):
        found = found or ((words[row] >> (slot + 1)) & 1 != 0 and words[row + 1 + slot] == match)
    return found


@loop
def _mark(words, width, shape, texts, used):  # type: ignore[no-untyped-def]
    """Mark the strings that matches keep."""
    for row in range(0, len(words), width):
        for match in range(1, shape[0] + 1):
            if _held(words, row, shape, match):
                start = row + 1 + shape[0] + (match - 1) * shape[1]
                for word in texts:
                    if words[start + word - 1] == 0:
                        used[words[start + word]] = True


@loop
def _copied(words, width, shape, texts, keys):  # type: ignore[no-untyped-def]
    """The rows of keys, one after the other, without matches that no element holds; and which of these words are strings."""
    rows, strings = np.zeros(len(keys) * width, np.int64), np.zeros(len(keys) * width, np.bool_)
    head = 1 + shape[0]
    for i in range(len(keys)):
        row, to = keys[i] * width, i * width
        rows[to] = words[row] & 1
        for slot in range(shape[0]):
            if (words[row] >> (slot + 1)) & 1 != 0:
                rows[to + 1 + slot] = words[row + 1 + slot]
        for match in range(shape[0]):
            if _held(words, row, shape, match + 1):
                start = head + match * shape[1]
                rows[to + start : to + start + shape[1]] = words[row + start : row + start + shape[1]]
                for word in texts:
                    if words[row + start + word - 1] == 0:
                        strings[to + start + word] = True
    return rows, strings


@loop
def _put(words, width, shape, texts, ids, keys, rows):  # type: ignore[no-untyped-def]
    """Put back what `_copied` gave; strings are named by their place in `ids`."""
    for i in range(len(keys)):
        row, given = keys[i] * width, i * width
        words[row : row + width] = rows[given : given + width]
        for slot in range(shape[0]):
            if words[row + 1 + slot] != 0:
                words[row] |= 1 << (slot + 1)
        for match in range(1, shape[0] + 1):
            if _held(words, row, shape, match):
                start = 1 + shape[0] + (match - 1) * shape[1]
                for word in texts:
                    if words[row + start + word - 1] == 0:
                        words[row + start + word] = ids[rows[given + start + word]]
