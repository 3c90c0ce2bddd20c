"""The whole app with its comments, and on-demand queries."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.errors import Span
from nadi.lang.tree.annotations import Annotation
from nadi.lang.tree.definitions import Definition
from nadi.lang.tree.expressions import Expression
from nadi.lang.tree.inputs import SingleInput
from nadi.lang.tree.outputs import Output
from nadi.lang.tree.queries import ExecutionElement
from nadi.lang.tree.selection import Selection
from nadi.lang.tree.types import span_field


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as written, with its markers; `before` is the index of the significant token that follows it in the text.

    `own_line` tells whether nothing but blanks stood before it on its line.
    """

    text: str
    before: int
    own_line: bool
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class SiddhiApp:
    """A whole app: app annotations, definitions, queries and partitions, each in the order of the text."""

    annotations: tuple[Annotation, ...] = ()
    definitions: tuple[Definition, ...] = ()
    elements: tuple[ExecutionElement, ...] = ()
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class OnDemandQuery:
    """`from T on … select …`, `select … insert into T`, `delete T on …`, …; `output` is Return for finds.

    `input` is None where no `from` is written. `within` has none, one or two expressions.
    """

    input: SingleInput | None
    selection: Selection
    output: Output
    on: Expression | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = span_field()
