"""nadi with Siddhi's defects: each expectation is what Siddhi 5.1.30 gave for the app."""

from __future__ import annotations

from typing import Any

from tests.differential.siddhidefects import EMPTIED, with_defects
from tests.differential.siddhiheld import DELETES, FOUND, KEYS, SETS

STREAMS = "@app:playback define stream In (k string, v int); define stream Ask (k string, v int); "
FED = "from In insert into T; "
ALL = "from T select k, v"


def _given(table: str, *steps: tuple[Any, ...]) -> tuple[list[list[Any]], set[str]]:
    """The rows of each call, and the entries of the defects that showed."""
    events = [[name, n, row[0] if name == "?" else [list(row)]] for n, (name, *row) in enumerate(steps)]
    case = {"app": STREAMS + table, "queries": ["q"] if "'q'" in table else [], "streams": [], "events": events}
    result, moment = with_defects(case)
    assert "error" not in result
    return [rows for _name, _ts, rows, _expired in result["got"]], moment.noted


def test_a_delete_by_an_index_and_another_attribute_is_forgotten() -> None:
    table = "@index('k') define table T (k string, v int); from Ask delete T on T.k == k and T.v == v; "
    found = _given(table + FED, ("In", "a", 1), ("In", "a", 2), ("Ask", "a", 1), ("?", ALL))
    assert found == ([[["a", 1], ["a", 2]]], {DELETES})


def test_a_delete_by_an_index_alone_is_not() -> None:
    table = "@index('k') define table T (k string, v int); from Ask delete T on T.k == k; "
    found = _given(table + FED, ("In", "a", 1), ("In", "b", 2), ("Ask", "a", 1), ("?", ALL))
    assert found == ([[["b", 2]]], set())


def test_what_is_inserted_behind_a_last_row_that_was_deleted_is_lost_until_the_list_is_empty() -> None:
    table = "define table T (k string, v int); from Ask delete T on T.k == k; "
    steps = [("In", "a", 1), ("In", "b", 1), ("Ask", "b", 0), ("In", "c", 1), ("?", ALL)]
    assert _given(table + FED, *steps) == ([[["a", 1]]], {DELETES})
    more = [("Ask", "a", 0), ("In", "d", 1), ("?", ALL)]
    assert _given(table + FED, *steps, *more)[0][1] == [["d", 1]]


def test_a_delete_of_what_differs_fails_where_nothing_is_to_stay() -> None:
    table = "@index('k') define table T (k string, v int); "
    found = _given(table + FED, ("In", "a", 1), ("?", "delete T on T.k != 'b'"), ("?", ALL))
    assert found == ([[["refused"]], [["none"]]], {DELETES})


def test_in_looks_on_the_wrong_side_of_an_index() -> None:
    table = "@index('v') define table T (k string, v int); @info(name='q') from Ask[T.v <= v in T] select v insert into Out; "
    found = _given(table + FED, ("In", "a", 1), ("Ask", "", 0), ("Ask", "", 2))
    assert found == ([[[0]]], {FOUND})


def test_in_takes_two_values_of_a_key_for_another_one() -> None:
    table = "@primaryKey('v') define table T (k string, v int); @info(name='q') from Ask[T.v != v in T] select v insert into Out; "
    found = _given(table + FED, ("In", "a", 1), ("Ask", "", 0), ("Ask", "", 1), ("In", "a", 2), ("Ask", "", 7))
    assert found == ([[[7]]], {FOUND})


def test_a_row_that_is_replaced_stays_under_its_old_value_of_an_index() -> None:
    table = (
        "@primaryKey('k') @index('v') define table T (k string, v int); from In update or insert into T on T.k == k; "
    )
    asked = [("?", "from T on T.v == 1 select k, v"), ("?", ALL)]
    found = _given(table, ("In", "a", 1), ("In", "b", 2), ("In", "a", 2), *asked)
    assert found == ([[["a", 1]], [["a", 2], ["b", 2]]], {SETS})


def test_a_row_of_an_index_that_was_changed_cannot_be_deleted_by_another_attribute() -> None:
    table = "@index('k') define table T (k string, v int); from Ask update T set T.v = v on T.k == k; "
    found = _given(table + FED, ("In", "a", 1), ("Ask", "a", 2), ("?", "delete T on T.v == 2"), ("?", ALL))
    assert found == ([[["done"]], [["a", 2]]], {SETS})


def test_a_row_keeps_the_place_of_its_old_key() -> None:
    table = "@primaryKey('k', 'v') define table T (k string, v int); from Ask update T set T.v = v on T.k == k; "
    asked = [("?", "from T on T.k == 'a' and T.v == 2 select k, v"), ("?", ALL)]
    found = _given(table + FED, ("In", "a", 1), ("Ask", "a", 2), *asked)
    assert found == ([[["none"]], [["a", 2]]], {KEYS})


def test_rows_of_a_refused_update_are_tied_to_each_other() -> None:
    table = (
        "@primaryKey('k') define table T (k string, v int); from Ask[v > 0] select k, v update T set T.k = k on T.v == v; "
        "from Ask[v < 0] select k, 9 as v update T set T.v = v on T.k == k; "
    )
    steps = [("In", "a", 1), ("In", "b", 1), ("In", "c", 3), ("Ask", "c", 1), ("Ask", "a", -1), ("?", ALL)]
    assert _given(table + FED, *steps) == ([[["a", 9], ["b", 9], ["c", 3]]], {KEYS})


def test_a_percentile_fails_where_its_window_is_emptied() -> None:
    case = {
        "app": "@app:playback @OnError(action='STREAM') define stream In (n int); @info(name='q') from In#window.length(1) "
        "select math:percentile(n, 50.0) as p insert into Out; @info(name='faults') from !In select n insert into Faults;",
        "queries": ["q", "faults"],
        "streams": [],
        "events": [["In", 0, [[1]]], ["In", 1, [[2]]]],
    }
    result, moment = with_defects(case)
    assert [(name, rows) for name, _ts, rows, _expired in result["got"]] == [("q", [[1.0]]), ("faults", [[2]])]
    assert moment.noted == {EMPTIED}


def _selected(item: str, *values: Any) -> tuple[list[Any], set[str]]:
    """What a query behind a window of length 3 shows, and the entries of the defects that showed."""
    case = {
        "app": f"@app:playback define stream In (v int, k string); @info(name='q') from In#window.length(3) select {item} as p insert into Out;",
        "queries": ["q"],
        "streams": [],
        "events": [["In", n, [list(value)]] for n, value in enumerate(values)],
    }
    result, moment = with_defects(case)
    return [rows[0][0] for _name, _ts, rows, _expired in result["got"]], moment.noted


def test_the_least_value_is_lost_where_an_equal_one_leaves_that_had_been_undercut() -> None:
    found = _selected("min(v)", *((v, "") for v in (1, 0, 1, 2, 5, 6)))
    assert found == ([1, 0, 0, 0, 2, 2], {EMPTIED})


def test_the_least_value_is_not_lost_where_no_values_are_equal() -> None:
    assert _selected("min(v)", *((v, "") for v in (3, 1, 2, 5, 6))) == ([3, 1, 1, 1, 2], set())


def test_a_null_that_leaves_a_group_concat_fails() -> None:
    found = _selected("str:groupConcat(k)", *((0, k) for k in (None, "a", "b", "c", "d")))
    assert found == (["", "a", "a,b", "b,d"], {EMPTIED})
