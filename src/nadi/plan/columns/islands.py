"""Which queries run on columns, and why the others do not (columns/rows.md#what-falls-back-to-rows).

A query runs on columns where an operator exists for its shape and gives exactly the rows kernel's output, and where no query on rows takes it along
(`nadi.plan.columns.mixedapps`). What is let through here must be written by `nadi.kernel.columns`; a shape becomes known to both at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import STREAMS, Looks
from nadi.plan.annotations import found
from nadi.plan.columns import joinsupport, patternsupport, purgesupport, tablesupport
from nadi.plan.columns.certainty import failing
from nadi.plan.columns.countedsets import with_counts
from nadi.plan.columns.functionsupport import CLOCKS, looped
from nadi.plan.columns.matchsums import halves_of, sums
from nadi.plan.columns.mixedapps import Mixing
from nadi.plan.columns.outsideloops import ahead
from nadi.plan.columns.setclause import with_set
from nadi.plan.columns.tableuse import changes, reads, touched, writers, writes
from nadi.plan.columns.turns import unmerged
from nadi.plan.columns.windowsupport import (
    of_batches,
    of_expired,
    of_rate,
    of_shown_texts,
    of_timers,
    of_window,
    shows_expired,
    shows_window,
)
from nadi.plan.elements import has_absent
from nadi.plan.nodes import (
    OUTPUT,
    Aggregate,
    App,
    Arithmetic,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    FilterStep,
    FunctionStep,
    InsertIntoStream,
    JoinInput,
    Logic,
    Negation,
    NullCheck,
    Partition,
    Query,
    RangeKey,
    Selection,
    SingleInput,
    StateInput,
    ValueKey,
    WindowCall,
    WindowStep,
    links,
)
from nadi.plan.owners import keys_id, keys_of, purged
from nadi.plan.render import written
from nadi.plan.streams import producers
from nadi.plan.walk import inside, read, replaced, searched
from nadi.plan.windowtraits import BATCHES, PASSING

_GROUPS = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)


@dataclass(frozen=True, slots=True)
class Island:
    """Where a query runs ("columns" or "rows"), and a sentence that says why."""

    runs_on: str
    why: str


@dataclass(frozen=True, slots=True)
class Islands:
    """Per query id where it runs; whether all of the app goes on columns, and why not if not; the ids on columns in the order in which they are to run there.

    `handed` is what columns hand on to rows: by stream that columns read the streams that one event of it comes to on rows, in order; it may be among them.
    `tables` are the names of those that columns hold, `purged` the partitions on columns whose idle keys are forgotten.
    """

    queries: dict[str, Island]
    columns: bool
    order: tuple[str, ...]
    why: str
    handed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    purged: tuple[Partition, ...] = ()

    @property
    def owners(self) -> frozenset[str]:
        """The ids of the queries, tables and purged keys on columns, as `nadi.plan.owners` names them."""
        return frozenset((*self.order, *(f"{name}/table" for name in self.tables), *map(keys_id, self.purged)))

    @property
    def mixed(self) -> bool:
        """Whether some queries go on columns, and something else on rows."""
        return bool(self.order) and not self.columns

    @property
    def given_on(self) -> frozenset[str]:
        """The streams that columns make and rows read."""
        return frozenset(stream for root, streams in self.handed.items() for stream in streams if stream != root)


_COLUMNS = Island("columns", "it has an operator over whole batches (unless nadi.kernel is rows)")


def islands(app: App, rows: Collection[str] = ()) -> Islands:
    """Where the queries of an app run; those with the ids `rows` on rows, whatever they can, and those of tables and purged keys with such ids: no query is on
    columns then that is not without them. An app without queries stays on rows."""
    feeding = producers(app.elements)
    shared = next(_of_app(app), "")
    cycles = _cycles(app)
    timers = of_timers(app)
    unable = {
        query.id: next(_obstacles(query, app), "")
        or timers.get(query.id, "")
        or shared
        or next(_of_streams(query, app, feeding, cycles), "")
        for query in app.queries
    }
    mixing = Mixing(app, unable)
    mixing.settle()
    if written := {query.id for query in app.queries if _ids(query, app) & set(rows)} - mixing.rows.keys():
        mixing.rows |= dict.fromkeys(written, "its state was written there")
        mixing.settle()
    first = next((query for query in app.queries if query.id in mixing.rows), None)
    tables = dict.fromkeys(name for q in app.queries if q.id not in mixing.rows for name in sorted(touched(q, app)))
    apart = shared or next(_of_definitions(app, tables), "")
    if first is not None and not apart:
        apart = f"{first.name} has to: {mixing.rows[first.id]}"
    why = apart or next((f"rows ask the table '{name}' on demand" for name in tables), "")
    if apart and app.playback is not None:
        reason = f"@app:playback moves one clock for all queries, which one kernel must have: {apart}"
        mixing.rows.update({query.id: reason for query in app.queries if query.id not in mixing.rows})
        tables = {}
    order = _order(app, mixing.rows)
    told = {q.id: Island("rows", mixing.rows[q.id]) if q.id in mixing.rows else _COLUMNS for q in app.queries}
    keys = tuple(partition for partition in purged(app) if any(query.id in order for query in partition.queries))
    return Islands(told, bool(order) and not why, order, why, mixing.handed() if why else {}, tuple(tables), keys)


def _ids(query: Query, app: App) -> set[str]:
    """Those of a query, of the tables that it touches, of the keys that are purged with it."""
    return {query.id, *(app.tables[name].id for name in touched(query, app)), *keys_of(query, app)}


def _above(app: App) -> dict[str, set[str]]:
    """By query the queries that make what it reads, in streams and tables, and not itself where that is a table; all by their ids."""
    feeding = producers(app.elements) | writers(app)  # no stream has the name of a table
    return {
        query.id: {
            q.id
            for source in {*read(query).values(), *reads(query, app)}
            for q in feeding.get(source, ())
            if q is not query or source not in app.tables
        }
        for query in app.queries
    }


def _order(app: App, rows: Collection[str]) -> tuple[str, ...]:
    """The queries on columns, each after those that feed it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    above = _above(app)
    for query in app.queries:
        if query.id not in rows:
            sorter.add(query.id, *sorted(above[query.id]))
    return tuple(sorter.static_order())


def _cycles(app: App) -> dict[str, str]:
    """The queries that feed themselves, through others or not: id → reason."""
    queries = {query.id: query for query in app.queries}
    above = _above(app)
    found: dict[str, str] = {}
    while True:
        sorter = TopologicalSorter({id: above[id] - found.keys() for id in above if id not in found})  # noqa: A001
        try:
            sorter.prepare()
        except CycleError as problem:
            names = " and ".join(dict.fromkeys(queries[id].name for id in problem.args[1]))  # noqa: A001
            found |= dict.fromkeys(problem.args[1], f"the queries {names} feed each other")
        else:
            return found


# ---- the app ---------------------------------------------------------------------------------------------------------


def _of_app(app: App) -> Iterator[str]:
    """What keeps all queries on rows."""
    if app.compat != 5:
        yield "the rules of Siddhi 4.x are on rows only"
    if app.playback is not None and app.playback.idle is not None:
        yield "the idle time of @app:playback is on rows only"


def _of_definitions(app: App, tables: Collection[str]) -> Iterator[str]:
    """What runs on rows beside the queries; `tables` are on columns."""
    for what, names in (
        ("table", app.tables),
        ("named window", app.windows),
        ("trigger", app.triggers),
        ("aggregation", app.aggregations),
    ):
        for name in names:
            if name not in tables:
                yield f"the {what} '{name}' changes between events: it is on rows only"


def _of_streams(
    query: Query, app: App, feeding: Mapping[str, Sequence[Query]], cycles: Mapping[str, str]
) -> Iterator[str]:
    """What the streams that a query reads and makes keep on rows."""
    if query.id in cycles:
        yield cycles[query.id]
    sources, target = dict.fromkeys(read(query).values()), getattr(query.output, "target", "")
    for source in sources:
        if source in app.tables:
            continue  # its obstacles say what there is to say
        if source not in app.streams or source in app.triggers or source in app.windows:
            yield f"it reads '{source}', which changes between events: it is on rows only"
        elif source.startswith("!"):
            yield f"it reads the fault stream '{source}'"
    for name in sorted(searched(query) - app.tables.keys()):
        yield f"it looks into '{name}', which changes between events: it is on rows only"
    if len(makers := feeding.get(target, ())) > 1 and (why := next(unmerged(query, makers, app), "")):
        yield f"{' and '.join(q.name for q in makers)} insert into '{target}', whose rows would have to be merged in order: {why}"
    for key in (*sources, target):
        stream = app.streams.get(key)
        if stream is None:
            continue
        if key in feeding and found(stream.annotations, "source"):
            yield f"'{key}' has a source beside the query {feeding[key][0].name}: their rows would have to be merged in order"
        for column in stream.schema.columns:
            if column.type is Type.OBJECT:
                yield f"'{key}.{column.name}' is an object, which columns do not hold"


# ---- a query ---------------------------------------------------------------------------------------------------------


def _obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a query on rows."""
    yield from _of_output(query, app)
    yield from purgesupport.obstacles(query, app)
    query = with_counts(with_set(query))
    found, changing = None, changes(query, app)
    if touched(query, app):
        reason = next(tablesupport.obstacles(query, app), "")
        if reason:
            yield reason
            return
        found = tablesupport.seen(query, app)
        query, app = (query, app) if found is None else (found.query, found.app)
    made = ahead(query, app, alone=found is None)
    if changing and (made.before or made.behind is not None):
        yield "it changes the table that it looks into, and computes what has no loop"
    if made.behind is not None and shows_window(query):
        yield from of_shown_texts(query, made.query)
    yield from _of_shape(made.query, made.app)


def _of_shape(query: Query, app: App) -> Iterator[str]:
    """What has no operator in a query, without what is computed ahead."""
    if sums(query):
        yield from _of_sums(query, app)
        return
    if isinstance(query.input, (StateInput, JoinInput)):
        kind = patternsupport if isinstance(query.input, StateInput) else joinsupport
        yield from kind.obstacles(query, app)
        yield from _of_keys(query, app)
        for expr in kind.expressions(query):
            yield from _of_expression(expr)
        if query.selection.having is not None:
            yield from _of_expression(patternsupport.flat(having_of(query.selection)))
        return
    if query.input.source.startswith("!"):
        yield f"it reads the fault stream '{query.input.source}'"
    yield from of_rate(query, app)
    if query.partition is not None:
        yield from _of_partition(query, query.input, app)
    yield from _of_steps(query, query.input, app)
    yield from _of_selection(query, query.input.window)


def _of_sums(query: Query, app: App) -> Iterator[str]:
    """What keeps aggregators and groups over matches on rows: what keeps either half there."""
    yield from of_rate(query, app)
    if isinstance(query.input, StateInput) and has_absent(query.input.root):
        yield "aggregators over matches that wait for an absence have no operator yet"
    if query.selection.group_by and not query.selection.aggregates:
        yield "group by without an aggregator has no operator over matches yet"
    halves = halves_of(query, app)
    if query.partition is not None and halves.key is None:
        yield "aggregators over matches in a partition have an operator only where its key is an attribute of an event that each match has"
    yield from _of_keys(query, app)
    yield from patternsupport.obstacles(halves.matches, app)
    for expr in patternsupport.expressions(halves.matches):
        yield from _of_expression(expr)
    yield from _of_selection(halves.summing, None)


def _of_partition(query: Query, source: SingleInput, app: App) -> Iterator[str]:
    partition = patternsupport.partition_of(query, app)
    key = next((k for k in partition.keys if k.stream == source.source), None)
    if source.source in app.streams and app.streams[source.source].partition is not None:
        return  # an inner stream has the key of what it is made from
    if key is None:
        yield f"'{source.source}' is not among the keys of its partition"
    else:
        yield from _of_key(key)


def _of_keys(query: Query, app: App) -> Iterator[str]:
    """What keeps a query that reads several streams on rows because of their keys."""
    for key in () if query.partition is None else patternsupport.partition_of(query, app).keys:
        if key.stream in read(query).values():
            yield from _of_key(key)


def _of_key(key: ValueKey | RangeKey) -> Iterator[str]:
    """What keeps a partition on rows because of a key."""
    if isinstance(key, RangeKey):
        for _label, condition in key.ranges:
            yield from _of_expression(condition)
    elif key.value.type not in _GROUPS or (key.value.type is Type.STRING and not isinstance(key.value, Attr)):
        yield f"the key {written(key.value)} is no attribute, and no number whose text Arrow makes as Java does"
    elif key.value.type is not Type.STRING:
        yield from _of_expression(key.value)


def _of_output(query: Query, app: App) -> Iterator[str]:
    output = query.output
    if writes(query) is not None:
        return  # `tablesupport` has looked
    if not isinstance(output, InsertIntoStream) or output.target not in app.streams:
        yield "it does not insert into a stream"
        return
    if shows_expired(query):
        yield from of_expired(query, app)
    if app.streams[output.target].schema.types != query.selection.schema.types:
        yield f"its columns are not of the types of '{output.target}'"


def _of_steps(query: Query, source: SingleInput, app: App) -> Iterator[str]:
    windowed = False
    for step in source.steps:
        match step:
            case FunctionStep(name=name):
                yield f"the stream function #{name} has no operator yet"
            case FilterStep(condition):
                if windowed and any(isinstance(e, Call) and e.function in CLOCKS for e in inside(condition)):
                    yield "a filter after a window looks at a clock, which is another one when the event leaves"
                yield from _of_expression(condition)
            case WindowStep(call):
                windowed = True
                yield from of_window(query, call, app)


def _of_selection(query: Query, window: WindowCall | None) -> Iterator[str]:
    selection = query.selection
    batches = window is not None and window.has(BATCHES)
    if window is not None and batches:
        yield from of_batches(query, window)
    elif selection.group_by and not selection.aggregates and window is not None and window.has(PASSING):
        yield f"group by without an aggregator over the window '{window.name}' has no operator yet"
    for key in selection.group_by:
        if not isinstance(key, Attr) or key.slot != 0 or key.type not in _GROUPS:
            yield f"the group {written(key)} is no attribute of a type whose text Arrow makes as Java does"
    for aggregate in selection.aggregates:
        yield from _of_aggregate(aggregate)
    for value in selection.values:
        if value.type is not Type.STRING:
            yield from _of_expression(value)
        elif not isinstance(value, (Attr, Const)):
            yield failing(value) or f"{written(value)} makes a string"
    if selection.having is not None:
        yield from _of_expression(having_of(selection))


def having_of(selection: Selection) -> Expr:
    """The condition of `having`, in which output columns that are attributes or constants are read as such."""

    def behind(leaf: Expr) -> Expr:
        value = selection.values[leaf.position] if isinstance(leaf, Attr) and leaf.slot == OUTPUT else leaf
        return value if isinstance(value, (Attr, Const)) else leaf

    assert selection.having is not None  # the caller has looked
    return replaced(selection.having, behind)


def _of_aggregate(aggregate: Aggregate) -> Iterator[str]:
    name = aggregate.function
    looks = aggregate.traits.looks
    if aggregate.type is Type.OBJECT:
        yield f"{name}() gives an object, which columns do not hold: only sizeOfSet(unionSet(createSet(…))) of an attribute has an operator"
    elif not aggregate.has(STREAMS):
        yield f"the aggregator {name}() has no operator yet"
    for argument in aggregate.args:
        if aggregate.traits.null_fails and not isinstance(argument, (Comparison, Logic, Negation, NullCheck)):
            yield f"{name}() fails where {written(argument)} is null"
        if looks is Looks.TEXTS and (not isinstance(argument, Attr) or argument.type not in _GROUPS):
            yield f"{name}() of {written(argument)}, no attribute of a type whose text Arrow makes as Java does, has no operator yet"
        elif looks is Looks.VALUES or argument.type is not Type.STRING:
            yield from _of_expression(argument)
        if any(isinstance(e, Call) and e.function in CLOCKS for e in inside(argument)):
            yield f"{name}() looks at a clock, which is another one when the event leaves"


# ---- expressions -----------------------------------------------------------------------------------------------------


def _of_expression(expr: Expr) -> Iterator[str]:
    """What keeps an expression on rows."""
    match expr:
        case Const():
            if expr.type in (Type.STRING, Type.OBJECT):
                yield f"{written(expr)} stands where only numbers and bools are computed"
        case Attr(slot=slot, index=index):
            if slot not in (0, OUTPUT) or index is not None or expr.type in (Type.STRING, Type.OBJECT):
                yield f"{written(expr)} stands where only numbers and bools of one event are computed"
        case Aggregate():
            return
        case Arithmetic() | Comparison() | Logic():
            yield from _of_chain(expr)
        case Negation(operand):
            yield from _of_expression(operand)
        case NullCheck(operand):
            if not (isinstance(operand, Attr) and operand.type is Type.STRING and operand.slot == 0):
                yield from _of_expression(operand)
        case Call():
            if not looped(expr):
                yield failing(expr) or f"the function {expr.function}() has no loop yet"
            for argument in expr.args:
                if argument.type is not Type.STRING or not isinstance(argument, (Attr, Const)):
                    yield from _of_expression(argument)
        case _:
            yield f"{written(expr)} looks beyond the event"


def _of_chain(expr: Arithmetic | Comparison | Logic) -> Iterator[str]:
    chain = links(expr)
    if not (isinstance(chain[0], Comparison) and chain[0].left.type is Type.STRING):
        yield from _of_expression(chain[0].left)
    for link in chain:
        if isinstance(link, Comparison) and Type.STRING in (link.left.type, link.right.type):
            sides = (link.left, link.right)
            plain = all(
                isinstance(s, Const) or (isinstance(s, Attr) and s.slot == 0 and s.index is None) for s in sides
            )
            if not plain or not any(isinstance(s, Attr) for s in sides):
                yield f"{written(link)} compares strings other than attributes and constants"
        else:
            yield from _of_expression(link.right)
