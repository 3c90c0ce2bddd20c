"""Inputs: a stream with its handlers, or a join of two."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nadi.errors import Span
from nadi.lang.tree.expressions import Expression, FunctionCall
from nadi.lang.tree.types import Source, span_field


@dataclass(frozen=True, slots=True)
class Filter:
    """`[condition]`."""

    condition: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StreamFunction:
    """`#ns:fn(args)`."""

    call: FunctionCall
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Window:
    """`#window.ns:fn(args)`."""

    call: FunctionCall
    span: Span = span_field()


Handler = Filter | StreamFunction | Window


@dataclass(frozen=True, slots=True)
class SingleInput:
    """`S[filter]#fn()#window.w()[filter] as a`: at most one Window among the handlers. `alias` in joins and on-demand queries only."""

    source: Source
    handlers: tuple[Handler, ...] = ()
    alias: str | None = None
    span: Span = span_field()


class JoinKind(Enum):
    """The kinds of join; the values are how they are printed."""

    INNER = "join"
    LEFT = "left outer join"
    RIGHT = "right outer join"
    FULL = "full outer join"


@dataclass(frozen=True, slots=True)
class JoinInput:
    """`left join right on … within … per …`; `unidirectional` is None, "left" or "right": the side that triggers.

    `within` has one expression (a range as text) or two (start, end).
    """

    left: SingleInput
    kind: JoinKind
    right: SingleInput
    unidirectional: str | None = None
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = span_field()
