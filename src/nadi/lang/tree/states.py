"""Patterns and sequences."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.expressions import TimeConstant
from nadi.lang.tree.inputs import SingleInput
from nadi.lang.tree.types import span_field


@dataclass(frozen=True, slots=True)
class StreamState:
    """`e1=S[filter]#fn()`: one event; `reference` is e1 or None."""

    input: SingleInput
    reference: str | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class CountState:
    """`e1=S<m:n>`; `maximum` None for no bound; `sign` is "*", "+" or "?" where written so (sequences)."""

    state: StreamState
    minimum: int
    maximum: int | None
    sign: str = ""
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AbsentState:
    """`not S[filter] for <time>`; `waiting` None where no `for` is written."""

    input: SingleInput
    waiting: TimeConstant | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class LogicalState:
    """`left and right`, `left or right`."""

    op: str
    left: StreamState | AbsentState
    right: StreamState | AbsentState
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EveryState:
    """`every x` or `every (chain)`: `parenthesised` tells which, for the printer."""

    state: State
    parenthesised: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class NextState:
    """`a -> b -> c` (patterns) or `a, b, c` (sequences): two elements or more, in order, flat."""

    states: tuple[State, ...]
    span: Span = span_field()


State = StreamState | CountState | AbsentState | LogicalState | EveryState | NextState


@dataclass(frozen=True, slots=True)
class StateInput:
    """A pattern or a sequence. A time may also stand on a parenthesised scope; the outermost `within` is here."""

    kind: str  # "pattern" or "sequence"
    state: State
    within: TimeConstant | None = None
    span: Span = span_field()
