"""Tables of what lies where: a row for each mark of a stretch and for each of its columns. Loops are told by them where to read; and rows of a stretch are
picked by one call, which copies what lies at their places into one block of memory, and writes the table of what comes out.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.kernel.columns.jit import bare, part
from nadi.kernel.columns.memory import lying, peek, poke
from nadi.kernel.columns.words import load, store

MARKS = ("ts", "now", "chunk")
FIRST = len(MARKS)
"""The rows of a table: those of the marks stand before those of the columns."""

ROW = 4
NULLS, VALUES, TEXTS, LIES = range(ROW)
"""The words of a row: where the nulls lie that a loop reads (bools), where the values do, where the bytes of texts do; how the column may be copied as it
lies: the bytes of each value, -1 texts, 0 not at all, as there are nulls or only Arrow has it."""

Kind = np.dtype[Any]
_TEXT = 24  # bytes that a text takes, more or less; where it does not, there is a second call


class Recipe:
    """What comes out where some rows are picked: of each column the position of the one that is passed on, or where it lies among what is computed (in bytes
    for each event) and its dtype, or None for what is made otherwise; and the types, None for texts."""

    def __init__(self, columns: Sequence[int | tuple[int, Kind] | None], kinds: Sequence[Kind | None]) -> None:
        self.kinds = tuple(kinds)
        self.passed = tuple((at, one) for at, one in enumerate(columns) if isinstance(one, int))
        self.positions = tuple(position for _at, position in self.passed)
        self.words = np.full(3 * len(columns), -1, np.int64)
        for at, one in enumerate(columns):
            if isinstance(one, int):
                self.words[3 * at] = FIRST + one
            elif one is not None:
                self.words[3 * at + 1 : 3 * at + 3] = one[0], one[1].itemsize
        self.blank = array("q", bytes(8 * ROW * (FIRST + len(kinds))))
        self.each = 8 * FIRST + sum(_TEXT if kind is None else kind.itemsize for kind in kinds)
        """The bytes of a row, more or less."""


def picked(
    table: int,
    rows: int,
    source: npt.NDArray[np.int64] | None,
    count: int,
    recipe: Recipe,
    computed: int,
    no_nulls: int,
) -> tuple[array[int], pa.Buffer | None]:
    """The table of what some rows give, of which `source` has the places, None where all are picked as they are; and the block in which they lie then.

    `computed` is where that lies, and `no_nulls` an array of so many bools that are not set.
    """
    words = recipe.blank[:]
    at = words.buffer_info()[0]
    if source is None:
        _passed(table, rows, recipe.words, computed, no_nulls, at)
        return words, None
    room = count * recipe.each + 32 * len(words)
    block = pa.allocate_buffer(room)
    missing = _picked(table, rows, source, count, recipe.words, computed, no_nulls, at, block.address, room)
    if missing:
        room += missing
        block = pa.allocate_buffer(room)
        _picked(table, rows, source, count, recipe.words, computed, no_nulls, at, block.address, room)
    return words, block


@part
def _computed(recipe, c, rows, computed, no_nulls, made):  # type: ignore[no-untyped-def]
    """The row of a table for what was computed."""
    poke(made, no_nulls)
    poke(made + 8 * VALUES, computed + rows * recipe[3 * c + 1])
    poke(made + 8 * LIES, max(0, recipe[3 * c + 2]))


@bare
def _passed(table, rows, recipe, computed, no_nulls, words):  # type: ignore[no-untyped-def]
    for w in range(ROW * FIRST):
        poke(words + 8 * w, peek(table + 8 * w))
    for c in range(len(recipe) // 3):
        made, row = words + 8 * ROW * (FIRST + c), recipe[3 * c]
        if row < 0:
            _computed(recipe, c, rows, computed, no_nulls, made)
            continue
        poke(made, no_nulls)  # the table that is read need not tell of nulls, of which what lies there has none
        for w in range(1, ROW):
            poke(made + 8 * w, peek(table + 8 * (ROW * row + w)))


@bare
def _picked(table, rows, source, count, recipe, computed, no_nulls, words, block, room):  # type: ignore[no-untyped-def]
    """-> how many bytes are missing: it is to be called again."""
    columns = len(recipe) // 3
    used = 0
    for r in range(FIRST + columns):
        row = recipe[3 * (r - FIRST)] if r >= FIRST else r
        made = words + 8 * ROW * r
        if row < 0:
            _computed(recipe, r - FIRST, rows, computed, no_nulls, made)
            continue
        lies = peek(table + 8 * (ROW * row + LIES)) if r >= FIRST else 8
        poke(made, no_nulls)
        poke(made + 8 * VALUES, block + used)
        poke(made + 8 * LIES, lies)
        if lies < 0:
            used += (4 * (count + 1) + 7) // 8 * 8
            poke(made + 8 * TEXTS, block + used)
            ends = lying(peek(table + 8 * (ROW * row + VALUES)), rows + 1, np.int32)
            used += (_measured(ends, source, count) + 15) // 8 * 8
        else:
            used += (count * lies + 7) // 8 * 8
    if used > room:
        return used - room
    for r in range(FIRST + columns):
        row = recipe[3 * (r - FIRST)] if r >= FIRST else r
        if row < 0:
            continue
        lies, at = peek(words + 8 * (ROW * r + LIES)), peek(table + 8 * (ROW * row + VALUES))
        made = peek(words + 8 * (ROW * r + VALUES))
        if lies == 8:
            _copied(lying(at, rows, np.int64), source, lying(made, count, np.int64))
        elif lies == 4:
            _copied(lying(at, rows, np.int32), source, lying(made, count, np.int32))
        elif lies == 2:
            _copied(lying(at, rows, np.int16), source, lying(made, count, np.int16))
        elif lies == 1:
            _copied(lying(at, rows, np.int8), source, lying(made, count, np.int8))
        elif lies < 0:
            texts_at, made_at = peek(table + 8 * (ROW * row + TEXTS)), peek(words + 8 * (ROW * r + TEXTS))
            _spelled(lying(at, rows + 1, np.int32), texts_at, source, lying(made, count + 1, np.int32), made_at)
    return 0


@part
def _copied(values, source, made):  # type: ignore[no-untyped-def]
    for k in range(len(made)):
        made[k] = values[source[k]]


@part
def _measured(ends, source, count):  # type: ignore[no-untyped-def]
    """The bytes of texts."""
    total = 0
    for k in range(count):
        total += int(ends[source[k] + 1]) - int(ends[source[k]])
    return total


@part
def _spelled(ends, texts_at, source, made, made_at):  # type: ignore[no-untyped-def]
    """The texts one behind the other; there is room for eight bytes more than they have."""
    data = lying(texts_at, ends[len(ends) - 1], np.uint8)
    count, total = len(made) - 1, 0
    made[0] = 0
    for k in range(count):
        total += ends[source[k] + 1] - ends[source[k]]
        made[k + 1] = total
    texts = lying(made_at, total + 8, np.uint8)
    for k in range(count):
        start, at = ends[source[k]], made[k]
        size = made[k + 1] - at
        if size <= 8 and start + 8 <= len(data):
            store(texts, at, load(data, start))  # what is too much of it is written over by the next one
        else:
            for j in range(size):
                texts[at + j] = data[start + j]
