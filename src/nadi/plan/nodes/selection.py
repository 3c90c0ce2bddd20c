"""Selection and output rate."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.nodes.expressions import Aggregate, Expr
from nadi.plan.nodes.schema import Schema


@dataclass(frozen=True, slots=True)
class Selection:
    """`values[i]` gives column i of `schema`.

    `aggregated` is whether an aggregator stands in the select or having clause; `aggregates` are all of them by number.
    `order_by` holds expressions over OUTPUT (or input slots) and whether ascending.
    """

    values: tuple[Expr, ...]
    schema: Schema
    aggregates: tuple[Aggregate, ...] = ()
    group_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    order_by: tuple[tuple[Expr, bool], ...] = ()
    limit: int | None = None
    offset: int | None = None

    @property
    def aggregated(self) -> bool:
        return bool(self.aggregates)


@dataclass(frozen=True, slots=True)
class Rate:
    """`kind` is all, first, last or snapshot; exactly one of `every` (ms) and `events` is set."""

    id: str
    kind: str
    every: int | None = None
    events: int | None = None
