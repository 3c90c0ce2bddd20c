"""Delivery between queries: order, errors, fault streams, partitions, tables, playback."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry, function
from nadi.runtime import Runtime


@function("test:fill")
def _fill(n: int) -> int:
    """Fills memory at 13."""
    if n == 13:
        raise MemoryError
    return n


def _run(text: str, *listened: str, now: int = 0) -> tuple[Runtime, list[tuple[Any, ...]]]:
    runtime = Runtime(text, now=now)
    heard: list[tuple[Any, ...]] = []
    for name in listened:
        runtime.on_stream(name, lambda events, name=name: heard.extend((name, *e.row) for e in events))
    runtime.start()
    return runtime, heard


def test_a_result_is_processed_downstream_before_the_next_query_runs() -> None:
    text = """define stream S (a int);
    from S select a insert into A; from A select a + 10 as a insert into B;
    from S select a insert into B; from B select a insert into C;"""
    runtime, heard = _run(text, "C")
    runtime.send("S", [(1,)])
    assert heard == [("C", 11), ("C", 1)]


def test_a_query_may_feed_itself() -> None:
    runtime, heard = _run("define stream S (a int); from S[a < 5] select a + 1 as a insert into S;", "S")
    runtime.send("S", [(1,)])
    assert heard == [("S", a) for a in (5, 4, 3, 2, 1)]


def test_recursion_without_end_is_a_failure_and_not_the_end() -> None:
    runtime, _heard = _run("define stream S (a int); from S select a insert into S;")
    runtime.send("S", [(1,)])
    assert "NESTED_TOO_DEEP" in {f.condition for f in runtime.failures}
    runtime.send("S", [(2,)])


def test_an_event_that_fails_is_dropped_at_its_stream_and_later_queries_do_not_see_it() -> None:
    text = """define stream S (a int);
    from S select a insert into First; from S select a + 1 as a insert into Second; from S select a insert into Third;"""
    runtime, heard = _run(text, "First", "Second", "Third")
    runtime.send("S", [("text",)])
    runtime.send("S", [(1,)])
    assert heard == [("First", "text"), ("First", 1), ("Second", 2), ("Third", 1)]
    (failure,) = runtime.failures
    assert (failure.stream, failure.row, failure.routed) == ("S", ("text",), False)


@pytest.mark.parametrize(
    "query",
    [
        "from S select test:fill(a) as a insert into Out",
        "from S#window.length(2) select sum(test:fill(a)) as a insert into Out",
    ],
)
def test_who_has_no_memory_left_fails_as_a_whole_since_no_input_says_how_much_there_is(query: str) -> None:
    registry = default_registry()
    registry.add(_fill)
    text = f"@OnError(action='STREAM') define stream S (a int); {query};"
    runtime = Runtime(text, registry=registry)
    runtime.start()
    runtime.send("S", [(1,)])
    with pytest.raises(MemoryError):
        runtime.send("S", [(13,)])
    assert not runtime.failures


# What Siddhi 5.1.30 gave: charAt fails for the first event.
_FAILS_FIRST = [(5, "x"), (0, "y"), (0, "z"), (0, "w")]


def _failing_selection(query: str) -> list[tuple[Any, ...]]:
    text = "@OnError(action='STREAM') define stream S (a int, b string); from !S select a, b insert into Faults;"
    runtime, heard = _run(f"{text} from S{query} into Out;", "Out", "Faults")
    for row in _FAILS_FIRST:
        runtime.send("S", [row])
    return heard


def test_what_is_selected_of_an_event_that_leaves_is_computed_and_may_fail_where_current_events_alone_are_put_out() -> (
    None
):
    found = _failing_selection("#window.length(1) select str:charAt(b, a) as p insert current events")
    assert found == [("Faults", 5, "x"), ("Faults", 0, "y"), ("Out", "z"), ("Out", "w")]


def test_what_is_selected_of_an_event_that_comes_is_computed_and_may_fail_where_expired_events_alone_are_put_out() -> (
    None
):
    found = _failing_selection("#window.length(1) select str:charAt(b, a) as p insert expired events")
    assert found == [("Faults", 5, "x"), ("Faults", 0, "y"), ("Out", "y"), ("Out", "z")]


def test_aggregators_behind_an_item_that_fails_do_not_count() -> None:
    found = _failing_selection("#window.length(2) select str:charAt(b, a) as p, count() as n insert")
    assert found == [("Faults", 5, "x"), ("Out", "y", 1), ("Faults", 0, "z"), ("Out", "w", 1)]


def test_aggregators_in_front_of_an_item_that_fails_have_counted() -> None:
    found = _failing_selection(" select count() as n, str:charAt(b, a) as p, sum(a) as total insert")
    assert found == [("Faults", 5, "x"), ("Out", 2, "y", 0), ("Out", 3, "z", 0), ("Out", 4, "w", 0)]


def test_aggregators_in_front_of_one_whose_argument_fails_have_counted() -> None:
    found = _failing_selection(" select count() as n, max(str:length(str:charAt(b, a))) as p, sum(a) as t insert")
    assert found == [("Faults", 5, "x"), ("Out", 2, 1, 0), ("Out", 3, 1, 0), ("Out", 4, 1, 0)]


def test_a_fault_stream_takes_what_failed_and_why() -> None:
    text = """@OnError(action='STREAM') define stream S (a int);
    from S select a + 1 as a insert into Out; from !S select a, convert(_error, 'string') as why insert into Faults;"""
    runtime, heard = _run(text, "Out", "Faults")
    runtime.send("S", [("text",)])
    (fault,) = heard
    assert fault[:2] == ("Faults", "text")
    assert fault[2]
    assert [f.routed for f in runtime.failures] == [True]


def test_a_callback_that_fails_concerns_nobody_else() -> None:
    runtime, heard = _run("define stream S (a int); @info(name='q') from S select a insert into Out;", "Out")

    def broken(*_given: object) -> None:
        raise RuntimeError("mine")

    runtime.on_query("q", broken)
    runtime.send("S", [(1,)])
    assert heard == [("Out", 1)]
    assert [f.condition for f in runtime.failures] == ["CALLBACK_FAILED"]


def test_partitions_keep_state_per_key_and_split_chunks_into_runs_of_equal_keys() -> None:
    text = """define stream S (k string, v int);
    partition with (k of S) begin from S select k, sum(v) as s insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    runtime.send("S", [(None, ("a", 1)), (None, ("a", 2)), (None, (None, 9)), (None, ("b", 5)), (None, ("a", 4))])
    assert heard == [("Out", "a", 3), ("Out", "b", 5), ("Out", "a", 7)]


def test_an_event_goes_to_every_range_it_is_in() -> None:
    text = """define stream S (v int);
    partition with (v > 5 as 'large' or v > 0 as 'any' of S) begin from S select v, count() as n insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    for v in (1, 6, 0, 7):
        runtime.send("S", [(v,)])
    assert heard == [("Out", 1, 1), ("Out", 6, 1), ("Out", 6, 2), ("Out", 7, 2), ("Out", 7, 3)]


def test_a_stream_without_a_key_goes_to_all_keys_that_exist_in_their_order() -> None:
    text = """define stream S (k string); define stream All (v int);
    partition with (k of S) begin from S select k, count() as n insert into Seen;
    from All select v, count() as n insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    runtime.send("All", [(0,)])
    for k in ("z", "a"):
        runtime.send("S", [(k,)])
        runtime.send("All", [(1,)])
    assert heard == [("Out", 1, 1), ("Out", 1, 2), ("Out", 1, 1)]


def test_keys_keep_their_order_over_a_restore() -> None:
    text = """define stream S (k string); define stream All (v int);
    partition with (k of S) begin from every e1=S -> e2=All select e1.k as k, e2.v as v insert into Out; end;"""
    first, _heard = _run(text, "Out")
    for k in ("z", "b", "m", "a"):
        first.send("S", [(k,)])
    second = Runtime(text)
    heard: list[Any] = []
    second.on_stream("Out", lambda events: heard.extend(e.row for e in events))
    second.restore(first.persist())
    second.start()
    second.send("All", [(1,)])
    assert [row[0] for row in heard] == ["z", "b", "m", "a"]


def test_a_purged_key_starts_anew() -> None:
    text = """define stream S (k string);
    @purge(enable='true', interval='1 sec', idle.period='2 sec')
    partition with (k of S) begin from S select k, count() as n insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    for wait in (0, 1500, 1500, 4000):
        runtime.advance(wait)
        runtime.send("S", [("a",)])
    assert [row[2] for row in heard] == [1, 2, 3, 1]


def test_a_key_that_was_idle_for_just_the_period_is_forgotten_live_and_kept_in_playback() -> None:
    text = """define stream S (k string); define stream T (k string);
    @purge(enable='true', interval='1 sec', idle.period='2 sec')
    partition with (k of S) begin from S select k, count() as n insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    for wait in (0, 2500):  # it looks at 2000 ms
        runtime.advance(wait)
        runtime.send("S", [("a",)])
    assert [row[2] for row in heard] == [1, 1]
    runtime, heard = _run("@app:playback " + text, "Out")
    for moment in (3000, 5001):
        runtime.send("S", [(1000, ("a",))])
        runtime.send("T", [(moment, ("b",))])
        runtime.advance(1000)
        runtime.send("S", [(moment, ("a",))])
    assert [row[2] for row in heard] == [1, 2, 3, 1]


def test_in_playback_a_key_is_idle_by_the_clock_of_events() -> None:
    text = """@app:playback define stream S (k string);
    @purge(enable='true', interval='1 sec', idle.period='2 sec')
    partition with (k of S) begin from S select k, count() as n insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    for moment, key in ((0, "a"), (1500, "a"), (1600, "b"), (3000, "b"), (3700, "a"), (3800, "b")):
        runtime.send("S", [(1_000_000 + moment, (key,))])
        runtime.advance(1000)
    assert [row[1:] for row in heard] == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("b", 3)]
    runtime.send("S", [(1_006_000, ("c",))])
    runtime.advance(1000)
    runtime.send("S", [(1_006_000, ("a",))])
    assert heard[-1] == ("Out", "a", 1)


TABLE = """define stream S (k string, v int); define stream U (k string, v int); define stream D (k string);
{key} define table T (k string, v int);
from S insert into T; from U update or insert into T set T.v = v on T.k == k; from D delete T on T.k == k;"""


@pytest.mark.parametrize("key", ["", "@primaryKey('k')", "@index('k')"])
def test_tables_insert_update_delete_and_answer(key: str) -> None:
    runtime, _heard = _run(TABLE.format(key=key))
    for row in (("a", 1), ("b", 2), ("c", 3)):
        runtime.send("S", [row])
    runtime.send("U", [(None, ("b", 20)), (None, ("d", 4)), (None, ("d", 5))])
    runtime.send("D", [("a",)])
    found = runtime.query("from T select k, v order by k")
    assert found is not None
    assert [e.row for e in found] == [("b", 20), ("c", 3), ("d", 5)]
    assert [e.ts for e in found] == [-1, -1, -1]
    assert runtime.query("from T on k == 'x'") is None
    assert runtime.query("delete T on T.k == 'c'") == []
    assert runtime.query("select 'e' as k, 7 as v insert into T") == []
    assert runtime.query("update T set T.v = 8 on T.k == 'e'") == []
    found = runtime.query("from T on v > 5 select count() as n, sum(v) as s")
    assert found is not None
    assert [e.row for e in found] == [(2, 28)]


def test_a_taken_primary_key_drops_the_row_and_is_noted() -> None:
    runtime, _heard = _run(TABLE.format(key="@primaryKey('k')"))
    runtime.send("S", [(None, ("a", 1)), (None, ("a", 2)), (None, ("b", 3))])
    found = runtime.query("from T")
    assert found is not None
    assert [e.row for e in found] == [("a", 1), ("b", 3)]
    assert [f.condition for f in runtime.failures] == ["PRIMARY_KEY_TAKEN"]


def test_a_wrong_on_demand_query_has_siddhis_exception() -> None:
    runtime, _heard = _run(TABLE.format(key=""))
    with pytest.raises(NadiError) as caught:
        runtime.query("from Nothing select *")
    assert caught.value.siddhi_class == "OnDemandQueryCreationException"


def test_in_playback_time_follows_the_events_and_triggers_do_not() -> None:
    text = """@app:playback define stream S (a int); define trigger T at every 1 sec;
    from S select a, currentTimeMillis() as now insert into Out; from T select triggered_time insert into Ticks;"""
    runtime, heard = _run(text, "Out", "Ticks", now=5000)
    runtime.send("S", [(100_000, (1,))])
    runtime.send("S", [(90_000, (2,))])
    runtime.advance(1000)
    assert heard == [("Out", 1, 100_000), ("Out", 2, 100_000), ("Ticks", 6000)]


def test_idle_time_moves_the_clock_of_events() -> None:
    text = """@app:playback(idle.time='100 millisec', increment='2 sec') define stream S (a int);
    from S select a output last every 1 sec insert into Out;"""
    runtime, heard = _run(text, "Out")
    runtime.send("S", [(500, (1,))])
    runtime.advance(99)
    assert heard == []
    runtime.advance(1)
    assert heard == [("Out", 1)]
    assert runtime.kernel.flow.now == 2500
    runtime.advance(250)
    assert runtime.kernel.flow.now == 6500


def test_rate_limits_of_a_partition_start_with_the_key() -> None:
    text = """define stream S (k string);
    partition with (k of S) begin from S select k output every 1 sec insert into Out; end;"""
    runtime, heard = _run(text, "Out")
    runtime.advance(700)
    runtime.send("S", [("a",)])
    runtime.advance(999)
    assert heard == []
    runtime.advance(1)
    assert heard == [("Out", "a")]
