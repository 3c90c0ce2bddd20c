"""The elements of a pattern or sequence, numbered and linked: what follows what, and what re-arms what (semantics/patterns.md#every)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nadi.plan.chains import ends_at_once
from nadi.plan.nodes import (
    AbsentElement,
    CountElement,
    EveryElement,
    LogicalElement,
    NextElement,
    StateElement,
    StateInput,
    Step,
    StreamElement,
)

if TYPE_CHECKING:
    from nadi.kernel.rows.events import Event
    from nadi.kernel.rows.flow import Timer
    from nadi.kernel.rows.patterns.conditions import Conditions
    from nadi.kernel.rows.patterns.machine import Machine
    from nadi.kernel.rows.patterns.partials import Partial, Waiting

UNBOUNDED = 1 << 62


def places(slot: int) -> tuple[int, int]:
    """Where the new and where the pending matches of an element wait."""
    return 2 * slot, 2 * slot + 1


@dataclass(frozen=True, slots=True)
class Rules:
    """How one kind of element behaves.

    `enter`: a match arrives; `rearm`: a copy of a match starts the scope again; `offer`: an event comes; `reset`, `update`: the two halves of
    making ready for an event (sequences do both, patterns only `update`); `fire`: its timer ran (elements with a waiting time).
    """

    enter: Callable[[Machine, Waiting, Node, Partial], None]
    rearm: Callable[[Machine, Waiting, Node, Partial], None]
    offer: Callable[[Machine, Waiting, Node, Event], None]
    reset: Callable[[Machine, Waiting, Node], None]
    update: Callable[[Machine, Waiting, Node], None]
    fire: Callable[[Machine, Waiting, Node, int], None] | None = None


@dataclass(slots=True, eq=False)
class Node:
    """One element. `next`, `every` and `scope` point to where a match goes, to what is re-armed when this element is done, and to what is re-armed
    when a match that waits here runs out of `within`."""

    slot: int
    source: str
    steps: tuple[Step, ...]
    kind: str  # "one", "count", "logical", "absent" or "absent logical"
    start: bool
    minimum: int = 1
    maximum: int = 1
    op: str = ""
    waiting: int | None = None
    last: bool = False
    silent: bool = False
    """It is the first operand of a pattern that begins with a logical element: nobody hears when it is done. Completion by it is
    lost where the pattern is nothing but an `and` (semantics/patterns.md#and-or); what must stay away and came does not discard the match,
    but lets it wait anew."""
    next: Node | None = None
    every: Node | None = None
    scope: Node | None = None
    partner: Node | None = None
    hops: bool = False
    """Of a pattern, and both this element and the next are plain: a match simply goes over to the next one."""
    starts_over: Node | None = (
        None  # a counted first element that this one's binding or failing starts over (sequences)
    )
    ahead: tuple[int, ...] = ()
    """The slots of the two elements that come after it, of a logical one the second operand before the first: an event there tells a counted
    element that the match has gone on."""
    asks: bool = False
    """Of the first and the last element, where the last one needs no event: it hears whether a match has come to the end, and puts out the one at
    hand (semantics/patterns.md#counted-elements)."""
    heard: bool = True
    """Whether what an element that asks puts out reaches the selection."""
    empties: bool = False
    """Of a pattern in which copies keep what came behind their scope (semantics/patterns.md#every): an event that does not fit empties the slot."""
    lingers: bool = True
    """Of a last element that needs no event: whether it makes a difference that matches stay there when they are complete."""
    conditions: Conditions = field(default=None)  # type: ignore[assignment]  # set right after the layout is made
    rules: Rules = field(default=None)  # type: ignore[assignment]  # likewise
    timer: Timer | None = None
    new: int = field(init=False)  # the places of its matches: see partials
    pending: int = field(init=False)

    def __post_init__(self) -> None:
        self.new, self.pending = places(self.slot)

    def flag(self, name: str) -> str:
        """The key of one of its flags in the state."""
        return f"{self.slot}.{name}"


@dataclass(frozen=True, slots=True)
class Layout:
    """All elements.

    `nodes` in the order in which they are set up (events are offered in the opposite order); `units` are the elements of the outermost chain in
    order, a logical one standing for both operands; `first` is where matches begin, `open_end` the last element where that needs no event.
    """

    nodes: tuple[Node, ...]
    units: tuple[Node, ...]
    first: Node
    open_end: Node | None


@dataclass(slots=True)
class _Part:
    """A piece of the pattern while it is linked: where a match enters it and who completes it."""

    first: Node
    ends: tuple[Node, ...]
    unit: tuple[Node, ...]


def lay_out(plan: StateInput) -> Layout:
    """Number and link the elements of a pattern or sequence."""
    nodes: list[Node] = []
    whole = _part(plan.root, True, plan.sequence, nodes)
    for node in whole.ends:
        node.last = True
    whole.first.silent = whole.first.partner is not None
    for number, node in enumerate(nodes, start=1):
        node.ahead = tuple(after.slot for after in nodes[number : number + 2])
    if any(node.scope is not None and node.scope.kind == "absent logical" for node in nodes):
        for node in nodes:
            node.empties = node.kind in ("one", "logical", "absent")
    end = whole.ends[-1]
    if end.kind == "count" and end.minimum == 0:
        whole.first.asks = end.asks = True
        end.lingers = not ends_at_once(plan)
    return Layout(tuple(nodes), whole.unit, whole.first, end if end.asks else None)


def in_turn(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """The elements of a layout as their timers take turns: of a logical one the first operand first, though it is set up after the second."""
    left = iter(nodes)
    for node in left:
        if node.partner is not None:
            yield next(left)
        yield node


def _part(element: StateElement, start: bool, sequence: bool, nodes: list[Node]) -> _Part:
    if isinstance(element, NextElement):
        return _chain(element, start, sequence, nodes)
    if isinstance(element, EveryElement):
        before = len(nodes)
        inner = _part(element.element, start, sequence, nodes)
        for node in inner.ends:
            node.every = inner.first
        for node in nodes[before:]:
            node.scope = inner.first  # of nested scopes the outermost holds
        return _Part(inner.first, inner.ends, (inner.first,))
    if isinstance(element, LogicalElement):
        return _logical(element, start, nodes)
    node = _node(element, start)
    nodes.append(node)
    return _Part(node, (node,), (node,))


def _chain(element: NextElement, start: bool, sequence: bool, nodes: list[Node]) -> _Part:
    parts = [_part(e, start and i == 0, sequence, nodes) for i, e in enumerate(element.elements)]
    for before, after in pairwise(parts):
        for node in before.ends:
            node.next = after.first
            node.hops = not sequence and node.kind == "one" and after.first.kind == "one"
            if node.kind == "count" and node.start and sequence and node.minimum == 0:
                after.first.starts_over = node
    return _Part(parts[0].first, parts[-1].ends, tuple(n for part in parts for n in part.unit))


def _logical(element: LogicalElement, start: bool, nodes: list[Node]) -> _Part:
    operands = [element.left, element.right]
    if isinstance(element.right, AbsentElement) and not isinstance(element.left, AbsentElement):
        operands.reverse()  # the absent operand leads, however it is written
    first, second = (_node(operand, start) for operand in operands)
    for node, partner in ((first, second), (second, first)):
        node.kind = "absent logical" if node.kind == "absent" else "logical"
        node.op = element.op
        node.partner = partner
    nodes.extend((second, first))
    return _Part(first, (first, second), (second,))


def _node(element: StreamElement | CountElement | AbsentElement | Any, start: bool) -> Node:
    if isinstance(element, CountElement):
        inner = element.element
        maximum = UNBOUNDED if element.maximum is None else element.maximum
        return Node(inner.slot, inner.source, inner.steps, "count", start, minimum=element.minimum, maximum=maximum)
    if isinstance(element, AbsentElement):
        inner = element.element
        return Node(inner.slot, inner.source, inner.steps, "absent", start, waiting=element.waiting)
    return Node(element.slot, element.source, element.steps, "one", start)
