"""Patterns and sequences over whole batches (language text §9, §10)."""

from nadi.kernel.columns.patterns.absentend import AbsentEnd
from nadi.kernel.columns.patterns.chain import ChainPattern
from nadi.kernel.columns.patterns.run import Sequence
from nadi.kernel.columns.patterns.summed import Summed

__all__ = ["AbsentEnd", "ChainPattern", "Sequence", "Summed"]
