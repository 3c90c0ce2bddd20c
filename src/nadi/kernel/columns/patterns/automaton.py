"""What a pattern of any shape is made of, as its loop sees it: what its elements ask for and keep (`Layout`), and what follows what (`shape`).

The same of a sequence, whose elements have two places: where new matches wait, and behind all of these where pending ones do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nadi.kernel.columns.patterns import partials
from nadi.kernel.columns.patterns.partials import ELEMENT, ELEMENTS, FIRST, LINKS, PLACE, STARTS
from nadi.kernel.columns.patterns.runs import Reference, by_number, captured_by, conditions_of, marked
from nadi.kernel.columns.patterns.sources import Sources, looks_back, seen, sources_of
from nadi.kernel.columns.patterns.waking import TIMER
from nadi.kernel.columns.stretch import Longs
from nadi.kernel.rows.patterns.elements import Node, in_turn, lay_out
from nadi.lang.tree import Type
from nadi.plan.columns.islands import having_of
from nadi.plan.nodes import App, Expr, Query, StateInput, StreamElement
from nadi.plan.walk import inside

_KINDS = {
    "one": partials.ONE,
    "count": partials.MANY,
    "logical": partials.LOGICAL,
    "absent logical": partials.AWAY,
    "absent": partials.ABSENT,
}


@dataclass(frozen=True, slots=True)
class Element:
    """One element. Expressions have the event at hand in slot 0, by column, and captured values in slot `KEPT`, by number.

    `hurried`: the elements whose events mean that a match waits here no more (bits by slot).
    """

    slot: int
    source: int
    alone: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    hurried: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A pattern. `captured` are the values that matches keep; `values` and `having` are those of the selection, with the last event in slot 0 where all matches
    end with the same element."""

    sources: Sources
    elements: tuple[Element, ...]
    nodes: tuple[Node, ...]
    """By slot."""
    first: Node
    """Where matches begin."""
    order: tuple[int, ...]
    """The slots in the order in which the elements are set up; events are offered in the opposite one."""
    turns: tuple[int, ...]
    """The slots in the order in which timers take turns."""
    within: int | None
    values: tuple[Expr, ...]
    having: Expr | None
    captured: tuple[Reference, ...]
    units: tuple[int, ...] = ()
    """Of a sequence the slots of its elements in order, a logical one standing for both operands."""

    @property
    def places(self) -> int:
        """In how many places matches may wait."""
        return len(self.elements) * (2 if self.units else 1)

    @property
    def starts(self) -> int:
        """How many elements matches begin with."""
        return sum(node.start for node in self.nodes)

    @property
    def links(self) -> int:
        """Where in a node the links begin."""
        return FIRST + self.starts

    @property
    def counts(self) -> int:
        """Where in a node the counts of bound events begin."""
        return self.links + LINKS * self.places

    @property
    def seen(self) -> int:
        """Where in a node the times begin at which what should stay away came, 0 for nowhere."""
        away = any(node.kind == "absent logical" for node in self.nodes)
        return self.counts + self.places if away else 0

    @property
    def first_value(self) -> int:
        """Where in a node the captured values begin."""
        return (self.seen or self.counts) + self.places

    def word(self, number: int) -> int:
        """Where in a node a captured value stands; whether it is null stands before."""
        return self.first_value + 1 + 2 * number

    @property
    def node_width(self) -> int:
        """Words of a node."""
        return self.first_value + 2 * len(self.captured)

    @property
    def key_width(self) -> int:
        """Words of a key."""
        size = self.places
        return STARTS + PLACE * size + (TIMER * size if self.timed else 0)

    @property
    def timed(self) -> bool:
        """Whether elements wait for absences by the clock."""
        return any(node.waiting is not None for node in self.nodes)

    @property
    def times_begin(self) -> bool:
        """Whether that begins with the key."""
        return any(node.waiting is not None and node.start for node in self.nodes)

    @property
    def timers(self) -> int:
        """Where in a key the timers begin, 0 for nowhere."""
        return STARTS + PLACE * self.places if self.timed else 0

    @property
    def told(self) -> tuple[int, ...]:
        """The words of a node that its state consists of: its number first, then the numbers under which it came to elements."""
        numbers = (self.links + LINKS * e + partials.NUMBER for e in range(self.places))
        bound = (partials.TS, partials.EXPIRED, *range(FIRST, self.links), *range(self.counts, self.node_width))
        return (partials.ID, *numbers, *bound)

    def column(self, reference: Reference) -> int:
        """Where an attribute stands among the columns of all sources."""
        return self.sources.starts[self.elements[reference.slot].source] + reference.position

    def type_of(self, reference: Reference) -> Type:
        """The type of an attribute."""
        return self.sources.types[self.column(reference)]

    @property
    def opening(self) -> int:
        """The elements at which a match waits that has bound nothing, as bits."""
        bits, node = 0, self.first
        while True:
            bits |= 1 << node.slot
            if node.partner is not None:
                bits |= 1 << node.partner.slot
            if node.kind != "count" or node.minimum > 0 or node.next is None:
                break
            node = node.next
        return bits

    @property
    def idle(self) -> int:
        """How many places the match has that has bound nothing."""
        return self.opening.bit_count()

    def shape(self) -> Longs:
        """What the functions of `partials` and `moving` are given of it."""
        size = self.places
        behind = [*self.units, len(self.units)] if self.units else []
        made = np.zeros(ELEMENTS + ELEMENT * size + len(behind), np.int64)
        head = {
            partials.SIZE: size,
            partials.FIRSTS: self.starts,
            partials.CAPTURED: len(self.captured),
            partials.WIDTH: self.node_width,
            partials.AT_LINKS: self.links,
            partials.AT_COUNTS: self.counts,
            partials.AT_SEEN: self.seen,
            partials.AT_VALUES: self.first_value,
            partials.WITHIN: -1 if self.within is None else self.within,
            partials.BEGIN: self.first.slot,
            partials.KEY_WIDTH: self.key_width,
            partials.AT_TIMERS: self.timers,
        }
        for word, value in head.items():
            made[word] = value
        for node in self.nodes:
            at = ELEMENTS + ELEMENT * node.slot
            made[at : at + ELEMENT] = self._row(node)
        for place in range(len(self.elements), size):
            made[ELEMENTS + ELEMENT * place + partials.START] = made[ELEMENTS + ELEMENT * place + partials.WAIT] = -1
        made[len(made) - len(behind) :] = behind
        return made

    def _row(self, node: Node) -> list[int]:
        slot = node.slot
        row = {
            partials.KIND: _KINDS[node.kind],
            partials.START: slot if node.start else -1,
            partials.MINIMUM: node.minimum,
            partials.MAXIMUM: node.maximum,
            partials.LAST: node.last,
            partials.SILENT: node.silent,
            partials.FOLLOWING: _slot(node.next),
            partials.BEFORE: next((n.slot for n in self.nodes if n.kind == "count" and n.next is node), -1),
            partials.EVERY: _slot(node.every),
            partials.SCOPE: _slot(node.scope),
            partials.PARTNER: _slot(node.partner),
            partials.EITHER: node.op == "or",
            partials.EARLIER: sum(reference.slot < slot for reference in self.captured),
            partials.STALES: sum(1 << e.slot for e in self.elements if (e.hurried >> slot) & 1),
            partials.AGING: self._aging(slot),
            partials.WAIT: -1 if node.waiting is None else node.waiting,
            partials.TURN: self.turns.index(slot),
        }
        return [int(row[word]) for word in range(ELEMENT)]

    def _aging(self, turn: int) -> int:
        """Which element is looked at in turn for matches that ran out of `within`, -1 for none: those of a plain first one have bound nothing."""
        node = self.nodes[self.order[turn]]
        alone = self.starts == 1 and node.kind == "one" and node.start
        return -1 if self.within is None or alone else node.slot


def _slot(node: Node | None) -> int:
    return -1 if node is None else node.slot


def _hurried(node: Node) -> int:
    """See `Element`."""
    if node.kind == "count":
        return sum(1 << slot for slot in node.ahead)
    return 1 << node.partner.slot if node.partner is not None and node.op == "or" else 0


def lay_out_automaton(query: Query, app: App) -> Layout:
    """The layout of a pattern or sequence."""
    state = query.input
    assert isinstance(state, StateInput)
    plan = lay_out(state)
    plain = sorted((e for e in inside(state.root) if isinstance(e, StreamElement)), key=lambda e: e.slot)
    nodes = tuple(sorted(plan.nodes, key=lambda n: n.slot))
    sources = sources_of(query, app, plain)
    starts = {e.slot: sources.starts[sources.names.index(e.source)] for e in plain}
    counted = state.counted
    ends = [node for node in nodes if node.last]
    at_hand = ends[0].slot if len(ends) == 1 and ends[0].kind == "one" else len(nodes)
    conditions = [conditions_of(e, counted) for e in plain]
    selection = query.selection
    values = [marked(value, at_hand, counted) for value in selection.values]
    having = None if selection.having is None else marked(having_of(selection), at_hand, counted)
    every = [(e.slot, c) for e, some in zip(plain, conditions) for c in some] + [(at_hand, v) for v in values]
    every += [] if having is None else [(at_hand, having)]
    captured = captured_by(every, counted)

    def bound(expr: Expr, slot: int) -> Expr:
        return seen(by_number(expr, slot, captured), slot, starts)

    elements = []
    for element, node, some in zip(plain, nodes, conditions):
        parts = [bound(c, element.slot) for c in some]
        alone, rest = tuple(p for p in parts if not looks_back(p)), tuple(p for p in parts if looks_back(p))
        source = sources.names.index(element.source)
        elements.append(Element(element.slot, source, alone, rest, _hurried(node)))
    return Layout(
        sources,
        tuple(elements),
        nodes,
        plan.first,
        tuple(node.slot for node in plan.nodes),
        tuple(node.slot for node in in_turn(plan.nodes)),
        state.within,
        tuple(bound(value, at_hand) for value in values),
        None if having is None else bound(having, at_hand),
        captured,
        tuple(node.slot for node in plan.units) if state.sequence else (),
    )
