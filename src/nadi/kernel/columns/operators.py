"""Which operator runs a query: the one place that knows them all."""

from __future__ import annotations

from nadi.kernel.columns.contract import Input, Operator
from nadi.kernel.columns.filtering import Filtering
from nadi.kernel.columns.patterns import ChainPattern, Sequence
from nadi.kernel.columns.sliding import Sliding
from nadi.plan.nodes import App, FilterStep, Query, SingleInput, StateInput


def operator(query: Query, app: App, is_read: bool) -> Operator:
    """The operator of a query that `nadi.plan.islands` lets through; `is_read`: another query reads what it puts out."""
    source = query.input
    if isinstance(source, StateInput):
        return Sequence(query, app) if source.sequence else ChainPattern(query, app)
    assert isinstance(source, SingleInput)  # as islands says
    types = app.streams[source.source].schema.types
    given = Input(types, tuple(s.condition for s in source.steps if isinstance(s, FilterStep)), is_read)
    if query.selection.aggregates:
        return Sliding(query, given)
    return Filtering(query, given)
