"""Which windows run on columns: what `nadi.plan.columns.islands` asks about them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from nadi.lang.tree import Events, Type
from nadi.plan.aggregatortraits import Looks
from nadi.plan.columns.functionsupport import CLOCKS
from nadi.plan.columns.tableuse import touched
from nadi.plan.elements import has_absent
from nadi.plan.nodes import (
    Aggregate,
    App,
    Attr,
    Call,
    Comparison,
    Const,
    Expr,
    FilterStep,
    InsertIntoStream,
    JoinInput,
    Logic,
    Negation,
    NullCheck,
    Partition,
    Query,
    SingleInput,
    StateInput,
    WindowCall,
    WindowStep,
    links,
)
from nadi.plan.render import written
from nadi.plan.streams import producers
from nadi.plan.walk import inside, read, replaced
from nadi.plan.windowtraits import (
    BATCHES,
    DELAYS,
    EXPIRING,
    EXTERNAL,
    SHOWN,
    SLIDING,
    STARTING,
    TIMED,
    UNIQUE_BATCHES,
    UNORDERED,
)


def of_window(query: Query, call: WindowCall, app: App) -> Iterator[str]:
    """What keeps a window on rows."""
    if call.has(UNORDERED | UNIQUE_BATCHES):
        yield from of_unordered(query, query.input, call, app)
        return
    if call.has(DELAYS):
        yield from _of_delay(query, app)
    elif not call.has(SLIDING | BATCHES):
        yield f"the window '{call.name}' has no operator yet"
        return
    if call.has(EXTERNAL):
        yield from of_time(query.input, call, app)
    yield from of_numbers(call)


def of_numbers(call: WindowCall) -> Iterator[str]:
    """What keeps a sliding or batch window on rows because of its lengths and times."""
    args = call.args[1:] if call.has(EXTERNAL) else call.args
    if len(args) > 2:
        yield f"the window '{call.name}' with so many parameters has no operator yet"
    for number, argument in enumerate(args):
        value = argument.value if isinstance(argument, Const) else None
        if isinstance(value, bool):
            yield f"stream.current.event of the window '{call.name}' has no operator yet"
        elif isinstance(value, int) and number == 1 and call.has(STARTING):
            continue
        elif not isinstance(value, int) or value <= 0:
            yield f"{written(argument)} is no number of at least 1, which the window '{call.name}' must have on columns"


def of_time(source: object, call: WindowCall, app: App) -> Iterator[str]:
    """What keeps a window whose clock is an attribute of what it reads on rows."""
    clock = call.args[0]
    if not never_null(source, clock, app):
        yield (
            f"the window '{call.name}' fails where its time {written(clock)} is null: "
            f"a filter such as [{written(clock)} > 0L] before it would do"
        )


def _of_delay(query: Query, app: App) -> Iterator[str]:
    if app.playback is not None:
        window = query.input.window if isinstance(query.input, SingleInput) else None
        name = "delay" if window is None else window.name
        yield f"in playback what the window '{name}' lets go travels at a time that only the other inputs know"
    yield from _of_chunks(query, app)


def _of_session(query: Query, call: WindowCall, app: App) -> Iterator[str]:
    if app.playback is not None:
        yield "in playback every event of the app may end sessions, which the window 'session' would have to see"
    yield from _of_chunks(query, app)


def _of_chunks(query: Query, app: App) -> Iterator[str]:
    """What was due already when it came fires behind the arrival, which is not to be told from the chunks that were made of it."""
    waiting, seen = [query], set()
    while waiting:
        for source in read(waiting.pop()).values():
            for maker in producers(app.elements).get(source, ()):
                window = maker.input.window if isinstance(maker.input, SingleInput) else None
                if isinstance(maker.input, JoinInput) or (window is not None and window.has(BATCHES | UNIQUE_BATCHES)):
                    yield f"{maker.name} makes several chunks of one, behind all of which timers fire that are due already"
                if maker.id not in seen:  # queries may feed each other
                    seen.add(maker.id)
                    waiting.append(maker)


_KEYS = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)
_MOST_SORTED = 100


def of_unordered(query: Query, source: object, call: WindowCall, app: App) -> Iterator[str]:
    """What keeps a window on rows that holds its events in an order of its own; `source` is the input of the query that has it."""
    attributes = [argument for argument in call.args if not isinstance(argument, Const)]
    numbers = [argument.value for argument in call.args if isinstance(argument, Const)]
    first = numbers[:1] if call.has(UNIQUE_BATCHES) else numbers  # a start time may be any
    if any(isinstance(value, int) and value <= 0 for value in first):
        yield f"the window '{call.name}' must have a number of at least 1 on columns"
    if call.has(UNIQUE_BATCHES) and call.has(TIMED) and app.playback is not None:
        yield f"in playback the window '{call.name}' has no operator yet"
    if call.name == "session":
        yield from _of_session(query, call, app)
    for attribute in attributes:
        if call.name != "sort":
            if not isinstance(attribute, Attr) or attribute.type not in _KEYS:
                yield f"the key {written(attribute)} is no attribute of a type whose text Arrow makes as Java does"
        elif not isinstance(attribute, Attr) or attribute.type is Type.STRING:
            yield "a window 'sort' by strings has no operator yet"
        elif not never_null(source, attribute, app):
            yield (
                f"the window 'sort' fails where {written(attribute)} is null: "
                f"a filter such as [not ({written(attribute)} is null)] before it would do"
            )
    if call.name != "sort" and sum(attribute.type is Type.STRING for attribute in attributes) > 1:
        yield f"the window '{call.name}' by several strings has no operator yet"
    most = numbers[0] if numbers else None
    if call.name == "sort" and query.partition is not None and isinstance(most, int) and most > _MOST_SORTED:
        yield f"the window 'sort' of more than {_MOST_SORTED} events has no operator inside a partition"


def never_null(source: object, value: Expr, app: App) -> bool:
    """Whether an attribute of what reaches a window has a value for certain: a filter asks for it, or the query that makes it gives one."""
    if not isinstance(source, SingleInput) or not isinstance(value, Attr):
        return False
    steps = itertools.takewhile(lambda step: not isinstance(step, WindowStep), source.steps)
    if any(isinstance(step, FilterStep) and _asks_for(step.condition, value) for step in steps):
        return True
    made = [q for q in app.queries if getattr(q.output, "target", None) == source.source]
    return len(made) == 1 and _gives(made[0], value.position, app)


def _gives(query: Query, position: int, app: App) -> bool:
    """Whether an output column of a query is never null."""
    match query.selection.values[position]:
        case Const(value=value):
            return value is not None
        case Call(function="eventTimestamp" | "currentTimeMillis", slot=None):
            return True
        case Call(function="default", args=(_, Const())):
            return True
        case Attr(slot=0) as value:
            return never_null(query.input, value, app)
        case _:
            return False


def _asks_for(condition: Expr, value: Attr) -> bool:
    """Whether a condition holds only where an attribute is not null."""
    match condition:
        case Negation(NullCheck(operand)):
            return operand == value
        case Comparison() | Logic():
            chain = links(condition)
        case _:
            return False
    asked = _asks_for(chain[0].left, value)
    for link in chain:
        if isinstance(link, Logic):
            asked = (
                asked or _asks_for(link.right, value) if link.op == "and" else asked and _asks_for(link.right, value)
            )
        else:
            asked = isinstance(link, Comparison) and link.op != "!=" and value in (link.left, link.right)
    return asked


def gathers(query: Query) -> bool:
    """Whether the events of a batch window wait one by one for its end, key by key: what comes out is more than one row of the key."""
    window = query.input.window if isinstance(query.input, SingleInput) else None
    if query.partition is None or window is None or not window.has(BATCHES) or window.name == "batch":
        return False
    selection = query.selection
    apart = selection.group_by or any(a.traits.looks is Looks.TEXTS for a in selection.aggregates)
    return not selection.aggregates or (window.name != "timeBatch" and bool(apart))


def of_batches(query: Query, window: WindowCall) -> Iterator[str]:
    """What keeps the selection of a batch window on rows."""
    selection = query.selection
    looking = (*selection.values, *(() if selection.having is None else (selection.having,)))
    if window.name != "batch" and any(looks_at_clock(value) for value in looking):
        yield "currentTimeMillis() is another one when the batch ends"


def of_rate(query: Query, app: App) -> Iterator[str]:
    """What keeps an output rate on rows."""
    rate, selection = query.rate, query.selection
    if rate is None:
        return
    window = query.input.window if isinstance(query.input, SingleInput) else None
    if rate.kind == "snapshot":
        yield from _of_snapshot(query, app)
    if query.partition is not None:
        if not isinstance(query.input, SingleInput):
            yield f"output {rate.kind} of joins and matches has no operator inside a partition yet"
        elif rate.every is not None and rate.kind != "first":
            yield from _of_key_ticks(query, query.input.source, app)
        target = app.streams.get(getattr(query.output, "target", ""))
        if target is not None and target.partition is not None:
            yield "an output rate before an inner stream has no operator yet"
    if rate.kind in ("last", "first", "snapshot") and not all(isinstance(key, Attr) for key in selection.group_by):
        yield f"output {rate.kind} of each group that is computed has no operator yet"
    if rate.every is not None and app.playback is not None and window is not None and window.has(TIMED):
        yield "its output rate looks at the clock, which the end of a batch does not know in playback"
    plain = not selection.aggregates and not selection.group_by
    if rate.kind == "first" and plain and window is not None and window.has(BATCHES | UNIQUE_BATCHES):
        yield "output first counts the ends of batches"


def _of_key_ticks(query: Query, source: str, app: App) -> Iterator[str]:
    """What keeps a rate on rows whose ticks begin with the keys of a partition."""
    partition = next(e for e in app.elements if isinstance(e, Partition) and e.id == query.partition)
    inner = {name for name, stream in app.streams.items() if stream.partition is not None}
    others = {name for q in partition.queries for name in read(q).values()} - {source, *inner, *app.tables}
    if source in inner or others:
        yield "its output rate begins when a key comes, which may be with an event of another stream: that has no operator yet"


def _of_snapshot(query: Query, app: App) -> Iterator[str]:
    selection = query.selection
    if isinstance(query.input, JoinInput):
        yield "output snapshot of joins has no operator yet"
    elif isinstance(query.input, SingleInput) and query.input.window is not None:
        yield from _of_shown_window(query, query.input.window, app)
    if app.playback is not None:
        yield "output snapshot goes by the clock of arrivals in playback"
    cuts = selection.order_by or selection.limit is not None or selection.offset
    if cuts and (selection.aggregates or selection.group_by or shows_window(query)):
        yield "order by, limit and offset of each event, as output snapshot has them, have no operator yet"


def _of_shown_window(query: Query, window: WindowCall, app: App) -> Iterator[str]:
    """What keeps a snapshot of what a window holds on rows."""
    selection = query.selection
    if not window.has(SHOWN) or query.partition is not None:
        where = " inside a partition" if query.partition is not None else ""
        yield f"output snapshot of the window '{window.name}'{where} has no operator yet"
    if window.name == "batch" and window.args:
        yield "output snapshot of the window 'batch' of a length has no operator yet"
    lasting = (a for a in selection.aggregates if a.traits.looks is Looks.TEXTS or a.traits.forever)
    for function in dict.fromkeys(a.function for a in lasting) if window.has(BATCHES) else ():
        yield f"output snapshot of {function}() over the window '{window.name}' has no operator yet"
    if selection.having is not None and selection.aggregates:
        yield "having with aggregators may keep an event in an output snapshot that has left its window"
    yield from _of_both(query)
    looking = (*selection.values, *(() if selection.having is None else (selection.having,)))
    if any(isinstance(part, Call) and part.function in CLOCKS for value in looking for part in inside(value)):
        yield "an output snapshot that looks at a clock does not find what it holds"
    if window.name == "time":
        yield from _of_chunks(query, app)


def of_shown_texts(query: Query, inner: Query) -> Iterator[str]:
    """What keeps a snapshot of what a window holds on rows where texts are made behind its operator, which runs another query."""
    yield from _of_both(query)
    if all(map(aggregated, query.selection.values)) != all(map(aggregated, inner.selection.values)):
        yield "an output snapshot of aggregators and constants has no operator where texts are made"


def _of_both(query: Query) -> Iterator[str]:
    for value in query.selection.values:
        if aggregated(value) and any(isinstance(part, Attr) for part in inside(_without_aggregates(value))):
            yield f"{written(value)} looks at an aggregator and at the event that came or left last"


def _without_aggregates(value: Expr) -> Expr:
    return replaced(value, lambda leaf: Const(None, leaf.type) if isinstance(leaf, Aggregate) else leaf, Aggregate)


def shows_window(query: Query) -> bool:
    """Whether the output rate of a query shows what its window holds."""
    windowed = isinstance(query.input, SingleInput) and query.input.window is not None
    return windowed and query.rate is not None and query.rate.kind == "snapshot"


def aggregated(value: Expr) -> bool:
    """Whether an aggregator stands in an expression."""
    return any(isinstance(part, Aggregate) for part in inside(value))


def looks_at_clock(expr: Expr) -> bool:
    """Whether an expression has another value when the clock has."""
    return any(isinstance(e, Call) and e.function == "currentTimeMillis" for e in inside(expr))


def is_timed(query: Query) -> bool:
    """Whether a query puts out something by itself, when it is time."""
    inputs: tuple[SingleInput, ...] = ()
    match query.input:
        case SingleInput() as source:
            inputs = (source,)
        case JoinInput(left=left, right=right):
            inputs = (left.input, right.input)
    ticks = query.rate is not None and query.rate.every is not None and query.rate.kind != "first"
    absent = isinstance(query.input, StateInput) and has_absent(query.input.root)
    leaves = shows_expired(query) and any(one.window is not None and one.window.name == "time" for one in inputs)
    return ticks or absent or leaves or any(one.window is not None and one.window.has(TIMED) for one in inputs)


def shows_expired(query: Query) -> bool:
    """Whether what leaves the window of a query comes out; all that a snapshot shows are current events."""
    if not isinstance(query.output, InsertIntoStream) or query.output.events is Events.CURRENT:
        return False
    return query.output.events is Events.EXPIRED or query.rate is None or query.rate.kind != "snapshot"


def of_expired(query: Query, app: App) -> Iterator[str]:
    """What keeps a query that puts out expired events on rows."""
    window = query.input.window if isinstance(query.input, SingleInput) else None
    if window is None or not window.has(EXPIRING):
        of = "" if window is None else f" of the window '{window.name}'"
        yield f"its output has expired events{of}, for which there is no operator yet"
        return
    if query.rate is not None:
        yield "an output rate of expired events has no operator yet"
    if query.selection.order_by:
        yield "order by of expired events has no operator yet"
    if query.selection.limit is not None or query.selection.offset:
        yield "limit and offset of expired events, which only current ones are cut by, have no operator yet"
    if touched(query, app):
        yield "its output has expired events, and it looks into a table"
    if window.name == "time":
        yield from _of_delay(query, app)


def _has_timers(query: Query) -> bool:
    """Whether it matters when a query's timers fire, if they put out something or not."""
    window = query.input.window if isinstance(query.input, SingleInput) else None
    return is_timed(query) or (window is not None and window.name == "session")


def of_timers(app: App) -> dict[str, str]:
    """The queries, by id, that stay on rows because of what timers of others put out, and why.

    What two timers do that are due at the same time depends on their order; and in playback, what comes of a timer travels at a time that only the
    other inputs know.
    """
    found: dict[str, str] = {}
    fed: dict[str, str] = {}  # streams that timers fill, and the query that has them
    waiting = [query for query in app.queries if is_timed(query)]
    names = {query.id: query.name for query in waiting}
    while waiting:
        query = waiting.pop(0)
        target = getattr(query.output, "target", None)
        if target is None or target in fed:
            continue
        fed[target] = names[query.id]
        for other in app.queries:
            if target in read(other).values():
                if _has_timers(other):
                    found[other.id] = (
                        f"{fed[target]} and it both put out something by themselves, when it is time"
                        if is_timed(other)
                        else f"{fed[target]} puts out something by itself, before the end of a session or behind it"
                    )
                elif app.playback is not None:
                    found[other.id] = f"what {fed[target]} puts out in playback travels at a time that it does not know"
                names.setdefault(other.id, fed[target])
                waiting.append(other)
    return found
