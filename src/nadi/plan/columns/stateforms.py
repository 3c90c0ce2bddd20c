"""What shapes the state of a query on columns: two versions of it with the same form can go on with each other's state as it is.

Attributes count by name, so that others may come to a stream. A form is None where nothing is known of a shape: only the very same query goes on with its
state.
"""

from __future__ import annotations

from nadi.plan.aggregatortraits import FORMED
from nadi.plan.columns.windowsupport import gathers, shows_expired
from nadi.plan.nodes import (
    App,
    Attr,
    FilterStep,
    FunctionStep,
    InsertIntoStream,
    JoinInput,
    Query,
    SingleInput,
    WindowStep,
)
from nadi.plan.querymatches import by_name
from nadi.plan.walk import inside
from nadi.plan.windowtraits import BATCHES, SLIDING, STAGED_IN_JOINS, UNIQUE_BATCHES

Form = tuple[object, ...]

RATES = frozenset({"all", "first", "last"})
"""The kinds of rates whose state is known here, whatever else has an operator."""


def form(query: Query, app: App) -> Form | None:
    """That of the query and of its output rate."""
    if shows_expired(query):
        return None
    match query.input:
        case SingleInput() as source:
            found = _of_single(query, source, app)
        case JoinInput() as join:
            found = _of_join(query, join)
        case _:  # what matches keep `nadi.plan.columns.keptattributes` knows
            found = None
    return found if found is None or query.rate is None else of_rate(query, found)


def of_rate(query: Query, found: Form) -> Form | None:
    """The form of a query with an output rate, behind that of its rows."""
    rate = query.rate
    assert rate is not None  # the caller has looked
    each = query.partition is not None or (rate.kind != "all" and query.selection.group_by)
    if rate.kind not in RATES or each:
        return None
    return "rate", rate.kind, rate.every, rate.events, query.selection.schema, *found


def _of_single(query: Query, source: SingleInput, app: App) -> Form | None:
    """Of a query that reads one stream."""
    window, selection = source.window, query.selection
    if any(isinstance(step, FunctionStep) for step in source.steps):
        return None
    if any(not a.has(FORMED) for a in selection.aggregates):
        return None
    if window is not None and window.has(BATCHES):
        return _of_batches(query, source, app)
    if window is not None and not window.has(SLIDING):
        return None
    if not selection.aggregates:
        return None if selection.group_by else ("nothing",)
    clock = by_name(window.args[0], None) if window is not None and window.name == "externalTime" else ""
    name = window.name if window is not None else ""
    return "window", name, clock, _given(query), _by(query), behind(source)


def _of_batches(query: Query, source: SingleInput, app: App) -> Form | None:
    """Rows of a batch are kept as they will come out."""
    window, selection = source.window, query.selection
    assert window is not None  # the caller has looked
    if gathers(query) or (query.partition is not None and not selection.aggregates):
        return None
    shown = by_name((selection.values, selection.having), None), selection.schema.types
    target = query.output.target if isinstance(query.output, InsertIntoStream) else ""
    inner = target in app.streams and app.streams[target].partition is not None  # what it puts out has the key
    where = app.sharding.kind == "key", inner
    return "batch", window.name, len(window.args), _given(query), _by(query), behind(source), shown, where


def _of_join(query: Query, join: JoinInput) -> Form | None:
    """Of an event are kept the attributes that `on`, the selection and aggregators look at, in the order of its stream."""
    sides = (join.left, join.right)
    windows = [side.input.window for side in sides]
    staged = [window for window in windows if window is not None and window.has(STAGED_IN_JOINS)]
    kept_by_place = query.partition is not None or any(window.has(UNIQUE_BATCHES) for window in staged)
    if (staged and kept_by_place) or any(side.kind != "stream" for side in sides):
        return None
    selection = query.selection
    computed = [a for a in selection.aggregates if not a.has(FORMED)]
    if computed or any(isinstance(step, FunctionStep) for side in sides for step in side.input.steps):
        return None
    looked = (join.on, selection.values, selection.having, selection.aggregates, selection.group_by)
    kept = []
    for slot, side in enumerate(sides):
        window = side.input.window
        attributes = {p.position: (p.name, p.type) for p in inside(looked) if isinstance(p, Attr) and p.slot == slot}
        in_order = tuple(attributes[position] for position in sorted(attributes))
        called = () if window is None else (window.name, by_name(window.args, None))
        kept.append((called, side.triggers, side.outer, in_order))
    return "join", tuple(kept), by_name(join.on, None), _given(query), _by(query)


def _given(query: Query) -> tuple[object, ...]:
    """The aggregators, with their arguments."""
    return tuple(
        (a.function, tuple(by_name(arg, None) for arg in a.args), tuple(arg.type for arg in a.args))
        for a in query.selection.aggregates
    )


def _by(query: Query) -> tuple[object, ...]:
    """What groups."""
    return tuple((by_name(key, None), key.type) for key in query.selection.group_by)


def behind(source: SingleInput) -> tuple[str, ...]:
    """The filters behind the window."""
    at = next((n for n, step in enumerate(source.steps) if isinstance(step, WindowStep)), len(source.steps))
    return tuple(by_name(step.condition, None) for step in source.steps[at:] if isinstance(step, FilterStep))
