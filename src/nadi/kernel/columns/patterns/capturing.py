"""The lines that keep values of events in a match, and read them again: `e1.price`, `e2[0].price`, `e2[last - 1].price`.

Each value has two words: whether it is null, and the value. The match is `m` in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.patterns.runs import KEPT, Reference
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Expr
from nadi.plan.walk import inside

FLOATS = (Type.FLOAT, Type.DOUBLE)


class Captures(Protocol):
    """What is kept, and where in a match the values stand; whether they are null stands before."""

    @property
    def captured(self) -> tuple[Reference, ...]: ...
    def word(self, number: int) -> int: ...
    def column(self, reference: Reference) -> int: ...
    def type_of(self, reference: Reference) -> Type: ...


class Capturing:
    """Writes these lines; `own` gets the parameters that they need."""

    def __init__(self, layout: Captures, writer: Writer, own: dict[str, str]) -> None:
        self._layout = layout
        self._writer = writer
        self._own = own

    def load(self, conditions: Iterable[Expr], rest: Iterable[Expr]) -> None:
        """The attributes at hand that conditions read and matches keep; of `rest`, which look at others, strings are compared as numbers."""
        layout, writer = self._layout, self._writer
        compared = [p.position for p in attributes(rest) if p.slot == 0 and p.type is Type.STRING]
        kept = [layout.column(reference) for reference in layout.captured]
        kinds = writer.types
        strings = [c for c in kept if kinds[c] is Type.STRING]
        for column in dict.fromkeys((*strings, *compared)):
            self._own[f"s{column}"] = "const int32[]"
            writer.line(f"s_{column} = int(s{column}[i])")
            writer.bound[0, column] = Term(f"s_{column}", writer.null_of(column))
        for column in sorted({*kept, *(p.position for p in attributes(conditions) if p.slot == 0)}):
            if kinds[column] is Type.STRING:
                writer.null_of(column)
            else:
                writer.term(Attr(0, column, kinds[column]))

    def recall(self, exprs: Iterable[Expr]) -> None:
        """Read the captured values that expressions need."""
        layout, writer = self._layout, self._writer
        for number in sorted({part.position for part in attributes(exprs) if part.slot == KEPT}):
            kind, at = layout.type_of(layout.captured[number]), layout.word(number)
            value = {Type.BOOL: "words[m + {}] != 0"}.get(
                kind, "float(floats[m + {}])" if kind in FLOATS else "int(words[m + {}])"
            )
            writer.line(f"b{number} = {value.format(at)}")
            writer.line(f"y{number} = {self._null(number, at)}")
            writer.bound[KEPT, number] = Term(f"b{number}", f"y{number}")

    def _null(self, number: int, at: int) -> str:
        return f"words[m + {at - 1}] != 0"

    def keep(self, slot: int) -> None:
        """Keep what is needed of the event that was bound as number `count`."""
        writer = self._writer
        for number, reference in enumerate(self._layout.captured):  # by index: the one before the last moves on first
            if reference.slot != slot:
                continue
            at = self._layout.word(number)
            if reference.index < -1:
                following = self._layout.word(self._number(reference))
                writer.line(f"words[m + {at - 1}] = words[m + {following - 1}]")
                writer.line(f"words[m + {at}] = words[m + {following}]")
                continue
            if reference.index >= 0:
                writer.open(f"if count == {reference.index + 1}:")
            self._store(reference, at)
            if reference.index >= 0:
                writer.close()

    def _number(self, reference: Reference) -> int:
        """The captured value that comes after one."""
        return self._layout.captured.index(Reference(reference.slot, reference.position, reference.index + 1))

    def _store(self, reference: Reference, at: int) -> None:
        column, kind = self._layout.column(reference), self._layout.type_of(reference)
        term = self._writer.bound[0, column] if kind is Type.STRING else self._writer.term(Attr(0, column, kind))
        self._writer.line(f"words[m + {at - 1}] = {f'1 if {term.null} else 0' if term.null else '0'}")
        self._writer.line(f"{'floats' if kind in FLOATS else 'words'}[m + {at}] = {term.text}")


def attributes(exprs: Iterable[Expr]) -> Iterable[Attr]:
    """All attributes in expressions."""
    return (part for expr in exprs for part in inside(expr) if isinstance(part, Attr))
