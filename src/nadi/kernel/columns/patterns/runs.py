"""What a sequence is made of, as its loop sees it: elements, what matches keep of their events, the words of a key.

An element has one match at a time, so that a key has as many as there are elements, and all of its state is one row of words:

    begun and who waits, the match of each element (from 1 on), the matches

The first word has as its lowest bit whether the sequence has begun, then a bit for each element: whether it has a match.
A match has how many events each element has bound, the time of the first event, and two words for each captured value: whether it is null, and the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nadi.kernel.columns.patterns.sources import Sources, looks_back, seen, sources_of
from nadi.lang.tree import Type
from nadi.plan.chains import Run
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import App, Attr, CountElement, Expr, FilterStep, Query, StateInput, StreamElement
from nadi.plan.walk import conjuncts, inside, replaced

BEGUN = 0
UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A value of a match: attribute `position` of event `index` (from 0, or -1 for the last, -2 for the one before) of the element in `slot`."""

    slot: int
    position: int
    index: int


@dataclass(frozen=True, slots=True)
class Element:
    """One element. Expressions have the event at hand in slot 0, by column, and captured values in slot `KEPT`, by number.

    A plain element is one that takes exactly one event; `counted` tells it from `<1:1>`.
    """

    slot: int
    source: int
    minimum: int
    maximum: int
    counted: bool
    alone: tuple[Expr, ...]
    rest: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RunLayout:
    """A sequence. `captured` are the values that matches keep; `values` and `having` are those of the selection."""

    sources: Sources
    elements: tuple[Element, ...]
    every: bool
    within: int | None
    values: tuple[Expr, ...]
    having: Expr | None
    captured: tuple[Reference, ...]

    @property
    def match_width(self) -> int:
        """Words of a match."""
        return len(self.elements) + 1 + 2 * len(self.captured)

    @property
    def key_width(self) -> int:
        """Words of a key."""
        return 1 + len(self.elements) + len(self.elements) * self.match_width

    @property
    def first_word(self) -> int:
        """Where in a match the time of its first event stands."""
        return len(self.elements)

    def word(self, number: int) -> int:
        """Where in a match a captured value stands; whether it is null stands before."""
        return len(self.elements) + 2 + 2 * number

    @property
    def start(self) -> int:
        """Where in a key the matches begin, less one match, as they are counted from 1."""
        return 1 + len(self.elements) - self.match_width

    def column(self, reference: Reference) -> int:
        """Where an attribute stands among the columns of all sources."""
        return self.sources.starts[self.elements[reference.slot].source] + reference.position

    def type_of(self, reference: Reference) -> Type:
        """The type of an attribute."""
        return self.sources.types[self.column(reference)]

    def strings(self) -> tuple[int, ...]:
        """The captured values that are strings."""
        return tuple(i for i, r in enumerate(self.captured) if self.type_of(r) is Type.STRING)


def lay_out_run(query: Query, app: App, run: Run) -> RunLayout:
    """The layout of a sequence."""
    assert isinstance(query.input, StateInput)
    plain = [e.element if isinstance(e, CountElement) else e for e in run.elements]
    sources = sources_of(query, app, plain)
    starts = {e.slot: sources.starts[sources.names.index(e.source)] for e in plain}
    counted, last = query.input.counted, len(plain) - 1
    conditions = [conditions_of(e, counted) for e in plain]
    selection = query.selection
    values = [marked(value, last, counted) for value in selection.values]
    having = None if selection.having is None else marked(having_of(selection), last, counted)
    every = [(e.slot, c) for e, some in zip(plain, conditions) for c in some] + [(last, v) for v in values]
    every += [] if having is None else [(last, having)]
    captured = captured_by(every, counted)

    def bound(expr: Expr, slot: int) -> Expr:
        return seen(by_number(expr, slot, captured), slot, starts)

    elements = []
    for element, node, some in zip(plain, run.elements, conditions):
        parts = [bound(c, element.slot) for c in some]
        alone, rest = tuple(p for p in parts if not looks_back(p)), tuple(p for p in parts if looks_back(p))
        least, most = (node.minimum, node.maximum) if isinstance(node, CountElement) else (1, 1)
        elements.append(
            Element(
                element.slot,
                sources.names.index(element.source),
                least,
                UNBOUNDED if most is None else most,
                isinstance(node, CountElement),
                alone,
                rest,
            )
        )
    shown = tuple(bound(value, last) for value in values)
    filtered = None if having is None else bound(having, last)
    return RunLayout(sources, tuple(elements), run.every, query.input.within, shown, filtered, captured)


def conditions_of(element: StreamElement, counted: tuple[bool, ...]) -> list[Expr]:
    """What an element asks of its event, part by part, as `marked` gives it."""
    conditions = [step.condition for step in element.steps if isinstance(step, FilterStep)]
    return [marked(part, element.slot, counted) for condition in conditions for part in conjuncts(condition)]


def marked(expr: Expr, slot: int, counted: tuple[bool, ...]) -> Expr:
    """Let all attributes but those at hand have an index: in its own filter a counted element means the event at hand where it has none."""

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot < 0:
            return one
        if one.slot == slot and (one.index is None or not counted[slot]):
            return replace(one, index=None)
        return replace(one, index=-1 if one.index is None or not counted[one.slot] else one.index)

    return replaced(expr, leaf)


def captured_by(every: Iterable[tuple[int, Expr]], counted: tuple[bool, ...]) -> tuple[Reference, ...]:
    """What is kept: what is asked for, and what comes to be the one before the last."""
    found = {
        Reference(part.slot, part.position, part.index)
        for _slot, expr in every
        for part in inside(expr)
        if isinstance(part, Attr) and part.slot >= 0 and part.index is not None
    }
    for one in tuple(found):
        found |= {replace(one, index=i) for i in range(one.index, 0)}
    return tuple(sorted(found))


def by_number(expr: Expr, slot: int, captured: tuple[Reference, ...]) -> Expr:
    """An expression as `marked` gives it, with captured values by number in slot `KEPT`, once `seen` has moved it there."""

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot < 0 or one.index is None:
            return one
        number = captured.index(Reference(one.slot, one.position, one.index))
        return replace(one, slot=KEPT - 1, position=number, index=None)

    return replaced(expr, leaf)


KEPT = (1 << 20) + 1
"""The slot of captured values in expressions: one that no element has."""
