"""`distinctCount` in a loop: how often each value of a group is held (semantics/selection.md#aggregators).

A value of a group is a *pair*: a number of a table of its own, made of the texts of the group's key and of the value, with a count in `pc<n>`. Null is a
value as any other. What leaves a window is told by its pair, `h_e<n>`; it is -1 for a null that came before nulls were counted. Batches note their pairs in
`dm<n>`, so that their end can let go of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.keytable import NULL, longer
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.lang.tree import Type

_NO_GROUPS = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Distinct:
    """`distinctCount` of an attribute: `n` how many different values a group holds."""

    number: int
    function: str
    argument: None
    position: int
    forever = False

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        return {f"n{self.number}": "int64"}

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that comes."""
        n, g = self.number, group
        write.line(f"n{n}_ = int(n{n}[{g}])")
        for text in (
            f"d{n}_ = d{n}[i]",
            f"if pc{n}[d{n}_] == 0:",
            f"    dm{n}[dc{n}[0]] = d{n}_",
            f"    dc{n}[0] += 1",
            f"    n{n}_ += 1",
            f"    n{n}[{g}] = n{n}_",
            f"pc{n}[d{n}_] += 1",
            f"dt{n}[d{n}_] = True",
        ):
            write.line(text)

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that leaves place `j`, or whose pair is the value."""
        n, g = self.number, group
        pair = value.text or f"h_e{n}[j]"
        write.line(f"n{n}_ = int(n{n}[{g}])")
        for text in (
            f"if {pair} >= 0:",
            f"    d{n}_ = {pair}",
            f"    pc{n}[d{n}_] -= 1",
            f"    dt{n}[d{n}_] = True",
            f"    if pc{n}[d{n}_] == 0:",
            f"        n{n}_ -= 1",
            f"        n{n}[{g}] = n{n}_",
        ):
            write.line(text)

    def held(self, write: Writer) -> str:
        """The pair of the event at hand, as windows keep it."""
        return f"d{self.number}[i]"

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing; its pairs are let go of by `clear_pairs`."""
        return (f"n{self.number}[{group}] = 0",)

    def clear_pairs(self) -> tuple[str, ...]:
        """The lines that let go of all pairs, at the end of a batch."""
        n = self.number
        return (
            f"for q in range(dc{n}[0]):",
            f"    pc{n}[dm{n}[q]] = 0",
            f"    dt{n}[dm{n}[q]] = True",
            f"dc{n}[0] = 0",
        )

    def shown(self, write: Writer) -> Term:
        """The value after an event that came."""
        return Term(f"n{self.number}_")

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        return f"n{self.number}_ == 0"


class Pairs:
    """The pairs of all `distinctCount` of a query. `by` are the attributes of its groups. `batches`: they are let go of at the end of batches."""

    def __init__(
        self,
        found: Sequence[Distinct],
        element: str,
        by: tuple[int, ...],
        types: tuple[Type, ...],
        sharded: bool,
        batches: bool = False,
    ) -> None:
        self._batches = batches
        self._tables: dict[int, Groups] = {}
        for one in found:
            places = (*by, one.position)
            kinds = tuple(types[p] for p in places)
            arrays = {f"pc{one.number}": "int64"}
            null = NULL if kinds[-1] is Type.STRING else "null"
            self._tables[one.number] = Groups(
                element, places, kinds, arrays, sharded, letter=f"d{one.number}", optional=True, null=null
            )
        self._members = {number: np.zeros(0, np.int64) for number in self._tables}
        self._counts = {number: np.zeros(1, np.int64) for number in self._tables}
        self._loaded = False

    def __bool__(self) -> bool:
        return bool(self._tables)

    @property
    def parameters(self) -> dict[str, str]:
        """What a loop gets."""
        made: dict[str, str] = {}
        for n in self._tables:
            made |= {f"d{n}": "const int32[]", f"pc{n}": "int64[]", f"dt{n}": "bool[]"}
            made |= {f"dm{n}": "int64[]", f"dc{n}": "int64[]"}
        return made

    @property
    def named(self) -> dict[str, Groups]:
        """The tables, by the names of what a window keeps of an event."""
        return {f"e{number}": table for number, table in self._tables.items()}

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """What a loop gets of a stretch."""
        made: dict[str, Array | int] = {}
        for n, table in self._tables.items():
            made[f"d{n}"] = table.numbers(stretch) if len(stretch) else _NO_GROUPS
            made |= {**table.arrays, f"dt{n}": table.touched}
            made |= {f"dm{n}": self._list(n, len(stretch)), f"dc{n}": self._counts[n]}
        self._loaded = False
        return made

    def _list(self, n: int, more: int) -> Array:
        if not self._batches:  # nobody reads what is noted there
            self._counts[n][0] = 0
        elif self._loaded:
            held = np.flatnonzero(self._tables[n].arrays[f"pc{n}"])
            self._members[n], self._counts[n][0] = held, len(held)
        size = int(self._counts[n][0]) + more
        if len(self._members[n]) < size:
            self._members[n] = longer(self._members[n], 2 * size)
        return self._members[n]

    def sweep(self) -> None:
        """Forget the pairs that are not held."""
        for table in self._tables.values():
            if table.may_sweep:
                table.sweep(_NO_GROUPS)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The pairs that were touched."""
        for table in self._tables.values():
            yield from table.changes()

    def contents(self) -> Iterator[Block]:
        """All pairs."""
        for table in self._tables.values():
            yield from table.contents()

    def is_of(self, block: Block) -> bool:
        """Whether a block tells of pairs."""
        return block.letter[:1] == "d"

    def apply(self, block: Block) -> None:
        """Put pairs back."""
        number = int(block.letter[1:])
        if number in self._tables:
            self._tables[number].apply(block)
            self._loaded = True

    def clear(self) -> None:
        """Forget all."""
        for n, table in self._tables.items():
            table.clear()
            self._counts[n][0] = 0
