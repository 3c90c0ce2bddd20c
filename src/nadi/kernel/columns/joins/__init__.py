"""Joins of two streams over whole batches (semantics/joins.md).

Start with `join.Join`; `text.JoinText` writes its loop.
"""

from nadi.kernel.columns.joins.batched import BatchedJoin
from nadi.kernel.columns.joins.join import Join
from nadi.plan.nodes import App, JoinInput, Query
from nadi.plan.windowtraits import STAGED_IN_JOINS

__all__ = ["BatchedJoin", "Join", "join"]


def join(query: Query, app: App) -> Join | BatchedJoin:
    """The operator of a join that `nadi.plan.columns.joinsupport` lets through."""
    assert isinstance(query.input, JoinInput)  # the caller has looked
    windows = (query.input.left.input.window, query.input.right.input.window)
    waits = any(window is not None and window.has(STAGED_IN_JOINS) for window in windows)
    return BatchedJoin(query, app) if waits else Join(query, app)
