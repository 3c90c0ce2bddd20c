"""Numbered rows: stretches as the output batches of the contract."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bounds import check_numbers, check_places, many, values
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.importing import Importer
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.memory import address_of
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.contract import KEY_GROUPS
from nadi.plan.nodes import Schema


class Numbering:
    """One output stream: the next number per key-group, which is state, and its batches."""

    def __init__(self, stream: str, schema: Schema) -> None:
        self.element = f"{stream}/output"
        self._importer = Importer(schema)
        self._next = np.zeros(KEY_GROUPS, np.int64)
        self._told = self._next.copy()

    def batch(self, made: Stretch) -> pa.RecordBatch:
        """The rows of a stretch with their numbers."""
        n = made.size
        if made.group is None and made.apart:
            first = int(self._next[0])
            self._next[0] = first + n
            held = pa.allocate_buffer(8 * n)
            at = held.address
            return self._importer.batch(made, n, (first, at, at, _no_groups_at(n)), held)
        numbers, chunks = np.empty(n, np.int64), np.empty(n, np.int64)
        groups = None
        if made.group is None:
            self._next[0] = _number(made.chunk, int(self._next[0]), numbers, chunks)
        else:
            _number_groups(made.chunk, made.group, self._next, numbers, chunks)
            groups = made.group.astype(np.int16)
        groups_at = _no_groups_at(n) if groups is None else address_of(groups, _SHORT)
        marks = (0, address_of(numbers, _LONG), address_of(chunks, _LONG), groups_at)
        return self._importer.batch(made, n, marks, (numbers, chunks, groups))

    # ---- state

    def changes(self) -> Iterable[Block]:
        changed = np.flatnonzero(self._next != self._told)
        if len(changed):
            self._told = self._next.copy()
            yield self._block(0, changed)

    def contents(self) -> Iterable[Block]:
        self._told = self._next.copy()
        for group in np.flatnonzero(self._next):
            yield self._block(int(group), np.array([group]))

    def _block(self, group: int, groups: Longs) -> Block:
        arrays: dict[str, Array] = {"group": groups.astype(np.int16), "next": self._next[groups]}
        return Block(self.element, group, "n", arrays)

    def apply(self, block: Block) -> None:
        groups, following = numbers_of(block)
        self._next[groups] = following
        self._told = self._next.copy()

    def clear(self) -> None:
        self._next[:] = 0
        self._told[:] = 0

    def size(self) -> int:
        return int(np.count_nonzero(self._next))


def numbers_of(block: Block) -> tuple[Array, Array]:
    """Key-groups and their next numbers, as a block of `Numbering` tells them. Raises ValueError where it does not."""
    groups = many(block.arrays, "group", np.int16)
    following = values(block.arrays, "next", np.int64, len(groups))
    check_places(groups, KEY_GROUPS, "a key-group")
    check_numbers(following, "the number of a row")
    return groups, following


_LONG, _SHORT = np.dtype(np.int64), np.dtype(np.int16)
_NO_GROUPS = [np.zeros(1024, np.int16)]
_NO_GROUPS_AT = [address_of(_NO_GROUPS[0], _SHORT)]


def _no_groups_at(size: int) -> int:
    """Where the group 0 of at least so many rows lies; it stays there."""
    if len(_NO_GROUPS[-1]) < size:
        _NO_GROUPS.append(np.zeros(2 * size, np.int16))
        _NO_GROUPS_AT.append(address_of(_NO_GROUPS[-1], _SHORT))
    return _NO_GROUPS_AT[-1]


@loop
def _number(chunk: Longs, first: int, numbers: Longs, chunks: Longs) -> int:
    """-> the next number."""
    opened = first
    for i in range(len(chunk)):
        if i == 0 or chunk[i] != chunk[i - 1]:
            opened = first + i
        numbers[i] = first + i
        chunks[i] = opened
    return first + len(chunk)


@loop
def _number_groups(chunk: Longs, group: Longs, following: Longs, numbers: Longs, chunks: Longs) -> None:
    opened = 0
    for i in range(len(chunk)):
        number = following[group[i]]
        if i == 0 or chunk[i] != chunk[i - 1]:
            opened = number
        numbers[i] = number
        chunks[i] = opened
        following[group[i]] = number + 1
