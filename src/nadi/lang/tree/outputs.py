"""Where the events of a query go."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.expressions import Expression, Variable
from nadi.lang.tree.types import Events, Source, span_field


@dataclass(frozen=True, slots=True)
class SetAssignment:
    """`T.a = expr`."""

    variable: Variable
    expression: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class InsertInto:
    """`insert [… events] into T`; `events` None where not written (current)."""

    target: Source
    events: Events | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete T [for … events] [on …]`."""

    target: Source
    events: Events | None = None
    on: Expression | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Update:
    """`update T [for … events] [set …] on …`."""

    target: Source
    on: Expression | None
    events: Events | None = None
    set: tuple[SetAssignment, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class UpdateOrInsert:
    """`update or insert into T [for … events] [set …] on …`."""

    target: Source
    on: Expression | None
    events: Events | None = None
    set: tuple[SetAssignment, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Return:
    """`return [… events]`."""

    events: Events | None = None
    span: Span = span_field()


Output = InsertInto | Delete | Update | UpdateOrInsert | Return
