"""Segments of bounded size: whatever one element holds under one key, and what reads them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel_patterns_state import PATTERNS, Words, feed, make, words
from test_kernel_state import _apply, _content, _store, operations
from version1 import OUTPUTS, begun, fed, made

from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.kernel.rows import segments
from nadi.kernel.rows.payloads import encode_entries, entries_of
from nadi.kernel.rows.segments import MOST_BYTES
from nadi.kernel.rows.state import Deque, Map, Store, Value
from nadi.kernel.segments import Part, key_count, parts_of, reader

CELLS = {"first": Value, "queue": Deque, "map": Map}
OLD = Path(__file__).parent / "data" / "state-version-1.bin"


@contextmanager
def tiny() -> Iterator[None]:
    """Segments of about 60 bytes, with few entries of each cell."""
    with patch.multiple(segments, SEGMENT_BYTES=60, MOST_BYTES=90, _FIRST=2, _LARGE=3, _SLICE=4):
        yield


def large(entries: int, size: int = 100) -> Store:
    """One cell of each kind under one key, with so many entries of about so many bytes."""
    store = Store(len)
    cells = store.element("e", CELLS).at("")
    cells["first"].set("x" * size)
    for i in range(entries):
        cells["queue"].append((i, ("y" * size, i)))
        cells["map"].set(i, "z" * size)
    return store


def again(parts: list[Any]) -> Store:
    store = Store(len)
    store.element("e", CELLS)
    store.load(parts)
    return store


def test_one_large_cell_is_many_segments_which_are_loaded_one_after_the_other() -> None:
    store = large(40_000)
    segments = list(store.dump())
    sizes = [len(s.payload) for s in segments]
    assert len(sizes) > 4
    assert max(sizes) <= MOST_BYTES
    assert _content(again(segments)) == _content(store)


def test_a_dump_never_has_more_than_a_segment_in_memory() -> None:
    store = large(40_000)
    total = 0
    tracemalloc.start()
    try:
        for segment in store.dump():
            total += len(segment.payload)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > 8_000_000
    assert peak < 5_000_000


def test_entries_that_are_large_make_segments_with_fewer_of_them() -> None:
    store = large(200, 100_000)
    for i in range(3_000):  # before them small ones, which say nothing of what comes
        store._elements["e"].at("a")["queue"].append(i)
    segments = list(store.dump())
    sizes = [len(s.payload) for s in segments]
    assert sum(sizes) > 40_000_000
    assert max(sizes) <= MOST_BYTES
    assert _content(again(segments)) == _content(store)


def test_one_value_that_is_too_large_is_a_segment_of_its_own() -> None:
    store = large(10)
    store._elements["e"].at("")["first"].set("x" * (2 * MOST_BYTES))
    segments = list(store.dump())
    assert sorted(len(s.payload) > MOST_BYTES for s in segments) == [False] * (len(segments) - 1) + [True]
    assert _content(again(segments)) == _content(store)


def test_many_keys_of_one_group_are_many_segments() -> None:
    store = Store(lambda _key: 0)
    element = store.element("e", CELLS)
    for i in range(30_000):
        element.at(f"k{i}")["queue"].append(("y" * 100, i))
    segments = list(store.dump())
    assert max(len(s.payload) for s in segments) <= MOST_BYTES
    assert len(segments) > 2
    assert sum(key_count(s.payload) for s in segments) == 30_000
    assert list(again(segments)._elements["e"].flow_keys()) == list(element.flow_keys())


def test_a_key_that_is_in_several_segments_counts_once() -> None:
    segments = list(large(40_000).dump())
    assert [key_count(s.payload) for s in segments] == [1] + [0] * (len(segments) - 1)


def test_equal_states_are_equal_segments() -> None:
    store = large(20_000)
    assert list(again(list(store.dump())).dump()) == list(store.dump())


@settings(max_examples=150, deadline=None)
@given(done=st.lists(operations, max_size=60))
def test_deltas_after_a_dump_in_many_segments_bring_back_what_is_live(done: list[tuple[str, str, Any]]) -> None:
    live = _store()
    parts: list[Any] = []
    with tiny():
        for operation, key, argument in done:
            if operation == "delta":
                parts.append(live.delta())
            elif operation == "dump":
                parts = list(live.dump())
            else:
                _apply(live, operation, key, argument)
    parts.append(live.delta())
    loaded = _store()
    loaded.load(parts)
    assert _content(loaded) == _content(live)
    assert loaded.delta() == b""


@settings(max_examples=150, deadline=None)
@given(done=st.lists(operations, max_size=60))
def test_the_size_is_that_of_what_is_held_at_any_time(done: list[tuple[str, str, Any]]) -> None:
    live = _store()
    for operation, key, argument in done:
        if operation == "delta":
            live.delta()
        elif operation == "dump":
            moved = _store()
            moved.load(live.dump())
            live = moved
        else:
            _apply(live, operation, key, argument)
        cells = [cell for key in live._elements["e"].flow_keys() for cell in live._elements["e"].at(key).values()]
        assert live.size() == {"e": sum(map(len, cells))}


class Counting(Value):
    """Notes how often it is counted."""

    __slots__ = ()
    asked = 0

    def __len__(self) -> int:
        Counting.asked += 1
        return super().__len__()


def test_the_size_costs_what_changed_and_not_what_is_held() -> None:
    store = Store(len)
    element = store.element("e", {"value": Counting})
    for i in range(10_000):
        element.at(str(i))["value"].set(i)
    store.delta()
    Counting.asked = 0
    element.at("7")["value"].set(None)
    assert store.size() == {"e": 9_999}
    assert Counting.asked < 10


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=30, deadline=None)
@given(events=words, cut=st.integers(0, 40), within=st.sampled_from([None, 15]))
def test_patterns_go_on_from_many_segments_and_deltas(name: str, events: Words, cut: int, within: int | None) -> None:
    rig, after = make(name, within), make(name, within)
    feed(rig, events[: cut // 2])
    with tiny():
        state: list[Part] = list(rig.flow.store.dump())
    feed(rig, events[cut // 2 : cut])
    state.append(rig.flow.store.delta())
    after.flow.store.load(state)
    after.take_over(rig)
    feed(rig, events[cut:])
    feed(after, events[cut:])
    assert (after.seen, after.times) == (rig.seen, rig.times)


# ---- formats ---------------------------------------------------------------------------------------------------------


def test_a_state_of_version_1_goes_on() -> None:
    old = list(parts_of(reader([OLD.read_bytes()])))
    assert {p.payload[1] if isinstance(p, Segment) else p[1] for p in old} == {1}
    alone, loaded = begun(), made()
    fed(alone, 0, 45)
    loaded.load(old)
    heard: list[list[Any]] = [[], []]
    for kernel, events in zip((alone, loaded), heard, strict=True):
        for key in OUTPUTS:
            kernel.on_stream(key, events.extend)
        fed(kernel, 45, 90)
    assert len(heard[0]) > 60
    assert heard[1] == heard[0]
    assert list(loaded.dump()) == list(alone.dump())
    assert loaded.size() == alone.size()


def test_what_is_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(NadiError, match="no state of a version"):
        _store().load([Segment("e", 0, b"\x94\x03\xc2\x90\x90")])


def test_entries_come_back_from_a_payload() -> None:
    entries = [
        ("a", "k", {"v": ("v", (1, "x")), "d": ("d", 2, [(1, 2), (3, None)])}),
        ("a", "l", {"d": ("d", 0, [])}),
        ("b", "k", {"m": ("m", False, [(("g", 1), [[0.5], {"x": {1}}])], ["h"])}),
    ]
    found = list(entries_of(encode_entries([("a", "m", ["x"]), *entries])))
    assert found == [("a", "m", ["x"]), *entries]


def test_a_delta_names_keys_and_elements_once() -> None:
    store = Store(len)
    names = [f"a long name of an element {n}" for n in range(4)]
    for i in range(1_000):
        for name in names if i else ():
            store._elements[name].at(f"a key of some length {i}")["held"].append(1_700_000_000_000 + i)
        for name in names if not i else ():
            store.element(name, {"held": Deque})
    assert len(store.delta()) / 1_000 < 80
