"""A database behind the interface of stores: the whole of a query's condition and changes reaches it as SQL, and the results are those of a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlitestore import SqliteStore

from nadi.functions import StoreKind, StoreTable, default_registry
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.runtime import Runtime

TEXT = """define stream Adds (k string, v int); define stream Drops (k string, v int); define stream Sets (k string, v int);
define stream Puts (k string, v int); define stream Asks (k string, v int); define stream Has (k string, v int);
@store(type='tried'{cache}) {key} define table T (k string, v int);
from Adds insert into T;
from Drops delete T on T.k == k and T.v >= v;
from Sets select k, v update T set T.v = T.v + v * 2 on not (T.k != k) or T.v is null;
from Puts select k, v update or insert into T set T.v = v on T.k == k;
from Asks as a join T as t on t.v > a.v + 1 or t.k == a.k select t.k as k, t.v as v insert into Found;
from Has[(T.k != k and T.v < v * 3) in T] select k, v insert into Held;
"""


class Rig:
    """The app on one kind of store; what came out of it, and what is in the table."""

    def __init__(self, make: Callable[[StoreTable], Any], key: bool, cache: str) -> None:
        registry = default_registry()
        self.stores: list[Any] = []

        def keep(table: StoreTable) -> Any:
            self.stores.append(make(table))
            return self.stores[-1]

        registry.add(StoreKind("tried", keep))
        text = TEXT.format(cache=cache, key="@primaryKey('k')" if key else "")
        self.runtime = Runtime(text, registry=registry)
        self.out: list[Any] = []
        for stream in ("Found", "Held"):
            # the order in which a store gives rows is its own
            self.runtime.on_stream(stream, lambda chunk: self.out.append(sorted(map(repr, (e.row for e in chunk)))))
        self.runtime.start()

    def seen(self) -> Any:
        rows = sorted(repr(e.row) for e in self.runtime.query("from T select k, v") or [])
        return rows, self.out, [(f.stream, f.row, f.condition) for f in self.runtime.failures]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["Adds", "Drops", "Sets", "Puts", "Asks", "Has"]),
        st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(-2, 9)), min_size=1, max_size=3),
    ),
    max_size=15,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.booleans(), st.sampled_from(["", ", @cache(size='2', cache.policy='LRU')", ", @cache(size='50')"]))
def test_a_database_gives_what_a_store_in_memory_gives(
    steps: list[tuple[str, list[tuple[str, int | None]]]], key: bool, cache: str
) -> None:
    memory, database = Rig(MemoryStore, key, ""), Rig(SqliteStore, key, cache)
    for stream, rows in steps:
        for rig in (memory, database):
            rig.runtime.send(stream, [(None, row) for row in rows])
        assert database.seen() == memory.seen()


@pytest.mark.parametrize(
    ("stream", "statement"),
    [
        ("Asks", 'select * from t where (coalesce("v" > ?1, false) or coalesce("k" = ?2, false)) order by rowid'),
        ("Drops", 'delete from t where (coalesce("k" = ?1, false) and coalesce("v" >= ?2, false))'),
        ("Has", 'select exists (select 1 from t where (not coalesce("k" = ?1, false) and coalesce("v" < ?2, false)))'),
    ],
)
def test_a_condition_is_one_prepared_statement(stream: str, statement: str) -> None:
    rig = Rig(SqliteStore, False, "")
    rig.runtime.send(stream, [("a", 1)])
    (store,) = rig.stores
    assert [text.replace("==", "=") for text in store.log] == [statement]
