"""Joins of two streams over whole batches (language text §8)."""

from nadi.kernel.columns.joins.batched import BatchedJoin
from nadi.kernel.columns.joins.join import Join
from nadi.plan.islandwindows import STAGED_IN_JOINS
from nadi.plan.nodes import App, JoinInput, Query

__all__ = ["BatchedJoin", "Join", "join"]


def join(query: Query, app: App, is_read: bool) -> Join | BatchedJoin:
    """The operator of a join that `nadi.plan.joinable` lets through."""
    assert isinstance(query.input, JoinInput)  # the caller has looked
    windows = (query.input.left.input.window, query.input.right.input.window)
    waits = any(window is not None and window.name in STAGED_IN_JOINS for window in windows)
    return BatchedJoin(query, app, is_read) if waits else Join(query, app, is_read)
