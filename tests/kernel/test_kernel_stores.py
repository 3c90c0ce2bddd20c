"""Tables in a store: every operation goes through the interface, with conditions over values and the table's row."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import Registry, StoreKind, StoreTable, default_registry
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.kernel.rows.stores import wrong_store_options
from nadi.plan import plan_app
from nadi.plan.options import Option
from nadi.runtime import Runtime

PRICES = "define stream S (k string, v int); define stream D (k string, v int); define stream U (k string, v int);"
ROWS = [("a", 1), ("b", 2), ("c", 3)]


class Spied(MemoryStore):
    """A store that notes what is asked of it."""

    def __init__(self, table: StoreTable) -> None:
        super().__init__(table)
        self.calls: list[str] = []
        self.table = table

    def connect(self) -> None:
        self.calls.append("connect")

    def find(self, compiled: Any, values: tuple[Any, ...]) -> Any:
        self.calls.append(f"find {values}")
        return super().find(compiled, values)

    def contains(self, compiled: Any, values: tuple[Any, ...]) -> bool:
        self.calls.append(f"contains {values}")
        return super().contains(compiled, values)

    def add(self, rows: Any) -> Any:
        self.calls.append(f"add {list(rows)}")
        return super().add(rows)


class Rig:
    """An app whose table T is in a spied store, beside the same app with T in memory."""

    def __init__(self, text: str, key: str = "", options: str = "") -> None:
        self.stores: list[Spied] = []
        table = f"{key} define table T (k string, v int);"
        self.stored = self._started(
            f"{PRICES} @store(type='Spied', {options or 'a=' + chr(39) + '1' + chr(39)}) {table} {text}"
        )
        self.plain = self._started(f"{PRICES} {table} {text}")

    def _started(self, text: str) -> Runtime:
        runtime = Runtime(text, registry=self._registry())
        if "Out" in runtime.app.streams:
            runtime.rows = []  # type: ignore[attr-defined]
            runtime.on_stream("Out", lambda chunk: runtime.rows.extend(e.row for e in chunk))  # type: ignore[attr-defined]
        runtime.start()
        return runtime

    def _registry(self) -> Registry:
        registry = default_registry()

        def make(table: StoreTable) -> Spied:
            self.stores.append(Spied(table))
            return self.stores[-1]

        registry.add(StoreKind("spied", make))
        return registry

    def send(self, stream: str, *rows: tuple[Any, ...]) -> None:
        for runtime in (self.stored, self.plain):
            runtime.send(stream, list(rows))

    def both(self, query: str = "from T select k, v") -> list[tuple[Any, ...]]:
        """The rows found in the store, which are those found in memory."""
        stored, plain = ([e.row for e in r.query(query) or []] for r in (self.stored, self.plain))
        assert stored == plain
        return stored


@pytest.mark.parametrize("key", ["", "@primaryKey('k')"])
@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("delete T on T.k == k", [("a", 1), ("c", 3)]),
        ("delete T on T.v > v", [("a", 1), ("b", 2)]),
        ("delete T on T.v + 1 > v * 2 and T.k != 'c'", [("a", 1), ("b", 2), ("c", 3)]),
        ("update T set T.v = v * 10 on T.k == k", [("a", 1), ("b", 20), ("c", 3)]),
        ("update or insert into T set T.v = v on T.k == k", [("a", 1), ("b", 2), ("c", 3)]),
        ("insert into T", [("a", 1), ("b", 2), ("c", 3), ("b", 2)]),
    ],
)
def test_what_queries_do_to_a_table_in_a_store_is_what_they_do_to_one_in_memory(
    key: str, change: str, left: list[tuple[Any, ...]]
) -> None:
    rig = Rig(f"from S insert into T; from D select k, v {change};", key)
    rig.send("S", *ROWS)
    rig.send("D", ("b", 2))
    if key and change.startswith("insert"):
        left = left[:3]
        assert [f.condition for f in rig.stored.failures] == ["PRIMARY_KEY_TAKEN"]
        assert [(f.stream, f.row) for f in rig.stored.failures] == [(f.stream, f.row) for f in rig.plain.failures]
    assert sorted(rig.both()) == sorted(left)


def test_a_set_sees_the_row_of_a_store_also_where_there_is_a_primary_key() -> None:
    """In memory Siddhi evaluates it without the row; a database does not."""
    rig = Rig("from S insert into T; from U select k, v update T set T.v = T.v + v on T.k == k;", "@primaryKey('k')")
    rig.send("S", *ROWS)
    rig.send("U", ("b", 40))
    assert [e.row for e in rig.stored.query("from T on k == 'b'") or []] == [("b", 42)]
    assert [e.row for e in rig.plain.query("from T on k == 'b'") or []] == [("b", None)]


def test_misses_of_one_chunk_meet_each_other() -> None:
    rig = Rig("from U select k, v update or insert into T set T.v = v on T.k == k;")
    rig.send("U", ("x", 1), ("y", 2), ("x", 3))
    assert rig.both() == [("x", 3), ("y", 2)]


@pytest.mark.parametrize("on", ["T.k == D.k", "T.v > D.v", "D.v < T.v and T.k != 'c'", "T.v * 2 == D.v * 4"])
def test_a_join_asks_the_store_with_the_whole_condition(on: str) -> None:
    rig = Rig(f"from S insert into T; from D join T on {on} select D.k as k, T.k as t, T.v as v insert into Out;")
    rig.send("S", *ROWS)
    rig.send("D", ("b", 1))
    assert rig.stored.rows == rig.plain.rows != []  # type: ignore[attr-defined]
    assert [c for c in rig.stores[0].calls if c.startswith("find")] in (["find ('b',)"], ["find (1,)"], ["find (4,)"])


def test_in_asks_the_store_whether_there_is_a_row() -> None:
    rig = Rig("from S insert into T; from D[T.k == k in T and v > 0] select k, v insert into Out;")
    rig.send("S", *ROWS)
    rig.send("D", ("b", 1), ("z", 1))
    assert rig.stored.rows == rig.plain.rows == [("b", 1)]  # type: ignore[attr-defined]
    assert [c for c in rig.stores[0].calls if "contains" in c] == ["contains ('b',)", "contains ('z',)"]


def test_a_chunk_is_written_with_one_call_and_a_store_is_connected_once_before() -> None:
    rig = Rig("from S insert into T;")
    rig.send("S", *ROWS)
    assert rig.stores[0].calls == ["connect", f"add {ROWS}"]
    assert rig.stores[0].table.options == {"a": "1"}


def test_after_a_restart_the_store_is_connected_when_it_is_first_used() -> None:
    rig = Rig("from S insert into T;")
    rig.send("S", *ROWS)
    saved = list(rig.stored.kernel.dump())
    assert not any(segment.element.startswith("T/") for segment in saved)
    rig.stored.move(saved)
    rig.stored.send("S", [("d", 4)])
    assert rig.stores[1].calls == ["connect", "add [('d', 4)]"]


def test_what_a_store_raises_fails_the_event_and_nothing_else() -> None:
    class Broken(MemoryStore):
        def find(self, compiled: Any, values: tuple[Any, ...]) -> Any:
            raise OSError("the database is away")

    registry = default_registry()
    registry.add(StoreKind("broken", Broken))
    text = (
        PRICES
        + "@store(type='broken') define table T (k string, v int); from D join T on T.k == D.k select T.k insert into Out;"
    )
    runtime = Runtime(text, registry=registry)
    runtime.start()
    runtime.send("D", [("a", 1)])
    assert [(f.stream, f.condition) for f in runtime.failures] == [("D", "QUERY_FAILED")]


def test_a_store_that_says_its_options_is_made_with_no_other() -> None:
    made: list[StoreTable] = []

    def make(table: StoreTable) -> MemoryStore:
        made.append(table)
        return MemoryStore(table)

    registry = default_registry()
    registry.add(StoreKind("told", make, options=(Option("jdbc.url", required=True), Option("pool", kind="int"))))
    start, table = "define stream D (k string); ", "define table T (k string); from D insert into T;"
    for given, wanted in (
        ("jdbc.url='u', pool='5'", []),
        ("pool='5'", [("OPTION_MISSING", "@store(type='told', pool='5')")]),
        ("jdbc.url='u', pol='5'", [("OPTION_UNKNOWN", "pol='5'")]),
        ("jdbc.url='u', pool='x', size='1'", [("OPTION_INVALID", "pool='x'"), ("OPTION_UNKNOWN", "size='1'")]),
    ):
        text = f"{start}@store(type='told', {given}) {table}"
        app = plan_app(text, registry)
        found = [(e.condition, e.diagnostic.span) for e in wrong_store_options(app.tables["T"], registry)]
        assert [(condition, text[at.start : at.end]) for condition, at in found] == wanted
        if not wanted:
            Runtime(text, registry=registry)
            continue
        with pytest.raises(NadiError) as caught:
            Runtime(text, registry=registry)
        assert caught.value.condition == wanted[0][0]
    assert [dict(table.options) for table in made] == [{"jdbc.url": "u", "pool": "5"}]


def test_a_kernel_without_the_type_of_store_says_so() -> None:
    rig = Rig("from S insert into T;")
    with pytest.raises(NadiError) as caught:
        type(rig.stored.kernel)(rig.stored.app, default_registry())
    assert caught.value.condition == "EXTENSION_NOT_FOUND"
