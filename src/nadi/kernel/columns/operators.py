"""Which operator runs a query: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nadi.kernel.columns.around import Around, AroundState
from nadi.kernel.columns.asking import Asking
from nadi.kernel.columns.batching import Batching
from nadi.kernel.columns.batchsnapshots import SnapshotOfBatch
from nadi.kernel.columns.collecting import Collecting
from nadi.kernel.columns.contract import Input, Operator, Stateful
from nadi.kernel.columns.delaying import Delaying
from nadi.kernel.columns.expiring import Expiring
from nadi.kernel.columns.filtering import Filtering
from nadi.kernel.columns.finishing import Finishing
from nadi.kernel.columns.gathering import Gathering
from nadi.kernel.columns.joins import join
from nadi.kernel.columns.keyedcollecting import KeyedCollecting
from nadi.kernel.columns.keying import key_of, with_key
from nadi.kernel.columns.patterns import Summed, pattern
from nadi.kernel.columns.retracting import Retracting
from nadi.kernel.columns.sliding import Sliding
from nadi.kernel.columns.staging import Stage, Staged
from nadi.kernel.columns.tables import HeldTable, Looking, LookingOn
from nadi.kernel.columns.tables.writing import turns_of
from nadi.kernel.columns.waiting import Waiting
from nadi.kernel.columns.windowsnapshots import SnapshotOfWindow
from nadi.lang.tree import Type
from nadi.plan.columns import tablesupport
from nadi.plan.columns.countedsets import with_counts
from nadi.plan.columns.matchsums import sums
from nadi.plan.columns.outsideloops import ahead
from nadi.plan.columns.setclause import with_set
from nadi.plan.columns.windowsupport import gathers, shows_expired, shows_window
from nadi.plan.nodes import (
    App,
    Attr,
    Column,
    Expr,
    FilterStep,
    JoinInput,
    Query,
    Schema,
    SingleInput,
    StateInput,
    Step,
    WindowCall,
    WindowStep,
)
from nadi.plan.owners import keys_of
from nadi.plan.windowtraits import BATCHES, DELAYS, OF_BATCH, PASSING, UNIQUE_BATCHES

_NO_TABLES: Mapping[str, HeldTable] = {}


def operator(query: Query, app: App, tables: Mapping[str, HeldTable] = _NO_TABLES) -> Operator:
    """The operator of a query that `nadi.plan.columns.islands` lets through; `tables` are those on columns."""
    query = with_counts(with_set(query))
    seen = tablesupport.seen(query, app)
    if seen is None:
        return _whole(query, app)
    inner = _whole(seen.query, seen.app, alone=False)
    if isinstance(inner, Stateful):
        return LookingOn(seen, tables, inner, turns_of(query, app))
    return Looking(seen, tables, inner, turns_of(query, app))


def _whole(query: Query, app: App, alone: bool = True) -> Operator:
    """The operator of a query that looks into no table."""
    selection, keys = query.selection, _limited_by(query, app)
    plain = query.rate is None and not selection.order_by and selection.limit is None and not selection.offset
    if plain or shows_window(query):
        return _around(query, app, alone)
    rows = _around(_with_columns(query, keys), app, alone)
    home = _home(query, app)
    position = None if home is None else home.position
    return Finishing(query, rows, tuple(key.type for key in keys), app.sharding.kind == "key", position)


def _around(query: Query, app: App, alone: bool) -> Operator:
    """An operator, and what its query computes outside of loops."""
    made = ahead(query, app, alone)
    inner = _operator(with_key(made.query, made.app), made.app)
    if made.asks:
        return Asking(made, query, app, inner)
    if not made.before and made.behind is None:
        return inner
    return AroundState(made, app, inner) if isinstance(inner, Stateful) else Around(made, app, inner)


def _with_columns(query: Query, keys: tuple[Expr, ...]) -> Query:
    """A query with further output columns."""
    if not keys:
        return query
    columns = tuple(Column(f"key {n}", key.type) for n, key in enumerate(keys))
    schema = Schema((*query.selection.schema.columns, *columns))
    return replace(query, selection=replace(query.selection, values=(*query.selection.values, *keys), schema=schema))


def _limited_by(query: Query, app: App) -> tuple[Expr, ...]:
    """The values that the output rate of a query looks at beside its rows: the key of its partition, and those of `group by`."""
    if query.rate is None:
        return ()
    home = _home(query, app)
    by = () if query.rate.kind == "all" else query.selection.group_by
    return by if home is None else (home, *by)


def _home(query: Query, app: App) -> Attr | None:
    """The key of its partition, where a query reads one stream."""
    return key_of(query, query.input.source, app) if isinstance(query.input, SingleInput) else None


def _operator(query: Query, app: App) -> Operator:
    source = query.input
    if sums(query):
        return Summed(query, app)
    if isinstance(source, StateInput):
        return pattern(query, app)
    if isinstance(source, JoinInput):
        return join(query, app)
    assert isinstance(source, SingleInput)  # as islands says
    types, key = app.streams[source.source].schema.types, key_of(query, source.source, app)
    if key is not None and key.position == len(types):  # made for the partition
        types = (*types, key.type)
    at = next((n for n, step in enumerate(source.steps) if isinstance(step, WindowStep)), len(source.steps))
    filters, behind = (
        tuple(s.condition for s in steps if isinstance(s, FilterStep))
        for steps in (source.steps[:at], source.steps[at:])
    )
    position = None if key is None else key.position
    sharded, purged = app.sharding.kind == "key", bool(keys_of(query, app))
    given = Input(types, filters, position, sharded, behind, purged)
    if source.window is not None and shows_expired(query):
        return Staged(source.source, Expiring(query, given), _expired(query, source, given))
    if source.window is not None and source.window.has(DELAYS):
        later = replace(query, input=replace(source, steps=tuple(map(FilterStep, behind))))
        inner = _single(later, replace(given, filters=behind, behind=()))
        return Staged(source.source, Delaying(query, given), inner)
    if source.window is not None and (source.window.has(UNIQUE_BATCHES) or gathers(query)):
        steps: tuple[Step, ...] = tuple(map(FilterStep, behind))
        if query.selection.aggregates or query.selection.group_by:
            steps = (WindowStep(WindowCall(source.window.id, "batch", (), OF_BATCH)), *steps)
            after = replace(given, filters=())
        else:
            after = replace(given, filters=behind, behind=())
        inner = _single(replace(query, input=replace(source, steps=steps)), after)
        return Staged(source.source, _stage(query, given), inner)
    return _single(query, given)


def _expired(query: Query, source: SingleInput, given: Input) -> Operator:
    """The operator of what comes into a window and what leaves it."""
    later = replace(query, input=replace(source, steps=tuple(map(FilterStep, given.behind))))
    if not query.selection.aggregates:
        return _single(later, replace(given, filters=given.behind, behind=()))
    return Retracting(later, replace(given, types=(*given.types, Type.BOOL), filters=given.behind, behind=()))


def _stage(query: Query, given: Input) -> Stage:
    """Where the events of a batch window wait."""
    if gathers(query):
        return Gathering(query, given)
    return Collecting(query, given) if given.key is None else KeyedCollecting(query, given)


def _single(query: Query, given: Input) -> Operator:
    """The operator of a query that reads one stream, whose window lets events go on as they come or in batches."""
    source = query.input
    assert isinstance(source, SingleInput)
    if shows_window(query):
        batches = source.window is not None and source.window.has(BATCHES)
        return SnapshotOfBatch(query, given) if batches else SnapshotOfWindow(query, given)
    if source.window is not None and source.window.has(BATCHES):
        each = not query.selection.aggregates and not query.selection.group_by
        if not each:
            return Batching(query, given)
        if given.key is None or source.window.args:
            return Waiting(query, given)
    if query.selection.aggregates or (source.window is not None and source.window.has(PASSING)):
        return Sliding(query, given)
    passing = replace(given, filters=(*given.filters, *given.behind), behind=())  # nobody sees what leaves its window
    if query.selection.group_by:
        steps = tuple(step for step in source.steps if not isinstance(step, WindowStep))
        return Sliding(replace(query, input=replace(source, steps=steps)), passing)
    return Filtering(query, passing)
