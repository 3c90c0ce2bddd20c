"""Selections of which an item may fail between aggregators (semantics/selection.md#the-selector).

Items are computed one after the other, as they are written: the aggregators in front of the one that fails have counted, those behind it have not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nadi.kernel.rows.aggregation import Aggregation
from nadi.kernel.rows.compile import Searchable, compile_values
from nadi.kernel.rows.events import CURRENT, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.lang.tree import Type
from nadi.plan.columns.failures import safe
from nadi.plan.nodes import Aggregate, Const, Expr, Selection
from nadi.plan.walk import inside

_NOTHING = Const(None, Type.OBJECT)  # what count() counts


def fails_between(selection: Selection) -> bool:
    """Whether something may fail in front of an aggregator, or in the argument of one behind another one.

    >>> from nadi.functions.registry import default_registry
    >>> from nadi.plan import plan_app
    >>> head = "define stream S (s string, v int); from S select "
    >>> texts = ("sum(v) as n, str:length(s) as l", "str:length(s) as l, sum(v) as n")
    >>> [
    ...     fails_between(plan_app(f"{head}{text} insert into Out;", default_registry()).queries[0].selection)
    ...     for text in texts
    ... ]
    [False, True]
    """
    parts = [part for item in _items(selection) for part in item]
    last = max((at for at, part in enumerate(parts) if isinstance(part, Aggregate)), default=-1)
    return any(not _sure(part) for part in parts[:last]) or (len(selection.aggregates) > 1 and not _sure(parts[last]))


def _items(selection: Selection) -> list[list[Expr]]:
    """Each item behind the aggregators in it; then those of `having`."""
    items: list[list[Expr]] = [[*_aggregates(value), value] for value in selection.values]
    return [*items, [] if selection.having is None else list(_aggregates(selection.having))]


def _aggregates(value: Expr) -> list[Aggregate]:
    return sorted((part for part in inside(value) if isinstance(part, Aggregate)), key=lambda part: part.number)


def _sure(part: Expr) -> bool:
    return all(map(safe, part.args)) if isinstance(part, Aggregate) else safe(part)


class Itemwise:
    """Counts and computes items one by one."""

    def __init__(
        self, selection: Selection, aggregation: Aggregation, flow: Flow, tables: Mapping[str, Searchable], shape: str
    ) -> None:
        self._aggregation = aggregation
        self._count = len(selection.aggregates)

        def compiled(expr: Expr) -> Any:
            return compile_values([expr], flow, tables, shape)

        self._items = [
            ([(a.number, compiled(a.args[0] if a.args else _NOTHING)) for a in _aggregates(value)], compiled(value))
            for value in selection.values
        ]
        having = [] if selection.having is None else _aggregates(selection.having)
        self._having = [(a.number, compiled(a.args[0] if a.args else _NOTHING)) for a in having]

    def take(self, event: Event, key: str) -> tuple[list[Any], Row]:
        """A C or X event: the aggregators' values after it, by number, and the output row."""
        kind, ts, row = event
        step, aggregates, output = self._aggregation.step, [None] * self._count, []

        def count(number: int, argument: Any) -> None:
            aggregates[number] = step(kind, key, number, argument(row, ts, aggregates, ())[0])

        for counted, value in self._items:
            for number, argument in counted:
                count(number, argument)
            output += value(row, ts, aggregates, ())
        for number, argument in self._having:
            count(number, argument)
        if kind != CURRENT:
            self._aggregation.forget_fresh(key)
        return aggregates, tuple(output)
