"""Output actions: what happens to the events that a query gives (semantics/tables.md#changes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from nadi.errors import NadiError
from nadi.kernel.rows.compile import compile_condition
from nadi.kernel.rows.events import CURRENT, RESET, TIMER, Chunk, Event, Row
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.javahash import bucket_of, buckets_for
from nadi.kernel.rows.junctions import Delivery
from nadi.kernel.rows.tables import TableRuntime, asks_for_key, lookup_of
from nadi.lang.tree import Type
from nadi.plan.nodes import DeleteFromTable, Expr, InsertIntoTable, UpdateOrInsertTable, UpdateTable

if TYPE_CHECKING:
    from nadi.kernel.rows.compile import Searchable

Emit = Callable[[Chunk], None]
Condition = Callable[[Row, Row], object]
TableOutput = InsertIntoTable | DeleteFromTable | UpdateTable | UpdateOrInsertTable


def into_stream(send: Emit, only_current: bool = False) -> Emit:
    """`insert into` a stream or named window: X become C, R and T go no further; nothing is sent where nothing is left.

    With `only_current` chunks are known to hold nothing but C.
    """

    def pass_on(chunk: Chunk) -> None:
        if chunk:
            send(chunk)

    if only_current:
        return pass_on

    def process(chunk: Chunk) -> None:
        rows = [Event(CURRENT, e.ts, e.row) for e in chunk if e.kind < RESET]
        if rows:
            send(rows)

    return process


def into_table(
    output: TableOutput, table: TableRuntime, flow: Flow, tables: Mapping[str, Searchable], delivery: Delivery
) -> Emit:
    """The action on a table. A row that cannot be written (its primary key is taken) is noted as a failure, the others are."""
    writer = TableWriter(output, table, flow, tables, delivery)
    action: Callable[[Event], object]
    if isinstance(output, UpdateOrInsertTable):
        return writer.update_or_insert
    if isinstance(output, InsertIntoTable):
        action = writer.insert
    elif isinstance(output, DeleteFromTable):
        action = writer.delete
    else:
        action = writer.update

    def process(chunk: Chunk) -> None:
        for event in chunk:
            if event.kind < RESET:
                action(event)

    return process


def set_in_turn(given: Iterable[tuple[int, Expr]]) -> list[tuple[int, Expr]]:
    """What is set by column, in the order of Siddhi's map of the columns; of several values for one column the last one.

    >>> from nadi.lang.tree import Type
    >>> from nadi.plan.nodes import Const
    >>> one, two = Const(1, Type.INT), Const(2, Type.INT)
    >>> [(column, value.value) for column, value in set_in_turn([(3, one), (1, one), (16, one), (3, two)])]
    [(16, 1), (1, 1), (3, 2)]
    """
    last = dict(given)
    buckets = buckets_for(len(last))
    return sorted(last.items(), key=lambda item: bucket_of((item[0],), (Type.INT,), buckets))


class TableWriter:
    """Finds the rows of a table that an event means, and changes them."""

    def __init__(
        self,
        output: TableOutput,
        table: TableRuntime,
        flow: Flow,
        tables: Mapping[str, Searchable],
        delivery: Delivery,
    ) -> None:
        self._table = table
        self._delivery = delivery
        self._insert: tuple[int, ...] = output.insert if isinstance(output, UpdateOrInsertTable) else ()
        self._set: tuple[tuple[int, Condition], ...] = ()
        if isinstance(output, (UpdateTable, UpdateOrInsertTable)):
            self._set = tuple((i, compile_condition(value, flow, tables)) for i, value in set_in_turn(output.set))
        on: Expr | None = None if isinstance(output, InsertIntoTable) else output.on
        self._on: Condition | None = None if on is None else compile_condition(on, flow, tables)
        columns, values = lookup_of(on, table.table)
        self._columns, self._by_key = columns, asks_for_key(on, table.table)
        self._key = tuple(compile_condition(value, flow, tables) for value in values)
        # Siddhi evaluates `set` without the table's row where the table has a primary key or an index
        self._blank: Row | None = (None,) * len(table.table.schema) if table.indexed else None

    def _found(self, row: Row) -> list[tuple[int, Row]]:
        key = tuple(value(row, ()) for value in self._key)
        if self._by_key:
            return self._table.keyed(key)
        candidates = self._table.candidates(self._columns, key)
        on = self._on
        return candidates if on is None else [(n, held) for n, held in candidates if on(row, held)]

    def _changed(self, row: Row, held: Row, blank: Row | None) -> Row:
        """`held` with what is set. The values that are set read it as it is by then: with the columns before theirs changed; or they read `blank`."""
        changed, seen = list(held), held if blank is None else blank
        for column, value in self._set:
            changed[column] = value(row, seen)
            if blank is None:
                seen = tuple(changed)
        return tuple(changed)

    def _means(self, row: Row, made: Row) -> object:
        """Whether an event means a row that another event of its chunk makes."""
        if self._by_key:
            return all(value(row, ()) == made[i] for i, value in zip(self._columns, self._key, strict=True))
        return self._on is None or self._on(row, made)

    def insert(self, event: Event) -> None:
        self._insert_row(event, event.row)

    def _insert_row(self, event: Event, row: Row) -> None:
        try:
            self._table.insert(row)
        except NadiError as taken:
            self._delivery.note(self._table.table.name, [event], taken)

    def delete(self, event: Event) -> None:
        for number, _held in self._found(event.row):
            self._table.delete(number)

    def update(self, event: Event) -> bool:
        """Whether there was a row to update."""
        changes = [(number, self._changed(event.row, held, self._blank)) for number, held in self._found(event.row)]
        try:
            self._table.replace(changes)
        except NadiError as taken:
            self._delivery.note(self._table.table.name, [event], taken)
        return bool(changes)

    def update_or_insert(self, chunk: Chunk) -> None:
        """Misses of one chunk are merged among themselves first: the second of two equal events updates the row that the first one makes."""
        misses: list[tuple[Event, Row]] = []
        for event in chunk:
            if event.kind in (RESET, TIMER) or self.update(event):
                continue
            merged = False
            for i, (first, made) in enumerate(misses):
                if self._means(event.row, made):
                    misses[i] = first, self._changed(event.row, made, None)  # it is in no index yet
                    merged = True
            if not merged:
                misses.append((event, tuple(event.row[i] for i in self._insert)))
        for event, made in misses:
            self._insert_row(event, made)
