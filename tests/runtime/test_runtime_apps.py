"""Apps in this process: life, broker, shared clock, state."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.kernel.rows.events import Event
from nadi.runtime import Broker, Runtime, RuntimeManager
from nadi.runtime.transport import events_of

COUNTING = "define stream S (a int); @info(name='q') from S select count() as n insert into Out;"


def test_events_are_taken_between_start_and_shutdown_only() -> None:
    runtime = Runtime(COUNTING)
    for stop in (False, True):
        with pytest.raises(NadiError) as caught:
            runtime.send("S", [(1,)])
        assert caught.value.condition == "NOT_RUNNING"
        if not stop:
            runtime.start()
            runtime.send("S", [(1,)])
            runtime.shutdown()


def test_a_query_callback_gets_current_events_and_none_for_what_there_is_not() -> None:
    runtime = Runtime(COUNTING, now=7)
    heard: list[Any] = []
    runtime.on_query("q", lambda ts, current, expired: heard.append((ts, [e.row for e in current or []], expired)))
    runtime.start()
    runtime.send("S", [(1,)])
    runtime.send("S", [(3, (1,))])
    assert heard == [(7, [(1,)], None), (3, [(2,)], None)]


def test_queries_in_partitions_and_unknown_ones_cannot_be_listened_to() -> None:
    text = "define stream S (a int); partition with (a of S) begin @info(name='p') from S insert into Out; end;"
    with pytest.raises(NadiError) as caught:
        Runtime(text).on_query("p", lambda *_given: None)
    assert caught.value.siddhi_class == "QueryNotExistException"


def test_missing_values_are_null_and_further_ones_are_ignored() -> None:
    runtime = Runtime("define stream S (a int, f float); from S insert into Out;")
    rows: list[Any] = []
    runtime.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    runtime.start()
    runtime.send("S", [[1]])
    runtime.send("S", [(2, 0.1, "more")])
    assert rows == [(1, None), (2, 0.10000000149011612)]


def test_apps_meet_at_the_topics_of_a_broker() -> None:
    manager = RuntimeManager()
    sender = manager.create(
        "@sink(type='inMemory', topic='{{k}}', @map(type='passThrough')) define stream Out (k string, v int);"
        "define stream S (k string, v int); from S insert into Out;"
    )
    receiver = manager.create(
        "@source(type='inMemory', topic='x', @map(type='passThrough')) define stream In (k string, v int);"
        "from In select v insert into Seen;"
    )
    seen: list[Any] = []
    receiver.on_stream("Seen", lambda events: seen.extend(e.row for e in events))
    sender.start()
    receiver.start()
    sender.send("S", [(None, ("x", 1)), (None, ("y", 2)), (None, ("x", 3))])
    assert seen == [(1,), (3,)]
    receiver.shutdown()
    sender.send("S", [("x", 4)])
    assert seen == [(1,), (3,)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("roundRobin", {"a": 2, "b": 1}), ("broadcast", {"a": 3, "b": 3}), ("partitioned", {"a": 1, "b": 2})],
)
def test_a_distributed_sink_spreads_events_over_its_destinations(strategy: str, expected: dict[str, int]) -> None:
    broker = Broker()
    heard: dict[str, int] = {"a": 0, "b": 0}
    for topic in heard:
        broker.subscribe(topic, lambda _m, topic=topic: heard.update({topic: heard[topic] + 1}))
    runtime = Runtime(
        f"@sink(type='inMemory', @map(type='passThrough'), @distribution(strategy='{strategy}', partitionKey='k',"
        "@destination(topic='a'), @destination(topic='b'))) define stream Out (k string);"
        "define stream S (k string); from S insert into Out;",
        broker=broker,
    )
    runtime.start()
    for k in ("1", "2", "1"):  # the hashes of "1" and "2" are 49 and 50
        runtime.send("S", [(k,)])
    assert heard == expected


def test_messages_are_events_lists_of_them_or_rows() -> None:
    assert events_of(Event(0, 5, (1,))) == [(5, (1,))]
    assert events_of([Event(0, 5, (1,)), Event(0, 6, (2,))]) == [(5, (1,)), (6, (2,))]
    assert events_of([1, "a"]) == [(None, (1, "a"))]


def test_timers_of_all_apps_fire_in_the_order_of_their_times() -> None:
    manager = RuntimeManager(now=0)
    order: list[Any] = []
    for seconds in (2, 3):
        app = manager.create(f"define trigger T at every {seconds} sec; from T insert into Out;")
        app.on_stream("Out", lambda events, n=seconds: order.append((n, events[0].row[0])))
        app.start()
    manager.advance(6000)
    assert order == [(2, 2000), (3, 3000), (2, 4000), (2, 6000), (3, 6000)]


def test_a_restored_app_goes_on_counting() -> None:
    first = Runtime(COUNTING)
    first.start()
    first.send("S", [(1,)])
    second = Runtime(COUNTING)
    rows: list[Any] = []
    second.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    second.restore(first.persist())
    second.start()
    second.send("S", [(1,)])
    assert rows == [(2,)]


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(NadiError) as caught:
        Runtime(COUNTING).restore(b"nonsense")
    assert caught.value.condition == "STATE_NOT_READABLE"


@pytest.mark.parametrize(("compat", "expected"), [("", 5000), ("@app:compat('4')", 90_000)])
def test_in_playback_an_event_without_a_time_gets_the_clock_of_its_version(compat: str, expected: int) -> None:
    text = f"{compat} @app:playback define stream S (a int); from S select a, eventTimestamp() as t insert into Out;"
    runtime = Runtime(text, now=5000)
    rows: list[Any] = []
    runtime.on_stream("Out", lambda events: rows.extend(e.row for e in events))
    runtime.start()
    runtime.send("S", [(90_000, (1,))])
    runtime.send("S", [(None, (2,))])
    assert rows == [(1, 90_000), (2, expected)]


def test_more_can_be_taken_off_a_sum_than_was_put_in_and_it_stays_right() -> None:
    """In a join the X of an event is taken off per match of the moment at which it leaves, and an R may have cleared the sum before."""
    app = Runtime(
        "define stream L (k string, v int); define stream R (k string, v int);"
        "from L right outer join R#window.length(1) on L.k == R.k select sum(R.v) as s insert all events into Out;"
    )
    sums = []
    app.on_stream("Out", lambda events: sums.append([e.row[0] for e in events]))
    app.start()
    app.send("R", [("a", 20)])
    app.send("L", [("a", 1)])  # the L leaves at once, and its R clears the sum
    app.send("R", [("a", 30)])
    assert sums == [[20], [40, 20], [-20, 10]]


def test_batches_that_a_joined_window_lets_out_one_after_the_other_are_delivered_one_by_one() -> None:
    app = Runtime(
        "define stream L (v int); define stream R (v int);"
        "from L#window.length(1) join R#window.lengthBatch(2) select L.v as a, R.v as b insert into Out;"
    )
    calls = []
    app.on_stream("Out", lambda events: calls.append([e.row for e in events]))
    app.start()
    app.send("L", [(1,)])
    app.send("R", [(None, (2,)), (None, (3,)), (None, (4,)), (None, (5,))])
    assert calls == [[(1, 2), (1, 3)], [(1, 4), (1, 5)]]


def test_a_batch_of_no_length_makes_a_chunk_of_each_event() -> None:
    app = Runtime("define stream S (v int); from S#window.lengthBatch(0) select sum(v) as total insert into Out;")
    calls = []
    app.on_stream("Out", lambda events: calls.append([e.row[0] for e in events]))
    app.start()
    app.send("S", [(None, (1,)), (None, (2,))])
    assert calls == [[1], [2]]


@pytest.mark.parametrize(("compat", "rows"), [("5", [("a", 4), ("b", 2)]), ("4", [("a", 4), ("b", 2), ("a", 4)])])
def test_a_snapshot_of_groups_has_a_row_per_group_and_in_4_one_per_event(compat: str, rows: list[Any]) -> None:
    app = Runtime(
        f"@app:compat('{compat}') define stream S (k string, v int);"
        "from S#window.length(3) select k, sum(v) as s group by k output snapshot every 1 sec insert all events into Out;"
    )
    seen = []
    app.on_stream("Out", lambda events: seen.append([e.row for e in events]))
    app.start()
    for row in (("a", 1), ("b", 2), ("a", 3)):
        app.send("S", [row])
    app.advance(1000)
    assert seen == [rows]


def test_a_wrong_on_demand_query_has_the_exception_of_its_version() -> None:
    for compat, name in (("4", "StoreQueryCreationException"), ("5", "OnDemandQueryCreationException")):
        app = Runtime(f"@app:compat('{compat}') define table T (k string);")
        with pytest.raises(NadiError) as caught:
            app.query("from T select z")
        assert caught.value.siddhi_class == name
