"""On-demand queries: asked once, answered from tables and named windows, or changing a table (semantics/tables.md#on-demand-queries)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from nadi.errors import error
from nadi.kernel.rows.compile import ROW, compile_condition, compile_row, compile_values
from nadi.kernel.rows.events import CURRENT, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.queries import Wiring, onto_table
from nadi.kernel.rows.selector import Selector
from nadi.kernel.rows.stores import StoredTable
from nadi.kernel.rows.tables import asks_for_key, lookup_of
from nadi.lang.tree import Events
from nadi.plan.nodes import (
    Aggregation,
    InsertIntoStream,
    NamedWindow,
    OnDemand,
    Query,
    ReturnEvents,
    Schema,
    SingleInput,
    Table,
)

GOES_ON: ContextVar[Callable[[], object] | None] = ContextVar("goes_on", default=None)
"""What a find calls before it looks at a row, so that it can be ended by an error; None where nobody waits for it."""

_TIMESTAMP = -1
"""Rows that are found have no time of their own."""


def ask(question: OnDemand, wiring: Wiring) -> Chunk | None:
    """The rows found, None where there are none (of a @store table: an empty list); an empty list after a change.

    Raises:
        SiddhiAppRuntimeException: INVALID_TIME, DURATION_NOT_KEPT, for aggregations.
    """
    if question.kind == "find":
        return _find(question, wiring) or ([] if _is_stored(question, wiring) else None)
    output = question.output
    if output is None or isinstance(output, (InsertIntoStream, ReturnEvents)):
        raise error("NOT_SUPPORTED", what="this on-demand query", alternative="change a table with it")
    made = _selected(question, Schema(()), [Event(CURRENT, wiring.flow.now, ())], wiring)
    onto_table(output, wiring)(made)
    return []


def _is_stored(question: OnDemand, wiring: Wiring) -> bool:
    """Whether the store is a table with @store: those answer with an empty list where others have none, as Siddhi's do."""
    table = wiring.app.tables.get(question.store)
    return table is not None and any(a.name.lower() == "store" for a in table.annotations)


def _find(question: OnDemand, wiring: Wiring) -> Chunk:
    return selected(question, matching(question, wiring), wiring)


def selected(question: OnDemand, rows: Sequence[Row], wiring: Wiring) -> Chunk:
    """What the selection of a find makes of the rows that it is about."""
    if not rows:
        return []
    app = wiring.app
    stores: dict[str, Table | NamedWindow | Aggregation] = {**app.tables, **app.windows, **app.aggregations}
    events = [Event(CURRENT, _TIMESTAMP, row) for row in rows]
    return _selected(question, stores[question.store].schema, events, wiring)


def matching(question: OnDemand, wiring: Wiring) -> list[Row]:
    """The rows of the store for which the condition of a find holds."""
    table = wiring.tables.get(question.store)
    if isinstance(table, StoredTable):
        put = table.question(question.on)
        compute = compile_values(put.values, wiring.flow, wiring.searched, ROW)
        return table.find(put, compute((), wiring.flow.now, (), ()))
    rows = _rows(question, wiring)
    if question.on is None:
        return list(rows)
    on = _watched(compile_condition(question.on, wiring.flow, wiring.searched))
    if table is None:
        return [row for row in rows if on((), row)]
    columns, values = lookup_of(question.on, table.table)
    key = tuple(compile_condition(value, wiring.flow, wiring.searched)((), ()) for value in values)
    if asks_for_key(question.on, table.table):
        return [row for _number, row in table.keyed(key)]
    return [row for _number, row in table.candidates(columns, key) if on((), row)]


def _rows(question: OnDemand, wiring: Wiring) -> Iterable[Row]:
    aggregation = wiring.aggregations.get(question.store)
    if aggregation is None or question.per is None:
        return wiring.searched[question.store].rows()
    within = tuple(compile_row(bound, wiring.flow, wiring.searched)((), 0) for bound in question.within)
    return aggregation.between(within, compile_row(question.per, wiring.flow, wiring.searched)((), 0))


def _selected(question: OnDemand, schema: Schema, rows: Chunk, wiring: Wiring) -> Chunk:
    """All rows as one chunk through a selector of its own, by the chunk rule of 5.1 whatever the app's."""
    if not question.selection.values:
        return rows
    flow = Flow(lambda _key: 0, compat=5, registry=wiring.registry)
    flow.now = wiring.flow.now
    found: Chunk = []
    query = Query(
        "on_demand",
        "on_demand",
        SingleInput(question.store, (), schema),
        question.selection,
        ReturnEvents(Events.CURRENT),
    )
    Selector(query, flow, wiring.searched, found.extend).process(rows if GOES_ON.get() is None else _Watched(rows))
    return found


def _watched(on: Callable[[Row, Row], Any]) -> Callable[[Row, Row], Any]:
    """A condition that asks before each row whether the find goes on."""
    goes_on = GOES_ON.get()
    if goes_on is None:
        return on

    def asked(left: Row, row: Row) -> Any:
        goes_on()
        return on(left, row)

    return asked


class _Watched(list[Event]):
    """Rows before each of which somebody is asked whether the find goes on."""

    def __iter__(self) -> Iterator[Event]:
        goes_on = GOES_ON.get()
        for event in super().__iter__():
            if goes_on is not None:
                goes_on()
            yield event
