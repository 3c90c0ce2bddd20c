"""Definitions."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.annotations import Annotation
from nadi.lang.tree.expressions import FunctionCall, TimeConstant, Variable
from nadi.lang.tree.inputs import SingleInput
from nadi.lang.tree.selection import Selection
from nadi.lang.tree.types import Events, Source, Type, span_field


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name type`."""

    name: str
    type: Type
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """`define stream S (a type, …)`."""

    source: Source
    attributes: tuple[Attribute, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """`define table T (a type, …)`."""

    source: Source
    attributes: tuple[Attribute, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """`define window W (a type, …) fn(args) [output … events]`."""

    source: Source
    attributes: tuple[Attribute, ...]
    window: FunctionCall
    output: Events | None = None  # None: not written, which means all
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """`define trigger T at every <time>` or `at 'start'` or `at '<cron>'`: exactly one of `every` and `at` is set."""

    name: str
    every: TimeConstant | None = None
    at: str | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """`define function f[language] return type { body }`; the body is the text between the outer braces."""

    name: str
    language: str
    type: Type
    body: str
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AggregationDefinition:
    """`define aggregation A from S select … group by … aggregate by ts every sec … year`.

    `durations` are singular unit names (sec, min, hour, day, week, month, year); `is_range` for `first ... last` (then just those two).
    """

    name: str
    input: SingleInput
    selection: Selection
    aggregate_by: Variable | None
    durations: tuple[str, ...]
    is_range: bool
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


Definition = (
    StreamDefinition
    | TableDefinition
    | WindowDefinition
    | TriggerDefinition
    | FunctionDefinition
    | AggregationDefinition
)
