"""The stateful elements of an app: what keeps state, under which id, shaped by what, woken by timers or not.

Revisions are keyed by the id; the fingerprint tells whether the state that was kept still fits. The kernel's elements use the same ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum

from nadi.plan.nodes import (
    AbsentElement,
    App,
    Call,
    Const,
    CountElement,
    EveryElement,
    Expr,
    FunctionStep,
    JoinInput,
    LogicalElement,
    NextElement,
    Partition,
    Query,
    Schema,
    SingleInput,
    StateElement,
    StateInput,
    Step,
    StreamElement,
    WindowCall,
    WindowStep,
)
from nadi.plan.windowtraits import WindowTraits

STATELESS_FUNCTIONS = frozenset({"log", "pol2Cart"})
"""Stream functions that keep nothing between events; all others are taken to be stateful."""

_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Stateful:
    """A stateful element. `owner` is the name of the query or definition, `what` says in words what is kept.

    `shape` is everything that the kept state depends on; `timed` whether timers wake it. `kind` is "table", "window", "trigger", "aggregation",
    "function", "pattern", "selector", "rate" or "keys"; `schemas` are those of the rows that are kept, by slot; `traits` are those of a window.
    """

    id: str
    owner: str
    what: str
    shape: object
    timed: bool = False
    partition: str | None = None
    kind: str = ""
    schemas: tuple[Schema, ...] = ()
    traits: WindowTraits | None = None

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits: equal where kept state fits."""
        return hashlib.sha256(canonical(self.shape).encode()).hexdigest()[:16]


def canonical(shape: object, without: frozenset[str] = frozenset()) -> str:
    """A shape as text that stays the same when plan nodes get new fields: fields that have their default, are among `without`, or do not count in
    comparisons are left out.

    >>> from nadi.lang.tree import Type
    >>> from nadi.plan.nodes import FilterStep
    >>> canonical(FilterStep(Const(True, Type.BOOL)))
    'FilterStep(condition=Const(value=True,type="bool"))'
    """
    texts: list[str] = []
    waiting: list[tuple[str, object]] = [
        ("", shape)
    ]  # texts, and what is to be written behind each; expressions may be deep
    while waiting:
        before, here = waiting.pop()
        texts.append(before)
        if isinstance(here, Enum):
            here = here.value
        if isinstance(here, str):
            texts.append(json.dumps(here))
        elif isinstance(here, tuple):
            waiting += _in_order("[", [("", part) for part in here], "]")
        elif is_dataclass(here):
            given = [
                (f"{f.name}=", value)
                for f in fields(here)
                if f.compare and f.name not in without and (value := getattr(here, f.name)) != f.default
            ]
            waiting += _in_order(f"{type(here).__name__}(", given, ")")
        elif here is not _NOTHING:
            texts.append(repr(here))
    return "".join(texts)


def _in_order(start: str, parts: list[tuple[str, object]], end: str) -> list[tuple[str, object]]:
    """Parts with brackets around them and commas between, as a stack: the first one is on top."""
    items: list[tuple[str, object]] = [(("," if i else start) + text, part) for i, (text, part) in enumerate(parts)]
    return [(end if items else start + end, _NOTHING), *reversed(items)]


def fingerprints(app: App) -> dict[str, str]:
    """Fingerprint by element id, of all stateful elements."""
    return {e.id: e.fingerprint for e in stateful(app)}


def stateful(app: App) -> tuple[Stateful, ...]:
    """All stateful elements: those of definitions, then those of queries, in the order of the text."""
    return (*_of_definitions(app), *(e for element in app.elements for e in of_element(app, element)))


def of_element(app: App, element: Query | Partition) -> tuple[Stateful, ...]:
    """The stateful elements of a query or partition."""
    if isinstance(element, Query):
        return tuple(of_query(app, element))
    purged = element.purge_idle is not None
    what = "the keys that were seen"
    return (
        Stateful(f"{element.id}/keys", element.id, what, element.keys, purged, element.id, "keys"),
        *(
            replace(e, shape=(element.keys, e.shape), partition=element.id)
            for query in element.queries
            for e in of_query(app, query)
        ),
    )


def _of_definitions(app: App) -> Iterator[Stateful]:
    shape: object
    for table in app.tables.values():
        if table.storage is not None:  # its rows are elsewhere
            continue
        shape = (table.schema, table.primary_key, table.indexes)
        yield Stateful(table.id, table.name, "the rows of the table", shape, kind="table", schemas=(table.schema,))
    for window in app.windows.values():
        call = window.window
        yield _of_window(call, window.name, window.schema)
    for trigger in app.triggers.values():
        if not trigger.start:
            shape = (trigger.every, trigger.cron)
            yield Stateful(trigger.id, trigger.name, "when it fires next", shape, True, kind="trigger")
    for a in app.aggregations.values():
        shape = (a.input.steps, a.selection, a.timestamp, a.durations)
        what = "buckets per " + ", ".join(a.durations)
        yield Stateful(a.id, a.name, what, shape, True, kind="aggregation", schemas=(a.input.schema,))


def of_query(app: App, query: Query) -> Iterator[Stateful]:
    """The stateful elements of one query, in the order in which events pass them."""
    match query.input:
        case SingleInput() as source:
            yield from _of_steps(query, source.steps, _schema(app, source))
        case JoinInput(left=left, right=right):
            for side in (left, right):
                yield from _of_steps(query, side.input.steps, _schema(app, side.input))
        case StateInput() as state:
            what = "partial matches of the " + ("sequence" if state.sequence else "pattern")
            shape = (state.root, state.within)
            yield Stateful(
                state.id, query.name, what, shape, has_absent(state.root), kind="pattern", schemas=state.schemas
            )
    yield from _of_selection(query)
    if query.rate is not None:
        rate = query.rate
        kept = (rate.kind, rate.every, rate.events, query.selection)
        what = "what waits for the next output"
        yield Stateful(
            rate.id, query.name, what, kept, rate.every is not None, kind="rate", schemas=(query.selection.schema,)
        )


def _schema(app: App, source: SingleInput) -> Schema:
    """What enters the first step."""
    if source.source in app.streams:
        return app.streams[source.source].schema
    return app.windows[source.source].schema if source.source in app.windows else source.schema


def _of_steps(query: Query, steps: tuple[Step, ...], schema: Schema) -> Iterator[Stateful]:
    for step in steps:
        if isinstance(step, WindowStep):
            yield _of_window(step.call, query.name, schema)
        elif isinstance(step, FunctionStep):
            if step.name not in STATELESS_FUNCTIONS:
                what, shape = f"what #{step.name} keeps", (step.name, step.args, schema)
                yield Stateful(step.id, query.name, what, shape, True, kind="function", schemas=(schema,))
            schema = Schema((*schema.columns, *step.adds))


def _of_window(call: WindowCall, owner: str, schema: Schema) -> Stateful:
    what, shape = f"the events of the window {called(call)}", (call.name, call.args, schema)
    return Stateful(
        call.id, owner, what, shape, call.traits.timed, kind="window", schemas=(schema,), traits=call.traits
    )


def _of_selection(query: Query) -> Iterator[Stateful]:
    selection = query.selection
    if selection.aggregates:
        names = ", ".join(dict.fromkeys(f"{a.function}()" for a in selection.aggregates))
        per = " per group" if selection.group_by else ""
        shape = (selection.aggregates, selection.group_by)
        yield Stateful(query.selector_id, query.name, f"{names}{per}", shape, kind="selector")


def called(call: WindowCall) -> str:
    """A window as it is written."""
    return shown(call.name, call.args)


def shown(name: str, args: tuple[Expr, ...]) -> str:
    """A window of this name and these arguments as it is written, constants only.

    >>> from nadi.lang.tree import Type
    >>> shown("time", (Const(1000, Type.LONG),))
    'time(1000)'
    """
    return f"{name}({', '.join(str(a.value) if isinstance(a, Const) else _name(a) for a in args)})"


def _name(arg: object) -> str:
    if isinstance(arg, Call):
        return f"{arg.function}(…)"
    return getattr(arg, "name", "") or "…"


def has_absent(element: StateElement) -> bool:
    """Whether an element waits for a time without events."""
    match element:
        case AbsentElement(waiting=waiting):
            return waiting is not None
        case StreamElement():
            return False
        case CountElement(element=inner) | EveryElement(element=inner):
            return has_absent(inner)
        case LogicalElement(left=left, right=right):
            return has_absent(left) or has_absent(right)
        case NextElement(elements=elements):
            return any(has_absent(e) for e in elements)
