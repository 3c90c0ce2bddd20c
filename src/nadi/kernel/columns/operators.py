"""Which operator runs a query: the one place that knows them all."""

from __future__ import annotations

from nadi.kernel.columns.batching import Batching
from nadi.kernel.columns.contract import Input, Operator
from nadi.kernel.columns.filtering import Filtering
from nadi.kernel.columns.finishing import Finishing
from nadi.kernel.columns.joins import Join
from nadi.kernel.columns.patterns import AbsentEnd, ChainPattern, Sequence, Summed
from nadi.kernel.columns.sliding import Sliding
from nadi.kernel.columns.waiting import Waiting
from nadi.plan.elements import has_absent
from nadi.plan.islandwindows import BATCHES
from nadi.plan.nodes import (
    App,
    Attr,
    FilterStep,
    JoinInput,
    Partition,
    Query,
    SingleInput,
    StateInput,
    ValueKey,
    WindowStep,
)
from nadi.plan.summing import sums


def operator(query: Query, app: App, is_read: bool) -> Operator:
    """The operator of a query that `nadi.plan.islands` lets through; `is_read`: another query reads what it puts out."""
    selection = query.selection
    if query.rate is None and not selection.order_by and selection.limit is None and not selection.offset:
        return _operator(query, app, is_read)
    return Finishing(query, _operator(query, app, is_read=True))  # the clocks of its rows count


def _operator(query: Query, app: App, is_read: bool) -> Operator:
    source = query.input
    if sums(query):
        return Summed(query, app, is_read)
    if isinstance(source, StateInput):
        if has_absent(source.root):
            return AbsentEnd(query, app)
        return Sequence(query, app) if source.sequence else ChainPattern(query, app)
    if isinstance(source, JoinInput):
        return Join(query, app, is_read)
    assert isinstance(source, SingleInput)  # as islands says
    types = app.streams[source.source].schema.types
    at = next((n for n, step in enumerate(source.steps) if isinstance(step, WindowStep)), len(source.steps))
    filters, behind = (
        tuple(s.condition for s in steps if isinstance(s, FilterStep))
        for steps in (source.steps[:at], source.steps[at:])
    )
    given = Input(types, filters, is_read, _key(query, source.source, app), app.sharding.kind == "key", behind)
    if source.window is not None and source.window.name in BATCHES:
        each = not query.selection.aggregates and not query.selection.group_by
        return Waiting(query, given) if each and given.key is None else Batching(query, given)
    if query.selection.aggregates:
        return Sliding(query, given)
    return Filtering(query, given)


def _key(query: Query, source: str, app: App) -> int | None:
    """The attribute by which the partition of a query splits what it reads."""
    for element in app.elements:
        if isinstance(element, Partition) and query in element.queries:
            value = next(k.value for k in element.keys if isinstance(k, ValueKey) and k.stream == source)
            assert isinstance(value, Attr)  # as islands says
            return value.position
    return None
