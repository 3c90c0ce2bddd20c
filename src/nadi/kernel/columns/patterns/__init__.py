"""Patterns and sequences over whole batches (language text §9, §10)."""

from nadi.kernel.columns.patterns.choice import pattern
from nadi.kernel.columns.patterns.summed import Summed

__all__ = ["Summed", "pattern"]
