"""Sets that are made to be counted: `sizeOfSet(unionSet(createSet(k)))` is how many different `k` there are, and a set is an object that columns do not hold.

    from S#window.time(1 min) select sizeOfSet(unionSet(createSet(k))) as n

is for them what `convert(distinctCount(k), 'int')` would be.
"""

from __future__ import annotations

from dataclasses import replace

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import OF_DISTINCT_COUNT
from nadi.plan.nodes import Aggregate, Attr, Call, Const, Expr, Query
from nadi.plan.walk import inside, replaced


def with_counts(query: Query) -> Query:
    """A query that counts values where it counted the sets of them; one that looks at a set itself, or has none, as it is."""
    selection = query.selection
    if not any(_counts(a) for a in selection.aggregates):
        return query
    aggregates = tuple(_distinct(a) if _counts(a) else a for a in selection.aggregates)
    values = tuple(map(_counted, selection.values))
    having = None if selection.having is None else _counted(selection.having)
    order = tuple((_counted(expr), up) for expr, up in selection.order_by)
    if any(isinstance(part, Aggregate) and _counts(part) for part in inside((values, having, order))):
        return query
    return replace(
        query, selection=replace(selection, aggregates=aggregates, values=values, having=having, order_by=order)
    )


def _counts(aggregate: Aggregate) -> bool:
    """Whether an aggregator unites sets of one attribute each."""
    made = aggregate.args[0] if aggregate.function == "unionSet" else None
    return isinstance(made, Call) and made.function == "createSet" and isinstance(made.args[0], Attr)


def _distinct(aggregate: Aggregate) -> Aggregate:
    made = aggregate.args[0]
    assert isinstance(made, Call)  # as `_counts` says
    return replace(aggregate, function="distinctCount", args=made.args, type=Type.LONG, traits=OF_DISTINCT_COUNT)


def _counted(expr: Expr) -> Expr:
    def counted(leaf: Expr) -> Expr:
        if not isinstance(leaf, Call):
            return leaf
        of = leaf.args[0] if leaf.function == "sizeOfSet" else None
        if isinstance(of, Aggregate) and _counts(of):
            return Call("convert", (_distinct(of), Const("int", Type.STRING)), Type.INT)
        return replace(leaf, args=tuple(map(_counted, leaf.args)))

    return replaced(expr, counted, Call)
