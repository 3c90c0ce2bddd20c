"""A queue of events in flat arrays: appended at the end, taken from the front.

Events are counted from the first one ever. The arrays have as many places as a power of two, and an event stands where the last bits of its number say: what
comes takes the places of what has left, and nothing is ever moved unless there is too little room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from nadi.kernel.columns.bounds import FARTHEST, check_places, many, single, values
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.stretch import Array, Longs
from nadi.kernel.columns.texts import Texts

_FEWEST = 1024


class Ring:
    """`columns`: name → dtype of what is held of an event; `group` among them where events are grouped. Those in `named` are numbers of other tables.

    A loop appends number `tail` and takes number `head`, and leaves both in `ends`, which has the bits of a place (`mask`) behind them.
    """

    def __init__(
        self,
        element: str,
        columns: Mapping[str, str],
        groups: Groups,
        named: Mapping[str, Groups | Texts] | None = None,
    ) -> None:
        self._named = named or {}
        self._element = element
        self._grouped = groups.grouped
        self._groups = groups
        self._dtypes = {"group": "int32", **columns} if self._grouped else dict(columns)
        self.version = 0  # of the places
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.arrays: dict[str, Array] = {name: np.zeros(_FEWEST, dtype) for name, dtype in self._dtypes.items()}
        self.ends = np.array([0, 0, _FEWEST - 1])  # head, tail, mask
        self._own = self._owned()
        self.version += 1
        self._told = (0, 0)  # head and tail when a delta was made last

    def __len__(self) -> int:
        return int(self.ends[1] - self.ends[0])

    @property
    def _span(self) -> tuple[int, int]:
        """The numbers of the oldest event and of the next one."""
        head, tail, _mask = self.ends.tolist()
        return head, tail

    def room(self, more: int) -> None:
        """Make room for so many events."""
        head, tail = self._span
        if tail - head + more <= len(self.arrays["ts"]):
            return
        held, wanted = self._part(head, tail), 1 << (tail - head + more).bit_length()
        self.arrays = {name: np.zeros(wanted, dtype) for name, dtype in self._dtypes.items()}
        self.ends[2] = wanted - 1
        places = self._places(head, tail)
        for name, array in self.arrays.items():
            array[places] = held[name]
        self._own = self._owned()
        self.version += 1

    def _places(self, start: int, stop: int) -> Longs:
        """Where the events of some numbers stand."""
        places: Longs = np.arange(start, stop) & self.ends[2]
        return places

    def _part(self, start: int, stop: int) -> dict[str, Array]:
        """What is held of the events of some numbers: a view where they stand beside each other."""
        size = len(self.arrays["ts"])
        first, count = start & (size - 1), stop - start
        if first + count <= size:
            return {name: array[first : first + count] for name, array in self.arrays.items()}
        rest = first + count - size
        return {name: np.concatenate([array[first:], array[:rest]]) for name, array in self.arrays.items()}

    # ---- in a loop

    any_left = "head < tail"
    oldest = "head & mask"
    held = "tail - head"
    before = ("head = ends[0]", "tail = ends[1]", "mask = ends[2]")
    after = ("ends[0] = head", "ends[1] = tail")

    @property
    def take(self) -> tuple[str, ...]:
        """The lines that take the oldest event: its place is `j`, its group `h`."""
        return ("j = head & mask", "head += 1", "h = h_group[j]" if self._grouped else "h = 0")

    @property
    def append(self) -> tuple[str, ...]:
        """The lines that append an event of group `g`: its place is `j`."""
        return ("j = tail & mask", "tail += 1", *(("h_group[j] = g",) if self._grouped else ()))

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop over it gets."""
        return {"ends": "int64[]"} | {f"h_{name}": f"{dtype}[]" for name, dtype in self._dtypes.items()}

    @property
    def own(self) -> dict[str, Array | int]:
        """The arrays of the parameters: the same mapping, as long as they are the same."""
        return self._own

    def _owned(self) -> dict[str, Array | int]:
        made: dict[str, Array | int] = {f"h_{name}": array for name, array in self.arrays.items()}
        return made | {"ends": self.ends}

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        return self.arrays["group"][self._places(*self._span)]

    def places(self) -> tuple[Longs, Array]:
        """The places of the events, the oldest first, and their groups."""
        found = self._places(*self._span)
        return found, self.arrays["group"][found] if self._grouped else np.zeros(len(found), np.int32)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What was taken of what the last delta left, and what came and is still there."""
        head, tail = self._span
        before_head, before_tail = self._told
        if (head, tail) == self._told:
            return
        self._told = head, tail
        came = self._part(max(head, before_tail), tail)
        yield self._block(came, min(head, before_tail) - before_head, keys=0)

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events. A window outside of partitions keeps an app in one bucket: `sharded` is False.

        Events are counted from the first one ever, also by who loads this, and blocks end at multiples of their size: those that nothing has left are alike in
        each dump.
        """
        head, tail = self._span
        self._told = head, tail
        most = BLOCK_BYTES // sum(array.itemsize for array in self.arrays.values())
        if tail == 0:
            return
        for start, end in pairwise((head, *range((head // most + 1) * most, tail, most), tail)):
            block = self._block(self._part(start, end), 0, keys=int(start == head))
            yield replace(block, arrays={**block.arrays, "first": np.array([head])}) if start == head else block

    def _block(self, arrays: dict[str, Array], taken: int, keys: int) -> Block:
        if self._grouped:
            different, arrays["group"] = coded(arrays["group"])
            arrays |= self._groups.named(different)
        for name, table in self._named.items():
            arrays |= table.told(name, arrays[name])
        return Block(self._element, 0, "q", {"taken": np.array([taken], np.int64), **arrays}, keys)

    def apply(self, block: Block) -> None:
        """Take some off the front, append others. Raises ValueError where the block is none of them."""
        given = dict(block.arrays)
        count = len(many(given, "ts", np.int64))
        if self._grouped:
            groups, codes = self._groups.numbers_of(block), values(given, "group", np.int32, count)
            check_places(codes, len(groups), "'group'")
            given["group"] = groups[codes]
        for name, table in self._named.items():
            given[name] = table.read(name, given)
        if "first" in given:
            self.ends[:2] = single(given, "first")
        taken = single(given, "taken")
        if not (0 <= taken <= len(self) and 0 <= self.ends[1] < FARTHEST):
            raise ValueError("more events go than there are")
        self.ends[0] += taken
        self.room(count)
        tail = int(self.ends[1])
        places = self._places(tail, tail + count)
        for name, array in self.arrays.items():
            array[places] = values(given, name, array.dtype, count)
        self.ends[1] = tail + count
        self.version += 1
        self._told = int(self.ends[0]), tail + count
