"""What an update of a table sets, as further columns of the query's output: operators write columns, and compute nothing behind the selection.

    from S select k, v update T set T.v = v * 2, T.seen = true on T.k == k

selects `v * 2` and `true`, too.
"""

from __future__ import annotations

from dataclasses import replace

from nadi.lang.tree import Type
from nadi.plan.columns.certainty import failing
from nadi.plan.columns.functionsupport import CLOCKS
from nadi.plan.nodes import Attr, Call, Column, Expr, InTable, Query, Schema, Table, UpdateTable
from nadi.plan.walk import inside, replaced


def with_set(query: Query) -> Query:
    """A query that selects what it sets; one that sets attributes of its output only, or does something else, as it is."""
    output, selection = query.output, query.selection
    if not isinstance(output, UpdateTable):
        return query
    width = len(selection.values)
    more: list[Expr] = []
    given: list[tuple[int, Expr]] = []
    for column, value in output.set:
        if not isinstance(value, Attr) and _is_selectable(value):
            given.append((column, Attr(0, width + len(more), value.type)))
            more.append(
                replaced(value, lambda leaf: selection.values[leaf.position] if isinstance(leaf, Attr) else leaf)
            )
        else:
            given.append((column, value))
    if not more:
        return query
    columns = (Column(f"set {n}", value.type) for n, value in enumerate(more))
    schema = Schema((*selection.schema.columns, *columns))
    wider = replace(selection, values=(*selection.values, *more), schema=schema)
    return replace(query, output=replace(output, set=tuple(given)), selection=wider)


def fits(value: Expr, column: int, table: Table) -> bool:
    """Whether a value stands in a column as it is: that rows do not convert it either makes no difference between whole numbers."""
    kind = table.schema.types[column]
    return value.type is kind or (value.type is Type.INT and kind is Type.LONG)


def _is_selectable(value: Expr) -> bool:
    """Whether a value is one of the output alone, whenever it is computed, and cannot fail: the events before it have been written by then."""
    if failing(value):
        return False
    for part in inside(value):
        if (isinstance(part, Attr) and part.slot != 0) or isinstance(part, InTable):
            return False
        if isinstance(part, Call) and part.function in CLOCKS:
            return False
    return True
