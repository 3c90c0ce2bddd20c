"""Cells and the store: whatever is done to them, deltas taken at any points bring back what is live."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.kernel.rows.state import Deque, Map, Store, Value, pack, unpack

CELLS = {"value": Value, "queue": Deque, "map": Map}

atoms = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
hashable = st.recursive(
    atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(st.integers(0, 99), max_size=3), max_leaves=4
)
plain = st.recursive(
    hashable, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hashable, inner, max_size=3), max_leaves=6
)
keys = st.sampled_from(["", "a", "b"])
small = (
    st.none()
    | st.integers(0, 9)
    | st.tuples(st.integers(0, 9), st.text(max_size=2))
    | st.lists(st.integers(0, 9), max_size=2)
)
items = st.sampled_from([1, "x", (1, "x"), 2.5, None])
operations = st.one_of(
    st.tuples(st.just("set value"), keys, small),
    st.tuples(st.just("append"), keys, small),
    st.tuples(st.just("popleft"), keys, st.none()),
    st.tuples(st.just("replace"), keys, st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("clear queue"), keys, st.none()),
    st.tuples(st.just("set"), keys, st.tuples(items, small)),
    st.tuples(st.just("change in place"), keys, items),
    st.tuples(st.just("pop"), keys, items),
    st.tuples(st.just("clear map"), keys, st.none()),
    st.tuples(st.just("drop"), keys, st.none()),
    st.tuples(st.sampled_from(["delta", "delta", "dump"]), keys, st.none()),
)


def _store() -> Store:
    store = Store(len)
    store.element("e", CELLS)
    return store


def _apply(store: Store, operation: str, key: str, argument: Any) -> None:
    element = store._elements["e"]
    if operation == "drop":
        element.drop(key)
        return
    cells = element.at(key)
    queue, held = cells["queue"], cells["map"]
    match operation:
        case "set value":
            cells["value"].set(argument)
        case "append":
            queue.append(argument)
        case "popleft" if len(queue):
            queue.popleft()
        case "replace":
            queue.replace(argument)
        case "clear queue":
            queue.clear()
        case "set":
            held.set(*argument)
        case "change in place" if isinstance(found := held.get(argument), list):
            found.append(1)
            held.touch(argument)
        case "pop":
            held.pop(argument)
        case "clear map":
            held.clear()


def _content(store: Store) -> dict[str, Any]:
    """What is held, the order of maps included; keys without content are as good as absent."""
    found = dict(store._elements["e"].contents())
    empty = {"value": ("v", None), "queue": ("d", 0, []), "map": ("m", True, [], [])}
    return {key: content for key, content in sorted(found.items()) if content != empty}


@settings(max_examples=150, deadline=None)
@given(done=st.lists(operations, max_size=40))
def test_deltas_taken_at_any_points_bring_back_what_is_live(done: list[tuple[str, str, Any]]) -> None:
    live = _store()
    parts: list[Any] = []
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


@given(value=plain)
def test_plain_values_survive_with_their_types(value: Any) -> None:
    back = unpack(pack(value))
    assert back == value
    assert _shape(back) == _shape(value)


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value), [_shape(x) for x in value]
    if isinstance(value, dict):
        return dict, sorted((repr(_shape(k)), repr(_shape(v))) for k, v in value.items())
    return type(value)


def test_a_key_that_comes_again_goes_to_the_end_also_after_a_delta() -> None:
    live = _store()
    held = live._elements["e"].at("")["map"]
    for key in "abc":
        held.set(key, 1)
    parts = [live.delta()]
    held.pop("a")
    held.set("d", 1)
    held.set("a", 2)
    parts.append(live.delta())
    loaded = _store()
    loaded.load(parts)
    assert list(loaded._elements["e"].at("")["map"]) == ["b", "c", "d", "a"]


def test_a_delta_costs_what_changed_and_not_what_is_held() -> None:
    live = _store()
    cells = live._elements["e"].at("")
    for i in range(10000):
        cells["queue"].append(i)
        cells["map"].set(i, i)
    live.delta()
    cells["queue"].append(1)
    cells["queue"].popleft()
    cells["map"].set(77, 0)
    assert len(live.delta()) < 100


def test_what_came_and_went_between_two_deltas_leaves_no_trace() -> None:
    live = _store()
    queue = live._elements["e"].at("")["queue"]
    queue.append("short-lived")
    queue.popleft()
    assert b"short-lived" not in live.delta()


def test_a_key_that_was_dropped_starts_from_nothing() -> None:
    live = _store()
    live._elements["e"].at("a")["queue"].append("old")
    parts = [live.delta()]
    live._elements["e"].drop("a")
    live._elements["e"].at("a")["queue"].append("new")
    parts.append(live.delta())
    loaded = _store()
    loaded.load(parts)
    assert list(loaded._elements["e"].at("a")["queue"]) == ["new"]


def test_a_dump_is_cut_by_key_group() -> None:
    live = _store()
    for key in ("", "a", "bb", "c"):
        live._elements["e"].at(key)["value"].set(key)
    assert [(s.element, s.group) for s in live.dump()] == [("e", 0), ("e", 1), ("e", 2)]


def test_elements_that_are_no_longer_declared_are_let_go() -> None:
    live = _store()
    live.element("gone", {"value": Value}).at("")["value"].set(1)
    segments = list(live.dump())
    loaded = _store()
    loaded.load(segments)
    assert set(loaded.size()) == {"e"}


def test_two_elements_cannot_have_one_id() -> None:
    with pytest.raises(ValueError, match="two elements have the id e"):
        _store().element("e", {})


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.integers(-90, 90), max_size=12))
def test_a_queue_is_the_same_however_long_it_was_and_is(steps: list[int]) -> None:
    plain: list[int] = []
    queue, followed = Deque(lambda: None), Deque(lambda: None)
    number = 0
    for step in steps:
        for _ in range(step):
            queue.append(number)
            plain.append(number)
            number += 1
        for _ in range(min(-step, len(plain))):
            assert queue.popleft() == plain.pop(0)
        if (change := queue.take_change()) is not None:
            followed.apply(change)
        assert list(queue) == list(followed) == plain
        assert (len(queue), queue.first) == (len(followed), followed.first)
        assert [queue[i] for i in range(-len(plain), len(plain))] == plain * 2


def test_a_short_queue_takes_little_memory() -> None:
    queue = Deque(lambda: None)
    assert sys.getsizeof(queue.items) < 100
    for n in range(3):
        queue.append(n)
    assert sys.getsizeof(queue.items) < 150
