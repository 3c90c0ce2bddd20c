"""The two types of store that cases name: Java classes of the reference engine's tests.

One is a table in memory that outlives its kernel. The other keeps nothing: whatever is found in its tables is found in their caches.
"""

from __future__ import annotations

from collections.abc import Sequence

from nadi.functions import Registry, StoreKind, StoreTable, default_registry
from nadi.functions.stores import Refused
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.memorystore import Compiled, MemoryStore

KEEPING, DUMMY = "teststorecontaininginmemorytable", "teststoredummyforcache"


class Dummy(MemoryStore):
    """Takes everything and keeps nothing."""

    def add(self, rows: Sequence[Row]) -> Refused:
        return ()

    def update_or_add(self, compiled: Compiled, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        return ()


def registry(caches_last: bool = True) -> Registry:
    """A registry with both types. Tables that are kept are there again for the next kernel of an app; where caches do not last as long as the app, as they are
    no state, those of the other type are kept, too."""
    databases: dict[tuple[str, str], MemoryStore] = {}

    def keep(table: StoreTable) -> MemoryStore:
        return databases.setdefault((table.app, table.name), MemoryStore(table))

    made = default_registry()
    made.add(StoreKind(KEEPING, keep), StoreKind(DUMMY, Dummy if caches_last else keep))
    return made
