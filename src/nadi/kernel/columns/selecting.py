"""The selection of a query in a loop: values, having, the chunk rule; and the stretch that comes of it (semantics/selection.md#the-selector).

Output columns that are attributes as they came are not computed: the loop notes in `source` of which event each output row is, and they are taken from there,
or passed on as they are where every event gave a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.memory import values_at
from nadi.kernel.columns.places import Kind, Recipe
from nadi.kernel.columns.stretch import DTYPES, Array, Column, PlacedStretch, Stretch
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import Attr, Const, Selection


@dataclass(frozen=True, slots=True)
class Passed:
    """An attribute of the event."""

    position: int


@dataclass(frozen=True, slots=True)
class Same:
    """A string that is in every row."""

    text: str | None

    def column(self, size: int) -> Column:
        """So many of it."""
        return Column(pa.repeat(pa.scalar(self.text, pa.string()), size))


@dataclass(frozen=True, slots=True)
class Computed:
    """What the loop writes: `o<number>`, and where it may be null `x<number>`."""

    number: int
    dtype: str
    nullable: bool


Picked = Passed | Same | Computed


class Rule(Enum):
    """How many rows come out."""

    EACH = "one for each event"
    CHUNK = "one for each chunk"
    GROUP = "one for each chunk and group in it"


def picked_values(writer: Writer, selection: Selection) -> tuple[tuple[Picked, ...], list[Term | None]]:
    """The output columns, and the terms of those that are computed: their lines are written."""
    picked: list[Picked] = []
    terms: list[Term | None] = []
    for number, value in enumerate(selection.values):
        if isinstance(value, Attr) and value.slot == 0:
            picked.append(Passed(value.position))
            terms.append(None)
        elif value.type is Type.STRING:
            picked.append(Same(str(value.value) if isinstance(value, Const) and value.value is not None else None))
            terms.append(None)
        else:
            term = writer.term(value)
            picked.append(Computed(number, DTYPES[value.type], bool(term.null)))
            terms.append(term)
    return tuple(picked), terms


class SelectionText:
    """Writes the selection at the end of a loop's body.

    `rule` says how many rows come out; the group is `g` in the loop. `tests` are texts that must be true for a row, beside `having`. The operator's parameters
    get `source`, `made` (how many rows; whether a null was seen, and for each column that may have nulls, whether it was there), `computed` (where the
    computed columns lie), and for groups `opened` and `slot`: per group, the chunk in which it was seen last (counted on from `base`), and its row there;
    `alone` says that no chunk has two events.
    """

    def __init__(self, text: LoopText, selection: Selection, rule: Rule, tests: Sequence[str] = ()) -> None:
        self._text = text
        self.picked, terms = picked_values(text.writer, selection)
        tests = list(tests)
        if selection.having is not None:
            text.writer.outputs = {i: term for i, term in enumerate(terms) if term is not None}
            tests.append(text.writer.truth(having_of(selection)))
        if rule is Rule.EACH:
            self._emit_each(terms, tests)
        else:
            if tests:
                text.writer.line(f"if not ({' and '.join(tests)}): continue")
            self._emit_last(terms, rule)
        text.before.append("k = 0")
        text.after.append("made[0] = k")
        text.own |= {"source": "int64[]", "made": "int64[]", "computed": "int64"}
        for name, (offset, dtype) in computed_places(self.picked).items():
            text.before.append(f"{name} = lying(computed + {offset} * n, n, {dtype.name}_)")
        nullable = [p for p in self.picked if isinstance(p, Computed) and p.nullable]
        for place, picked in enumerate(nullable, 2):
            text.before.append(f"nulls{picked.number} = False")
            text.after.append(f"made[{place}] = nulls{picked.number}")
        text.after.append(f"made[1] = {' or '.join(f'nulls{p.number}' for p in nullable) or 'False'}")

    def _emit_each(self, terms: list[Term | None], tests: list[str]) -> None:
        """A row is written always, and counted if it is one: processors guess badly which events pass a filter."""
        line = self._text.writer.line
        line("at = k")
        self._row(terms)
        line(f"k += 1 if {' and '.join(tests)} else 0" if tests else "k += 1")

    def _emit_last(self, terms: list[Term | None], rule: Rule) -> None:
        line = self._text.writer.line
        if rule is Rule.GROUP:
            self._text.own |= {"alone": "bool", "base": "int64", "opened": "int64[]", "slot": "int64[]"}
            line("if alone:")
            line("    at = k")
            line("    k += 1")
            line("elif opened[g] == base + chunk[i]:")
            line("    at = slot[g]")
            line("else:")
            line("    at = k")
            line("    k += 1")
            line("    opened[g] = base + chunk[i]")
            line("    slot[g] = at")
        else:
            line("at = k - 1 if k > 0 and chunk[source[k - 1]] == chunk[i] else k")
            line("k = at + 1")
        self._row(terms)

    def _row(self, terms: list[Term | None]) -> None:
        line = self._text.writer.line
        line("source[at] = i")
        for picked in self.picked:
            if isinstance(picked, Computed):
                term = terms[picked.number]
                assert term is not None  # it was computed
                line(f"o{picked.number}[at] = {term.text}")
                if picked.nullable:
                    line(f"x{picked.number}[at] = {term.null}")
                    line(f"nulls{picked.number} = nulls{picked.number} or {term.null}")


def computed_places(picked: tuple[Picked, ...]) -> dict[str, tuple[int, Kind]]:
    """Where the loop writes, in bytes for each event, and of what type: `o<n>`, `x<n>`. The widest stand first, so that all begin where they may."""
    found = [(f"o{one.number}", np.dtype(one.dtype)) for one in picked if isinstance(one, Computed)]
    found += [(f"x{one.number}", _BOOL) for one in picked if isinstance(one, Computed) and one.nullable]
    places, end = {}, 0
    for name, dtype in sorted(found, key=lambda one: -one[1].itemsize):
        places[name] = end, dtype
        end += dtype.itemsize
    return places


def unlooped(picked: tuple[Picked, ...], given: Stretch) -> Stretch:
    """The output rows where each event gives one and nothing is computed."""
    columns = []
    for one in picked:
        assert not isinstance(one, Computed)  # that would take a loop
        columns.append(given.columns[one.position] if isinstance(one, Passed) else one.column(len(given)))
    return given.having(tuple(columns))


class Selected:
    """What a loop's selection writes, and what is made of it. `types` are those of the columns that it reads.

    An operator has one of it, and makes `room` for each stretch: what goes out is new, the rest is used again.
    """

    def __init__(self, picked: tuple[Picked, ...], types: tuple[Type, ...]) -> None:
        self._picked = picked
        self._places = computed_places(picked)
        self._each = sum(dtype.itemsize for _offset, dtype in self._places.values())
        self._nullable = tuple((at, p) for at, p in enumerate(picked) if isinstance(p, Computed) and p.nullable)
        self._same = tuple((at, one) for at, one in enumerate(picked) if isinstance(one, Same))
        self._recipe = Recipe([self._place(one) for one in picked], [_kind(one, types) for one in picked])
        self._made = np.zeros(2 + len(picked), np.int64)
        self._told = memoryview(self._made)  # type: ignore[arg-type]  # an array is a buffer; an int of it is made faster here
        self._source = np.empty(0, np.int64)
        self._computed = pa.allocate_buffer(0)
        self.held: dict[str, Array | int] = {}
        """What a loop is told beside `room`: the same mapping as long as there is room enough."""

    def _place(self, one: Picked) -> int | tuple[int, Kind] | None:
        match one:
            case Passed(position):
                return position
            case Computed(number):
                return self._places[f"o{number}"]
            case _:
                return None

    def room(self, size: int) -> dict[str, Array | int]:
        """What a loop gets for a stretch of so many events."""
        if len(self._source) < size or not self.held:
            self._source = np.empty(size, np.int64)
            self.held = {"source": self._source, "made": self._made}
        self._computed = pa.allocate_buffer(size * self._each)
        return {"computed": self._computed.address}

    def stretch(self, given: Stretch) -> Stretch | None:
        """The output rows, None where there are none."""
        k = self._told[0]
        if not k:
            return None
        computed = self._computed
        source = None if k == given.size else self._source
        made = given.picked(source, k, self._recipe, computed.address, computed)
        if self._told[1]:
            self._with_nulls(made, given.size, k)
        return self._same_in(made)

    def unlooped(self, given: Stretch) -> Stretch:
        """The output rows where each event gives one and nothing is computed."""
        if not given.placed:
            return unlooped(self._picked, given)
        return self._same_in(given.picked(None, given.size, self._recipe))

    def _same_in(self, made: PlacedStretch) -> PlacedStretch:
        for at, same in self._same:
            made.put(at, same.column(made.size))
        return made

    def _with_nulls(self, made: PlacedStretch, events: int, k: int) -> None:
        """Puts in the columns in which there are nulls."""
        for (at, one), null in zip(self._nullable, self._made[2:].tolist(), strict=False):
            if null:
                found = (self._places[f"{letter}{one.number}"] for letter in "ox")
                start = self._computed.address
                values, nulls = (values_at(start + offset * events, d, k, self._computed) for offset, d in found)
                made.put(at, Column(None, values, nulls))


def _kind(one: Picked, types: tuple[Type, ...]) -> Kind | None:
    if isinstance(one, Same):
        return None
    name = one.dtype if isinstance(one, Computed) else DTYPES.get(types[one.position])
    return None if name is None else np.dtype(name)


_BOOL = np.dtype(np.bool_)
