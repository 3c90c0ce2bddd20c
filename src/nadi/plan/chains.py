"""Patterns and sequences that are a plain chain, so that a kernel may have a short way for them.

Most are. `A -> B -> C`: a match waits for one element at a time and binds one event there. `A, B+, C`: an element has one match at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nadi.plan.nodes import (
    AbsentElement,
    CountElement,
    EveryElement,
    LogicalElement,
    NextElement,
    StateElement,
    StateInput,
    StreamElement,
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The elements in order, and what `every` stands around: "first", "all" or nothing (""). `pair`: the first two are joined by `and`; `waiting`: the last one
    must stay away so many ms."""

    elements: tuple[StreamElement, ...]
    every: str
    pair: bool = False
    waiting: int | None = None


def least_events(element: StateElement) -> dict[int, int]:
    """How many events each slot has at least, once an element is done with; slots that may have none can be missing."""
    match element:
        case StreamElement(slot=slot):
            return {slot: 1}
        case CountElement(inner, minimum):
            return {inner.slot: minimum}
        case EveryElement(inner):
            return least_events(inner)
        case NextElement(elements):
            return {slot: count for each in elements for slot, count in least_events(each).items()}
        case LogicalElement("and", left, right):
            return least_events(left) | least_events(right)
        case _:
            return {}


def as_chain(plan: StateInput, compat: int) -> Chain | None:
    """The chain that a pattern is, or None where it is more than that (Siddhi 4's `within` is, too)."""
    if plan.sequence or compat == 4:
        return None
    every, root = "", plan.root
    if isinstance(root, EveryElement):
        every, root = "all", root.element
    if not isinstance(root, NextElement):
        return None
    first, *others = root.elements
    if isinstance(first, EveryElement) and not every:
        every, first = "first", first.element
    elements = (first, *others)
    plain = tuple(e for e in elements if isinstance(e, StreamElement))
    return Chain(plain, every) if len(plain) == len(elements) else None


def as_led(plan: StateInput, compat: int) -> Chain | None:
    """As `as_chain`; the first element may be two that are joined by `and`: `A and B -> C`; or the last one may have to stay away: `A -> not B for t`."""
    chain = as_chain(plan, compat)
    if chain is not None or plan.sequence or compat == 4:
        return chain
    every, root = "", plan.root
    if isinstance(root, EveryElement):
        every, root = "all", root.element
    if not isinstance(root, NextElement):
        return None
    first, *others = root.elements
    if isinstance(first, EveryElement) and not every:
        every, first = "first", first.element
    if isinstance(first, StreamElement) and others and isinstance(absent := others[-1], AbsentElement):
        elements = (first, *others[:-1], absent.element)
        plain = tuple(e for e in elements if isinstance(e, StreamElement))
        return Chain(plain, every, waiting=absent.waiting) if len(plain) == len(elements) else None
    if not (isinstance(first, LogicalElement) and first.op == "and"):
        return None
    elements = (first.left, first.right, *others)
    plain = tuple(e for e in elements if isinstance(e, StreamElement))
    return Chain(plain, every, pair=True) if len(plain) == len(elements) else None


@dataclass(frozen=True, slots=True)
class Run:
    """The elements of a sequence in order, and whether `every` stands before the first one."""

    elements: tuple[StreamElement | CountElement, ...]
    every: bool


def as_run(plan: StateInput, compat: int) -> Run | None:
    """The run of elements that a sequence is, or None where it is more than that.

    The last element is a plain one, and the first takes at least one event: without that, matches may pile up. No counted element is followed by two
    that need no event: it would go on collecting for a match that the one behind them has taken further, as each looks at two elements only.
    """
    if not plan.sequence or compat == 4 or not isinstance(plan.root, NextElement):
        return None
    first, *others = plan.root.elements
    every = isinstance(first, EveryElement)
    elements = (first.element if isinstance(first, EveryElement) else first, *others)
    simple = tuple(e for e in elements if isinstance(e, (StreamElement, CountElement)))
    if len(simple) < len(elements) or not isinstance(simple[-1], StreamElement):
        return None
    optional = [isinstance(e, CountElement) and e.minimum == 0 for e in simple]
    collects = [isinstance(e, CountElement) for e in simple]
    beyond = any(all(part) for part in zip(collects, optional[1:], optional[2:]))
    return None if optional[0] or beyond else Run(simple, every)


Element = StreamElement | CountElement | AbsentElement


def as_automaton(plan: StateInput, compat: int) -> tuple[Element, ...] | None:
    """The elements of a pattern or sequence by slot, however they follow each other; None where none of that is known.

    All matches are complete with an event, or all when an absence has lasted. Of the former no counted element goes on collecting for a match that is
    complete, which it does where the two behind it may have no event by then.
    """
    if compat == 4 or (plan.sequence and not _in_succession(plan.root)):
        return None
    elements, ends = tuple(_elements(plan.root)), _ends(plan.root)
    if _remembers(plan.root):
        return None
    if isinstance(ends, AbsentElement):
        return elements
    if isinstance(ends, LogicalElement) and waits(ends):
        return None
    if isinstance(ends, CountElement) and ends.minimum == 0 and not ends_at_once(plan):
        return None
    logical = [part for part in _inside(plan.root) if isinstance(part, LogicalElement)]
    sure = [isinstance(e, StreamElement) or (isinstance(e, CountElement) and e.minimum > 0) for e in elements]
    either = [_left(one) for one in logical if one.op == "or"]
    for slot in either:
        sure[slot] = sure[slot + 1] = False
    for slot, element in enumerate(elements[:-1]):
        if isinstance(element, CountElement) and not (any(sure[slot + 1 : slot + 3]) or slot + 1 in either):
            return None
    return elements


def _in_succession(root: StateElement) -> bool:
    """Whether a sequence starts with an element that takes at least one event, or with an absence, and ends with one that is not counted."""
    if not isinstance(root, NextElement):
        return False
    first, *_others, last = root.elements
    first = first.element if isinstance(first, EveryElement) else first
    optional = isinstance(first, CountElement) and first.minimum == 0
    return not isinstance(first, (EveryElement, NextElement)) and not optional and not isinstance(last, CountElement)


def waits(plan: StateInput | StateElement) -> bool:
    """Whether an element waits for an absence by the clock."""
    root = plan.root if isinstance(plan, StateInput) else plan
    return any(isinstance(e, AbsentElement) and e.waiting is not None for e in _elements(root))


def _remembers(root: StateElement) -> bool:
    """Whether copies that start a scope anew may keep what counted or logical elements bound: they do behind an operand that must stay away."""
    away = [_left(part) for part in _starts(root) if AbsentElement in map(type, (part.left, part.right))]
    behind = [part for part in _inside(root) if isinstance(part, (CountElement, LogicalElement))]
    return bool(away) and any(_slot(part) > min(away) for part in behind)


def _starts(root: StateElement) -> Iterator[LogicalElement]:
    """The logical elements with which a scope begins."""
    for part in _inside(root):
        if isinstance(part, EveryElement):
            while isinstance(part, (EveryElement, NextElement)):
                part = part.element if isinstance(part, EveryElement) else part.elements[0]
            if isinstance(part, LogicalElement):
                yield part


def _slot(element: CountElement | LogicalElement) -> int:
    return element.element.slot if isinstance(element, CountElement) else _left(element)


def ends_at_once(plan: StateInput) -> bool:
    """Whether a match that comes to a last element that needs no event is complete then and there, and over: the event of a plain first element brings
    it there (semantics/patterns.md#counted-elements), and no `every` starts anew what runs out of `within` there."""
    root, scoped = plan.root, isinstance(plan.root, EveryElement)
    root = root.element if isinstance(root, EveryElement) else root
    if not isinstance(root, NextElement) or len(root.elements) != 2:
        return False
    first, last = root.elements
    first = first.element if isinstance(first, EveryElement) else first
    if plan.within is not None and (scoped or isinstance(last, EveryElement)):
        return False
    last = last.element if isinstance(last, EveryElement) else last
    return isinstance(first, StreamElement) and isinstance(last, CountElement)


def ends_away(plan: StateInput) -> bool:
    """Whether matches are complete when the last element has stayed away."""
    return isinstance(_ends(plan.root), AbsentElement)


def begins_away(plan: StateInput) -> bool:
    """Whether the first element waits for an absence by the clock."""
    element = plan.root
    while isinstance(element, (EveryElement, NextElement)):
        element = element.element if isinstance(element, EveryElement) else element.elements[0]
    return waits(element)


def _ends(element: StateElement) -> StateElement:
    while isinstance(element, (EveryElement, NextElement)):
        element = element.element if isinstance(element, EveryElement) else element.elements[-1]
    return element


def _left(logical: LogicalElement) -> int:
    """The slot of the first operand."""
    left = logical.left
    return left.element.slot if isinstance(left, AbsentElement) else left.slot


def _inside(element: StateElement) -> Iterator[StateElement]:
    """An element and those that it is made of, but operands of logical ones and what is counted or absent."""
    yield element
    if isinstance(element, EveryElement):
        yield from _inside(element.element)
    elif isinstance(element, NextElement):
        for one in element.elements:
            yield from _inside(one)


def _elements(root: StateElement) -> Iterator[Element]:
    """The elements in the order in which they are written."""
    for element in _inside(root):
        if isinstance(element, LogicalElement):
            yield from (element.left, element.right)
        elif isinstance(element, (StreamElement, CountElement, AbsentElement)):
            yield element
