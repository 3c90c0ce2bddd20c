"""The namespace `list`: what the examples do not show."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.runtime import Runtime


def _given(call: str, *values: Any, kind: str = "object") -> list[Any]:
    """What a call gives for values of the attribute `x`; for one that fails its condition and reason."""
    runtime = Runtime(f"define stream S (x {kind}); from S select {call} as r insert into Out;")
    found: list[Any] = []
    runtime.on_stream("Out", lambda chunk: found.extend(event.row[0] for event in chunk))
    runtime.start()
    for value in values:
        runtime.send("S", [(None, (value,))])
    return [*found, *(f"{f.condition}: {f.message}" for f in runtime.failures)]


def test_a_function_leaves_the_list_that_it_is_given_as_it_is() -> None:
    held = ["b", "a"]
    for call in ("add(x, 'c')", "clear(x)", "sort(x, 'ASC')", "sort(x)", "remove(x, 'b')", "setValue(x, 0, 'z')"):
        _given(f"list:{call}", held)
    assert held == ["b", "a"]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("list:get(x, 2)", "the index 2 is not within a list of 2"),
        ("list:get(x, 0 - 1)", "the index -1 is not within a list of 2"),
        ("list:get(x, convert('?', 'int'))", "the index null is not within"),
        ("list:add(x, 'c', 3)", "the index 3 is not within"),
        ("list:removeByIndex(x, 2)", "the index 2 is not within"),
        ("list:setValue(x, 2, 'c')", "the index 2 is not within"),
        ("list:sort(list:add(x, 5), 'ASC')", "only texts can be sorted, or numbers"),
        ("list:addAll(x, 'a')", ""),
    ],
)
def test_an_index_or_value_that_a_list_cannot_take_is_named(call: str, reason: str) -> None:
    if not reason:
        with pytest.raises(NadiError):
            _given(call, ["a", "b"])
        return
    (told,) = _given(call, ["a", "b"])
    assert told.startswith("FUNCTION_FAILED: list:")
    assert reason in told


def test_what_is_no_list_is_named() -> None:
    told = _given("list:size(x)", None, {}, "text", 5)
    assert [reason.rpartition(", not ")[2] for reason in told] == ["null", "a map", "a text", "a whole number"]
    assert _given("list:isList(x)", None, [], {}, "a") == [False, True, False, False]


def test_values_are_equal_as_they_are_in_java() -> None:
    mixed = [1, 1.0, True, "1", None, math.nan, [1]]
    for n in range(len(mixed)):
        assert _given(f"list:indexOf(x, list:get(x, {n}))", mixed) == [n]
    assert _given("list:contains(x, 1)", [1.0, True], [1]) == [False, True]


def test_numbers_and_texts_are_sorted_without_regard_to_capitals() -> None:
    assert _given("list:sort(x, 'asc')", ["b", "A", "c"], [2, -1, 1.5], []) == [["A", "b", "c"], [-1, 1.5, 2], []]
    assert _given("list:sort(x, 'DESC')", ["b", "A", "c"]) == [["c", "b", "A"]]
    with pytest.raises(NadiError, match="'ASC', 'DESC' or 'REV'"):
        _given("list:sort(x, 'UP')")


def test_values_may_be_added_at_the_end_once_or_as_they_are() -> None:
    assert _given("list:addAll(list:create('a'), x)", ["a", "b", "b"]) == [["a", "a", "b", "b"]]
    assert _given("list:addAll(list:create('a'), x, true)", ["a", "b", "b"]) == [["a", "b"]]
    assert _given("list:add(x, convert('?', 'int'))", [1]) == [[1, None]]


# ---- aggregators -----------------------------------------------------------------------------------------------------


def _collected(select: str, window: str, rows: list[tuple[Any, ...]], moved: bool = False) -> list[Any]:
    app = Runtime(f"define stream S (k string, v long); from S{window} select {select} insert into Out;")
    found: list[Any] = []
    app.on_stream("Out", lambda chunk: found.extend(event.row for event in chunk))
    app.start()
    for row in rows:
        app.send("S", [(None, row)])
        if moved:
            app.move(app.kernel.dump())
    assert not app.failures
    app.shutdown()
    return found


ROWS: list[tuple[Any, ...]] = [("a", 1), ("b", 2), ("a", 1), ("a", None), ("c", 3)]


@pytest.mark.parametrize("moved", [False, True])
def test_collect_follows_a_sliding_window_in_the_order_in_which_values_came(moved: bool) -> None:
    found = _collected("list:collect(v) as r", "#window.length(3)", ROWS, moved)
    assert found == [([1],), ([1, 2],), ([1, 2, 1],), ([2, 1, None],), ([1, None, 3],)]


def test_collect_begins_anew_with_each_batch_and_group() -> None:
    found = _collected("k, list:collect(v) as r, count() as n group by k", "#window.lengthBatch(4)", ROWS + ROWS)
    assert found == [("a", [1, 1, None], 3), ("b", [2], 1), ("c", [3], 1), ("a", [1, 1], 2), ("b", [2], 1)]


def test_collect_and_merge_may_be_told_to_keep_values_once() -> None:
    assert _collected("list:collect(k, true) as r", "", ROWS)[-1] == (["a", "b", "c"],)
    assert _collected("list:merge(list:create(k, 'x')) as r", "", ROWS[:2])[-1] == (["a", "x", "b", "x"],)
    assert _collected("list:merge(list:create(k, 'x'), true) as r", "", ROWS[:2])[-1] == (["a", "x", "b"],)
    assert _collected("list:merge(list:create(k, 'x')) as r", "#window.length(1)", ROWS[:2])[-1] == (["b", "x"],)


def test_what_was_given_out_does_not_change_any_more() -> None:
    found = _collected("list:collect(v) as r", "", ROWS[:3])
    assert found == [([1],), ([1, 2],), ([1, 2, 1],)]


def test_tokenize_gives_an_event_for_each_place() -> None:
    app = Runtime(
        "define stream S (x object, y object); from S#list:tokenize(x) select index, value insert into One;"
        "from S#list:tokenize(x, y) select index, value insert into Two;"
    )
    found: list[Any] = []
    for name in ("One", "Two"):
        app.on_stream(name, lambda chunk, name=name: found.extend((name, *event.row) for event in chunk))
    app.start()
    app.send("S", [(None, (["a", None], [1]))])
    app.send("S", [(None, ([], []))])
    assert found == [("One", 0, "a"), ("One", 1, None), ("Two", 0, ["a", 1]), ("Two", 1, [None, None])]
    app.send("S", [(None, (None, []))])
    assert [f.condition for f in app.failures] == ["FUNCTION_FAILED"]


def test_lists_are_compared_in_linear_time() -> None:
    """Each pair of values looked at would be ten thousand million steps."""
    many = [*range(100_000), "a", math.nan, [1, {"k": [2]}]]
    assert _given("list:size(list:retainAll(x, x))", many) == [100_003]
    assert _given("list:size(list:addAll(x, x, true))", many) == [100_003]
    assert _given("list:size(list:removeAll(x, x))", many) == [0]
    assert _given("list:containsAll(x, x)", many) == [True]
    assert _given("list:containsAny(list:create(1.0, '1'), x)", [1, [1]]) == [False]
