"""Queries and partitions."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.annotations import Annotation
from nadi.lang.tree.expressions import Expression
from nadi.lang.tree.inputs import Handler, JoinInput, SingleInput
from nadi.lang.tree.outputs import Output
from nadi.lang.tree.selection import Rate, Selection
from nadi.lang.tree.states import StateInput
from nadi.lang.tree.types import span_field


@dataclass(frozen=True, slots=True)
class AnonymousInput:
    """`from (from … select … return)`, with the handlers that may follow it."""

    query: Query
    handlers: tuple[Handler, ...] = ()
    span: Span = span_field()


Input = SingleInput | JoinInput | StateInput | AnonymousInput


@dataclass(frozen=True, slots=True)
class Query:
    """`from … select … output … insert into …`."""

    input: Input
    selection: Selection
    output: Output
    rate: Rate | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class ValueKey:
    """`expr of S`."""

    expression: Expression
    stream: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class RangeKey:
    """`cond as 'label' or cond as 'label' of S`: pairs of condition and label."""

    ranges: tuple[tuple[Expression, str], ...]
    stream: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Partition:
    """`partition with (…) begin … end`."""

    keys: tuple[ValueKey | RangeKey, ...]
    queries: tuple[Query, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


ExecutionElement = Query | Partition
