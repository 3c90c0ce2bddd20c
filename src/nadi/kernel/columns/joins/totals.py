"""What the aggregators over a join hold per group, as arrays and as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.bags import Bags
from nadi.kernel.columns.bounds import check_different, check_places, many, values
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.joins.totalling import Totalling
from nadi.kernel.columns.keytable import KeyTable, check_prefixes, longer
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import Array, Longs

_NO = np.zeros(0, np.int64)


class Totals:
    """Groups are numbers of `table` where there is more than one (`named`). `grouped`: the app is sharded by key, so that keys have key-groups.

    A block has the letter `g`, the texts of groups in `ends` and `texts`, and an array of each name.
    """

    def __init__(self, element: str, totalling: Totalling, table: KeyTable, named: bool, grouped: bool) -> None:
        self.element = element
        self.prefixed = totalling.apart and grouped
        self._dtypes: Mapping[str, str] = totalling.arrays | ({"prefix": "int32"} if self.prefixed else {})
        self._null = pa.array([totalling.null])
        self._empties = totalling.empties
        self._table = table
        self._named = named
        self._grouped = grouped and named
        self.bags = Bags(totalling.ranked, element, self, table)
        self.clear()
        self._table.packed(_NO)  # a forked process must not have to compile it

    def clear(self) -> None:
        """Forget all."""
        self.arrays: dict[str, Array] = {name: np.zeros(0, dtype) for name, dtype in self._dtypes.items()}
        self.changed = np.zeros(0, np.bool_)
        self._seen, self._slot, self._dirty = _NO, _NO, _NO
        self._listed, self._counts = np.zeros(0, np.bool_), np.zeros(1, np.int64)
        self._follow()
        self.bags.clear()

    @property
    def room(self) -> int:
        """All numbers of groups are less."""
        return self._table.room if self._named else 1

    def _follow(self) -> None:
        room = self.room
        if room > len(self.changed):
            self.arrays = {name: longer(array, room) for name, array in self.arrays.items()}
            self.changed, self._listed = longer(self.changed, room), longer(self._listed, room)
            self._seen, self._slot, self._dirty = (longer(a, room) for a in (self._seen, self._slot, self._dirty))

    @property
    def own(self) -> dict[str, Array | int]:
        """What a loop gets; the numbers of the batch's texts are made."""
        null = int(self._table.number(self._null)[0]) if self._named else 0
        self._follow()
        own: dict[str, Array | int] = {
            "null_id": null,
            "changed": self.changed,
            "seen": self._seen,
            "slot": self._slot,
            **self.arrays,
        }
        if self._empties:
            own |= {"listed": self._listed, "dirty": self._dirty, "counts": self._counts}
        return own

    def note(self, prefixes: Iterable[tuple[Array, Array]]) -> None:
        """Of groups for each key of a partition, how many bytes of their texts are the key's."""
        for ids, lengths in prefixes:
            self.arrays["prefix"][ids] = lengths

    def _telling(self) -> Iterator[Array]:
        """The arrays of which one is not 0 where a group holds anything."""
        return (array for name, array in self.arrays.items() if name != "prefix")

    def mark(self, used: Array) -> None:
        """Mark the texts of groups that hold anything, or of which a delta is still to tell."""
        if self._named:
            used[: len(self.changed)] |= self.changed
            for array in self._telling():
                used[: len(array)] |= array != 0
        self.bags.mark(used)

    def forget(self, ids: Longs) -> None:
        """Their numbers will be those of other texts."""
        if self._named:
            self._seen[ids] = 0

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The groups that were changed."""
        ids = np.flatnonzero(self.changed)
        self.changed[ids] = False
        yield from self._blocks(0, ids, max(1, len(ids)))
        yield from self.bags.changes()

    def contents(self) -> Iterator[Block]:
        """All groups that hold anything."""
        self.changed[:] = False
        held = np.zeros(len(self.changed), np.bool_)
        for array in self._telling():
            held |= array != 0
        most = BLOCK_BYTES // (24 + 8 * len(self.arrays))
        ids = np.flatnonzero(held)
        for group, mine in self.parted(ids) if len(ids) else ():
            yield from self._blocks(group, mine, most)
        yield from self.bags.contents()

    def parted(self, ids: Longs) -> Iterator[tuple[int, Longs]]:
        """Groups by their key-groups."""
        return by_group(self._table, ids, self._grouped, self.arrays.get("prefix"))

    def told(self, name: str, ids: Array) -> dict[str, Array]:
        """Groups as arrays of a block of something else: which of some texts each is."""
        different, codes = coded(ids)
        if not self._named:
            return {name: codes}
        ends, texts = self._table.packed(different)
        return {name: codes, f"{name}.ends": ends, f"{name}.texts": texts}

    def read(self, name: str, arrays: Mapping[str, Array]) -> Array:
        """The numbers of what `told` told."""
        codes = many(arrays, name, np.int32)
        if not self._named:
            return np.zeros(len(codes), np.int32)
        found = self._numbers(arrays[f"{name}.ends"], arrays[f"{name}.texts"])
        check_places(codes, len(found), f"'{name}'")
        return found[codes]

    def _numbers(self, ends: Array, texts: Array) -> Array:
        found = self._table.unpacked(ends, texts)
        self._follow()
        return found

    def _blocks(self, group: int, ids: Longs, most: int) -> Iterator[Block]:
        for start in range(0, len(ids), most):
            some = ids[start : start + most]
            arrays: dict[str, Array] = {name: array[some] for name, array in self.arrays.items()}
            if self._named:
                arrays["ends"], arrays["texts"] = self._table.packed(some)
            yield Block(self.element, group, "g", arrays, keys=int(start == 0))

    def apply(self, block: Block) -> None:
        """Groups as they are from now on. Raises ValueError where the block is none of them."""
        if self.bags.apply(block):
            return
        ids, given = np.zeros(1, np.int64), block.arrays
        if self._named:
            ids = self._numbers(given["ends"], given["texts"]).astype(np.int64)
            check_different(ids, self.room)
        for name, array in self.arrays.items():
            array[ids] = values(given, name, array.dtype, len(ids))
        if self.prefixed:
            check_prefixes(given["ends"], given["texts"], given["prefix"])
        if self._empties:
            fresh = ids[~self._listed[ids]]
            self._listed[fresh] = True
            count = int(self._counts[0])
            self._dirty[count : count + len(fresh)] = fresh
            self._counts[0] += len(fresh)

    def size(self) -> int:
        """How many groups hold anything."""
        return int(np.count_nonzero(np.any([array != 0 for array in self._telling()], axis=0)))
