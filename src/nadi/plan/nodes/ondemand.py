"""Queries that are asked once."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.nodes.expressions import Expr
from nadi.plan.nodes.outputs import Output
from nadi.plan.nodes.selection import Selection


@dataclass(frozen=True, slots=True)
class OnDemand:
    """A query that is asked once. `kind` is find, insert, delete, update or upsert.

    find: the rows of `store` (a "table", "window" or "aggregation" by `store_kind`) for which `on` holds (slot `TABLE`, no other) go through
    `selection`, whose slot 0 is the row of the store. The others: `selection` makes one row of constants (empty where nothing is selected), which
    `output` puts into, or compares with, its table; their condition is in `output`. `within` and `per` for aggregations only.
    """

    kind: str
    selection: Selection
    store: str = ""
    store_kind: str = ""
    on: Expr | None = None
    within: tuple[Expr, ...] = ()
    per: Expr | None = None
    output: Output | None = None
