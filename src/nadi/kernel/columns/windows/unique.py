"""`unique:ever`, `unique:first`, `unique:length`, `unique:time`: one event per key (semantics/windows.md#unique-windows).

The number of a key is the place of its event. The windows of a length or a time hold their events in the order in which they came: each place has links to
those before and after it (`w_prev`, `w_next`, places plus 1), which are no state, as `w_number` tells the order. In partitions each key of the partition,
its *home*, has an order of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import check_numbers, values
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.flat import BLOCK_BYTES, Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.keytable import check_beginnings, longer
from nadi.kernel.columns.partitioning import by_group
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.kernel.columns.windows.contract import Holding
from nadi.plan.nodes import Attr, Const, WindowCall


class Unique:
    """See the module's text."""

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        self._element, self._kind = window.id, window.name
        self.passing = window.name == "unique:first"
        numbers = [a.value for a in window.args if isinstance(a, Const) and isinstance(a.value, int)]
        self._most = numbers[0] if numbers else 0
        self._ordered = window.name in ("unique:length", "unique:time")
        keys = tuple(a.position for a in window.args if isinstance(a, Attr))
        by = keys if given.key is None else (given.key, *keys)
        self._units = Groups(window.id, by, tuple(given.types[p] for p in by), {"held": "bool"}, given.sharded)
        home = () if given.key is None or not self._ordered else (given.key,)
        self._homes = Groups(window.id, home, tuple(given.types[p] for p in home), {}, given.sharded)
        self._tables = {} if self.passing else holding.tables
        self._dtypes = {} if self.passing else holding.dtypes
        self.names = frozenset(() if self.passing else holding.columns)
        if self._ordered:
            self._dtypes["number"] = "int64"
        if self._homes.grouped:
            self._dtypes["home"] = "int32"
            self._tables["home"] = self._homes
        self.clear()
        _chain(*(np.zeros(0, np.int64),) * 7)  # a forked process must not have to compile it

    def clear(self) -> None:
        """Forget all."""
        self._units.clear()
        self._homes.clear()
        room = len(self._units.touched)
        self._arrays: dict[str, Array] = {name: np.zeros(room, dtype) for name, dtype in self._dtypes.items()}
        self._links = {name: np.zeros(room, np.int64) for name in ("w_prev", "w_next")}
        self._ends = {name: np.zeros(1, np.int64) for name in ("w_first", "w_last", "w_count")}
        self._next = np.zeros(1, np.int64)
        self._loaded = False

    def __len__(self) -> int:
        return int(self._units.arrays["held"].sum())

    # ---- in a loop

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets."""
        own = {"w_units": "const int32[]", "w_held": "bool[]", "w_touched": "bool[]"}
        own |= {f"h_{name}": f"{dtype}[]" for name, dtype in self._dtypes.items()}
        if self._ordered:
            own |= dict.fromkeys((*self._links, *self._ends, "w_counter"), "int64[]")
        return own | ({"w_homes": "const int32[]"} if self._homes.grouped else {})

    calls: Mapping[str, object] = {}
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def write(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines for an event that comes."""
        line = write.line
        line("w_u = w_units[i]")
        if self._ordered:
            line("w_p = w_homes[i]" if self._homes.grouped else "w_p = 0")
        if self._kind == "unique:first":
            line("if w_held[w_u]: continue")
        elif self._kind == "unique:length":
            line("w_o = w_u")
            line("if not w_held[w_u]:")
            line(f"    w_o = w_first[w_p] - 1 if w_count[w_p] >= {write.number(self._most)} else -1")
            self._leaving(write, "w_o >= 0", "w_o", taken)
        else:
            if self._kind == "unique:time":
                line(f"w_before = now[i] - {write.number(self._most)}")
                oldest = "w_first[w_p] - 1"
                self._leaving(write, f"w_count[w_p] > 0 and h_ts[{oldest}] <= w_before", oldest, taken)
            self._leaving(write, "w_held[w_u]", "w_u", taken)
        for text in ("w_held[w_u] = True", "w_touched[w_u] = True", "j = w_u"):
            line(text)
        if "group" in self._dtypes:
            line("h_group[j] = g")
        if self._ordered:
            self._link(line)

    def _leaving(self, write: Writer, test: str, place: str, taken: Callable[[], None]) -> None:
        """The lines for what leaves while a test holds."""
        line = write.line
        line(f"while {test}:")
        with write.indented():
            line(f"j = {place}")
            if place == "w_o":
                line("w_o = -1")
            if self._ordered:
                for text in _UNLINK:
                    line(text)
            line("w_held[j] = False")
            line("w_touched[j] = True")
            line("h = h_group[j]" if "group" in self._dtypes else "h = 0")
            taken()

    def _link(self, line: Callable[[str], None]) -> None:
        if "home" in self._dtypes:
            line("h_home[j] = w_p")
        for text in _LINK:
            line(text)

    def write_end(self, write: Writer, taken: Callable[[], None]) -> None:
        """Nothing is left to do."""

    # ---- a batch

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch."""
        units = self._units.numbers(stretch)
        own: dict[str, Array | int] = {"w_units": units}
        if self._homes.grouped:
            own["w_homes"] = self._homes.numbers(stretch)
        self._grow()
        if self._loaded:
            self._put_together()
        own |= {"w_held": self._units.arrays["held"], "w_touched": self._units.touched, "w_counter": self._next}
        return own | {f"h_{name}": array for name, array in self._arrays.items()} | self._links | self._ends

    def _grow(self) -> None:
        room, homes = len(self._units.touched), len(self._homes.touched)
        if room > len(self._links["w_prev"]):
            self._arrays = {name: longer(array, room) for name, array in self._arrays.items()}
            self._links = {name: longer(array, room) for name, array in self._links.items()}
        if homes > len(self._ends["w_first"]):
            self._ends = {name: longer(array, homes) for name, array in self._ends.items()}

    def _put_together(self) -> None:
        """The links, from the numbers."""
        self._loaded = False
        if not self._ordered:
            return
        for array in (*self._ends.values(), *self._links.values()):
            array[:] = 0
        held = np.flatnonzero(self._units.arrays["held"])
        held = held[np.argsort(self._arrays["number"][held], kind="stable")]
        homes = self._arrays["home"][held].astype(np.int64) if self._homes.grouped else np.zeros(len(held), np.int64)
        _chain(held, homes, *self._links.values(), *self._ends.values())

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        held = np.flatnonzero(self._units.arrays["held"])
        return self._arrays["group"][held] if "group" in self._arrays else np.zeros(0, np.int32)

    def sweep(self) -> None:
        """Forget keys that hold nothing."""
        if self._units.may_sweep:
            self._units.sweep(_NONE, ("held",))
        if self._homes.grouped and self._homes.may_sweep:
            self._homes.sweep(np.flatnonzero(self._ends["w_count"]))

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The keys that were touched."""
        ids = np.flatnonzero(self._units.touched)
        self._units.touched[ids] = False
        if len(ids):
            yield self._block(0, ids)

    def contents(self, sharded: bool) -> Iterator[Block]:
        """The keys that hold events."""
        self._units.touched[:] = False
        held = np.flatnonzero(self._units.arrays["held"])
        most = BLOCK_BYTES // (24 + sum(array.itemsize for array in self._arrays.values()))
        for group, ids in by_group(self._units.keys, held, sharded, self._units.arrays.get("prefix")):
            for start in range(0, len(ids), most):
                yield self._block(group, ids[start : start + most])

    def _block(self, group: int, ids: Longs) -> Block:
        told = {**self._units.named(ids), **{name: array[ids] for name, array in self._units.arrays.items()}}
        there = ids[self._units.arrays["held"][ids]]
        arrays = {name: array[there] for name, array in self._arrays.items()}
        for name, table in self._tables.items():
            arrays |= table.told(name, arrays[name])
        return Block(self._element, group, "u", {**told, **arrays}, keys=len(ids))

    def apply(self, block: Block) -> None:
        """Keys as they are from now on. Raises ValueError where the block tells of none."""
        ids = self._units.put(block)
        there = ids[self._units.arrays["held"][ids]]
        given = dict(block.arrays)
        for name, table in self._tables.items():
            given[name] = table.read(name, given)
        self._grow()
        for name, array in self._arrays.items():
            array[there] = values(given, name, array.dtype, len(there))
        if self._homes.grouped:
            check_beginnings(self._homes.keys.packed(given["home"]), self._units.keys.packed(there))
        if self._ordered and len(there):
            check_numbers(given["number"], "the number of an event")
            self._next[0] = max(int(self._next[0]), int(given["number"].max()) + 1)
        self._loaded = True


_UNLINK = (
    "w_a = w_prev[j]",
    "w_b = w_next[j]",
    "if w_a == 0: w_first[w_p] = w_b",
    "else: w_next[w_a - 1] = w_b",
    "if w_b == 0: w_last[w_p] = w_a",
    "else: w_prev[w_b - 1] = w_a",
    "w_count[w_p] -= 1",
)
_LINK = (
    "w_a = w_last[w_p]",
    "w_prev[j] = w_a",
    "w_next[j] = 0",
    "if w_a == 0: w_first[w_p] = j + 1",
    "else: w_next[w_a - 1] = j + 1",
    "w_last[w_p] = j + 1",
    "w_count[w_p] += 1",
    "h_number[j] = w_counter[0]",
    "w_counter[0] += 1",
)
_NONE = np.zeros(0, np.int64)


@loop
def _chain(places, homes, before, after, first, last, count):  # type: ignore[no-untyped-def]
    """Links places, which stand in order; all is 0 before."""
    for n in range(len(places)):
        j, p = places[n], homes[n]
        a = last[p]
        before[j] = a
        if a == 0:
            first[p] = j + 1
        else:
            after[a - 1] = j + 1
        last[p] = j + 1
        count[p] += 1
