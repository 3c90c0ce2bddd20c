"""Patterns that are a chain of plain elements: `A -> B -> C`, with `every` around the first element, around all of them, or not at all.

Most patterns are. A match of one waits for one element at a time and binds one event there, so that both kernels have a short way for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.nodes import EveryElement, NextElement, StateInput, StreamElement


@dataclass(frozen=True, slots=True)
class Chain:
    """The elements in order, and what `every` stands around: "first", "all" or nothing ("")."""

    elements: tuple[StreamElement, ...]
    every: str


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
