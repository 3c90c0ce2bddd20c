"""Patterns and sequences over whole batches (semantics/patterns.md).

Start with `choice.pattern`; `chain` is the simplest operator.
"""

from nadi.kernel.columns.patterns.choice import pattern
from nadi.kernel.columns.patterns.summed import Summed

__all__ = ["Summed", "pattern"]
