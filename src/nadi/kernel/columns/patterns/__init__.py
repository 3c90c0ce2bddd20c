"""Patterns and sequences over whole batches (language text §9, §10)."""

from nadi.kernel.columns.patterns.chain import ChainPattern
from nadi.kernel.columns.patterns.run import Sequence

__all__ = ["ChainPattern", "Sequence"]
