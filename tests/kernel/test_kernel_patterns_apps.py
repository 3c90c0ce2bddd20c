"""Patterns, sequences and joins as users write them (semantics/patterns.md, semantics/joins.md)."""

from __future__ import annotations

import pytest

from nadi.runtime import Runtime

STREAMS = "define stream A (k string, v int); define stream B (k string, v int); define stream C (k string, v int); "
Calls = list[tuple[list[tuple[object, ...]] | None, list[tuple[object, ...]] | None]]


def run(query: str, words: str, compat: int = 5, header: str = "", step: int = 10) -> Calls:
    """Sends words such as "Aa1" (stream, key, value), 10 ms apart; returns what the query's callback got, as (current rows, expired rows)."""
    app = Runtime(f"@app:compat('{compat}') {header}{STREAMS} @info(name='q') {query}")
    calls: Calls = []

    def rows(events: list[tuple[int, int, tuple[object, ...]]] | None) -> list[tuple[object, ...]] | None:
        return None if events is None else [e[2] for e in events]

    app.on_query("q", lambda ts, current, expired: calls.append((rows(current), rows(expired))))
    app.start()
    for word in words.split():
        app.advance(step)
        app.send(word[0], [(word[1], int(word[2:]))])
    return calls


def current(query: str, words: str, compat: int = 5) -> list[tuple[object, ...]]:
    return [row for rows, _expired in run(query, words, compat) for row in rows or []]


# ---- joins ---------------------------------------------------------------------------------------------------------

JOIN = "from A#window.length(2) as l join B#window.length(2) as r on l.k == r.k select {} insert all events into Out;"
ARRIVALS = "Aa1 Ba10 Ba20 Aa2 Ab3 Ba30"


def test_a_window_join_emits_arrivals_and_expiries_in_one_call_per_arrival() -> None:
    assert run(JOIN.format("l.v as a, r.v as b"), ARRIVALS) == [
        ([(1, 10)], None),
        ([(1, 20)], None),
        ([(2, 10), (2, 20)], None),
        (None, [(1, 10), (1, 20)]),
        ([(2, 30)], [(2, 10)]),
    ]
    assert run(JOIN.format("l.v as a, r.v as b"), ARRIVALS, compat=4)[-2:] == [(None, [(2, 10)]), ([(2, 30)], None)]


def test_aggregates_over_a_join_add_and_subtract_once_per_match() -> None:
    assert run(JOIN.format("sum(l.v) as s"), ARRIVALS) == [
        ([(1,)], None),
        ([(2,)], None),
        ([(6,)], None),
        (None, [(4,)]),
        ([(4,)], [(2,)]),
    ]


def test_a_stream_joined_with_itself_meets_old_events_and_then_itself() -> None:
    query = "from A#window.length(5) as l join A#window.length(5) as r select l.v as a, r.v as b insert into Out;"
    assert current(query, "Aa1 Aa2") == [(1, 1), (2, 1), (1, 2), (2, 2)]


def test_a_stream_joins_a_table_in_insertion_order_whatever_the_look_up() -> None:
    for annotation in ("", "@index('k') "):
        query = "from A as l join T as t on l.k == t.k select l.v as a, t.v as b insert into Out; from B insert into T;"
        header = f"{annotation}define table T (k string, v int); "
        calls = run(query, "Ba3 Bb2 Ba1 Aa7 Ac9", header=header)
        assert [rows for rows, _expired in calls if rows] == [[(7, 3), (7, 1)]]


def test_a_join_inside_a_partition_meets_events_of_its_own_key_only() -> None:
    app = Runtime(
        STREAMS + "partition with (k of A, k of B) begin from A#window.length(3) as l join B#window.length(3) as r "
        "select l.v as a, r.v as b insert into Out; end;"
    )
    rows: list[tuple[object, ...]] = []
    app.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    app.start()
    for stream, k, v in [("A", "x", 1), ("A", "y", 2), ("B", "x", 10), ("B", "z", 20), ("B", "y", 30)]:
        app.send(stream, [(k, v)])
    assert rows == [(1, 10), (2, 30)]


# ---- references ----------------------------------------------------------------------------------------------------


def test_references_to_a_counted_element() -> None:
    query = (
        "from e1=A<2:4> -> e2=B select e1[0].v as a, e1[last].v as b, e1[last-1].v as c, e1[3].v as d, e2.v as e "
        "insert into Out;"
    )
    assert current(query, "Aa1 Aa2 Aa3 Ba9") == [(1, 3, 2, None, 9)]


def test_an_unindexed_reference_is_the_list_of_values_and_in_siddhi_4_the_first() -> None:
    query = "from e1=A<2:4> -> e2=B select e1.v as a insert into Out;"
    assert current(query, "Aa1 Aa2 Aa3 Ba9") == [([1, 2, 3],)]
    assert current(query, "Aa1 Aa2 Aa3 Ba9", compat=4) == [(1,)]


def test_in_the_filter_of_another_element_it_is_the_latest_value_and_in_having_the_first() -> None:
    query = "from every e1=A<2:2> -> e2=B[v > e1.v] select e1[0].v as a, e2.v as b {}insert into Out;"
    assert current(query.format(""), "Aa1 Aa5 Ba3 Ba6") == [(1, 6)]
    assert current(query.format("having e1.v > 3 "), "Aa1 Aa5 Ba6 Aa4 Aa2 Ba9") == [(4, 9)]


def test_filters_may_look_at_what_other_elements_bound() -> None:
    query = "from every e1=A -> e2=B[v > e1.v and k == e1.k] select e1.v as a, e2.v as b insert into Out;"
    assert current(query, "Aa5 Ab6 Ba4 Bb7 Ba8") == [(6, 7), (5, 8)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("T.k == k in T", [(1, 9), (5, 9)]),
        ("(T.k == k and T.v > e1.v) in T", [(1, 9)]),
        ("(T.k == k) in T and v > e1.v", [(1, 9), (5, 9)]),
    ],
)
def test_filters_may_search_tables(condition: str, expected: list[tuple[object, ...]]) -> None:
    query = f"from every e1=A -> e2=B[{condition}] select e1.v as a, e2.v as b insert into Out; from C insert into T;"
    calls = run(query, "Cx3 Aa1 Aa5 By8 Bx9", header="define table T (k string, v int); ")
    assert [row for rows, _expired in calls for row in rows or []] == expected


def test_stream_functions_append_to_the_event_that_is_bound() -> None:
    query = (
        "from every e1=A[v > 0]#pol2Cart(0.0, 5.0)[x > 4.0] -> e2=B#log('seen') "
        "select e1.x as x, e2.v as b insert into Out;"
    )
    assert current(query, "Aa0 Aa1 Ba7") == [(5.0, 7)]


def test_the_rise_and_fall_idiom() -> None:
    query = (
        "from every e1=A, e2=A[e2[last].v is null and v > e1.v or v > e2[last].v]+, e3=A[v < e2[last].v] "
        "select e1.v as low, e2[last].v as peak, e3.v as after insert into Out;"
    )
    assert current(query, "Aa1 Aa2 Aa3 Aa4 Aa5 Aa4 Aa6") == [(1, 5, 4)]


def test_the_empty_operand_of_or_is_null() -> None:
    query = "from every (e1=A or e2=B) select e1.v as a, e2.v as b insert into Out;"
    assert current(query, "Aa1 Bb2") == [(1, None), (None, 2)]
    checked = "from e1=A or e2=B -> e3=C[e1 is null] select e2.v as a, e3.v as b insert into Out;"
    assert current(checked, "Bb2 Ca3") == [(2, 3)]
    assert current(checked, "Ab2 Ca3") == []


def test_attributes_of_absent_elements_do_not_disturb_a_selection_of_others() -> None:
    query = "from every e1=A -> not B[v > e1.v] for 15 millisec -> e3=C select e1.v as a, e3.v as c insert into Out;"
    assert current(query, "Aa1 Ba2 Aa3 Ba2 Ca9 Ca10") == [(3, 9)]


def test_aggregates_over_a_pattern_only_grow() -> None:
    query = "from every e1=A -> e2=B select sum(e1.v) as s insert into Out;"
    assert current(query, "Aa1 Aa2 Ba9 Aa4 Ba9") == [(1,), (3,), (7,)]


@pytest.mark.parametrize("chunks", [1, 2, 5, 100])
def test_a_partitioned_pattern_does_not_depend_on_how_events_arrive(chunks: int) -> None:
    app = Runtime(
        STREAMS + "partition with (k of A) begin from every e1=A, e2=A[v > e1.v], e3=A[v > e2.v] "
        "select e1.k as k, e1.v as a, e3.v as c insert into Out; end;"
    )
    rows: list[tuple[object, ...]] = []
    app.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    app.start()
    events = [("xyz"[i % 3], i * 37 % 11) for i in range(100)]
    for at in range(0, len(events), chunks):
        app.send("A", events[at : at + chunks])
    by_key = {key: [row[1:] for row in rows if row[0] == key] for key in "xyz"}
    for key in "xyz":
        values = [v for k, v in events if k == key]
        rising = [(a, c) for a, b, c in zip(values, values[1:], values[2:], strict=False) if a < b < c]
        assert by_key[key] == rising


def test_absence_in_playback_counts_from_zero() -> None:
    app = Runtime(
        "@app:playback define stream A (v int); define stream B (v int); "
        "@info(name='q') from not A for 1 sec -> e2=B select e2.v as b insert into Out;"
    )
    rows: list[tuple[object, ...]] = []
    app.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    app.start()
    app.send("A", [(1_700_000_000_000, (1,))])
    app.send("B", [(1_700_000_000_001, (2,))])
    assert rows == [(2,)]


def test_an_unindexed_reference_to_a_counted_element_without_events_is_an_empty_list() -> None:
    optional = "from e1=A<0:2> -> e2=B select e1.v as a, e1[0].v as b, e2.v as c insert into Out;"
    assert current(optional, "Ba9") == [([], None, 9)]
    sequence = "from every e1=A, e2=B?, e3=C select e2.k as b, e3.v as c insert into Out;"
    assert current(sequence, "Aa1 Ca2 Aa3 Bb4 Cc5") == [([], 2), (["b"], 5)]
