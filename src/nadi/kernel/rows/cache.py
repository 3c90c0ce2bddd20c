"""`@cache`: rows of a store, kept at hand (semantics/tables.md#cache).

As long as the cache holds the whole table, everything is found in it. From then on only what fixes the primary key is: a row that is not here is asked of
the store, and kept. Writes go to the store and to the rows that are here. What others write into the store is not seen in the meantime; that is what
`retention.period` bounds. A cache is no state: after a restart it is filled anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from nadi.functions.stores import Changes, Refused, Store, StoreTable
from nadi.kernel.rows.events import Row
from nadi.kernel.rows.memorystore import Compiled, MemoryStore
from nadi.plan.nodes import Cache, Expr

if TYPE_CHECKING:
    from nadi.functions.registry import Registry


@dataclass(slots=True)
class _Use:
    """Of one row: when it came (ms), the turn in which it was last used, how often it was."""

    came: int
    turn: int
    often: int = 0


_GOES_FIRST: dict[str, Callable[[_Use], int]] = {
    "FIFO": lambda use: 0,
    "LRU": lambda use: use.turn,
    "LFU": lambda use: use.often,
}
"""By policy: the row with the least value goes; of several, the one that came first."""


@dataclass(frozen=True, slots=True)
class _Both:
    """What a condition is for the store, and for the rows that are here. `keyed` is whether it fixes the primary key."""

    store: Any
    here: Compiled
    keyed: bool


class CachedStore:
    """A store with a cache in front: implements `nadi.functions.stores.Store`. `clock` gives the arrival clock, ms."""

    def __init__(
        self, store: Store, table: StoreTable, cache: Cache, clock: Callable[[], int], registry: Registry | None = None
    ) -> None:
        self._store = store
        self._table = table
        self._cache = cache
        self._clock = clock
        self._here = MemoryStore(table, registry)
        self._everything: _Both = self.compile(None)
        self._uses: dict[int, _Use] = {}
        self._first = _GOES_FIRST[cache.policy]
        self._turn = 0
        self._whole = False
        self._purged = 0  # the last time at which it was looked what is too old

    def connect(self) -> None:
        """Connects the store and reads as much of it as there is room for."""
        self._store.connect()
        self._purged = self._clock()
        self._fill()

    def compile(self, condition: Expr | None, changes: Changes = ()) -> _Both:
        here = self._here.compile(condition, changes)
        key = self._table.primary_key
        return _Both(self._store.compile(condition, changes), here, bool(key) and here.columns == key)

    # ---- reading

    def find(self, compiled: _Both, values: Row) -> Iterable[Row]:
        self._purge()
        if self._whole:
            return self._used(self._here.matching(compiled.here, values))
        if not compiled.keyed:
            return self._store.find(compiled.store, values)
        key = tuple(value(values, ()) for value in compiled.here.key)
        if self._here.held.candidates(compiled.here.columns, key):
            return self._used(self._here.matching(compiled.here, values))
        found = list(self._store.find(compiled.store, values))
        self._keep(found)
        return found

    def contains(self, compiled: _Both, values: Row) -> bool:
        self._purge()
        if self._whole or compiled.keyed:
            return bool(list(self.find(compiled, values)))
        return self._store.contains(compiled.store, values)

    def _used(self, found: list[tuple[int, Row]]) -> list[Row]:
        self._turn += 1
        for number, _row in found:
            use = self._uses[number]
            use.turn, use.often = self._turn, use.often + 1
        return [row for _number, row in found]

    # ---- writing: what is too old goes first, since rows that are read anew after the store has changed would be changed twice

    def add(self, rows: Sequence[Row]) -> Refused:
        self._purge()
        refused = self._store.add(rows)
        if self._read_anew():
            return refused
        bad = {n for n, _why in refused}
        self._keep([row for n, row in enumerate(rows) if n not in bad])
        return refused

    def delete(self, compiled: _Both, values: Sequence[Row]) -> None:
        self._purge()
        self._store.delete(compiled.store, values)
        if self._read_anew():
            return
        for given in values:
            for number, _row in self._here.matching(compiled.here, given):
                self._let_go(number)

    def update(self, compiled: _Both, values: Sequence[Row]) -> Refused:
        self._purge()
        refused = self._store.update(compiled.store, values)
        if self._read_anew():
            return refused
        bad = {n for n, _why in refused}
        self._here.update(compiled.here, [given for n, given in enumerate(values) if n not in bad])
        return refused

    def update_or_add(self, compiled: _Both, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        self._purge()
        refused = self._store.update_or_add(compiled.store, values, rows)
        if self._read_anew():
            return refused
        bad = {n for n, _why in refused}
        for n, (given, row) in enumerate(zip(values, rows, strict=True)):
            if n in bad:
                continue
            # a row that is not here may be in the store, with columns that the event does not set: only a whole cache knows that it is new
            if self._whole and not self._here.contains(compiled.here, given):
                self._keep([row])
            else:
                self._here.update(compiled.here, [given])
        return refused

    # ---- what is kept

    def _read_anew(self) -> bool:
        """Whether a store says that it had done its last write before: then it has what this batch is still to write, too, and all of it is read."""
        if not getattr(self._store, "written_before", False):
            return False
        for number in list(self._uses):
            self._let_go(number)
        self._fill()
        return True

    def _fill(self) -> None:
        """Everything, where there is room for it; else the first rows."""
        size = self._cache.size
        found = list(islice(self._store.find(self._everything.store, ()), size + 1))
        self._whole = len(found) <= size
        self._keep(found[:size])

    def _keep(self, rows: Iterable[Row]) -> None:
        now = self._clock()
        for row in rows:
            key = tuple(row[i] for i in self._table.primary_key)
            if key and self._here.held.candidates(self._table.primary_key, key):
                continue  # it is here already
            self._turn += 1
            self._uses[self._here.held.insert(row)] = _Use(now, self._turn)
            if len(self._uses) > self._cache.size:
                self._let_go(min(islice(self._uses, len(self._uses) - 1), key=lambda n: self._first(self._uses[n])))
                self._whole = False

    def _let_go(self, number: int) -> None:
        self._here.held.delete(number)
        del self._uses[number]

    def _purge(self) -> None:
        """At the last multiple of the interval that has passed, a whole cache is read anew, and of any other one goes what is older than the retention."""
        cache = self._cache
        if cache.retention is None or not cache.interval:
            return
        passed = (self._clock() - self._purged) // cache.interval
        if passed < 1:
            return
        self._purged += passed * cache.interval
        for number in [n for n, use in self._uses.items() if self._whole or self._purged - use.came > cache.retention]:
            self._let_go(number)
        if self._whole:
            self._fill()
