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


REFS = {"in": ("inMemory", {"topic": "x"}), "out": ("inMemory", {"topic": "nowhere"})}
REFERRING = (
    "@source(ref='in', @map(type='passThrough')) define stream In (v int);"
    "@sink(ref='out', topic='y', @map(type='passThrough')) define stream Out (v int); from In select v + 1 as v insert into Out;"
)


def test_sources_and_sinks_are_what_the_refs_of_the_node_say_and_what_they_say_themselves_counts() -> None:
    manager = RuntimeManager()
    manager.refs = REFS
    app = manager.create(REFERRING)
    heard: list[Any] = []
    manager.broker.subscribe("y", heard.append)
    manager.broker.subscribe("nowhere", heard.append)
    app.start()
    manager.broker.publish("x", (1,))
    assert [event.row for event in heard] == [(2,)]


def test_a_ref_that_the_node_does_not_have_is_refused() -> None:
    with pytest.raises(NadiError, match="'out' is no ref") as caught:
        Runtime(REFERRING, refs={"in": REFS["in"], "outs": REFS["out"]})
    assert caught.value.condition == "REF_UNKNOWN"


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


@pytest.mark.parametrize("first", ["sender", "receiver"])
def test_an_app_hears_of_another_one_at_the_time_that_the_clock_has_moved_to(first: str) -> None:
    texts = {
        "sender": "@sink(type='inMemory', topic='x', @map(type='passThrough')) define stream Out (at long);"
        "define trigger T at every 2 sec; from T select triggered_time as at insert into Out;",
        "receiver": "@source(type='inMemory', topic='x', @map(type='passThrough')) define stream In (at long);"
        "from In#window.time(2 sec) select at, count() as n insert into Seen;",
    }
    manager = RuntimeManager(now=0)
    apps = {name: manager.create(texts[name]) for name in sorted(texts, key=lambda name: name != first)}
    receiver, seen = apps["receiver"], []
    receiver.on_stream("Seen", lambda events: seen.append((receiver.now, *events[0].row)))
    for app in apps.values():
        app.start()
    manager.advance(6000)
    assert seen == [(2000, 2000, 1), (4000, 4000, 1), (6000, 6000, 1)]


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


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("from T select k having v > 1", ["b", "c"]),
        ("from T select k order by v desc", ["c", "b", "a", "d"]),
        ("from T as t select k having t.v > 1 order by t.v", ["b", "c"]),
        ("from T select k, v * -1 as v order by v", ["c", "b", "a", "d"]),
    ],
)
def test_a_find_selects_and_sorts_by_what_it_does_not_give(asked: str, found: list[str]) -> None:
    app = Runtime("define stream S (k string, v int); define table T (k string, v int); from S insert into T;")
    app.start()
    app.send("S", [("a", 1), ("b", 2), ("c", 4), ("d", None)])
    assert [event.row[0] for event in app.query(asked) or []] == found


def test_a_wrong_on_demand_query_has_the_exception_of_its_version() -> None:
    for compat, name in (("4", "StoreQueryCreationException"), ("5", "OnDemandQueryCreationException")):
        app = Runtime(f"@app:compat('{compat}') define table T (k string);")
        with pytest.raises(NadiError) as caught:
            app.query("from T select z")
        assert caught.value.siddhi_class == name


@pytest.mark.parametrize("asked", ["from O select cast(k, 'int') + 1 as z", "delete O on cast(O.k, 'int') > 1"])
def test_an_on_demand_query_that_fails_on_a_value_has_the_exception_of_its_version(asked: str) -> None:
    for compat, name in (("4", "StoreQueryCreationException"), ("5", "OnDemandQueryCreationException")):
        text = "define stream S (k object); define table O (k object); from S insert into O;"
        app = Runtime(f"@app:compat('{compat}') {text}")
        app.start()
        app.send("S", [("x",)])
        with pytest.raises(NadiError) as caught:
            app.query(asked)
        assert caught.value.siddhi_class == name
        assert isinstance(caught.value.__cause__, NadiError)


# ---- stopped, and started again (semantics/time.md#at-the-start) ------------------------------------------------------------


def heard(app: Runtime, *streams: str) -> list[Any]:
    """What comes on some streams, as (stream, row)."""
    rows: list[Any] = []
    for stream in streams:
        app.on_stream(stream, lambda events, stream=stream: rows.extend((stream, e.row) for e in events))
    return rows


def test_an_app_that_is_started_again_goes_on_with_what_it_had() -> None:
    app = Runtime("define stream S (a int); from S#window.length(3) select sum(a) as s insert into Out;")
    rows = heard(app, "Out")
    app.start()
    app.send("S", [(1,)])
    app.shutdown()
    with pytest.raises(NadiError, match="NOT_RUNNING"):
        app.send("S", [(100,)])
    app.start()
    app.send("S", [(2,)])
    assert rows == [("Out", (1,)), ("Out", (3,))]


def test_triggers_begin_anew_when_an_app_is_started_again() -> None:
    app = Runtime(
        "define trigger Begin at 'start'; define trigger Tick at every 300 milliseconds; define trigger Cron at '0/5 * * * * ?';"
    )
    rows = heard(app, "Begin", "Tick", "Cron")
    app.start()
    app.advance(400)
    app.shutdown()
    app.advance(9700)
    app.start()
    app.start()  # it runs: nothing happens
    app.advance(299)
    assert rows == [("Begin", (0,)), ("Tick", (300,)), ("Begin", (10_100,))]
    app.advance(1)
    assert rows[3:] == [("Tick", (10_400,))]
    app.advance(4600)
    assert ("Cron", (15_000,)) in rows
    assert ("Cron", (5_000,)) not in rows


def test_what_fell_due_while_an_app_was_stopped_is_done_when_it_is_started_again() -> None:
    app = Runtime("define stream S (a int); from S#window.time(1 sec) select sum(a) as s insert all events into Out;")
    rows = heard(app, "Out")
    app.start()
    app.send("S", [(1,)])
    app.shutdown()
    app.advance(5000)
    assert rows == [("Out", (1,))]
    app.start()
    assert rows == [("Out", (1,)), ("Out", (None,))]
    app.send("S", [(4,)])
    assert rows[2:] == [("Out", (4,))]


def test_in_playback_the_clock_of_events_stands_while_an_app_is_stopped() -> None:
    app = Runtime(
        "@app:playback define stream S (a int); from S#window.time(1 sec) select a, sum(a) as s insert all events into Out;"
    )
    rows = heard(app, "Out")
    app.start()
    app.send("S", [(1000, (1,))])
    app.shutdown()
    app.advance(60_000)
    app.start()
    app.send("S", [(1800, (2,))])
    app.send("S", [(2100, (4,))])
    assert rows == [("Out", (1, 1)), ("Out", (2, 3)), ("Out", (1, 2)), ("Out", (4, 6))]


def test_sources_and_scripts_work_again_after_a_stop() -> None:
    broker = Broker()
    app = Runtime(
        "@source(type='inMemory', topic='t', @map(type='passThrough')) define stream S (a int);"
        "define function twice[javascript] return int { return data[0] * 2; };"
        "from S select twice(a) as b insert into Out;",
        broker=broker,
    )
    rows = heard(app, "Out")
    for _ in range(2):
        app.start()
        broker.publish("t", Event(0, 5, (4,)))
        app.shutdown()
        broker.publish("t", Event(0, 5, (5,)))
    assert rows == [("Out", (8,)), ("Out", (8,))]


def test_an_app_that_was_stopped_before_it_began_begins_when_it_is_started() -> None:
    app = Runtime("define trigger Begin at 'start';")
    rows = heard(app, "Begin")
    app.shutdown()
    app.start(7)
    assert rows == [("Begin", (7,))]


def test_a_state_that_is_put_into_a_stopped_app_is_what_it_goes_on_with() -> None:
    app = Runtime(COUNTING)
    rows = heard(app, "Out")
    app.start()
    app.send("S", [(1,)])
    saved = app.persist()
    app.send("S", [(1,)])
    app.shutdown()
    app.restore(saved)
    app.start()
    app.send("S", [(1,)])
    assert [row for _stream, row in rows] == [(1,), (2,), (2,)]


# ---- a snapshot that is put back in playback (semantics/events.md#snapshots; as seen with Siddhi 5.1.30) --------------------

PLAYED = "define stream S (a int); from S#window.time(1 sec) select a, sum(a) as s insert all events into Out;"


def test_the_clock_of_events_does_not_go_back_with_a_snapshot() -> None:
    app = Runtime("@app:playback " + PLAYED)
    rows = heard(app, "Out")
    app.start()
    app.send("S", [(1000, (1,))])
    app.send("S", [(1400, (2,))])
    saved = app.persist()
    app.send("S", [(2500, (3,))])
    app.restore(saved)
    del rows[:]
    app.send("S", [(1800, (4,))])  # late: it is 2500, and the two of the snapshot have left
    app.send("S", [(2450, (5,))])
    app.send("S", [(2600, (6,))])
    assert [row for _stream, row in rows if row[1] is not None] == [(4, 4), (5, 9), (6, 15)]


def test_a_new_app_that_is_given_a_snapshot_has_its_first_event_for_a_clock() -> None:
    first = Runtime("@app:playback " + PLAYED)
    first.start()
    first.send("S", [(5000, (1,))])
    first.send("S", [(5400, (2,))])
    app = Runtime("@app:playback " + PLAYED)
    rows = heard(app, "Out")
    app.restore(first.persist())
    app.start()
    for ts, a in ((3000, 4), (3500, 5), (5200, 7), (6500, 8)):
        app.send("S", [(ts, (a,))])
    assert [row for _stream, row in rows] == [(4, 7), (5, 12), (7, 19), (7, None), (8, 8)]


def test_silence_is_waited_for_from_the_first_event_after_a_snapshot_on() -> None:
    text = "@app:playback(idle.time='100 millisec', increment='1 sec') " + PLAYED
    first = Runtime(text)
    first.start()
    first.send("S", [(1000, (1,))])
    first.send("S", [(1400, (2,))])
    app = Runtime(text, now=60_000)
    rows = heard(app, "Out")
    app.restore(first.persist())
    app.start()
    app.advance(1000)
    assert rows == []
    app.send("S", [(1500, (3,))])
    app.advance(99)
    assert [row for _stream, row in rows] == [(3, 6)]
    app.advance(1)
    assert rows[1:] == [("Out", (3, None))]
