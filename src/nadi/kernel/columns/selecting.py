"""The selection of a query in a loop: values, having, the chunk rule; and the stretch that comes of it (language text §5).

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
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Stretch
from nadi.lang.tree import Type
from nadi.plan.islands import having_of
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
    get `source`, `made` (how many rows; then for each column that may have nulls, whether one was seen), the computed columns, and for groups `opened` and
    `slot`: per group, the chunk in which it was seen last
    (counted on from `base`), and its row there; `alone` says that no chunk has two events.
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
        text.own |= {"source": "int64[]", "made": "int64[]"}
        nullable = 0
        for picked in self.picked:
            if isinstance(picked, Computed):
                text.own[f"o{picked.number}"] = f"{picked.dtype}[]"
                if picked.nullable:
                    nullable += 1
                    text.own[f"x{picked.number}"] = "bool[]"
                    text.before.append(f"nulls{picked.number} = False")
                    text.after.append(f"made[{nullable}] = nulls{picked.number}")

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


def unlooped(picked: tuple[Picked, ...], given: Stretch) -> Stretch:
    """The output rows where each event gives one and nothing is computed."""
    columns = []
    for one in picked:
        assert not isinstance(one, Computed)  # that would take a loop
        columns.append(given.columns[one.position] if isinstance(one, Passed) else one.column(len(given)))
    return Stretch(tuple(columns), given.ts, given.now, given.chunk, given.group, given.origin, given.apart)


class Selected:
    """The arrays that a loop's selection writes for one stretch, and what is made of them."""

    def __init__(self, picked: tuple[Picked, ...], size: int) -> None:
        self._picked = picked
        self.source = np.empty(size, np.int64)
        self.made = np.zeros(1 + len(picked), np.int64)
        self.own: dict[str, Array | int] = {"source": self.source, "made": self.made}
        for one in picked:
            if type(one) is Computed:
                self.own[f"o{one.number}"] = np.empty(size, one.dtype)
                if one.nullable:
                    self.own[f"x{one.number}"] = np.empty(size, np.bool_)

    def stretch(self, given: Stretch, read: bool) -> Stretch | None:
        """The output rows, None where there are none. `read`: a query reads them, so that their clocks count."""
        k, *seen = self.made.tolist()
        if not k:
            return None
        every = k == len(given.ts)
        source = self.source if every else self.source[:k]
        nulls = iter(seen)
        columns = []
        for one in self._picked:
            match one:
                case Passed(position):
                    column = given.columns[position]
                    columns.append(column if every else column.take(source))
                case Same():
                    columns.append(one.column(k))
                case Computed(_number, _dtype, nullable):
                    columns.append(self._computed(one, k, nullable and bool(next(nulls))))
        if every:
            return Stretch(tuple(columns), given.ts, given.now, given.chunk, given.group, given.origin, given.apart)
        made = given.marked(tuple(columns), source, read)
        made.apart = given.apart
        return made

    def _computed(self, one: Computed, k: int, null: bool) -> Column:
        values, nulls = self.own[f"o{one.number}"], self.own[f"x{one.number}"] if null else None
        assert not isinstance(values, int)
        assert not isinstance(nulls, int)
        return Column(None, values[:k], None if nulls is None else nulls[:k])
