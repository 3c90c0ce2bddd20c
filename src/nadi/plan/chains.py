"""Patterns and sequences that are a plain chain, so that a kernel may have a short way for them.

Most are. `A -> B -> C`: a match waits for one element at a time and binds one event there. `A, B+, C`: an element has one match at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.nodes import (
    AbsentElement,
    CountElement,
    EveryElement,
    LogicalElement,
    NextElement,
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
