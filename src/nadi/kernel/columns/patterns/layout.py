"""What a chain is made of, as its loop sees it: sources, columns, elements, the words of a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nadi.kernel.columns.patterns.places import FIRST, FIXED, NUMBER, PLACE, STARTS
from nadi.kernel.columns.patterns.sources import Sources, looks_back, seen, sources_of
from nadi.lang.tree import Type
from nadi.plan.chains import Chain
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import App, Attr, Comparison, Expr, FilterStep, Query, StateInput, StreamElement
from nadi.plan.walk import conjuncts, inside

Reference = tuple[int, int]
"""An attribute: (slot, position in its stream)."""
_WHOLE = {Type.INT, Type.LONG}


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its place among the others, its source, what depends on the event at hand alone, and what looks at others.

    `equal`, where there is one, is (column at hand, attribute of another event): only matches that have this value come into question. Strings are
    equal then; numbers are `spread` over buckets, and their equality is among the `rest`, too. Expressions have the event at hand in slot 0, by
    column; the event of slot k in slot k + 1.
    """

    slot: int
    source: int
    alone: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    equal: tuple[int, Reference] | None = None
    spread: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A chain. `values` and `having` are those of the selection, the last event in slot 0. `node` has where in a node each captured attribute stands."""

    sources: Sources
    elements: tuple[Element, ...]
    every: str
    within: int | None
    values: tuple[Expr, ...]
    having: Expr | None
    captured: tuple[Reference, ...]
    """The attributes that a match keeps, but those that are its key."""
    keyed: frozenset[Reference]
    """The attributes that are the text of the key."""
    waiting: int | None = None
    """How many ms the last element must stay away, None where it must come."""
    pair: bool = False
    """The first two elements are joined by `and`: a match that has bound one of them waits in the first place."""

    @property
    def places(self) -> int:
        """How many there are per key."""
        return len(self.elements) - 1

    @property
    def key_width(self) -> int:
        """Words of a key's row."""
        return STARTS + PLACE * self.places

    def place(self, slot: int) -> int:
        """Where in a key's row the place stands in which matches wait for an element."""
        return STARTS + PLACE * (slot - 1)

    @property
    def indexed(self) -> bool:
        """Whether any element has buckets."""
        return any(e.equal is not None for e in self.elements)

    @property
    def last_word(self) -> int:
        """Where a node has the time of its last event: that of the first one where there is no other."""
        return FIXED if self.places > 1 else FIXED - 1

    @property
    def far_word(self) -> int:
        """Where a node of a pair has the later one of its two first times, 0 for nowhere."""
        return self.last_word + 1 if self.pair else 0

    @property
    def bucket_word(self) -> int:
        """Where a node has its bucket's links, 0 for nowhere."""
        return (self.far_word or self.last_word) + 1 if self.indexed else 0

    @property
    def null_word(self) -> int:
        """Where a node has the bits of its nulls, one per captured attribute."""
        return (self.far_word or self.last_word) + (4 if self.indexed else 1)

    def word(self, attribute: Reference) -> int:
        """Where a node has the value of a captured attribute."""
        return self.null_word + 1 + self.captured.index(attribute)

    @property
    def node_width(self) -> int:
        """Words of a node."""
        return self.null_word + (1 + len(self.captured) if self.captured else 0)

    @property
    def told(self) -> tuple[int, ...]:
        """The words of a node that its state consists of: all but links."""
        last: tuple[int, ...] = (self.last_word,) if self.places > 1 else ()
        last += (self.far_word,) if self.pair else ()
        return (NUMBER, FIRST, *last, *range(self.null_word, self.node_width))

    def type_of(self, attribute: Reference) -> Type:
        """The type of an attribute."""
        return self.sources.types[self.column(attribute)]

    def column(self, attribute: Reference) -> int:
        """Where an attribute stands among the columns of all sources."""
        slot, position = attribute
        return self.sources.starts[self.elements[slot].source] + position


def lay_out(query: Query, app: App, chain: Chain) -> Layout:
    """The layout of a chain."""
    assert isinstance(query.input, StateInput)
    sources = sources_of(query, app, chain.elements)
    starts = {e.slot: sources.starts[sources.names.index(e.source)] for e in chain.elements}
    flat, led = query.partition is None, 2 if chain.pair else 0
    elements = tuple(_element(e, sources, starts, indexes=flat and e.slot >= led) for e in chain.elements)
    last, selection = len(elements) - 1, query.selection
    if chain.waiting is not None:
        last = len(elements)  # no event is at hand
    values = tuple(seen(value, last, starts) for value in selection.values)
    having = None if selection.having is None else seen(having_of(selection), last, starts)
    keyed = frozenset(
        (slot, column - starts[slot])
        for slot, element in enumerate(elements)
        for column in sources.keys[element.source : element.source + 1]
        if sources.types[column] is Type.STRING
    )
    looked = [*values, *([] if having is None else [having]), *(e for one in elements for e in one.rest)]
    found = {
        (part.slot - 1, part.position)
        for expr in looked
        for part in inside(expr)
        if isinstance(part, Attr) and part.slot > 0
    }
    found |= {element.equal[1] for element in elements if element.equal is not None}
    captured = tuple(sorted(found - keyed))
    return Layout(
        sources, elements, chain.every, query.input.within, values, having, captured, keyed, chain.waiting, chain.pair
    )


def _element(element: StreamElement, sources: Sources, starts: dict[int, int], indexes: bool) -> Element:
    conditions = [seen(step.condition, element.slot, starts) for step in element.steps if isinstance(step, FilterStep)]
    parts = [part for condition in conditions for part in conjuncts(condition)]
    alone = tuple(part for part in parts if not looks_back(part))
    rest = [part for part in parts if looks_back(part)]
    equal = None
    for part in rest if indexes else ():
        equal = _equality(part, sources)
        if equal is not None:
            if sources.types[equal[0]] is Type.STRING:
                rest.remove(part)
            break
    spread = equal is not None and sources.types[equal[0]] is not Type.STRING
    return Element(element.slot, sources.names.index(element.source), alone, tuple(rest), equal, spread)


def _equality(expr: Expr, sources: Sources) -> tuple[int, Reference] | None:
    """The column at hand and the earlier attribute that a condition wants to be equal, where both are strings, or both whole numbers."""
    if not isinstance(expr, Comparison) or expr.op != "==":
        return None
    sides = (expr.left, expr.right)
    kinds = {side.type for side in sides if isinstance(side, Attr)}
    if not all(isinstance(side, Attr) for side in sides) or not (kinds == {Type.STRING} or kinds <= _WHOLE):
        return None
    here, there = sorted((s for s in sides if isinstance(s, Attr)), key=lambda side: side.slot)
    return (here.position, (there.slot - 1, there.position)) if here.slot == 0 and there.slot > 0 else None


def strings(layout: Layout) -> Iterator[int]:
    """The columns whose strings the loop needs as numbers."""
    for attribute in layout.captured:
        if layout.type_of(attribute) is Type.STRING:
            yield layout.column(attribute)
    for element in layout.elements:
        if element.equal is not None and not element.spread:
            yield element.equal[0]
        for expr in element.rest:
            for part in inside(expr):
                if isinstance(part, Attr) and part.slot == 0 and part.type is Type.STRING:
                    yield part.position
