"""Which tables run on columns: what `nadi.plan.columns.islands` asks about queries that write, join or look into a table.

A table is on columns where all queries that touch it are. Each of them takes its batch as a whole, the writers first; what a reader sees at an event is told by
its *turn*: the arrival it comes with, and the place of the query among those that get the same arrival. So it must be known for each query which arrival its
events come with; and none may read what it, or what is made of its rows, writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nadi.lang.tree import Events, Type
from nadi.plan.columns.mixedapps import hands_on
from nadi.plan.columns.outsideloops import has_made_key
from nadi.plan.columns.setclause import fits, with_set
from nadi.plan.columns.tableuse import changes, reads, touched, writes
from nadi.plan.columns.turns import alternating, by_arrival, stream_of
from nadi.plan.nodes import (
    OUTPUT,
    TABLE,
    App,
    Attr,
    Call,
    Column,
    Comparison,
    DeleteFromTable,
    Expr,
    FilterStep,
    InsertIntoTable,
    InTable,
    JoinInput,
    Negation,
    NullCheck,
    Query,
    Schema,
    SingleInput,
    StateInput,
    Table,
    UpdateOrInsertTable,
    UpdateTable,
    WindowStep,
)
from nadi.plan.render import written
from nadi.plan.walk import conjuncts, inside, read, replaced, searched

KEYS = (Type.STRING, Type.INT, Type.LONG)
_WHOLE = (Type.INT, Type.LONG)
_MOST = 60  # attributes, each of which has a bit in one word


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a query asks of a table at each event: the rows whose columns `by`, the primary key where there is one, are equal to the attributes `keys`. `whole`:
    the rows themselves are wanted, too.

    The columns `at` and following are: whether there is a row, and those of the row where it is wanted.
    """

    table: str
    by: tuple[int, ...]
    keys: tuple[int, ...]
    whole: bool
    at: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A query as one over the events of its stream with what it finds in tables beside their attributes, in an app whose stream has these."""

    query: Query
    app: App
    lookups: tuple[Lookup, ...]

    @property
    def types(self) -> tuple[Type, ...]:
        """Those of all attributes."""
        return self.app.streams[read(self.query)[0]].schema.types


@dataclass(frozen=True, slots=True)
class Write:
    """What a query does to a table: "insert", "update", "upsert" or "delete". Positions are those of its output.

    `key` are the values of the columns `by` that it means: the primary key, where there is one; else those that are equal, none for an insert. `columns` has a
    position for each column of the table, None where nothing is given; `set` are the columns that an update changes.
    """

    kind: str
    table: str
    by: tuple[int, ...]
    key: tuple[int, ...]
    columns: tuple[int | None, ...]
    set: tuple[int, ...] = ()


# ---- what keeps a query on rows --------------------------------------------------------------------------------------


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a query that touches tables on rows, its expressions aside."""
    for name in sorted(touched(query, app)):
        yield from _of_table(app.tables[name], app)
    yield from _of_parts(query, app)
    source = stream_of(query, app)
    if source is None or isinstance(query.input, StateInput):
        yield "it uses a table in a pattern, or a join of two tables"
        return
    if not by_arrival(source, app):
        yield f"it uses a table at events of '{source}', of which only rows know with which arrival each comes"
    if not hands_on(query):
        yield "it uses a table, and does more than rows of single events can show"
    yield from _of_reading(query, app)
    if writes(query) is not None:
        yield from _of_writing(query, app)
    if changes(query, app):
        yield from _of_changing(query, app)


def _of_parts(query: Query, app: App) -> Iterator[str]:
    """What keeps a query on rows that takes an arrival in parts: the turns of two would have to tell in which part each of them stands."""
    for other in alternating(query, app):
        if touched(other, app) and (writes(query) or writes(other)):
            where = "inside" if other.partition is not None and other.partition == query.partition else "behind"
            what = "a partition" if query.partition is not None else "a partition or pattern"
            yield f"it uses a table {where} {what}, and so does {other.name}"
            return
    if query.partition is None:
        return
    if changes(query, app):
        yield "it changes a table by what it finds there, inside a partition"
    elif reads(query, app) and has_made_key(query, app):
        yield "it looks into a table inside a partition whose key is no attribute"


def _of_changing(query: Query, app: App) -> Iterator[str]:
    """What keeps a query on rows that changes a table by what it finds there: one loop does all of it."""
    target, selection = writes(query), query.selection
    others = sorted(reads(query, app) - {target})
    if not app.tables[target or ""].primary_key:
        yield f"it changes '{target}' by what it finds there, and '{target}' has no primary key"
    if others:
        yield f"it changes '{target}' by what it finds there, and looks into '{others[0]}', too"
    windowed = isinstance(query.input, SingleInput) and query.input.window is not None
    if windowed or selection.aggregates or selection.group_by:
        yield f"it changes '{target}' by what it finds there, and has a window, aggregators or groups"
    if not isinstance(query.input, JoinInput):
        return
    slot = _row_slot(query.input)
    row = app.tables[read(query)[slot]]
    fixed = _fixed(() if query.input.on is None else conjuncts(query.input.on), slot, row)
    for part in inside((() if fixed is None else fixed.rest, selection.values, selection.having)):
        sides = (part.left, part.right) if isinstance(part, Comparison) else part.args if isinstance(part, Call) else ()
        values = (selection.values[s.position] if isinstance(s, Attr) and s.slot == OUTPUT else s for s in sides)
        if any(isinstance(v, Attr) and v.type is Type.STRING and v.slot == slot for v in values):
            yield f"it changes '{target}' by what it finds there, and looks at a string of it"


def _of_table(table: Table, app: App) -> Iterator[str]:
    name = table.name
    if table.storage is not None:
        yield f"the table '{name}' is in a store"
    for position in table.primary_key:
        if (kind := table.schema.types[position]) not in KEYS:
            yield f"the primary key of '{name}' has a {kind.value}, which has no operator yet"
    for column in table.schema.columns:
        if column.type is Type.OBJECT:
            yield f"'{name}.{column.name}' is an object, which columns do not hold"
    if len(table.schema.columns) > _MOST:
        yield f"the table '{name}' has more than {_MOST} attributes"
    others = (*app.aggregations.values(), *app.windows.values(), *(getattr(e, "keys", ()) for e in app.elements))
    if any(name in searched(other) for other in others):
        yield f"more than queries look into the table '{name}'"


def _of_reading(query: Query, app: App) -> Iterator[str]:
    asks = [part for part in inside(query) if isinstance(part, InTable)]
    if not asks and not isinstance(query.input, JoinInput):
        return
    if isinstance(query.input, JoinInput):
        yield from _of_join(query.input, app)
        if query.selection.aggregates or query.selection.group_by:
            yield "it joins a table, and has aggregators or groups"
    steps = query.input.steps if isinstance(query.input, SingleInput) else ()
    before = tuple(itertools.takewhile(lambda step: not isinstance(step, WindowStep), steps))
    if len(asks) != sum(isinstance(part, InTable) for part in inside(before)):
        yield "it looks into a table elsewhere than in a filter before any window"
    for ask in asks:
        parts = tuple(conjuncts(ask.condition))
        if ask.table in app.tables:
            fixed = _fixed(parts, TABLE, app.tables[ask.table])
            if fixed is None or fixed.rest:
                yield f"{written(ask.condition)} asks for more or less than {_means(app.tables[ask.table])}"


def _of_join(join: JoinInput, app: App) -> Iterator[str]:
    slot = _row_slot(join)
    stream, table = (join.right, join.left) if slot == 0 else (join.left, join.right)
    if stream.kind != "stream" or not stream.triggers:
        yield f"it joins the {stream.kind} '{stream.input.source}' with a table"
        return
    if stream.input.window is not None:
        yield "it joins a window with a table"
    if not all(isinstance(step, FilterStep) for step in (*stream.input.steps, *table.input.steps)):
        yield "it joins what a stream function makes with a table"
    if table.input.steps:
        yield f"it filters the table '{table.input.source}'"
    parts = () if join.on is None else tuple(conjuncts(join.on))
    fixed = _fixed(parts, slot, app.tables[table.input.source])
    if fixed is None:
        yield f"it joins '{table.input.source}' by something else than {_means(app.tables[table.input.source])}"
    elif fixed.rest and stream.outer:
        yield f"it asks for more than {_means(app.tables[table.input.source])}, and puts out what finds none"


def _row_slot(join: JoinInput) -> int:
    return 0 if join.left.kind == "table" else 1


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The attributes of the event that conditions want to be equal to columns of a row: of its primary key, where there is one; and the other conditions."""

    by: tuple[int, ...]
    keys: tuple[int, ...]
    rest: tuple[Expr, ...]


def _fixed(parts: Iterable[Expr], slot: int, table: Table) -> _Fixed | None:
    """What conditions say of the row in a slot; None where the primary key is not fixed, or nothing is."""
    found: dict[int, int] = {}
    rest = []
    able = table.primary_key or tuple(n for n, kind in enumerate(table.schema.types) if kind in KEYS)
    for part in parts:
        pair = _equality(part, slot)
        if pair is not None and pair[0] in able and pair[0] not in found:
            found[pair[0]] = pair[1]
        else:
            rest.append(part)
    by = table.primary_key or tuple(sorted(found))
    return _Fixed(by, tuple(found[p] for p in by), tuple(rest)) if by and found.keys() == set(by) else None


def _means(table: Table) -> str:
    """By what a table is asked."""
    return f"the primary key of '{table.name}'" if table.primary_key else f"equal attributes of '{table.name}'"


def _equality(part: Expr, slot: int) -> tuple[int, int] | None:
    """The column of the table and the attribute of the event that a condition wants to be equal."""
    if not isinstance(part, Comparison) or part.op != "==":
        return None
    for row, event in ((part.left, part.right), (part.right, part.left)):
        if not (isinstance(row, Attr) and isinstance(event, Attr)) or row.slot != slot or event.slot in (slot, OUTPUT):
            continue
        if row.type is event.type or (row.type in _WHOLE and event.type in _WHOLE):
            return row.position, event.position
    return None


def _of_writing(query: Query, app: App) -> Iterator[str]:
    output, types = query.output, query.selection.schema.types
    assert isinstance(output, (InsertIntoTable, UpdateTable, UpdateOrInsertTable, DeleteFromTable))
    table = app.tables[output.target]
    if output.events is not Events.CURRENT:
        yield "its output has expired events"
    if Type.OBJECT in types:
        yield "its output has an object, which columns do not hold"
    if isinstance(output, InsertIntoTable):
        if types != table.schema.types:
            yield f"its columns are not of the types of '{output.target}'"
        return
    if any(isinstance(part, InTable) for part in inside((output.on, getattr(output, "set", ())))):
        yield "it looks into a table while it changes one"
        return
    parts = () if output.on is None else tuple(conjuncts(output.on))
    fixed = _fixed(parts, TABLE, table)
    if fixed is None or fixed.rest:
        yield f"it changes '{output.target}' by more or less than {_means(table)}"
        return
    inserts = isinstance(output, UpdateOrInsertTable)
    if isinstance(output, UpdateOrInsertTable):
        if tuple(types[p] for p in output.insert) != table.schema.types:
            yield f"its columns are not of the types of '{output.target}'"
        if tuple(output.insert[p] for p in fixed.by) != fixed.keys:
            yield "it inserts another key than it looks for"
    for column, value in getattr(output, "set", ()):
        if not isinstance(value, Attr) or value.slot != 0 or not fits(value, column, table):
            yield f"it sets {written(value)}, which is no value of its output of that type"
        elif inserts and output.insert[column] != value.position:  # type: ignore[union-attr]
            yield "it sets something else than it inserts"
        elif column in table.primary_key and fixed.keys[fixed.by.index(column)] != value.position:
            yield "it changes a primary key"


# ---- a query as the operators see it ---------------------------------------------------------------------------------


def seen(query: Query, app: App) -> Seen | None:
    """A query that looks into tables, or joins one, as one over a single stream; None of any other one. Only of such as `obstacles` lets through."""
    source = query.input
    if isinstance(source, JoinInput):
        return _joined(query, source, app)
    if not isinstance(source, SingleInput) or not touched(query, app) & searched(source):
        return None
    width = len(app.streams[source.source].schema)
    more: list[Column] = []
    lookups: dict[InTable, Lookup] = {}
    for ask in (part for part in inside(source.steps) if isinstance(part, InTable)):
        if ask not in lookups:
            fixed = _fixed(conjuncts(ask.condition), TABLE, app.tables[ask.table])
            assert fixed is not None  # as obstacles says
            lookups[ask] = Lookup(ask.table, fixed.by, fixed.keys, False, width + len(more))
            more.append(Column(f"in {ask.table}", Type.BOOL))

    def answered(one: Expr) -> Expr:
        return Attr(0, lookups[one].at, Type.BOOL) if isinstance(one, InTable) else one

    steps = tuple(
        FilterStep(replaced(step.condition, answered, InTable)) if isinstance(step, FilterStep) else step
        for step in source.steps
    )
    made = replace(query, input=replace(source, steps=steps))
    return Seen(made, _widened(app, source.source, more), tuple(lookups.values()))


def _widened(app: App, stream: str, more: Iterable[Column]) -> App:
    """An app of which a stream has more attributes."""
    own = app.streams[stream]
    return replace(app, streams={**app.streams, stream: replace(own, schema=Schema((*own.schema.columns, *more)))})


def _joined(query: Query, join: JoinInput, app: App) -> Seen | None:
    if "table" not in (join.left.kind, join.right.kind):
        return None
    slot = _row_slot(join)
    stream, side = (join.right, join.left) if slot == 0 else (join.left, join.right)
    table = app.tables[side.input.source]
    schema = app.streams[stream.input.source].schema
    fixed = _fixed(() if join.on is None else conjuncts(join.on), slot, table)
    assert fixed is not None  # as obstacles says
    at = len(schema.types)

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot == OUTPUT:
            return one
        return replace(one, slot=0, position=at + 1 + one.position if one.slot == slot else one.position)

    filters = [step.condition for step in stream.input.steps if isinstance(step, FilterStep)]
    if not stream.outer:
        filters.append(Attr(0, at, Type.BOOL))
        if fixed.rest:  # a condition that is not all of a look-up is computed, and null equals nothing there
            filters += [Negation(NullCheck(Attr(0, p, schema.types[p]))) for p in fixed.keys]
        filters += [replaced(part, leaf) for part in fixed.rest]
    selection = replace(
        query.selection,
        values=tuple(replaced(value, leaf) for value in query.selection.values),
        having=None if query.selection.having is None else replaced(query.selection.having, leaf),
    )
    single = SingleInput(stream.input.source, tuple(map(FilterStep, filters)), schema)
    made = replace(query, input=single, selection=selection)
    more = (Column(f"in {table.name}", Type.BOOL), *table.schema.columns)
    return Seen(made, _widened(app, stream.input.source, more), (Lookup(table.name, fixed.by, fixed.keys, True, at),))


def write_of(query: Query, app: App) -> Write | None:
    """What a query that `obstacles` lets through does to a table; None where it writes none."""
    output, target = with_set(query).output, writes(query)
    if target is None:
        return None
    table = app.tables[target]
    if isinstance(output, InsertIntoTable):
        return Write(
            "insert", table.name, table.primary_key, table.primary_key, tuple(range(len(table.schema.columns)))
        )
    assert isinstance(output, (UpdateTable, UpdateOrInsertTable, DeleteFromTable))
    fixed = _fixed(() if output.on is None else conjuncts(output.on), TABLE, table)
    assert fixed is not None  # as obstacles says
    given = {column: value.position for column, value in getattr(output, "set", ()) if isinstance(value, Attr)}
    if isinstance(output, UpdateOrInsertTable):
        return Write("upsert", table.name, fixed.by, fixed.keys, output.insert, tuple(given))
    columns = tuple(given.get(n) for n in range(len(table.schema.columns)))
    kind = "delete" if isinstance(output, DeleteFromTable) else "update"
    return Write(kind, table.name, fixed.by, fixed.keys, columns, tuple(given))


def hashed_by(table: Table, app: App) -> tuple[int, ...]:
    """The columns by which the rows of a table without a primary key are hashed: all who look for rows know them, and nobody changes them in a row."""
    known, changed = set(range(len(table.schema.columns))), set()
    for query in app.queries:
        if table.name not in touched(query, app):
            continue
        found = seen(query, app)
        for lookup in () if found is None else found.lookups:
            known &= set(lookup.by) if lookup.table == table.name else known
        write = write_of(query, app) if writes(query) == table.name else None
        if write is not None and write.kind != "insert":
            known &= set(write.by)
            same = {(column, position) for column, position in zip(write.by, write.key, strict=True)}
            changed |= {column for column in write.set if (column, write.columns[column]) not in same}
    return tuple(sorted(known - changed))
