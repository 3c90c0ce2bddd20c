"""The two types of store that cases name: Java classes of the reference engine's tests, here a table in memory that outlives its kernel."""

from __future__ import annotations

from nadi.functions import Registry, StoreKind, StoreTable, default_registry
from nadi.kernel.rows.memorystore import MemoryStore

TYPES = ("teststorecontaininginmemorytable", "teststoredummyforcache")


def registry() -> Registry:
    """A registry with both types, whose tables are there again for the next kernel of an app."""
    databases: dict[tuple[str, str], MemoryStore] = {}

    def make(table: StoreTable) -> MemoryStore:
        return databases.setdefault((table.app, table.name), MemoryStore(table))

    made = default_registry()
    made.add(*(StoreKind(name, make) for name in TYPES))
    return made
