"""@cache in front of a store: what is answered without asking the store, which rows go, and that answers are right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.functions import StoreTable
from nadi.kernel.rows.cache import CachedStore
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.lang.tree import Type
from nadi.plan.nodes import TABLE, Arithmetic, Attr, Cache, Column, Comparison, Schema

SCHEMA = Schema((Column("k", Type.STRING), Column("v", Type.INT)))
BY_KEY = Comparison("==", Attr(TABLE, 0, Type.STRING), Attr(0, 0, Type.STRING))
BY_VALUE = Comparison(">", Attr(TABLE, 1, Type.INT), Attr(0, 0, Type.INT))
SET_V = ((1, Attr(0, 1, Type.INT)),)


class Rig:
    """A cached store, the store behind it, a clock, and how often the store was asked."""

    def __init__(self, cache: Cache, rows: list[tuple[str, int]] | None = None, key: tuple[int, ...] = (0,)) -> None:
        table = StoreTable("app", "T", SCHEMA, key)
        self.asked = 0
        self.now = 1000
        rig = self

        class Counting(MemoryStore):
            def find(self, compiled: Any, values: tuple[Any, ...]) -> Any:
                rig.asked += 1
                return super().find(compiled, values)

        self.behind = Counting(table)
        self.behind.add(rows or [])
        self.cached = CachedStore(self.behind, table, cache, lambda: self.now)
        self.cached.connect()
        self.key = self.cached.compile(BY_KEY, SET_V)
        self.value = self.cached.compile(BY_VALUE)
        self.asked = 0

    def get(self, k: str) -> list[tuple[Any, ...]]:
        return list(self.cached.find(self.key, (k, 0)))

    def asks(self, k: str) -> bool:
        """Whether the store has to be asked for a row."""
        before = self.asked
        self.get(k)
        return self.asked > before


def test_a_table_that_fits_is_read_once_and_never_again() -> None:
    rig = Rig(Cache(3), [("a", 1), ("b", 2)])
    assert rig.get("a") == [("a", 1)]
    assert rig.get("z") == []
    assert list(rig.cached.find(rig.value, (1,))) == [("b", 2)]
    assert rig.cached.contains(rig.value, (1,))
    assert rig.asked == 0


def test_a_table_that_does_not_fit_is_answered_by_primary_key_only() -> None:
    rig = Rig(Cache(2), [("a", 1), ("b", 2), ("c", 3)])
    assert not rig.asks("a")
    assert rig.asks("c")
    assert not rig.asks("c")
    assert sorted(rig.cached.find(rig.value, (0,))) == [("a", 1), ("b", 2), ("c", 3)]
    assert rig.asks("nowhere")
    assert rig.asks("nowhere")


def test_without_a_primary_key_a_table_that_does_not_fit_is_always_asked() -> None:
    rig = Rig(Cache(2), [("a", 1), ("b", 2), ("c", 3)], key=())
    assert rig.asks("a")
    assert rig.asks("a")


@pytest.mark.parametrize(("policy", "gone"), [("FIFO", "a"), ("LRU", "b"), ("LFU", "c")])
def test_the_policy_says_which_row_goes(policy: str, gone: str) -> None:
    rig = Rig(Cache(3, policy))
    rig.cached.add([("a", 1), ("b", 2), ("c", 3)])
    for k in "bbcaa":
        rig.get(k)
    rig.cached.add([("d", 4)])
    assert not any(rig.asks(k) for k in "abcd" if k != gone)
    assert rig.asks(gone)


def test_a_table_that_fits_is_read_anew_after_each_interval() -> None:
    rig = Rig(Cache(3, "FIFO", 100, 70), [("a", 1)])
    rig.behind.update(rig.behind.compile(BY_KEY, SET_V), [("a", 9)])  # by somebody else
    rig.now += 69
    assert rig.get("a") == [("a", 1)]
    rig.now += 1
    assert rig.get("a") == [("a", 9)]
    assert rig.asked == 1


@pytest.mark.parametrize("policy", ["FIFO", "LRU", "LFU"])
def test_of_a_store_that_keeps_nothing_a_cache_shows_what_came_since_the_last_interval(policy: str) -> None:
    rig = Rig(Cache(10, policy, retention=1000, interval=1000))  # type: ignore[arg-type]
    rig.behind.add = lambda rows: ()  # type: ignore[method-assign]
    every = rig.cached.compile(None)
    for names in ("a", "bc", "def"):
        rig.cached.add([(k, 1) for k in names])
        assert "".join(k for k, _v in rig.cached.find(every, ())) == names
        rig.now += 1300
        assert list(rig.cached.find(every, ())) == []


def test_rows_that_go_for_their_age_are_asked_for_where_the_table_does_not_fit() -> None:
    rig = Rig(Cache(1, "FIFO", 100, 100), [("a", 1), ("b", 2)])
    rig.now += 100  # as old as the retention, no older
    assert not rig.asks("a")
    rig.now += 100
    assert rig.asks("a")
    assert not rig.asks("a")


def test_a_change_that_meets_the_moment_of_reading_anew_is_made_once() -> None:
    rig = Rig(Cache(3, "FIFO", 100, 70), [("a", 1)])
    more = rig.cached.compile(BY_KEY, ((1, Arithmetic("+", Attr(TABLE, 1, Type.INT), Attr(0, 1, Type.INT), Type.INT)),))
    rig.now += 70
    rig.cached.update(more, [("a", 5)])
    assert rig.get("a") == [("a", 6)]
    rig.now += 70
    rig.cached.update_or_add(more, [("a", 5)], [("a", 5)])
    assert rig.get("a") == [("a", 11)]
    keyless = Rig(Cache(3, "FIFO", 100, 70), key=())
    keyless.now += 70
    keyless.cached.add([("b", 1)])
    assert keyless.get("b") == [("b", 1)]


def test_a_row_that_the_store_refuses_is_not_kept() -> None:
    rig = Rig(Cache(1), [("a", 1)])
    rig.cached.add([("b", 2)])
    assert [n for n, _why in rig.cached.add([("a", 5)])] == [0]
    assert rig.get("a") == [("a", 1)]


KEYS = st.sampled_from("abcde")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "delete", "update", "upsert", "get", "in", "scan", "wait"]), KEYS, st.integers(0, 9)
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(1, 6), st.sampled_from(["FIFO", "LRU", "LFU"]), st.sampled_from([None, 50]))
def test_where_nobody_else_writes_a_cached_store_answers_as_the_store_does(
    steps: list[tuple[str, str, int]], size: int, policy: str, retention: int | None
) -> None:
    rig = Rig(Cache(size, policy, retention, retention), [("a", 1), ("b", 2)])
    plain = MemoryStore(StoreTable("app", "T", SCHEMA, (0,)))
    plain.add([("a", 1), ("b", 2)])
    key, value = plain.compile(BY_KEY, SET_V), plain.compile(BY_VALUE)
    for what, k, v in steps:
        if what == "add":
            assert len(rig.cached.add([(k, v)])) == len(plain.add([(k, v)]))
        elif what == "delete":
            rig.cached.delete(rig.key, [(k, v)])
            plain.delete(key, [(k, v)])
        elif what == "update":
            rig.cached.update(rig.key, [(k, v)])
            plain.update(key, [(k, v)])
        elif what == "upsert":
            rig.cached.update_or_add(rig.key, [(k, v)], [(k, v)])
            plain.update_or_add(key, [(k, v)], [(k, v)])
        elif what == "get":
            assert rig.get(k) == list(plain.find(key, (k, 0)))
        elif what == "in":
            assert rig.cached.contains(rig.key, (k, 0)) == plain.contains(key, (k, 0))
        elif what == "scan":
            assert sorted(rig.cached.find(rig.value, (v,))) == sorted(plain.find(value, (v,)))
        else:
            rig.now += v * 10
