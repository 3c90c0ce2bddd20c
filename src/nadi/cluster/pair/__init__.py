"""Decides which of two nodes is active, whose copy is complete, and when a record counts as written.

It is written against a clock, the coordination database, a link to the partner, and the duties of a node.

Start with `node.PairNode`.
"""

from nadi.cluster.pair.memory import DiskMemory, Memory
from nadi.cluster.pair.node import PairNode
from nadi.cluster.pair.settings import PairSettings
from nadi.cluster.pair.status import Loss, PairStatus, Role

__all__ = ["DiskMemory", "Loss", "Memory", "PairNode", "PairSettings", "PairStatus", "Role"]
