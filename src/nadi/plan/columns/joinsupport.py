"""Which joins run on columns: what `nadi.plan.columns.islands` asks about queries that join two streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import JOINS, Looks
from nadi.plan.columns import patternsupport
from nadi.plan.columns.arrivals import inputs_of, unmerged
from nadi.plan.columns.certainty import failing
from nadi.plan.columns.windowsupport import (
    never_null,
    of_numbers,
    of_rate,
    of_time,
    of_unordered,
)
from nadi.plan.nodes import (
    OUTPUT,
    Aggregate,
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
    Logic,
    Negation,
    NullCheck,
    Query,
    SingleInput,
    WindowCall,
    WindowStep,
    links,
)
from nadi.plan.render import written
from nadi.plan.walk import inside, read
from nadi.plan.windowtraits import BATCHES, EXTERNAL, SLIDING, TIMED_IN_JOINS, UNIQUE_BATCHES

CLOCKS = ("currentTimeMillis", "eventTimestamp")

_MOST = 60  # attributes, each of which has a bit in one word


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a join on rows, its expressions aside."""
    join = query.input
    assert isinstance(join, JoinInput)  # the caller has looked
    for side in (join.left, join.right):
        yield from _of_side(query, side, app)
    yield from _of_sources(query, app)
    yield from _of_selection(query, app)
    kept = {(part.slot, part.position) for part in inside((join.on, query.selection)) if isinstance(part, Attr)}
    if len(kept) > _MOST:
        yield f"it reads more than {_MOST} attributes"
    if query.partition is not None:
        yield from patternsupport.of_partition(query, app)


def expressions(query: Query) -> Iterator[Expr]:
    """What is computed but in `having`, as if all events were one."""
    join = query.input
    assert isinstance(join, JoinInput)
    for side in (join.left, join.right):
        yield from (step.condition for step in side.input.steps if isinstance(step, FilterStep))
    if join.on is not None:
        yield patternsupport.flat(join.on)
    yield from (patternsupport.flat(value) for value in query.selection.values if value.type is not Type.STRING)
    for aggregate in query.selection.aggregates:
        yield from (
            patternsupport.flat(a)
            for a in aggregate.args
            if aggregate.traits.looks is Looks.VALUES or a.type is not Type.STRING
        )


def _of_side(query: Query, side: JoinSide, app: App) -> Iterator[str]:
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
                yield from _of_window(query, side.input, call, app)


def _empties(side: JoinSide) -> bool:
    """Whether events of a side end with a reset, or batches begin with one, which empties all groups of aggregators."""
    window = side.input.window
    return side.triggers and (window is None or window.has(BATCHES | UNIQUE_BATCHES))


def _of_window(query: Query, source: SingleInput, call: WindowCall, app: App) -> Iterator[str]:
    if call.has(UNIQUE_BATCHES):
        yield from of_unordered(query, source, call, app)
        return
    if not call.has(SLIDING | BATCHES):
        yield f"the window '{call.name}' has no operator in joins yet"
        return
    if call.has(EXTERNAL):
        yield from of_time(source, call, app)
    if call.has(TIMED_IN_JOINS) and app.playback is not None:
        yield f"in playback every event of the app may let the timers of a window '{call.name}' fire, which the join would have to see"
    yield from of_numbers(call)


def _of_sources(query: Query, app: App) -> Iterator[str]:
    sources = tuple(dict.fromkeys(read(query).values()))
    for source in sources:
        if source.startswith("!") or source not in app.streams:
            yield f"it reads '{source}', which is no stream of events as they come"
        elif len(sources) == 1 and inputs_of(source, app) is None:
            yield f"it reads '{source}' twice, which a query makes in chunks of its own"
    yield from unmerged(sources, app)


def _of_selection(query: Query, app: App) -> Iterator[str]:
    selection = query.selection
    yield from _of_rate(query, app)
    for key, _up in selection.order_by:
        if not isinstance(key, Attr) or key.slot != OUTPUT:
            yield f"order by {written(key)}, which is no output column, has no operator yet"
    yield from _of_groups(query)
    if selection.aggregates:
        yield from _of_aggregates(query, app)
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


def _of_rate(query: Query, app: App) -> Iterator[str]:
    join, rate = query.input, query.rate
    assert isinstance(join, JoinInput)
    yield from of_rate(query, app)
    plain = not query.selection.aggregates and not query.selection.group_by
    resets = any(_empties(side) for side in (join.left, join.right))
    if rate is not None and rate.kind == "first" and plain and resets:
        yield "output first counts the ends of events that have no window, and of batches"


def _of_aggregates(query: Query, app: App) -> Iterator[str]:
    join, selection = query.input, query.selection
    assert isinstance(join, JoinInput)
    for aggregate in selection.aggregates:
        if not aggregate.has(JOINS):
            yield f"the aggregator {aggregate.function}() has no operator over a join yet"
        yield from _of_argument(aggregate)
        yield from _of_counted(aggregate, join, app)
        yield from (f"{written(c)} compares strings in an aggregator" for a in aggregate.args for c in _texts(a))
    for part in inside((join.on, *(argument for a in selection.aggregates for argument in a.args))):
        if isinstance(part, Call) and part.function in CLOCKS:
            yield f"{part.function}() looks at a clock, which is another one when the event leaves"
    windows = [side.input.window for side in (join.left, join.right)]
    if app.playback is not None and any(window is not None and window.name == "time" for window in windows):
        yield "in playback every event of the app may let others leave, which aggregators over a join would have to see"


def _of_groups(query: Query) -> Iterator[str]:
    """What keeps groups on rows."""
    join, selection = query.input, query.selection
    assert isinstance(join, JoinInput)
    for key in selection.group_by:
        if not isinstance(key, Attr) or key.slot < 0 or key.type not in patternsupport.KEYS:
            yield f"the group {written(key)} is no attribute of a type whose text Arrow makes as Java does"
    slots = {key.slot for key in selection.group_by if isinstance(key, Attr)}
    if len(slots) > 1:
        yield "group by attributes of both sides of a join has no operator yet"
    if not slots or query.partition is None:
        return
    sides = (join.left, join.right)
    if any(side.outer for slot, side in enumerate(sides) if slot not in slots):
        yield "group by attributes of a joined event that may be absent has no operator inside a partition yet"
    if selection.aggregates and any(map(_empties, sides)):
        yield "group by over a side without a window, or with one of batches, which empties all groups of a key, has no operator inside a partition yet"


def _of_argument(aggregate: Aggregate) -> Iterator[str]:
    name = aggregate.function
    for argument in aggregate.args:
        if aggregate.traits.null_fails and not isinstance(argument, (Comparison, Logic, Negation, NullCheck)):
            yield f"{name}() fails where {written(argument)} is null"
        if aggregate.traits.looks is Looks.TEXTS and (
            not isinstance(argument, Attr) or argument.type not in patternsupport.KEYS
        ):
            yield f"{name}() of {written(argument)}, no attribute that is a string, int, long or bool, has no operator over a join yet"


def _of_counted(aggregate: Aggregate, join: JoinInput, app: App) -> Iterator[str]:
    """What tells values apart by their texts counts null, too, which the values of a join's operator do not have."""
    sides = (join.left, join.right)
    for argument in aggregate.args if aggregate.traits.looks is Looks.TEXTS else ():
        if not isinstance(argument, Attr) or argument.slot < 0:
            continue
        own = replace(argument, slot=0)  # as its side sees it
        if sides[1 - argument.slot].outer or not never_null(sides[argument.slot].input, own, app):
            yield (
                f"{written(argument)} may be null, which {aggregate.function}() over a join has no operator for yet: "
                f"a filter such as [not ({written(argument)} is null)] of its stream would do"
            )


def _texts(expr: Expr | None) -> Iterator[Comparison]:
    return (part for part in inside(expr) if isinstance(part, Comparison) and part.left.type is Type.STRING)
