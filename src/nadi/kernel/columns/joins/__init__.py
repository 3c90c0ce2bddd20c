"""Joins of two streams over whole batches (language text §8)."""

from nadi.kernel.columns.joins.join import Join

__all__ = ["Join"]
