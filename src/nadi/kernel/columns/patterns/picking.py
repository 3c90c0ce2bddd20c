"""What a selection over matches gives: the lines that write an output row, and the columns that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.jit import bare
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.memory import address_of
from nadi.kernel.columns.places import Recipe
from nadi.kernel.columns.selecting import Computed, Passed, Same
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Lies, Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Const, Expr


@dataclass(frozen=True, slots=True)
class Interned:
    """A string of an earlier event: the loop writes its number in `o<number>`, and whether it is null in `x<number>`."""

    number: int
    nullable: bool


_NONE: Mapping[str, str] = {}

Picked = Passed | Same | Computed | Interned


class PickedColumns(tuple[Picked, ...]):
    """What the output columns are, and what a batch needs of that: the arrays that a loop writes, how rows are picked, and the columns that are not picked."""

    written: tuple[tuple[str, str], ...]
    recipe: Recipe
    others: tuple[tuple[int, Picked], ...]

    @classmethod
    def of(cls, picked: Iterable[Picked], types: Iterable[Type]) -> PickedColumns:
        """Columns of some types."""
        made = cls(picked)
        made.written = ("source", "int64"), ("opened", "int64"), *dtypes(made).items()
        kinds = [np.dtype(DTYPES[kind]) if kind in DTYPES else None for kind in types]
        made.recipe = Recipe([one.position if isinstance(one, Passed) else None for one in made], kinds)
        made.others = tuple((at, one) for at, one in enumerate(made) if not isinstance(one, Passed))
        return made


def write_picks(writer: Writer, values: tuple[Expr, ...]) -> tuple[PickedColumns, tuple[Term | None, ...]]:
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
    return PickedColumns.of(picked, [value.type for value in values]), tuple(terms)


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
    """The output rows of one batch: of which event each is (`source`), its chunk (`opened`), its computed columns. Grows while the loop waits.

    `also` names further arrays that the loop writes, with their types; a bool one that is named `dropped` tells the rows that are to be dropped.
    """

    def __init__(self, picked: PickedColumns, room: int, also: Mapping[str, str] = _NONE) -> None:
        self._picked = picked
        self.arrays: dict[str, Array] = {
            name: np.empty(room, dtype) for name, dtype in (*picked.written, *also.items())
        }

    def grow(self, made: int, least: int = 0) -> None:
        """Make more room, for `least` rows if there is not so much yet; `made` rows are kept."""
        if 0 < least <= len(self.arrays["source"]):
            return
        for name, array in self.arrays.items():
            longer = np.empty(max(2 * len(array), least), array.dtype)
            longer[:made] = array[:made]
            self.arrays[name] = longer

    def kept(self, made: int) -> int:
        """Drop what the loop told to drop; -> how many rows of `made` are left."""
        dropped = self.arrays.get("dropped")
        if dropped is None or not _some(dropped, made):
            return made
        left = np.flatnonzero(~dropped[:made])
        self.arrays = {name: array[left] for name, array in self.arrays.items()}
        return len(left)

    def stretch(self, given: Stretch, made: int, keys: KeyTable) -> Stretch:
        """The rows as a stretch; `given` has the events."""
        found = given.picked(self.arrays["source"], made, self._picked.recipe)
        found.rechunk(self.arrays["opened"][:made])
        for at, one in self._picked.others:
            if isinstance(one, (Computed, Interned)) and not (
                one.nullable and _some(self.arrays[f"x{one.number}"], made)
            ):
                found.lay(at, *self._lying(one.number, isinstance(one, Interned), made, keys))
            else:
                found.put(at, self._column(one, given, made, keys))
        return found

    def _lying(self, number: int, interned: bool, made: int, keys: KeyTable) -> tuple[Lies, object]:
        """Where a column without nulls lies, and what has it."""
        values = self.arrays[f"o{number}"]
        if not interned:
            return (values.dtype, address_of(values, values.dtype), 0), values
        ends, texts = keys.written(values[:made])
        return (None, address_of(ends, _INT), address_of(texts, _BYTE)), (ends, texts)

    def timed(self, made: int, keys: KeyTable, group: Longs | None = None) -> Stretch:
        """The rows as a stretch where they came by themselves: `source` has their times, `opened` the clock; each is a chunk. `group` has their key-groups."""
        ts, now = self.arrays["source"][:made], self.arrays["opened"][:made]
        columns = tuple(self._column(one, Stretch((), ts, now, ts), made, keys) for one in self._picked)
        return Stretch(columns, ts, now, np.arange(made), group)

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


@bare
def _some(nulls, count):  # type: ignore[no-untyped-def]
    """Whether some of the first ones are set."""
    found = 0
    for i in range(count):
        found += nulls[i]
    return found > 0


_INT, _BYTE = np.dtype(np.int32), np.dtype(np.uint8)
