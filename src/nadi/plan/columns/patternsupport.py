"""Which patterns and sequences run on columns: what `nadi.plan.columns.islands` asks about queries that read several events at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nadi.lang.tree import Type
from nadi.plan.chains import Chain, as_automaton, as_led, as_run, begins_away, ends_away, waits
from nadi.plan.columns.arrivals import unmerged
from nadi.plan.columns.certainty import failing
from nadi.plan.columns.windowsupport import of_rate
from nadi.plan.nodes import (
    OUTPUT,
    AbsentElement,
    App,
    Attr,
    AttrList,
    Call,
    Comparison,
    Const,
    Expr,
    FilterStep,
    InsertIntoStream,
    Partition,
    Query,
    SlotNullCheck,
    StateInput,
    StreamElement,
    links,
)
from nadi.plan.render import written
from nadi.plan.walk import inside, read, replaced

KEYS = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)
"""The types whose text Arrow makes as Java does."""

_FAR = 8  # how far into the events of a counted element one may look
_MOST = 60  # attributes, each of which has a bit in one word
_LONGEST = 62  # elements, likewise
_NO_CHAIN = (
    "patterns have no operator whose last element is 'or' or 'and' with an absence that it waits for, or needs no event and is not right behind a plain "
    "first one, nor those with a counted element behind which two may have no event, or behind 'every' and 'not'"
)
_NO_SEQUENCE = (
    "only sequences have an operator whose first element is not optional and whose last one is not counted, without 'or' or 'and' at the end "
    "with an absence that is waited for, and without two elements behind a counted one that may have no event, or such or logical ones behind 'every' and 'not'"
)


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a pattern on rows, its expressions aside."""
    state = query.input
    assert isinstance(state, StateInput)  # the caller has looked
    chain = as_run(state, app.compat) if state.sequence else as_led(state, app.compat)
    elements = chain.elements if chain is not None else as_automaton(state, app.compat)
    if elements is None:
        yield _NO_SEQUENCE if state.sequence else _NO_CHAIN
        return
    away = [e.element.slot for e in elements if isinstance(e, AbsentElement)]
    for element in elements:
        inner = element if isinstance(element, StreamElement) else element.element
        last = len(elements) if chain is None else inner.slot
        pair = isinstance(chain, Chain) and chain.pair
        yield from _of_element(inner, state.counted, max(last, 1) if pair else last)
        yield from _of_absents(inner.steps, [slot for slot in away if slot != inner.slot])
    if waits(state):
        yield from _of_absence(query, state, app)
    yield from _of_absents((query.selection.values, query.selection.having), away)
    longest = _LONGEST // 2 if state.sequence and chain is None else _LONGEST  # a new and a pending place for each
    if len(elements) > longest:
        yield f"it has more than {longest} elements"
    kept = {(part.slot, part.position) for part in inside((state.root, query.selection)) if isinstance(part, Attr)}
    if len(kept) > _MOST:
        yield f"it reads more than {_MOST} attributes"
    yield from _of_sources(query, app)
    yield from of_rate(query, app)
    yield from _of_selection(query)
    if query.partition is not None:
        yield from of_partition(query, app)


def expressions(query: Query) -> Iterator[Expr]:
    """What is computed but in `having`, as if all events were one."""
    state = query.input
    assert isinstance(state, StateInput)
    for element in inside(state.root):
        if isinstance(element, StreamElement):
            yield from (flat(step.condition) for step in element.steps if isinstance(step, FilterStep))
    yield from (flat(value) for value in query.selection.values if value.type is not Type.STRING)


def flat(expr: Expr) -> Expr:
    """An expression as if all events were one."""

    def leaf(one: Expr) -> Expr:
        return replace(one, slot=0, index=None) if isinstance(one, Attr) and one.slot != OUTPUT else one

    return replaced(expr, leaf)


def _of_element(element: StreamElement, counted: tuple[bool, ...], last: int) -> Iterator[str]:
    """`last` is the last slot that may be bound."""
    for step in element.steps:
        if not isinstance(step, FilterStep):
            yield "stream functions in a pattern have no operator yet"
            continue
        yield from _of_references(step.condition, last, counted)
        for part in inside(step.condition):
            if isinstance(part, Comparison) and part.left.type is Type.STRING:
                yield from _of_texts(part, element.slot)


def _of_absence(query: Query, state: StateInput, app: App) -> Iterator[str]:
    """What keeps a pattern that waits for absences on rows."""
    if app.playback is not None:
        yield "an absent element has no operator in playback yet"
    if query.partition is not None and begins_away(state):
        others = [q for q in partition_of(query, app).queries if not set(read(q).values()) <= set(read(query).values())]
        if others:
            yield f"it begins to wait when a key comes, which may be one of {others[0].name}: that has no operator yet"
    if not ends_away(state):
        return
    absent = len(state.counted) - 1
    for part in inside((query.selection.values, query.selection.having)):
        if isinstance(part, Attr) and part.slot == absent:
            yield f"{written(part)} is an event that is never there"
        elif isinstance(part, Call) and part.function in ("eventTimestamp", "currentTimeMillis"):
            yield f"{part.function}() behind an absent element has no operator yet"


def _of_absents(node: object, away: list[int]) -> Iterator[str]:
    """References to events that must not come."""
    for part in inside(node) if away else ():
        if isinstance(part, Attr) and part.slot in away:
            yield f"{written(part)} is an event that is never there"


_NO_SLOT = -1  # of a match all events are others


def _of_texts(comparison: Comparison, slot: int) -> Iterator[str]:
    """Strings of events other than the one that comes (`slot`) are compared by number: constants have none."""
    for link in links(comparison):
        sides = (link.left, link.right)
        others = any(isinstance(s, Attr) and (s.slot != slot or s.index is not None) for s in sides)
        if others and any(isinstance(s, Const) for s in sides):
            yield f"{written(link)} compares the string of another event with a constant"


def _of_references(expr: Expr, last: int, counted: tuple[bool, ...]) -> Iterator[str]:
    for part in inside(expr):
        if isinstance(part, (AttrList, SlotNullCheck)):
            yield "a list of events or whether one is there has no operator yet"
        elif isinstance(part, Attr) and part.slot >= 0:
            if part.slot > last or not (counted[part.slot] or part.index in (None, 0, -1)):
                yield f"{written(part)} is an event that is never there"
            elif part.index is not None and abs(part.index) > _FAR:
                yield f"{written(part)} is more than {_FAR} events away"


def _of_sources(query: Query, app: App) -> Iterator[str]:
    sources = tuple(dict.fromkeys(read(query).values()))
    for source in sources:
        if source.startswith("!") or source not in app.streams:
            yield f"it reads '{source}', which is no stream of events as they come"
    yield from unmerged(sources, app)


def _of_selection(query: Query) -> Iterator[str]:
    selection = query.selection
    if not isinstance(query.output, InsertIntoStream):
        yield "it does not insert into a stream"
    if selection.order_by or selection.limit is not None or selection.offset:
        yield "order by, limit and offset have no operator yet"
    counted = query.input.counted if isinstance(query.input, StateInput) else ()
    for value in selection.values:
        yield from _of_references(value, len(counted), counted)
        for part in inside(value):
            if isinstance(part, Comparison) and part.left.type is Type.STRING:
                yield from _of_texts(part, _NO_SLOT)
        if value.type is Type.STRING and not isinstance(value, (Attr, Const)):
            yield failing(value) or f"{written(value)} makes a string"
    if selection.having is not None:
        yield from _of_references(selection.having, len(counted), counted)
        if any(isinstance(p, Comparison) and p.left.type is Type.STRING for p in inside(selection.having)):
            yield "having that compares strings of matches has no operator yet"


def partition_of(query: Query, app: App) -> Partition:
    """The partition in which a query stands."""
    return next(e for e in app.elements if isinstance(e, Partition) and e.id == query.partition)


def of_partition(query: Query, app: App) -> Iterator[str]:
    """What keeps a query that reads several streams in a partition on rows."""
    partition = partition_of(query, app)
    keys = {key.stream for key in partition.keys}
    for source in dict.fromkeys(read(query).values()):
        inner = source in app.streams and app.streams[source].partition is not None
        if source not in keys and not inner:
            yield f"'{source}' has no key in the partition: events for all keys have no operator yet"
    target = query.output.target if isinstance(query.output, InsertIntoStream) else ""
    if target in app.streams and app.streams[target].partition is not None:
        yield f"it inserts into the inner stream '{target}'"
