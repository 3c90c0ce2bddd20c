"""Which elements an event can concern, as lines of a loop: so that it costs what it meets, however long the pattern is.

Elements are bits of a word, by slot. `may` are those whose stream the event is of, without those that ask for another value of an attribute than it has:
where several elements compare the same attribute with constants, one look tells which of them may have the event, and the comparison is theirs no more.
Among those only they are asked in which somebody waits, from the last to the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from nadi.kernel.columns.code import Which, Writer
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, Comparison, Const, Expr

_LEAST = 4  # elements that compare the same attribute, below which each may do so by itself
_WHOLE = (Type.INT, Type.LONG)
_ONE_BY_ONE = 2  # elements below which each bit is looked at by itself

Constant = int | str


class Asked(Protocol):
    """What is known of an element here."""

    @property
    def slot(self) -> int: ...
    @property
    def source(self) -> int: ...
    @property
    def alone(self) -> tuple[Expr, ...]: ...


E = TypeVar("E", bound=Asked)


@dataclass(frozen=True, slots=True)
class Choice:
    """The elements of a source that compare one of its columns with constants, as bits by constant; and those that do not."""

    column: int
    by_constant: dict[Constant, int]
    others: int


def choices(elements: Sequence[E], sources: int) -> tuple[tuple[E, ...], dict[int, Choice]]:
    """The elements without the comparisons that a choice makes for them, and the choices by source."""
    found: dict[int, Choice] = {}
    made = list(elements)
    for source in range(sources):
        mine = [e for e in elements if e.source == source]
        by_column: dict[int, list[tuple[E, Expr, Constant]]] = defaultdict(list)
        for element in mine:
            seen: set[int] = set()
            for expr in element.alone:
                compared = _compared(expr)
                if compared is not None and compared[0] not in seen:
                    seen.add(compared[0])
                    by_column[compared[0]].append((element, expr, compared[1]))
        column, some = max(by_column.items(), key=lambda one: len(one[1]), default=(0, []))
        if len(some) < _LEAST:
            continue
        bits: dict[Constant, int] = defaultdict(int)
        for element, expr, constant in some:
            bits[constant] |= 1 << element.slot
            made[element.slot] = replace(element, alone=tuple(e for e in element.alone if e is not expr))  # type: ignore[type-var]
        chosen = {element.slot for element, _expr, _constant in some}
        found[source] = Choice(column, dict(bits), sum(1 << e.slot for e in mine if e.slot not in chosen))
    return tuple(made), found


def _compared(expr: Expr) -> tuple[int, Constant] | None:
    """The column at hand and the constant that a condition wants to be equal, where both are strings, or both whole numbers."""
    if not isinstance(expr, Comparison) or expr.op != "==":
        return None
    one, other = (expr.right, expr.left) if isinstance(expr.left, Const) else (expr.left, expr.right)
    if not (isinstance(one, Attr) and one.slot == 0 and isinstance(other, Const)):
        return None
    value = other.value
    if one.type in _WHOLE and other.type in _WHOLE and isinstance(value, int):
        return one.position, value
    if one.type is Type.STRING and isinstance(value, str):
        return one.position, value
    return None


def write_may(writer: Writer, elements: Sequence[Asked], found: dict[int, Choice], sources: int) -> None:
    """The elements that the event at hand may concern, as bits in `may`; those of its source in `mine`."""
    for choice in found.values():  # what is loaded for all is loaded before any branch
        if writer.types[choice.column] is not Type.STRING:
            writer.term(Attr(0, choice.column, writer.types[choice.column]))
    for source in range(sources):
        mine = sum(1 << e.slot for e in elements if e.source == source)
        if sources > 1:
            writer.open(f"{'el' if source else ''}if origin[i] == {source}:")
        writer.line(f"mine = {mine}")
        if source in found:
            _write_choice(writer, found[source])
        else:
            writer.line(f"may = {mine}")
        if sources > 1:
            writer.close()
    if sources > 1:
        writer.open("else:")
        writer.line("mine = may = 0")
        writer.close()


def _write_choice(writer: Writer, choice: Choice) -> None:
    """One look at the value: the compiler makes a table, or a search, of equalities that exclude each other."""
    column = choice.column
    if writer.types[column] is Type.STRING:
        texts = tuple(str(text) for text in choice.by_constant)
        value, bits = writer.which(Which(column, texts)), dict(enumerate(choice.by_constant.values()))
    else:
        term = writer.term(Attr(0, column, writer.types[column]))
        value, bits = term.text, {int(number): some for number, some in choice.by_constant.items()}
        if term.null:
            writer.open(f"if {term.null}:")
            writer.line(f"may = {choice.others}")
            writer.close()
    starts = "el" if writer.types[column] is not Type.STRING else ""
    for number, some in sorted(bits.items()):
        writer.open(f"{starts}if {value} == {number}:")
        writer.line(f"may = {some | choice.others}")
        writer.close()
        starts = "el"
    writer.open("else:")
    writer.line(f"may = {choice.others}")
    writer.close()


def write_asked(writer: Writer, elements: Iterable[E], step: Callable[[E], None]) -> None:
    """The lines of each element in this order, under the condition that its bit is in `todo`; halves in which no bit is are passed over."""
    some = list(elements)
    if len(some) <= _ONE_BY_ONE:
        for element in some:
            writer.open(f"if (todo & {1 << element.slot}) != 0:")
            step(element)
            writer.close()
        return
    half = len(some) // 2
    for part_of in (some[:half], some[half:]):
        writer.open(f"if (todo & {sum(1 << e.slot for e in part_of)}) != 0:")
        write_asked(writer, part_of, step)
        writer.close()
