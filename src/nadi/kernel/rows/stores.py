"""Tables in a store: what queries do to them goes through the interface of `nadi.functions.stores`, so that the kernel does no input and output itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nadi.errors import NOWHERE, NadiError, error, placed
from nadi.functions.stores import Refused, Store, StoreTable
from nadi.kernel.rows.cache import CachedStore
from nadi.kernel.rows.compile import ROW, compile_values
from nadi.kernel.rows.events import RESET, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.junctions import Delivery
from nadi.kernel.rows.outputs import TableOutput
from nadi.plan.annotations import first
from nadi.plan.nodes import TABLE, DeleteFromTable, Expr, InsertIntoTable, Table, UpdateOrInsertTable, UpdateTable
from nadi.plan.options import wrong_options
from nadi.plan.stores import asked

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable


@dataclass(frozen=True, slots=True)
class Question:
    """A condition that was put to a store: `values` are what its slot 0 is made of, over the rows of the query."""

    compiled: Any
    values: tuple[Expr, ...]


@dataclass(slots=True)
class Sought:
    """The way in which `in` looks into a store, if any does (`used`): who measures it puts another one in its place."""

    contains: Callable[[Question, Row], bool]
    used: bool = False


class StoredTable:
    """A table whose rows are in a store. It is connected with the start of the app, or when first used after a restart."""

    def __init__(self, table: Table, store: Store) -> None:
        self.table = table
        self._store = store
        self._all = store.compile(None)
        self._connected = False
        self.sought = Sought(self.contains)

    @property
    def store(self) -> Store:
        """The store, connected."""
        if not self._connected:
            self._store.connect()
            self._connected = True
        return self._store

    def begin(self) -> None:
        """At the start of the app."""
        self._connected = self.store is not None

    def rows(self) -> Iterable[Row]:
        """All rows, in the order of the store."""
        return self.store.find(self._all, ())

    def question(self, on: Expr | None, changes: tuple[tuple[int, Expr], ...] = (), slot: int = TABLE) -> Question:
        """Put a condition to the store, once; in it the table's row stands in `slot`."""
        parts = asked(on, changes, slot)
        return Question(self._store.compile(parts.condition, parts.changes), parts.values)

    def find(self, question: Question, values: Row) -> list[Row]:
        """The rows for which the condition holds with these values."""
        return list(self.store.find(question.compiled, values))

    def contains(self, question: Question, values: Row) -> bool:
        """Whether there is one."""
        return self.store.contains(question.compiled, values)


def stored_table(app: str, table: Table, registry: Registry, flow: Flow) -> StoredTable:
    """The table of a plan with @store, not connected yet. Errors: as `made_store`."""
    store, given = made_store(app, table, registry)
    if table.storage is not None and table.storage.cache is not None:
        store = CachedStore(store, given, table.storage.cache, lambda: flow.arrival_now, registry)
    return StoredTable(table, store)


def made_store(app: str, table: Table, registry: Registry) -> tuple[Store, StoreTable]:
    """The store of a table with @store, not connected, and what it was made of.

    Raises:
        ExtensionNotFoundException: EXTENSION_NOT_FOUND, the registry does not have the type.
        NadiError: what the store says of its options, with the place of the option that it names.
    """
    storage = table.storage
    kind = None if storage is None else registry.store(storage.type)
    if storage is None or kind is None:
        name = "" if storage is None else storage.type
        raise error("EXTENSION_NOT_FOUND", name=name, what="store", hint="register it before the app is made")
    given = StoreTable.of(app, table, storage)
    for problem in wrong_store_options(table, registry):
        raise problem
    try:
        return kind.make(given), given
    except NadiError as problem:
        written = first(table.annotations, "store")
        if written is None or problem.diagnostic.span != NOWHERE:
            raise
        option = str(problem.parameters.get("name", ""))
        raise placed(problem, written.place(option) if option else written.span) from problem


def wrong_store_options(table: Table, registry: Registry) -> Iterator[NadiError]:
    """An error for each option of @store that its type does not take, with its place; nothing where the type does not say which it takes."""
    kind = None if table.storage is None else registry.store(table.storage.type)
    written = first(table.annotations, "store")
    if table.storage is None or kind is None or kind.options is None or written is None:
        return
    where = f"@store of {table.name} ({table.storage.type})"
    for problem in wrong_options(where, dict(table.storage.options), kind.options, written.span):
        missing = problem.condition == "OPTION_MISSING"
        yield placed(problem, written.span if missing else written.place(str(problem.parameters["name"])))


def into_store(
    output: TableOutput, table: StoredTable, flow: Flow, tables: Mapping[str, Searchable], delivery: Delivery
) -> Callable[[Chunk], None]:
    """The action on a table in a store: one call per chunk. Rows that the store refuses are noted as failures."""
    if isinstance(output, InsertIntoTable):
        act: Callable[[list[Event]], Refused | None] = lambda events: table.store.add([e.row for e in events])  # noqa: E731
    else:
        act = _changing(output, table, flow, tables)

    def process(chunk: Chunk) -> None:
        events = [e for e in chunk if e.kind < RESET]
        if events:
            for n, why in act(events) or ():
                delivery.note(table.table.name, [events[n]], why)

    return process


def _changing(
    output: DeleteFromTable | UpdateTable | UpdateOrInsertTable,
    table: StoredTable,
    flow: Flow,
    tables: Mapping[str, Searchable],
) -> Callable[[list[Event]], Refused | None]:
    question = table.question(output.on, () if isinstance(output, DeleteFromTable) else output.set)
    compute = compile_values(question.values, flow, tables, ROW)

    def values(events: list[Event]) -> list[Row]:
        return [compute(e.row, flow.now, (), ()) for e in events]

    if isinstance(output, DeleteFromTable):
        return lambda events: table.store.delete(question.compiled, values(events))
    if isinstance(output, UpdateTable):
        return lambda events: table.store.update(question.compiled, values(events))
    insert = output.insert

    def update_or_add(events: list[Event]) -> Refused:
        rows = [tuple(e.row[i] for i in insert) for e in events]
        return table.store.update_or_add(question.compiled, values(events), rows)

    return update_or_add
