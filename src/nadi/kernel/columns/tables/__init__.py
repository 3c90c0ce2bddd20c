"""Tables in memory: who writes them, who looks into them (language text §12)."""

from nadi.kernel.columns.tables.held import HeldTable
from nadi.kernel.columns.tables.looking import Looking, LookingOn
from nadi.kernel.columns.tables.writing import Written, target_of, written

__all__ = ["HeldTable", "Looking", "LookingOn", "Written", "target_of", "written"]
