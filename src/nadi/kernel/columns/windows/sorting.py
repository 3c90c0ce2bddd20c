"""`sort(n, attribute [, 'asc'|'desc'], …)`: the n least events in an order (semantics/windows.md#sort).

Each key of a partition (one where there is none) has n + 1 places in a row, and in `w_order` the same number of entries: those of the first `w_count` places
are held, the least first, the others are free. What is one too much leaves before the next event, in the order in which it would leave at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import check_numbers, many, values
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.coding import coded
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import longer
from nadi.kernel.columns.naming import picked
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import DTYPES, Array, Longs, Stretch
from nadi.kernel.columns.windows.contract import Holding
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Const, WindowCall

_NEW, _LOST, _NEXT, _TOLD = range(4)
_LISTS = ("w_came", "w_came_number", "w_lost_key", "w_lost_number")


class Sorted:
    """See the module's text. Events have numbers in the order in which they came; `w_came` and `w_lost…` note what the next delta tells."""

    passing = False
    calls: Mapping[str, object] = {}

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        self._element = window.id
        first = window.args[0]
        assert isinstance(first, Const)  # as islands says
        assert isinstance(first.value, int)
        self._length: int = first.value
        self._by = _order(window)
        by = () if given.key is None else (given.key,)
        self._keys = Groups(window.id, by, tuple(given.types[p] for p in by), {"count": "int64"}, given.sharded)
        self._tables = holding.tables
        self.names = frozenset(holding.columns)
        self._dtypes = {**holding.dtypes, "number": "int64"}
        self._dtypes |= {f"s{n}": DTYPES[attribute.type] for n, (attribute, _up) in enumerate(self._by)}
        self.clear()
        _drop(*(_NONE,) * 7, 1)  # a forked process must not have to compile it

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._arrays: dict[str, Array] = {name: np.zeros(0, dtype) for name, dtype in self._dtypes.items()}
        self._order = np.zeros(0, np.int64)
        self._lists = {name: np.zeros(0, np.int64) for name in _LISTS}
        self._counts = np.zeros(4, np.int64)
        self._loaded = False
        self._grow()

    def __len__(self) -> int:
        return int(np.minimum(self._keys.arrays["count"], self._length).sum())

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets."""
        own = dict.fromkeys(("w_count", "w_order", "w_counts", *_LISTS), "int64[]") | {"w_touched": "bool[]"}
        own |= {f"h_{name}": f"{dtype}[]" for name, dtype in self._dtypes.items()}
        return own | ({"w_keys": "const int32[]"} if self._keys.grouped else {})

    before = ("w_new = w_counts[0]", "w_lost = w_counts[1]", "w_next = w_counts[2]", "w_told = w_counts[3]")
    after = ("w_counts[0] = w_new", "w_counts[1] = w_lost", "w_counts[2] = w_next")

    def write(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines for an event that comes."""
        line, places = write.line, write.number(self._length + 1)
        values = [write.term(attribute).text for attribute, _up in self._by]
        line("w_p = w_keys[i]" if self._keys.grouped else "w_p = 0")
        line(f"w_at = int(w_p) * {places}")
        line("w_touched[w_p] = True")
        line(f"while w_count[w_p] > {write.number(self._length)}:")
        with write.indented():
            for text in _LEAVE:
                line(text)
            line("h = h_group[j]" if "group" in self._dtypes else "h = 0")
            taken()
        line("w_size = w_count[w_p]")
        line("w_low = 0")
        line("w_high = w_size")
        line("while w_low < w_high:")
        with write.indented():
            self._compare(write, values)
        for text in _ENTER:
            line(text)
        if "group" in self._dtypes:
            line("h_group[j] = g")
        for n, value in enumerate(values):
            line(f"h_s{n}[j] = {value}")

    def _compare(self, write: Writer, values: list[str]) -> None:
        """The lines of a step of `bisect.insort`: whether the event stands before the one in the middle."""
        line = write.line
        line("w_mid = (w_low + w_high) // 2")
        line("w_m = w_at + w_order[w_at + w_mid]")
        line("w_less = False")
        deeper = ""
        for n, (value, (attribute, up)) in enumerate(zip(values, self._by, strict=True)):
            convert = "int" if attribute.type in (Type.INT, Type.LONG) else "float"
            line(f"{deeper}w_y = {convert}(h_s{n}[w_m])")
            line(f"{deeper}if {value} != w_y:")
            line(f"{deeper}    w_less = {value} < w_y" if up else f"{deeper}    w_less = w_y < {value}")
            if n + 1 < len(values):
                line(f"{deeper}else:")
            deeper += "    "
        line("if w_less: w_high = w_mid")
        line("else: w_low = w_mid + 1")

    def write_end(self, write: Writer, taken: Callable[[], None]) -> None:
        """Nothing is left to do."""

    # ---- a batch

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch."""
        own: dict[str, Array | int] = {}
        if self._keys.grouped:
            own["w_keys"] = self._keys.numbers(stretch)
        self._grow()
        if self._loaded:
            self._sort()
        self._make_room(len(stretch))
        own |= {"w_count": self._keys.arrays["count"], "w_touched": self._keys.touched, "w_order": self._order}
        own |= {"w_counts": self._counts, **self._lists}
        return own | {f"h_{name}": array for name, array in self._arrays.items()}

    def _grow(self) -> None:
        before, places = len(self._order), self._length + 1
        room = len(self._keys.touched) * places
        if room > before:
            self._arrays = {name: longer(array, room) for name, array in self._arrays.items()}
            self._arrays["number"][before:] = -1
            self._order = longer(self._order, room)
            self._order[before:] = np.arange(room - before) % places

    def _make_room(self, more: int) -> None:
        """For so many that come and leave."""
        if self._counts[_NEW] + more > len(self._lists["w_came"]):
            alive = self._alive()
            for name in ("w_came", "w_came_number"):
                kept = self._lists[name][alive]
                self._lists[name] = longer(kept, max(1024, 2 * (len(kept) + more)))
            self._counts[_NEW] = len(alive)
        lost = int(self._counts[_LOST]) + more
        if lost > len(self._lists["w_lost_key"]):
            self._lists |= {name: longer(self._lists[name], 2 * lost) for name in ("w_lost_key", "w_lost_number")}

    def _alive(self) -> Longs:
        count = int(self._counts[_NEW])
        places, numbers = self._lists["w_came"][:count], self._lists["w_came_number"][:count]
        return np.flatnonzero(self._arrays["number"][places] == numbers)

    def _places(self, keys: Longs) -> tuple[Longs, Longs]:
        """The places that keys hold, and the key of each."""
        counts, size = self._keys.arrays["count"][keys], self._length + 1
        of = np.repeat(keys, counts)
        nth = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        return of * size + self._order[of * size + nth], of

    def _sort(self) -> None:
        """The order of what was loaded."""
        self._loaded = False
        places, keys = self._places(np.flatnonzero(self._keys.arrays["count"]))
        ranks = []
        for n, (_attribute, up) in enumerate(self._by):
            rank = np.unique(self._arrays[f"s{n}"][places], return_inverse=True)[1]
            ranks.append(rank if up else -rank)
        order = np.lexsort((self._arrays["number"][places], *ranks[::-1], keys))
        slots = places[order] - keys * (self._length + 1)  # keys stand beside each other before and after
        counts = self._keys.arrays["count"][keys]
        firsts = np.flatnonzero(np.concatenate([[True], np.diff(keys) != 0])) if len(keys) else _NONE
        nth = np.arange(len(keys)) - np.repeat(firsts, counts[firsts])
        self._order[keys * (self._length + 1) + nth] = slots

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        places, _keys = self._places(np.flatnonzero(self._keys.arrays["count"]))
        return self._arrays["group"][places] if "group" in self._arrays else np.zeros(0, np.int32)

    def sweep(self) -> None:
        """Forget keys that hold nothing: a window that has held an event holds one for good."""

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, of the keys that were touched."""
        ids = np.flatnonzero(self._keys.touched)
        self._keys.touched[ids] = False
        if not len(ids):
            return
        came = self._lists["w_came"][self._alive()]
        lost = int(self._counts[_LOST])
        lost_keys, lost_numbers = self._lists["w_lost_key"][:lost], self._lists["w_lost_number"][:lost]
        gone: dict[str, Array] = {
            "lost": np.searchsorted(ids, lost_keys).astype(np.int32),
            "lost_number": lost_numbers.copy(),
        }
        self._settle()
        yield self._block(0, ids, gone, came, np.searchsorted(ids, came // (self._length + 1)))

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events, key by key."""
        self._keys.touched[:] = False
        self._settle()
        most = BLOCK_BYTES // sum(array.itemsize for array in self._arrays.values())
        nothing: dict[str, Array] = {"lost": np.zeros(0, np.int32), "lost_number": _NONE}
        held = np.flatnonzero(self._keys.arrays["count"])
        for group, ids in by_group(self._keys.keys, held, sharded) if self._keys.grouped else ((0, held),):
            places, keys = self._places(ids)
            for start in range(0, len(places), most):
                some = slice(start, start + most)
                different, codes = coded(keys[some])
                yield self._block(group, different, nothing, places[some], codes)

    def _settle(self) -> None:
        self._counts[_NEW] = self._counts[_LOST] = 0
        self._counts[_TOLD] = self._counts[_NEXT]

    def _block(self, group: int, ids: Longs, gone: Mapping[str, Array], places: Longs, codes: Array) -> Block:
        arrays = {name: array[places] for name, array in self._arrays.items()}
        for name, table in self._tables.items():
            arrays |= table.told(name, arrays[name])
        told = {**self._keys.named(ids), **gone, "key": codes.astype(np.int32)}
        return Block(self._element, group, "s", {**told, **arrays}, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Take events away, put others to them. Raises ValueError where the block is none of them."""
        ids = self._keys.numbers_of(block).astype(np.int64)
        self._grow()
        given = dict(block.arrays)
        for name, table in self._tables.items():
            given[name] = table.read(name, given)
        keys, lost = (picked(ids, many(given, name, np.int32)) for name in ("key", "lost"))
        told = {name: values(given, name, array.dtype, len(keys)) for name, array in self._arrays.items()}
        check_numbers(told["number"], "the number of an event")
        places, count = np.empty(len(keys), np.int64), self._keys.arrays["count"]
        numbers = values(given, "lost_number", np.int64, len(lost)).copy()
        if not _drop(lost, numbers, keys, places, count, self._order, self._arrays["number"], self._length + 1):
            raise ValueError("an event goes that there is not, or more are held than can be")
        for name, array in self._arrays.items():
            array[places] = told[name]
        if len(keys):
            self._counts[_NEXT] = max(int(self._counts[_NEXT]), int(told["number"].max()) + 1)
        self._settle()
        self._loaded = True


_LEAVE = (
    "w_count[w_p] -= 1",
    "j = w_at + w_order[w_at + w_count[w_p]]",
    "if h_number[j] < w_told:",
    "    w_lost_key[w_lost] = w_p",
    "    w_lost_number[w_lost] = h_number[j]",
    "    w_lost += 1",
    "h_number[j] = -1",
)
_ENTER = (
    "w_slot = w_order[w_at + w_size]",
    "w_q = w_size",
    "while w_q > w_low:",
    "    w_order[w_at + w_q] = w_order[w_at + w_q - 1]",
    "    w_q -= 1",
    "w_order[w_at + w_low] = w_slot",
    "w_count[w_p] += 1",
    "j = w_at + w_slot",
    "h_number[j] = w_next",
    "w_came[w_new] = j",
    "w_came_number[w_new] = w_next",
    "w_new += 1",
    "w_next += 1",
)
_NONE = np.zeros(0, np.int64)


def _order(window: WindowCall) -> tuple[tuple[Attr, bool], ...]:
    """The attributes to sort by, and whether ascending."""
    found: list[tuple[Attr, bool]] = []
    for argument in window.args[1:]:
        if isinstance(argument, Attr):
            found.append((argument, True))
        elif isinstance(argument, Const):
            found[-1] = (found[-1][0], str(argument.value).lower() != "desc")
    return tuple(found)


@loop
def _drop(lost, numbers, keys, places, count, order, number, size):  # type: ignore[no-untyped-def]
    """Takes events away by their numbers, and finds places for others; the order is made afterwards. -> whether all were there, and there was room."""
    for n in range(len(lost)):
        p = lost[n]
        at = p * size
        last = count[p] - 1
        for q in range(last + 1):
            slot = order[at + q]
            if number[at + slot] == numbers[n]:
                order[at + q] = order[at + last]
                order[at + last] = slot
                number[at + slot] = -1
                count[p] = last
                break
        if count[p] > last:
            return False
    for n in range(len(keys)):
        p = keys[n]
        if count[p] == size:
            return False
        at = p * size
        places[n] = at + order[at + count[p]]
        count[p] += 1
    return True
