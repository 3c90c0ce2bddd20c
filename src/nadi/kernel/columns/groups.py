"""What a query's aggregators hold per group: numbered groups, and arrays by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.kernel.columns.bounds import check_places, many, values
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import KeyTable, check_parts, check_prefixes, longer, texts_of
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import Array, Longs, Stretch, values_of
from nadi.kernel.columns.texts import Texts
from nadi.lang.tree import Type

_SWEEP = 1024  # groups from which on one looks for such that hold nothing


class Groups:
    """Groups by the values of some attributes; without attributes there is one group, number 0. `sharded`: the
    key of a group is that of its partition, and tells its key-group; where groups are by other attributes, too, it is the first one. `parts`: one asks for the
    groups of a key. `optional`: what refers to a group may refer to none, -1. `null` stands in the text for a null of the last attribute.

    `arrays` (name → dtype) are the aggregators'; the array of a name has an entry for each group, as have `touched` (set by who changes them, for the
    next delta), `opened` and `slot` (of the selection). A group that holds nothing is forgotten in time, its
    number goes to another one. Arrays that are named in `texts` have ids of strings.
    """

    def __init__(
        self,
        element: str,
        by: tuple[int, ...],
        kinds: tuple[Type, ...],
        arrays: Mapping[str, str],
        sharded: bool = False,
        texts: Mapping[str, Texts] | None = None,
        letter: str = "g",
        parts: bool = False,
        optional: bool = False,
        null: str = "null",
    ) -> None:
        self._letter = letter
        self._least = -1 if optional else 0
        self._null = null
        self.element = element
        self._texts = texts or {}
        self._sharded = sharded
        self._by = by
        self._kinds = kinds
        self._plain = kinds == (Type.STRING,)
        self._prefixed = (sharded or parts) and len(by) > 1
        self._dtypes = {"prefix": "int32", **arrays} if self._prefixed else dict(arrays)
        self.keys = KeyTable()
        self.clear()
        for dtype in (np.int32, np.int64):  # what dumps call: a forked process must not have to compile it
            self.keys.packed(coded(np.zeros(0, dtype))[0])

    def clear(self) -> None:
        """Forget all."""
        self.keys.clear()
        room = self.keys.room if self._by else 1
        self.arrays: dict[str, Array] = {name: np.zeros(room, dtype) for name, dtype in self._dtypes.items()}
        self.touched = np.zeros(room, np.bool_)
        self.opened = np.full(room, -1, np.int64)
        self.slot = np.zeros(room, np.int64)
        self._own = self._owned()
        self._limit = _SWEEP

    @property
    def grouped(self) -> bool:
        """Whether there may be more than one."""
        return bool(self._by)

    @property
    def room(self) -> int:
        """All numbers are less."""
        return len(self.touched)

    def parted(self, ids: Longs) -> Iterator[tuple[int, Longs]]:
        """Numbers of groups by their key-groups."""
        if not self._by:
            yield 0, ids
        else:
            yield from by_group(self.keys, ids, self._sharded, self.arrays.get("prefix"))

    def numbers(self, given: Stretch) -> Array:
        """The group of each event."""
        if self._plain and (lies := given.lies(self._by[0])) is not None:
            return self._grown(self.keys.numbered(given.size, lies[1], lies[2]))
        columns = tuple(given.columns[p] for p in self._by)
        found = self.number(texts_of(columns, self._kinds, self._null))
        if self._prefixed:
            texts = texts_of(columns[:1], self._kinds[:1])
            self.arrays["prefix"][found] = pc.binary_length(texts).to_numpy()
        return found

    def number(self, texts: pa.Array) -> Array:
        """The groups of texts."""
        return self._grown(self.keys.number(texts))

    def _grown(self, found: Array) -> Array:
        if self.keys.room > len(self.touched):
            self._grow(self.keys.room)
        return found

    def _grow(self, room: int) -> None:
        before = len(self.touched)
        for name, array in self.arrays.items():
            self.arrays[name] = longer(array, room)
        self.touched = longer(self.touched, room)
        self.opened = longer(self.opened, room)
        self.opened[before:] = -1
        self.slot = longer(self.slot, room)
        self._own = self._owned()

    @property
    def own(self) -> dict[str, Array | int]:
        """What a loop gets: the same mapping, as long as the arrays are the same."""
        return self._own

    def _owned(self) -> dict[str, Array | int]:
        return {**self.arrays, "touched": self.touched, "opened": self.opened, "slot": self.slot}

    @property
    def may_sweep(self) -> bool:
        """Whether there are so many groups that it is worth while to look for those that hold nothing."""
        return self.keys.count >= self._limit  # without attributes there is none

    def sweep(self, held: Array, telling: Iterable[str] | None = None) -> None:
        """Forget the groups that hold nothing; `held` are the groups of events that are still to leave.

        `telling` are the arrays that are 0 where a group holds nothing, if not all are.
        """
        empty = np.ones(self.keys.bound, np.bool_)
        for name in self.arrays if telling is None else telling:
            if name == "prefix":
                continue
            empty &= self.arrays[name][: self.keys.bound] == 0
        empty[held] = False
        empty &= ~self.touched[: self.keys.bound]  # a delta is still to tell of them
        ids = self.keys.held()
        gone = ids[empty[ids]]
        self.keys.release(gone)
        self.opened[gone] = -1
        for array in self.arrays.values():
            array[gone] = 0
        self._limit = max(_SWEEP, 2 * self.keys.count)

    def of_keys(self, keys: pa.Array) -> Array:
        """The groups whose first attribute has one of some texts."""
        if len(self._by) == 1:
            return self.number(keys)
        ids = self.keys.held()
        return ids[values_of(pc.is_in(self.firsts(ids), value_set=keys))]

    def firsts(self, ids: Array) -> pa.Array:
        """The texts of the first attribute of groups, where `prefix` tells their lengths."""
        ends, data = self.keys.packed(ids)
        made, prefix = np.zeros(len(ids) + 1, np.int32), self.arrays["prefix"][ids]
        check_parts(ends, prefix)
        np.cumsum(prefix, out=made[1:])
        firsts = np.empty(int(made[-1]), np.uint8)
        _cut(ends, data, made, firsts)
        return pa.Array.from_buffers(pa.string(), len(ids), [None, pa.py_buffer(made), pa.py_buffer(firsts)])

    def forget(self, ids: Array) -> None:
        """Let groups be as if they had never been; their numbers go to others in time."""
        for array in self.arrays.values():
            array[ids] = 0
        self.touched[ids] = True

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The groups that were touched."""
        ids = np.flatnonzero(self.touched)
        self.touched[ids] = False
        return self._blocks(0, ids, max(1, len(ids)))

    def contents(self) -> Iterator[Block]:
        """All groups."""
        self.touched[:] = False
        most = BLOCK_BYTES // (24 + 8 * len(self.arrays))
        if not self._by:
            yield from self._blocks(0, np.zeros(1, np.int64), most)
            return
        for group, ids in by_group(self.keys, self.keys.held(), self._sharded, self.arrays.get("prefix")):
            yield from self._blocks(group, ids, most)

    def _blocks(self, group: int, ids: Longs, most: int) -> Iterator[Block]:
        for start in range(0, len(ids), most):
            some = ids[start : start + most]
            arrays = {name: array[some] for name, array in self.arrays.items() if name not in self._texts}
            for name, texts in self._texts.items():
                arrays |= texts.told(name, self.arrays[name][some])
            yield Block(self.element, group, self._letter, {**self.named(some), **arrays}, keys=int(start == 0))

    def named(self, ids: Array) -> dict[str, Array]:
        """The texts of groups, for a block."""
        if not self._by:
            return {}
        ends, data = self.keys.packed(ids)
        return {"ends": ends, "texts": data}

    def numbers_of(self, block: Block) -> Array:
        """The numbers of the groups that a block names."""
        if not self._by:
            return np.zeros(1, np.int32)
        return self._grown(self.keys.unpacked(block.arrays["ends"], block.arrays["texts"]))

    def told(self, name: str, ids: Array) -> dict[str, Array]:
        """Groups of something else, as arrays of its block: which of some groups each is, -1 where it is none."""
        there = ids >= 0
        codes = np.full(len(ids), -1, np.int32)
        different, codes[there] = coded(ids[there])
        return {name: codes, **{f"{name}.{part}": array for part, array in self.named(different).items()}}

    def read(self, name: str, arrays: Mapping[str, Array]) -> Array:
        """The numbers of what `told` told. Raises ValueError for what it did not tell."""
        codes = many(arrays, name, np.int32)
        if not self._by:
            return np.zeros(len(codes), np.int32)
        known = {part: arrays[f"{name}.{part}"] for part in ("ends", "texts")}
        found = self.numbers_of(Block(self.element, 0, "", known))
        check_places(codes, len(found), f"'{name}'", self._least)
        return np.where(codes < 0, np.int32(-1), found.take(codes, mode="clip") if len(found) else np.int32(-1))

    def apply(self, block: Block) -> None:
        """Groups as they are from now on. Raises ValueError where the block is none of them."""
        self.put(block)

    def put(self, block: Block) -> Longs:
        """The same; -> their numbers."""
        ids, given = self.numbers_of(block).astype(np.int64), block.arrays
        for name, array in self.arrays.items():
            if name in self._texts:
                array[ids] = values({name: self._texts[name].read(name, given)}, name, array.dtype, len(ids))
            else:
                array[ids] = values(given, name, array.dtype, len(ids))
        if self._prefixed:
            check_prefixes(given["ends"], given["texts"], given["prefix"])
        return ids

    def size(self) -> int:
        """How many groups are known."""
        return self.keys.count if self._by else 1


def by_turn(groups: Groups, turn: Longs, ids: Array) -> Longs:
    """The order of turns, and in each of them that of the texts of groups: in which timers of keys fire on rows that are due at the same time."""
    different, found = np.unique(ids, return_inverse=True)
    rank = np.empty(len(different), np.int64)
    rank[pc.sort_indices(groups.keys.array(different)).to_numpy()] = np.arange(len(different))
    return np.lexsort((rank[found], turn))


@loop
def _cut(ends, data, made, firsts):  # type: ignore[no-untyped-def]
    """The beginnings of texts, one after the other; `made` tells where each is to end."""
    for i in range(len(made) - 1):
        for j in range(made[i + 1] - made[i]):
            firsts[made[i] + j] = data[ends[i] + j]
