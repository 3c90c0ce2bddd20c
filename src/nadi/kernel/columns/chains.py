"""The events that a window holds per key, as chains in flat arrays: the counterpart of `ring` inside partitions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import check_different, check_places, many, values
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import check_beginnings, longer
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import Array, Longs
from nadi.kernel.columns.texts import Texts

_FEWEST = 1024
_NO_KEYS = np.zeros(0, np.int64)
_BY_KEY = ("first", "last", "count", "taken")


class Chains:
    """`columns`: name → dtype of what is held of an event. Its key is a group of `keys`, and its group too, unless there are `groups` apart from the keys.
    Columns in `named`
    are numbers of other tables. With `fronts` events may also come before those that a key holds: `front` tells which did. Where a loop has two such
    chains, all names of one begin with a `mark`, and its blocks have another `letter`. `apart`: each key has groups of its own.

    By place: `following`, the next event of the same key, and `number`, which tells it from all others, -1 where nothing is held. By key: `first`, `last`,
    `count`, and `taken`, how many went of those that the last delta knew. `came` and `came_number` note what came since that.
    """

    def __init__(
        self,
        element: str,
        columns: Mapping[str, str],
        keys: Groups,
        groups: Groups | None = None,
        named: Mapping[str, Groups | Texts] | None = None,
        fronts: bool = False,
        mark: str = "",
        letter: str = "k",
        apart: bool = False,
    ) -> None:
        self._element = element
        self._mark, self._letter = mark, letter
        self._fronts, self._apart = fronts, apart
        self._tables: dict[str, Groups | Texts] = dict(named or {})
        if groups is not None:
            self._tables["group"] = groups
        self._dtypes = dict(columns) if groups is None else {"group": "int32", **columns}
        if fronts:
            self._dtypes["front"] = "bool"
        self._keys, self._groups = keys, groups
        self._named(groups is not None)
        self.version = 0  # of the places
        self.clear()
        _walk(_NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS)  # a forked process must not have to compile it

    def clear(self) -> None:
        """Forget all."""
        self.version += 1
        self.arrays = {name: np.zeros(_FEWEST, dtype) for name, dtype in self._dtypes.items()}
        self._following = np.zeros(_FEWEST, np.int64)
        self._number = np.full(_FEWEST, -1, np.int64)
        self._group = np.zeros(_FEWEST, np.int64)
        self._free = np.arange(_FEWEST, dtype=np.int64)
        self._by_key = {name: np.zeros(_FEWEST, np.int64) for name in _BY_KEY}
        self._came = np.zeros(_FEWEST, np.int64)
        self._came_number = np.zeros(_FEWEST, np.int64)
        # free places, came since, the next number, that at the last delta
        self._counts = np.array([_FEWEST, 0, 0, 0], np.int64)

    def __len__(self) -> int:
        return len(self._free) - int(self._counts[0])

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop over it gets."""
        own = dict.fromkeys(
            (*_BY_KEY, "following", "number", "key", "free", "came", "came_number", "counts"), "int64[]"
        )
        own |= {f"h_{name}": f"{dtype}[]" for name, dtype in self._dtypes.items()}
        return {f"{self._mark}{name}": dtype for name, dtype in own.items()}

    @property
    def own(self) -> dict[str, Array | int]:
        """The arrays of the parameters."""
        made: dict[str, Array | int] = {f"h_{name}": array for name, array in self.arrays.items()}
        made |= {**self._by_key, **self._shared}
        return {f"{self._mark}{name}": array for name, array in made.items()} if self._mark else made

    @property
    def _shared(self) -> dict[str, Array]:
        return {
            "following": self._following,
            "number": self._number,
            "key": self._group,
            "free": self._free,
            "came": self._came,
            "came_number": self._came_number,
            "counts": self._counts,
        }

    def _named(self, apart: bool) -> None:
        """The texts and lines of a loop. The key is `p` where groups are apart from keys, else `g`."""
        key = "p" if apart else "g"
        self.any_left = f"count[{key}] > 0"
        self.oldest = f"first[{key}]"
        self.held = f"count[{key}]"
        self.before = ("spare = counts[0]", "new = counts[1]", "next_number = counts[2]", "told = counts[3]")
        self.after = ("counts[0] = spare", "counts[1] = new", "counts[2] = next_number")
        self.take: tuple[str, ...] = (  # takes the oldest event of the key: its place is `j`, its group `h`
            f"j = first[{key}]",
            "h = h_group[j]" if apart else "h = g",
            f"first[{key}] = following[j]",
            f"count[{key}] -= 1",
            f"if number[j] < told: taken[{key}] += 1",
            "number[j] = -1",
            "free[spare] = j",
            "spare += 1",
        )
        self.append: tuple[str, ...] = (  # appends an event of group `g` to the key: its place is `j`
            "spare -= 1",
            "j = free[spare]",
            f"if count[{key}] == 0:",
            f"    first[{key}] = j",
            "else:",
            f"    following[last[{key}]] = j",
            f"last[{key}] = j",
            *self._came_lines(key, apart, front=False),
        )
        self.prepend: tuple[str, ...] = (  # the same, before what the key holds, which is something
            "spare -= 1",
            "j = free[spare]",
            f"following[j] = first[{key}]",
            f"first[{key}] = j",
            *self._came_lines(key, apart, front=True),
        )
        if self._mark:
            self._rename()

    def _rename(self) -> None:
        """The same with the mark before each name."""
        for name in ("any_left", "oldest", "held"):
            setattr(self, name, self._marked(getattr(self, name)))
        for name in ("before", "after", "take", "append", "prepend"):
            setattr(self, name, tuple(map(self._marked, getattr(self, name))))

    def _marked(self, text: str) -> str:
        return re.sub(
            r"\b[a-z]\w*", lambda found: found[0] if keyword.iskeyword(found[0]) else self._mark + found[0], text
        )

    def _came_lines(self, key: str, apart: bool, front: bool) -> tuple[str, ...]:
        return (
            f"count[{key}] += 1",
            f"key[j] = {key}",
            "number[j] = next_number",
            "came[new] = j",
            "came_number[new] = next_number",
            "new += 1",
            "next_number += 1",
            *(("h_group[j] = g",) if apart else ()),
            *((f"h_front[j] = {front}",) if self._fronts else ()),
        )

    def room(self, more: int) -> None:
        """Make room for so many events, and for the keys there are."""
        keys = self._keys.keys.room
        if keys > len(self._by_key["first"]):
            self._by_key = {name: longer(array, keys) for name, array in self._by_key.items()}
        if self._counts[1] + more > len(self._came):
            self._forget_gone(more)
        spare, size = int(self._counts[0]), len(self._free)
        if spare >= more:
            return
        grown = 2 * (size + more)
        self.arrays = {name: longer(array, grown) for name, array in self.arrays.items()}
        self._following, self._group = longer(self._following, grown), longer(self._group, grown)
        self._number = longer(self._number, grown)
        self._number[size:] = -1
        self._free = longer(self._free, grown)
        self._free[spare : spare + grown - size] = np.arange(size, grown)
        self._counts[0] += grown - size

    def _forget_gone(self, more: int) -> None:
        """Leave out of what came what is gone again."""
        alive = self._alive()
        places, numbers = self._came[alive], self._came_number[alive]
        size = max(len(self._came), 2 * (len(places) + more))
        self._came, self._came_number = longer(places, size), longer(numbers, size)
        self._counts[1] = len(places)

    def _alive(self) -> Longs:
        count = int(self._counts[1])
        return np.flatnonzero(self._number[self._came[:count]] == self._came_number[:count])

    def forget(self, ids: Longs) -> None:
        """Take all events off some keys, of which the next delta tells."""
        _empty(ids, self._by_key["taken"], **self._taking())
        self.version += 1

    def counts(self, room: int) -> Longs:
        """How many events each of so many keys holds."""
        count = self._by_key["count"]
        return longer(count, room) if len(count) < room else count[:room]

    def held_keys(self) -> Longs:
        """The keys that hold events."""
        return np.flatnonzero(self._by_key["count"][: self._keys.keys.bound if self._keys.grouped else 1])

    def places(self) -> tuple[Longs, Array]:
        """The places of the events, the oldest of each key first, and their keys."""
        found = self._walked(self.held_keys())
        return found, self._group[found] if self._groups is None else self.arrays["group"][found]

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        return self.held_keys() if self._groups is None else self.places()[1]

    def _walked(self, ids: Longs) -> Longs:
        places = np.empty(int(self._by_key["count"][ids].sum()), np.int64)
        _walk(ids, self._by_key["first"], self._by_key["count"], self._following, places)
        return places

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What went and what came, of the keys that were touched."""
        ids = np.flatnonzero(self._keys.touched)
        if not len(ids):
            return
        places = self._came[self._alive()]
        taken = self._by_key["taken"][ids]
        self._settle(ids)
        yield self._block(0, ids, taken, places, np.searchsorted(ids, self._group[places]))

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, key by key."""
        self._settle(np.flatnonzero(self._by_key["taken"]))
        most = BLOCK_BYTES // (sum(array.itemsize for array in self.arrays.values()) + 8)
        lengths = self._keys.arrays.get("prefix")
        for group, ids in by_group(self._keys.keys, self.held_keys(), sharded, lengths):
            places = self._walked(ids)
            if self._fronts:  # they are told from the first one on
                self.arrays["front"][places] = False
            for start in range(0, len(places), most):
                some = places[start : start + most]
                different, codes = coded(self._group[some])
                yield self._block(group, different, np.zeros(len(different), np.int64), some, codes)

    def _settle(self, ids: Longs) -> None:
        """All that some keys took is told; others took nothing."""
        self._by_key["taken"][ids] = 0
        self._counts[1] = 0
        self._counts[3] = self._counts[2]

    def _block(self, group: int, ids: Array, taken: Longs, places: Longs, codes: Array) -> Block:
        arrays = {name: array[places] for name, array in self.arrays.items()}
        told = {**self._keys.named(ids), "taken": taken, "key": codes.astype(np.int32)}
        for name, table in self._tables.items():
            arrays |= table.told(name, arrays[name])
        return Block(self._element, group, self._letter, {**told, **arrays}, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Take events off keys, append others. Raises ValueError where the block is none of them."""
        given = dict(block.arrays)
        ids = self._keys.numbers_of(block).astype(np.int64)
        codes, taken = many(given, "key", np.int32), values(given, "taken", np.int64, len(ids))
        count = len(codes)
        check_places(codes, len(ids), "a key")
        check_different(ids, self._keys.room)
        keys = ids[codes]
        self.room(count)
        if ((taken < 0) | (taken > self._by_key["count"][ids])).any():
            raise ValueError("more events go than there are")
        for name, table in self._tables.items():
            given[name] = table.read(name, given)
        told = {name: values(given, name, array.dtype, count) for name, array in self.arrays.items()}
        if self._apart:
            self._check_owners(keys, told["group"])
        _take(ids, taken, **self._taking())
        self.version += 1
        places = np.empty(count, np.int64)
        fronts = told["front"] if self._fronts else np.zeros(count, np.bool_)
        _append(keys, fronts.copy(), places, **self._appending())
        for name, array in self.arrays.items():
            array[places] = told[name]
        self._settle(ids)

    def _check_owners(self, keys: Longs, groups: Array) -> None:
        """Raises ValueError where an event is of a group of another key: what goes by groups goes in the order of keys."""
        assert self._groups is not None  # as `apart` says
        owners = np.full(self._groups.room, -1, np.int64)
        owners[groups] = keys
        if (owners[groups] != keys).any():
            raise ValueError("a group is one of two keys")
        mine = np.flatnonzero(owners >= 0)
        check_beginnings(self._keys.keys.packed(owners[mine]), self._groups.keys.packed(mine))

    def _taking(self) -> dict[str, Array]:
        shared, by_key = self._shared, self._by_key
        names = ("following", "number", "free", "counts")
        return {"first": by_key["first"], "count": by_key["count"], **{name: shared[name] for name in names}}

    def _appending(self) -> dict[str, Array]:
        return {**self._taking(), "last": self._by_key["last"], "key": self._group}


@loop
def _walk(ids, first, count, following, places):  # type: ignore[no-untyped-def]
    k = 0
    for i in range(len(ids)):
        j = first[ids[i]]
        for _ in range(count[ids[i]]):
            places[k] = j
            k += 1
            j = following[j]


@loop
def _take(ids, taken, first, count, following, number, free, counts):  # type: ignore[no-untyped-def]
    for i in range(len(ids)):
        g = ids[i]
        for _ in range(taken[i]):
            j = first[g]
            first[g] = following[j]
            count[g] -= 1
            number[j] = -1
            free[counts[0]] = j
            counts[0] += 1


@loop
def _empty(ids, taken, first, count, following, number, free, counts):  # type: ignore[no-untyped-def]
    for i in range(len(ids)):
        g = ids[i]
        while count[g] > 0:
            j = first[g]
            first[g] = following[j]
            count[g] -= 1
            if number[j] < counts[3]:
                taken[g] += 1
            number[j] = -1
            free[counts[0]] = j
            counts[0] += 1


@loop
def _append(keys, fronts, places, first, count, following, number, free, counts, last, key):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        g = keys[i]
        counts[0] -= 1
        j = free[counts[0]]
        if fronts[i] and count[g] > 0:
            following[j] = first[g]
            first[g] = j
        elif count[g] == 0:
            first[g] = j
            last[g] = j
        else:
            following[last[g]] = j
            last[g] = j
        count[g] += 1
        key[j] = g
        number[j] = counts[2]
        counts[2] += 1
        places[i] = j
