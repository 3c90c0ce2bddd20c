"""The state of a sequence: a row of words per key, and its blocks.

Blocks have the letter `r`. Texts (of keys, and of strings that matches keep) stand in `ends` and `texts`, and are named by their place there; `key` are the
keys, `rows` their rows as they are from now on, one after the other. There the first word tells only whether the sequence has begun: an element that has no
match has 0 for it. Words of matches that no element holds are 0. Outside of partitions there is one key without a text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bounds import check_places, values
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.naming import named
from nadi.kernel.columns.patterns.keystate import KeyState
from nadi.kernel.columns.patterns.runs import RunLayout
from nadi.kernel.columns.stretch import Bools, Longs


class KeyRows(KeyState):
    """See the module's text."""

    def __init__(self, element: str, layout: RunLayout, grouped: bool) -> None:
        self._shape = np.array([len(layout.elements), layout.match_width], np.int64)
        self._texts = np.array([layout.word(number) for number in layout.strings()], np.int64)
        super().__init__(element, layout.key_width, bool(layout.sources.keys), grouped)

    def ready(self) -> None:
        """Room for all ids."""
        self._follow()

    def forget(self, keys: pa.Array) -> None:
        """Let keys be as if nothing had happened to them."""
        ids = self.table.number(keys).astype(np.int64)
        self.ready()
        self.keys.reshape(-1, self._width)[ids] = 0
        self.touched[ids] = True

    def _filled(self, ids: Longs) -> Bools:
        found: Bools = self.keys[ids * self._width] != 0  # it has begun, or holds a match
        return found

    def _mark_texts(self, used: Bools) -> None:
        _mark(self.keys, self._width, self._shape, self._texts, used)

    # ---- told

    def changes(self) -> Iterator[Block]:
        """The keys whose row changed."""
        keys = np.flatnonzero(self.touched)
        if len(keys):
            self._settle(keys)
            yield self._block(0, keys)

    def contents(self) -> Iterator[Block]:
        """All keys that are as if something had happened to them."""
        keys = self._every()
        keys = keys[self._filled(keys)]
        self._told[:] = False
        self._settle(keys)
        self.touched[:] = False
        groups = groups_of(self.table, keys) if self._grouped else np.zeros(len(keys), np.int16)
        most = max(1, BLOCK_BYTES // (8 * self._width + 32))
        for group in np.unique(groups):
            mine = keys[groups == group]
            for at in range(0, len(mine), most):
                yield self._block(int(group), mine[at : at + most])

    def _block(self, group: int, keys: Longs) -> Block:
        rows, strings = _copied(self.keys, self._width, self._shape, self._texts, keys)
        words = rows[strings]
        arrays = named(self.table, [(words, np.ones(len(words), np.bool_))], {"key": keys}, self._partitioned)
        rows[strings] = words
        return Block(self.element, group, "r", {**arrays, "rows": rows}, keys=len(keys))

    # ---- put back

    def apply(self, block: Block) -> None:
        """Put back the rows of keys. Raises ValueError where the block has none."""
        ids, keys = self._numbered(block.arrays, "key")
        rows, most = values(block.arrays, "rows", np.int64, len(keys) * self._width), int(self._shape[0])
        matrix = rows.reshape(-1, self._width)
        check_places(matrix[:, 0], 2, "whether a sequence has begun")
        check_places(matrix[:, 1 : 1 + most].reshape(-1), most + 1, "the match of an element")
        if not _put(self.keys, self._width, self._shape, self._texts, ids, keys, rows):
            raise ValueError("a text is a place that there is not")
        self._settle(keys)

    def size(self) -> int:
        """How many keys hold something."""
        return int(np.count_nonzero(self._filled(self._every())))


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
    """Put back what `_copied` gave; strings are named by their place in `ids`. -> whether all have one."""
    found = True
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
                        place = rows[given + start + word]
                        there = 0 <= place < len(ids)
                        words[row + start + word] = ids[place] if there else 0
                        found = found and there
    return found
