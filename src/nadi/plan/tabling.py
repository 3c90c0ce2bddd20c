"""Which tables run on columns: what `nadi.plan.islands` asks about queries that write, join or look into a table.

A table is on columns where all queries that touch it are. Each of them takes its batch as a whole, the writers first; what a reader sees at an event is told by
its *turn*: the arrival it comes with, and the place of the query among those that get the same arrival. So it must be known for each query which arrival its
events come with; and none may read what it, or what is made of its rows, writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nadi.lang.tree import Events, Type
from nadi.plan.mixing import hands_on
from nadi.plan.nodes import (
    OUTPUT,
    TABLE,
    App,
    Arithmetic,
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
    Logic,
    Negation,
    NullCheck,
    Query,
    Schema,
    SingleInput,
    Table,
    UpdateOrInsertTable,
    UpdateTable,
    WindowStep,
    links,
)
from nadi.plan.render import written
from nadi.plan.streams import producers
from nadi.plan.touching import touched, writes
from nadi.plan.walk import conjuncts, inside, read, replaced, searched

KEYS = (Type.STRING, Type.INT, Type.LONG)
_WHOLE = (Type.INT, Type.LONG)
_MOST = 60  # attributes, each of which has a bit in one word


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a query asks of a table at each event: the row whose primary key is in the attributes `keys`. `whole`: the row itself is wanted, too.

    The columns `at` and following are: whether there is a row, and those of the row where it is wanted.
    """

    table: str
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

    `key` is the primary key that it means. `columns` has a position for each column of the table, None where nothing is given; `set` are the columns
    that an update changes.
    """

    kind: str
    table: str
    key: tuple[int, ...]
    columns: tuple[int | None, ...]
    set: tuple[int, ...] = ()


# ---- what keeps a query on rows --------------------------------------------------------------------------------------


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a query that touches tables on rows, its expressions aside."""
    for name in sorted(touched(query, app)):
        yield from _of_table(app.tables[name], app)
    if query.partition is not None:
        yield "it uses a table inside a partition"
    source = _stream(query, app)
    if source is None:
        yield "it uses a table in a pattern, or a join of two tables"
        return
    if not _by_arrival(source, app):
        yield f"it uses a table at events of '{source}', of which only rows know with which arrival each comes"
    if not hands_on(query):
        yield "it uses a table, and does more than rows of single events can show"
    yield from _of_reading(query, app)
    if writes(query) is not None:
        yield from _of_writing(query, app)


def _of_table(table: Table, app: App) -> Iterator[str]:
    name = table.name
    if table.storage is not None:
        yield f"the table '{name}' is in a store"
    if not table.primary_key:
        yield f"the table '{name}' has no primary key"
    if table.indexes:
        yield f"the table '{name}' has an index, which has no operator yet"
    for position in table.primary_key:
        if (kind := table.schema.types[position]) not in KEYS:
            yield f"the primary key of '{name}' has a {kind.value}, which has no operator yet"
    for column in table.schema.columns:
        if column.type is Type.OBJECT:
            yield f"'{name}.{column.name}' is an object, which columns do not hold"
    if len(table.schema.columns) > _MOST:
        yield f"the table '{name}' has more than {_MOST} attributes"
    if app.playback is not None:
        yield "tables are on rows in playback"
    others = (*app.aggregations.values(), *app.windows.values(), *(getattr(e, "keys", ()) for e in app.elements))
    if any(name in searched(other) for other in others):
        yield f"more than queries look into the table '{name}'"


def _stream(query: Query, app: App) -> str | None:
    """The one stream whose events a query takes."""
    found = [source for source in read(query).values() if source not in app.tables]
    return found[0] if len(found) == 1 and not hasattr(query.input, "root") else None


def _by_arrival(stream: str, app: App) -> bool:
    """Whether the chunks of a stream are known by the arrivals that they come with."""
    feeding = producers(app.elements)
    waiting, seen = [stream], set()
    while waiting:
        for query in feeding.get(waiting.pop(), ()):
            source = _stream(query, app)
            if source is None or query.partition is not None or not hands_on(query):
                return False
            if query.id not in seen:  # queries may feed each other
                seen.add(query.id)
                waiting.append(source)
    return True


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
            keys, rest = _fixed(parts, TABLE, app.tables[ask.table])
            if keys is None or rest:
                yield f"{written(ask.condition)} asks for more or less than the primary key of '{ask.table}'"


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
    keys, rest = _fixed(parts, slot, app.tables[table.input.source])
    if keys is None:
        yield f"it joins '{table.input.source}' by something else than its primary key"
    elif rest and stream.outer:
        yield f"it asks for more than the primary key of '{table.input.source}', and puts out what finds none"


def _row_slot(join: JoinInput) -> int:
    return 0 if join.left.kind == "table" else 1


def _fixed(parts: Iterable[Expr], slot: int, table: Table) -> tuple[tuple[int, ...] | None, tuple[Expr, ...]]:
    """The attributes of the event that conditions want to be equal to the primary key of the row in a slot, None where one lacks; the other conditions."""
    found: dict[int, int] = {}
    rest = []
    for part in parts:
        pair = _equality(part, slot)
        if pair is not None and pair[0] in table.primary_key and pair[0] not in found:
            found[pair[0]] = pair[1]
        else:
            rest.append(part)
    keys = tuple(found[p] for p in table.primary_key) if found.keys() == set(table.primary_key) else None
    return keys if keys else None, tuple(rest)


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
    keys, rest = _fixed(parts, TABLE, table)
    if keys is None or rest:
        yield f"it changes '{output.target}' by more or less than its primary key"
        return
    inserts = isinstance(output, UpdateOrInsertTable)
    if isinstance(output, UpdateOrInsertTable):
        if tuple(types[p] for p in output.insert) != table.schema.types:
            yield f"its columns are not of the types of '{output.target}'"
        if tuple(output.insert[p] for p in table.primary_key) != keys:
            yield "it inserts another key than it looks for"
    for column, value in getattr(output, "set", ()):
        if not isinstance(value, Attr) or value.slot != 0 or value.type is not table.schema.types[column]:
            yield f"it sets {written(value)}, which is no attribute of its output of that type"
        elif inserts and output.insert[column] != value.position:  # type: ignore[union-attr]
            yield "it sets something else than it inserts"
        elif column in table.primary_key and keys[table.primary_key.index(column)] != value.position:
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
            keys, _rest = _fixed(tuple(conjuncts(ask.condition)), TABLE, app.tables[ask.table])
            assert keys is not None  # as obstacles says
            lookups[ask] = Lookup(ask.table, keys, False, width + len(more))
            more.append(Column(f"in {ask.table}", Type.BOOL))
    steps = tuple(
        FilterStep(_answered(step.condition, lookups)) if isinstance(step, FilterStep) else step
        for step in source.steps
    )
    made = replace(query, input=replace(source, steps=steps))
    return Seen(made, _widened(app, source.source, more), tuple(lookups.values()))


def _widened(app: App, stream: str, more: Iterable[Column]) -> App:
    """An app of which a stream has more attributes."""
    own = app.streams[stream]
    return replace(app, streams={**app.streams, stream: replace(own, schema=Schema((*own.schema.columns, *more)))})


def _answered(expr: Expr, lookups: dict[InTable, Lookup]) -> Expr:
    """A condition in which the answers of tables are attributes."""
    if isinstance(expr, InTable):
        return Attr(0, lookups[expr].at, Type.BOOL)
    match expr:
        case Arithmetic() | Comparison() | Logic():
            chain = links(expr)
            made = _answered(chain[0].left, lookups)
            for link in chain:
                made = replace(link, left=made, right=_answered(link.right, lookups))
            return made
        case Negation() | NullCheck():
            return replace(expr, operand=_answered(expr.operand, lookups))
        case Call():
            return replace(expr, args=tuple(_answered(a, lookups) for a in expr.args))
        case _:
            return expr


def _joined(query: Query, join: JoinInput, app: App) -> Seen | None:
    if "table" not in (join.left.kind, join.right.kind):
        return None
    slot = _row_slot(join)
    stream, side = (join.right, join.left) if slot == 0 else (join.left, join.right)
    table = app.tables[side.input.source]
    schema = app.streams[stream.input.source].schema
    keys, rest = _fixed(() if join.on is None else tuple(conjuncts(join.on)), slot, table)
    assert keys is not None  # as obstacles says
    at = len(schema.types)

    def leaf(one: Expr) -> Expr:
        if not isinstance(one, Attr) or one.slot == OUTPUT:
            return one
        return replace(one, slot=0, position=at + 1 + one.position if one.slot == slot else one.position)

    filters = [step.condition for step in stream.input.steps if isinstance(step, FilterStep)]
    if not stream.outer:
        filters += [Attr(0, at, Type.BOOL), *(replaced(part, leaf) for part in rest)]
    selection = replace(
        query.selection,
        values=tuple(replaced(value, leaf) for value in query.selection.values),
        having=None if query.selection.having is None else replaced(query.selection.having, leaf),
    )
    single = SingleInput(stream.input.source, tuple(map(FilterStep, filters)), schema)
    made = replace(query, input=single, selection=selection)
    more = (Column(f"in {table.name}", Type.BOOL), *table.schema.columns)
    return Seen(made, _widened(app, stream.input.source, more), (Lookup(table.name, keys, True, at),))


def write_of(query: Query, app: App) -> Write | None:
    """What a query that `obstacles` lets through does to a table; None where it writes none."""
    output, target = query.output, writes(query)
    if target is None:
        return None
    table = app.tables[target]
    if isinstance(output, InsertIntoTable):
        return Write("insert", table.name, table.primary_key, tuple(range(len(table.schema.columns))))
    assert isinstance(output, (UpdateTable, UpdateOrInsertTable, DeleteFromTable))
    keys, _rest = _fixed(tuple(conjuncts(output.on)) if output.on is not None else (), TABLE, table)
    assert keys is not None  # as obstacles says
    given = {column: value.position for column, value in getattr(output, "set", ()) if isinstance(value, Attr)}
    if isinstance(output, UpdateOrInsertTable):
        return Write("upsert", table.name, keys, output.insert, tuple(given))
    columns = tuple(given.get(n) for n in range(len(table.schema.columns)))
    return Write("delete" if isinstance(output, DeleteFromTable) else "update", table.name, keys, columns, tuple(given))
