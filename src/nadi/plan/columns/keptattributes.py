"""What the columns kernel keeps of events, and whether that is enough for another version of the query: there, or on rows.

Rows keep events whole. Columns keep what the query looks at again: of a window the values that aggregators take off and the keys of groups, of a pattern the
attributes that later conditions and the selection read. So a query that looks at more than its older version did cannot go on with that state.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import Looks
from nadi.plan.chains import as_chain, as_run
from nadi.plan.columns.matchsums import sums
from nadi.plan.columns.outsideloops import ahead
from nadi.plan.columns.stateforms import Form, behind, form, of_rate
from nadi.plan.columns.windowsupport import shows_expired
from nadi.plan.elements import canonical, of_query
from nadi.plan.nodes import (
    App,
    Attr,
    AttrList,
    Call,
    JoinInput,
    Partition,
    Query,
    SingleInput,
    StateInput,
    StreamElement,
    Table,
    ValueKey,
    WindowStep,
)
from nadi.plan.querymatches import by_name
from nadi.plan.walk import inside, read
from nadi.plan.windowtraits import BATCHES

FORM = 2
"""Of the blocks of operators: another number where columns write something else for the same query."""

Reference = tuple[int, str, object]
"""Slot, attribute, and which event of a counted element: its index, None of an element that takes one."""

ALL, TIMESTAMP = "all", "its timestamp"


def goes_on(old: Query, old_app: App, new: Query, new_app: App) -> bool:
    """Whether the columns kernel's state of a query is that of its newer version there, as it is."""
    before, after = _layout(old, old_app), _layout(new, new_app)
    if before is not None and after is not None:
        return before == after
    shapes = [canonical(_shape(q, app), without=frozenset({"id"})) for q, app in ((old, old_app), (new, new_app))]
    return shapes[0] == shapes[1]


def signature(query: Query, app: App) -> str:
    """Sixteen hexadecimal digits: equal where the columns kernel keeps the same of a query, in the same form."""
    layout = _layout(query, app)
    if layout is None:
        layout = canonical(_shape(query, app), without=frozenset({"id"}))
    return hashlib.sha256(f"{FORM} {layout}".encode()).hexdigest()[:16]


def of_table(table: Table) -> str:
    """The same of a table."""
    return hashlib.sha256(f"{FORM} {canonical((table.schema, table.primary_key))}".encode()).hexdigest()[:16]


def missing(old: Query, old_app: App, new: Query, new_app: App) -> str:
    """What of an older version's state on columns its newer version would need on rows, in words; "" where nothing is missing."""
    if not any(True for _ in of_query(old_app, old)):
        return ""
    if why := _not_taken(old, old_app, new):
        return why
    lacking = sorted({(slot, name) for slot, name, _index in needed(new, new_app) - _closed(kept(old, old_app))})
    names = ", ".join(
        f"'{name}'" if name != TIMESTAMP else name for name in dict.fromkeys(name for _slot, name in lacking)
    )
    return f"columns did not keep {names} of the events that wait" if lacking else ""


def _not_taken(old: Query, old_app: App, new: Query) -> str:
    """Why rows cannot take the state of a query, whatever is kept of its events; "" where they can."""
    unknown = "columns keep it in a form that rows cannot take"
    if isinstance(old.input, JoinInput) or _layout(old, old_app) is None:
        return unknown
    window = old.input.window if isinstance(old.input, SingleInput) else None
    if window is None or not isinstance(old.input, SingleInput) or not isinstance(new.input, SingleInput):
        return ""
    selection = old.selection
    if not window.has(BATCHES):
        held = selection.aggregates or not new.keeps_expired
        return "" if held else "columns did not keep the events of its window, which nothing looked at"
    if window.name == "batch":  # nothing is left when the chunk is done
        return ""
    if selection.aggregates or selection.group_by:
        return "columns keep no events of a batch, but what its aggregators have come to"
    passing = [
        (by_name(q.selection.having, None), behind(q.input)) for q in (old, new) if isinstance(q.input, SingleInput)
    ]
    if passing[0] != passing[1]:
        return "columns kept those events of the batch only that passed the old conditions"
    if window.name == "lengthBatch" and (selection.having is not None or behind(old.input)):
        return "columns kept those events of the batch only that passed the conditions, and its length counts all"
    return ""


def kept(query: Query, app: App) -> frozenset[Reference]:
    """What columns keep of the events of a query whose state rows can take."""
    keys = frozenset(_keys(query, app))
    if isinstance(query.input, StateInput):
        return needed(query, app) | keys
    if not isinstance(query.input, SingleInput) or query.input.window is None:
        return keys
    names, selection = _names(query, app)[0], query.selection
    counted = tuple(a.args[0] for a in selection.aggregates if a.traits.looks is not Looks.NOTHING)
    computed = [p for e in counted for p in inside(e) if isinstance(p, Attr) and (p == e or p.type is not Type.STRING)]
    attributes = [*computed, *selection.group_by]
    if query.input.window.has(BATCHES):
        attributes = [value for value in selection.values if isinstance(value, Attr) and value.slot == 0]
    found = {(0, names[a.position], None) for a in attributes if isinstance(a, Attr)}
    return frozenset({*found, (0, TIMESTAMP, None)}) | keys


def needed(query: Query, app: App) -> frozenset[Reference]:
    """What a query looks at of events that it keeps."""
    if isinstance(query.input, StateInput):
        return frozenset(_of_state(query, query.input, app))
    if not isinstance(query.input, SingleInput) or query.input.window is None:
        return frozenset()
    names, selection = _names(query, app)[0], query.selection
    looked: list[object] = [
        *selection.group_by,
        *(a.args for a in selection.aggregates if a.traits.looks is not Looks.NOTHING),
    ]
    windowed = False
    for step in query.input.steps:
        looked += [step] if windowed else []
        windowed = windowed or isinstance(step, WindowStep)
    if query.keeps_expired or query.input.window.has(BATCHES):
        looked += [*selection.values, selection.having, *(expr for expr, _up in selection.order_by)]
    parts = [part for one in looked for part in inside(one)]
    found = {
        (0, names[p.position], None)
        for p in parts
        if isinstance(p, Attr) and 0 <= p.position < len(names) and p.slot == 0
    }
    return frozenset(
        found | {(0, TIMESTAMP, None) for p in parts if isinstance(p, Call) and p.function == "eventTimestamp"}
    )


def _of_state(query: Query, state: StateInput, app: App) -> Iterator[Reference]:
    last = len(state.counted) - 1
    for element in inside(state.root):
        if isinstance(element, StreamElement):
            yield from _references(element.steps, element.slot, state, query, app)
    selection = query.selection
    looked = (selection.values, selection.having, selection.aggregates, selection.group_by, selection.order_by)
    yield from _references(looked, last, state, query, app)


def _references(node: object, at_hand: int, state: StateInput, query: Query, app: App) -> Iterator[Reference]:
    names = _names(query, app)
    for part in inside(node):
        match part:
            case Attr(slot=slot, position=position, index=index) if slot >= 0:
                counted = state.counted[slot]
                if slot != at_hand or (counted and index is not None):
                    yield slot, names[slot][position], (-1 if index is None else index) if counted else None
            case AttrList(slot=slot, position=position):
                yield slot, names[slot][position], ALL
            case Call(slot=int(slot), index=index):
                yield slot, TIMESTAMP, index
            case _:
                pass


def _closed(references: Iterable[Reference]) -> frozenset[Reference]:
    """With those that come to be the ones before the last."""
    found = set(references)
    for slot, name, index in tuple(found):
        if isinstance(index, int):
            found |= {(slot, name, later) for later in range(index, 0)}
    return frozenset(found)


def _keys(query: Query, app: App) -> Iterator[Reference]:
    """The attribute that is the partition's key, of all events."""
    partition = next((e for e in app.elements if isinstance(e, Partition) and query in e.queries), None)
    if partition is None:
        return
    by_stream = {k.stream: k.value for k in partition.keys if isinstance(k, ValueKey)}
    state = query.input if isinstance(query.input, StateInput) else None
    for slot, source in read(query).items():
        value = by_stream.get(source)
        if isinstance(value, Attr):
            name = app.streams[source].schema.names[value.position]
            counted = state is not None and state.counted[slot]
            yield from ((slot, name, index) for index in (range(-9, 9) if counted else (None,)))


def keeps_further(query: Query, app: App) -> bool:
    """Whether columns keep what they have computed ahead of events: rows would keep other attributes."""
    made = ahead(query, app)
    match made.query.input:
        case StateInput() as state if made.before:
            references = _of_state(made.query, state, made.app)
            return any(name not in app.streams[read(query)[slot]].schema.names for slot, name, _index in references)
        case SingleInput() as source if made.before:
            if source.window is not None and not query.selection.aggregates:
                return True  # such windows keep events whole
            width = len(app.streams[source.source].schema)
            steps = itertools.dropwhile(lambda step: not isinstance(step, WindowStep), source.steps)
            looked = (tuple(steps), made.query.selection)
            return any(isinstance(p, Attr) and p.slot == 0 and p.position >= width for p in inside(looked))
        case _:
            return bool(made.before)


# ---- layouts ---------------------------------------------------------------------------------------------------------


def _layout(query: Query, app: App) -> object:
    """What shapes the state of a query on columns, attributes by name; None where that is not known, or of a shape of which rows cannot take it."""
    if keeps_further(query, app):
        return None
    if not isinstance(query.input, StateInput):
        return form(query, app)
    found = _of_matches(query, query.input, app)
    return found if found is None or query.rate is None else of_rate(query, found)


def _of_matches(query: Query, state: StateInput, app: App) -> Form | None:
    parts = as_run(state, app.compat) if state.sequence else as_chain(state, app.compat)
    if parts is None or sums(query):
        return None
    names = _names(query, app)
    types = {
        slot: dict(zip(app.streams[s].schema.names, app.streams[s].schema.types)) for slot, s in read(query).items()
    }
    order = sorted(
        (slot, names[slot].index(name) if name in names[slot] else -1, str(index), name)
        for slot, name, index in _closed(needed(query, app))
    )
    given = [(slot, name, index, types[slot].get(name)) for slot, _position, index, name in order]
    return (
        state.sequence,
        len(state.counted),
        state.counted,
        parts.every,
        given,
        sorted(set(_keys(query, app)), key=repr),
    )


def _names(query: Query, app: App) -> dict[int, tuple[str, ...]]:
    """The names of attributes by slot; none of what is no stream."""
    return {slot: app.streams[s].schema.names if s in app.streams else () for slot, s in read(query).items()}


def _shape(query: Query, app: App) -> tuple[object, ...]:
    """All that may count where no form is known."""
    shown = (str(query.output.events),) if shows_expired(query) else ()
    return query.input, query.selection, query.rate, _schemas(query, app), *shown


def _schemas(query: Query, app: App) -> tuple[object, ...]:
    return tuple(app.streams[s].schema for s in dict.fromkeys(read(query).values()) if s in app.streams)
