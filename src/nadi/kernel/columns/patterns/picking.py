"""What a selection over matches gives: the lines that write an output row, and the columns that are made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.selecting import Computed, Passed, Same
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Const, Expr


@dataclass(frozen=True, slots=True)
class Interned:
    """A string of an earlier event: the loop writes its number in `o<number>`, and whether it is null in `x<number>`."""

    number: int
    nullable: bool


Picked = Passed | Same | Computed | Interned


def write_picks(writer: Writer, values: tuple[Expr, ...]) -> tuple[tuple[Picked, ...], tuple[Term | None, ...]]:
    """What the output columns are, and the terms of those that the loop writes."""
    picked: list[Picked] = []
    terms: list[Term | None] = []
    for number, value in enumerate(values):
        term: Term | None = None
        if isinstance(value, Attr) and value.slot == 0:
            picked.append(Passed(value.position))
        elif isinstance(value, Const) and value.type is Type.STRING:
            picked.append(Same(None if value.value is None else str(value.value)))
        else:
            term = writer.term(value)
            nullable = bool(term.null)
            string = value.type is Type.STRING
            picked.append(Interned(number, nullable) if string else Computed(number, DTYPES[value.type], nullable))
        terms.append(term)
    return tuple(picked), tuple(terms)


def dtypes(picked: tuple[Picked, ...]) -> dict[str, str]:
    """The arrays that the loop writes beside `source` and `opened`."""
    made = {}
    for one in picked:
        if isinstance(one, (Computed, Interned)):
            made[f"o{one.number}"] = one.dtype if isinstance(one, Computed) else "int32"
            if one.nullable:
                made[f"x{one.number}"] = "bool"
    return made


class Picks:
    """The output rows of one batch: of which event each is (`source`), its chunk (`opened`), its computed columns. Grows while the loop waits."""

    def __init__(self, picked: tuple[Picked, ...], room: int) -> None:
        self._picked = picked
        types = {"source": "int64", "opened": "int64", **dtypes(picked)}
        self.arrays: dict[str, Array] = {name: np.empty(room, dtype) for name, dtype in types.items()}

    def grow(self, made: int) -> None:
        """Make more room, `made` rows are kept."""
        for name, array in self.arrays.items():
            longer = np.empty(2 * len(array), array.dtype)
            longer[:made] = array[:made]
            self.arrays[name] = longer

    def stretch(self, given: Stretch, made: int, keys: KeyTable) -> Stretch:
        """The rows as a stretch; `given` has the events."""
        source = self.arrays["source"][:made]
        columns = tuple(self._column(one, given, made, keys) for one in self._picked)
        group = None if given.group is None else given.group[source]
        origin = (given.chunk if given.origin is None else given.origin)[source]
        return Stretch(columns, given.ts[source], given.now[source], self.arrays["opened"][:made], group, origin)

    def timed(self, made: int, keys: KeyTable) -> Stretch:
        """The rows as a stretch where they came by themselves: `source` has their times, `opened` the clock; each is a chunk."""
        ts, now = self.arrays["source"][:made], self.arrays["opened"][:made]
        columns = tuple(self._column(one, Stretch((), ts, now, ts), made, keys) for one in self._picked)
        return Stretch(columns, ts, now, np.arange(made))

    def _column(self, one: Picked, given: Stretch, made: int, keys: KeyTable) -> Column:
        match one:
            case Passed(position):
                return given.columns[position].take(self.arrays["source"][:made])
            case Same():
                return one.column(made)
            case Interned(number, nullable):
                nulls = self.arrays[f"x{number}"][:made] if nullable else None
                return Column(keys.array(self.arrays[f"o{number}"][:made], nulls))
            case Computed(number, _dtype, nullable):
                nulls = self.arrays[f"x{number}"][:made] if nullable else None
                return Column(None, self.arrays[f"o{number}"][:made], nulls)
