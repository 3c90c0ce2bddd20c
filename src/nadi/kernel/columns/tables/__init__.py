"""Tables in memory: who writes them, who looks into them (semantics/tables.md#tables).

Start with `held.HeldTable`.
"""

from nadi.kernel.columns.tables.held import HeldTable
from nadi.kernel.columns.tables.listed import ListedTable
from nadi.kernel.columns.tables.looking import Looking, LookingOn
from nadi.kernel.columns.tables.writing import target_of
from nadi.kernel.columns.tables.written import Written, written
from nadi.plan.columns.tablesupport import hashed_by
from nadi.plan.nodes import App, Table

__all__ = ["HeldTable", "Looking", "LookingOn", "Written", "held_table", "target_of", "written"]


def held_table(table: Table, app: App) -> HeldTable:
    """An empty table of an app."""
    return HeldTable(table) if table.primary_key else ListedTable(table, hashed_by(table, app))
