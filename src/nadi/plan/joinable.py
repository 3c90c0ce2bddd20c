"""Which joins run on columns: what `nadi.plan.islands` asks about queries that join two streams."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.lang.tree import Type
from nadi.plan import matchable
from nadi.plan.certainty import failing
from nadi.plan.islandwindows import EXTERNAL, of_time
from nadi.plan.nodes import (
    App,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    FilterStep,
    FunctionStep,
    JoinInput,
    JoinSide,
    Query,
    SingleInput,
    WindowCall,
    WindowStep,
    links,
)
from nadi.plan.render import written
from nadi.plan.streams import producers
from nadi.plan.walk import inside, read

WINDOWS = ("time", "length", "externalTime")
AGGREGATORS = ("sum", "avg", "count")
CLOCKS = ("currentTimeMillis", "eventTimestamp")

_MOST = 60  # attributes, each of which has a bit in one word


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a join on rows, its expressions aside."""
    join = query.input
    assert isinstance(join, JoinInput)  # the caller has looked
    for side in (join.left, join.right):
        yield from _of_side(side, app)
    yield from _of_sources(query, app)
    yield from _of_selection(query, app)
    kept = {(part.slot, part.position) for part in inside((join.on, query.selection)) if isinstance(part, Attr)}
    if len(kept) > _MOST:
        yield f"it reads more than {_MOST} attributes"
    if query.partition is not None:
        yield from matchable.of_partition(query, app)


def expressions(query: Query) -> Iterator[Expr]:
    """What is computed but in `having`, as if all events were one."""
    join = query.input
    assert isinstance(join, JoinInput)
    for side in (join.left, join.right):
        yield from (step.condition for step in side.input.steps if isinstance(step, FilterStep))
    if join.on is not None:
        yield matchable.flat(join.on)
    yield from (matchable.flat(value) for value in query.selection.values if value.type is not Type.STRING)
    for aggregate in query.selection.aggregates:
        yield from (
            matchable.flat(a) for a in aggregate.args if aggregate.function != "count" or a.type is not Type.STRING
        )


def _of_side(side: JoinSide, app: App) -> Iterator[str]:
    if side.kind != "stream":
        yield f"it joins the {side.kind} '{side.input.source}'"
    windowed = False
    for step in side.input.steps:
        match step:
            case FunctionStep(name=name):
                yield f"the stream function #{name} has no operator yet"
            case FilterStep() if windowed:
                yield "a filter after the window of a join has no operator"
            case WindowStep(call):
                windowed = True
                yield from _of_window(side.input, call, app)


def _of_window(source: SingleInput, call: WindowCall, app: App) -> Iterator[str]:
    if call.name not in WINDOWS:
        yield f"the window '{call.name}' has no operator in joins yet"
        return
    if call.name in EXTERNAL:
        yield from of_time(source, call, app)
    for argument in call.args[1:] if call.name in EXTERNAL else call.args:
        value = argument.value if isinstance(argument, Const) else None
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            yield f"{written(argument)} is no number of at least 1, which the window '{call.name}' must have on columns"


def _of_sources(query: Query, app: App) -> Iterator[str]:
    sources = dict.fromkeys(read(query).values())
    for source in sources:
        if source.startswith("!") or source not in app.streams:
            yield f"it reads '{source}', which is no stream of events as they come"
        elif len(sources) > 1 and source in producers(app.elements):
            yield f"it reads '{source}', which a query makes, and another stream, with which it would have to be merged in order"
        elif not _arrives(source, app):
            yield f"it reads '{source}' twice, which is made by a query that does more than filter"


def _arrives(source: str, app: App) -> bool:
    """Whether the chunks of a stream are arrivals of the app, or what filters have left of them."""
    feeding = producers(app.elements)
    waiting, seen = [source], set()
    while waiting:
        for query in feeding.get(waiting.pop(), ()):
            given = query.input
            plain = isinstance(given, SingleInput) and given.window is None and not query.selection.aggregates
            if not plain or query.partition is not None:
                return False
            if query.id not in seen:  # queries may feed each other
                seen.add(query.id)
                waiting.append(read(query)[0])
    return True


def _of_selection(query: Query, app: App) -> Iterator[str]:
    selection = query.selection
    if query.rate is not None:
        yield "it has an output rate"
    if selection.order_by or selection.limit is not None or selection.offset:
        yield "order by, limit and offset have no operator yet"
    if selection.aggregates:
        yield from _of_aggregates(query, app)
    elif selection.group_by:
        yield "group by without an aggregator has no operator yet"
    for value in selection.values:
        if value.type is Type.STRING and not isinstance(value, (Attr, Const)):
            yield failing(value) or f"{written(value)} makes a string"
    if selection.having is not None and any(_texts(selection.having)):
        yield "having that compares strings of a join has no operator yet"
    assert isinstance(query.input, JoinInput)
    for expr in (query.input.on, *selection.values):
        for comparison in _texts(expr):
            for link in links(comparison):
                if any(isinstance(side, Const) for side in (link.left, link.right)):
                    yield f"{written(link)} compares a string of a joined event with a constant"


def _of_aggregates(query: Query, app: App) -> Iterator[str]:
    join, selection = query.input, query.selection
    assert isinstance(join, JoinInput)
    if len(selection.group_by) > 1 or (selection.group_by and query.partition is not None):
        yield "group by several attributes of a join, or in a partition, has no operator yet"
    for key in selection.group_by:
        if not isinstance(key, Attr) or key.slot < 0 or key.type not in matchable.KEYS:
            yield f"the group {written(key)} is no attribute of a type whose text Arrow makes as Java does"
    for aggregate in selection.aggregates:
        if aggregate.function not in AGGREGATORS:
            yield f"the aggregator {aggregate.function}() has no operator over a join yet"
        yield from (f"{written(c)} compares strings in an aggregator" for a in aggregate.args for c in _texts(a))
    for part in inside((join.on, *(argument for a in selection.aggregates for argument in a.args))):
        if isinstance(part, Call) and part.function in CLOCKS:
            yield f"{part.function}() looks at a clock, which is another one when the event leaves"
    windows = [side.input.window for side in (join.left, join.right)]
    if app.playback is not None and any(window is not None and window.name == "time" for window in windows):
        yield "in playback every event of the app may let others leave, which aggregators over a join would have to see"


def _texts(expr: Expr | None) -> Iterator[Comparison]:
    return (part for part in inside(expr) if isinstance(part, Comparison) and part.left.type is Type.STRING)
