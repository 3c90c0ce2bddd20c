"""Patterns and sequences."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.nodes.inputs import Step
from nadi.plan.nodes.schema import Schema


@dataclass(frozen=True, slots=True)
class StreamElement:
    """One event of `source` that passes `steps` (filters may refer to other slots). `reference` is the name e1."""

    slot: int
    source: str
    steps: tuple[Step, ...]
    reference: str = ""


@dataclass(frozen=True, slots=True)
class CountElement:
    """`element<minimum:maximum>`; None for no bound."""

    element: StreamElement
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class AbsentElement:
    """`not element [for waiting ms]`; its slot stays null."""

    element: StreamElement
    waiting: int | None


@dataclass(frozen=True, slots=True)
class LogicalElement:
    """`left and right`, `left or right`."""

    op: str
    left: StreamElement | AbsentElement
    right: StreamElement | AbsentElement


@dataclass(frozen=True, slots=True)
class EveryElement:
    """`every (element)`."""

    element: StateElement


@dataclass(frozen=True, slots=True)
class NextElement:
    """Elements in order."""

    elements: tuple[StateElement, ...]


StateElement = StreamElement | CountElement | AbsentElement | LogicalElement | EveryElement | NextElement


@dataclass(frozen=True, slots=True)
class StateInput:
    """A pattern (`sequence` False) or sequence; `schemas[k]` and `counted[k]` describe slot k; `within` in ms or None."""

    id: str
    sequence: bool
    root: StateElement
    schemas: tuple[Schema, ...]
    counted: tuple[bool, ...]
    within: int | None = None
