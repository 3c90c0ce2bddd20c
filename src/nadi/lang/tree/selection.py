"""Selection and output rate."""

# ruff: noqa: RUF009 - span_field() is a dataclass field, which the rule does not see

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span
from nadi.lang.tree.expressions import Expression, TimeConstant, Variable
from nadi.lang.tree.types import span_field


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`expr as name`, or a plain reference with `alias` None."""

    expression: Expression
    alias: str | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class OrderBy:
    """`ref`, `ref asc`, `ref desc`; `order` is "", "asc" or "desc"."""

    variable: Variable
    order: str = ""
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Selection:
    """`select … group by … having … order by … limit … offset …`; `star` for `select *`, both empty where nothing is written."""

    items: tuple[SelectItem, ...] = ()
    star: bool = False
    group_by: tuple[Variable, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Rate:
    """`output [all|first|last|snapshot] every (<time> | n events)`; `kind` is "" where none is written (all)."""

    kind: str
    every: TimeConstant | None = None
    events: int | None = None
    span: Span = span_field()
