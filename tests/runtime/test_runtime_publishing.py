"""inMemory sinks: topics, distribution over several of them, and what happens to events that cannot be published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.kernel.rows.events import Event
from nadi.runtime import Broker, Runtime
from nadi.runtime.routers import ROUTERS

THREE = "@destination(topic='t0'), @destination(topic='t1'), @destination(topic='t2')"


class Rig:
    """An app with one inMemory sink on `Out`, and what its topics got."""

    def __init__(self, sink: str, more: str = "", on_error: str = "") -> None:
        self.broker = Broker()
        self.heard: list[tuple[str, Any]] = []
        for topic in ("t0", "t1", "t2", "1.5"):
            self.broker.subscribe(topic, self._hear(topic))
        text = (
            f"{on_error} @sink(type='inMemory', {sink}, @map(type='passThrough')) define stream Out (k string, v double);"
            f"define stream S (k string, v double); from S insert into Out; {more}"
        )
        self.runtime = Runtime(text, broker=self.broker)
        self.faults: list[Any] = []
        if "Faults" in self.runtime.app.streams:
            self.runtime.on_stream("Faults", lambda chunk: self.faults.extend(e.row for e in chunk))
        self.runtime.start()

    def _hear(self, topic: str) -> Any:
        def hear(message: Any) -> None:
            events = message if isinstance(message, list) else [message]
            if any(e.row[0] == "bad" for e in events):
                raise OSError("nobody listens")
            self.heard.append((topic, [e.row[0] for e in events] if isinstance(message, list) else message.row[0]))

        return hear

    def send(self, *keys: str) -> None:
        self.runtime.send("S", [(k, 1.5) for k in keys])


def test_a_chunk_is_one_message_and_a_topic_with_an_attribute_gets_one_per_event() -> None:
    whole, each = Rig("topic='t0'"), Rig("topic='{{v}}'")
    for rig in (whole, each):
        rig.send("a", "b")
        rig.send("c")
    assert whole.heard == [("t0", ["a", "b"]), ("t0", "c")]
    assert each.heard == [("1.5", "a"), ("1.5", "b"), ("1.5", "c")]


def test_events_go_round_to_all_or_to_the_destination_of_their_key() -> None:
    turn, broad = (Rig(f"@distribution(strategy='{s}', {THREE})") for s in ("roundRobin", "broadcast"))
    keyed = Rig(f"@distribution(strategy='partitioned', partitionKey='k', {THREE})")
    for rig in (turn, broad, keyed):
        rig.send("a", "b")
        rig.send("c", "d")
    assert turn.heard == [("t0", "a"), ("t1", "b"), ("t2", "c"), ("t0", "d")]
    assert broad.heard == [(t, keys) for keys in (["a", "b"], ["c", "d"]) for t in ("t0", "t1", "t2")]
    assert keyed.heard == [("t1", "a"), ("t2", "b"), ("t0", "c"), ("t1", "d")]  # hash codes 97 … 100, modulo 3


@pytest.mark.parametrize(
    ("sink", "condition"),
    [
        ("a='1'", "INVALID_ANNOTATION"),
        ("topic='{{price}}'", "ATTRIBUTE_NOT_FOUND"),
        ("topic='t0', on.error='RETRY'", "INVALID_ANNOTATION"),
        (f"@distribution(strategy='sticky', {THREE})", "INVALID_ANNOTATION"),
        ("@distribution(strategy='broadcast')", "INVALID_ANNOTATION"),
        (f"@distribution(strategy='partitioned', {THREE})", "INVALID_ANNOTATION"),
        (f"@distribution(strategy='partitioned', partitionKey='key', {THREE})", "ATTRIBUTE_NOT_FOUND"),
    ],
)
def test_a_sink_that_cannot_be_is_refused_when_the_app_is_made(sink: str, condition: str) -> None:
    with pytest.raises(NadiError) as caught:
        Rig(sink)
    assert caught.value.condition == condition


def test_the_strategies_are_those_of_the_routers_in_refusals_and_in_the_rules() -> None:
    with pytest.raises(NadiError, match=f"its strategy is {', '.join(ROUTERS)}, not 'sticky'"):
        Rig(f"@distribution(strategy='sticky', {THREE})")
    rules = (Path(__file__).parents[2] / "docs" / "internals" / "semantics" / "events.md").read_text("utf-8")
    section = rules.partition("\n## Distribution\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(ROUTERS)


@pytest.mark.parametrize("strategy", ROUTERS)
def test_the_name_of_a_strategy_may_have_any_capitals(strategy: str) -> None:
    rig = Rig(f"@distribution(strategy='{strategy.upper()}', partitionKey='k', {THREE})")
    rig.send("a")
    assert {key for _topic, key in rig.heard} == {"a"}


@pytest.mark.parametrize("action", ["", ", on.error='LOG'", ", on.error='STORE'", ", on.error='WAIT'"])
def test_what_a_sink_cannot_publish_is_kept_with_the_failures_and_the_app_goes_on(action: str) -> None:
    rig = Rig(f"topic='t0'{action}", "from !Out select k insert into Faults;", "@OnError(action='STREAM')")
    rig.send("bad")
    rig.send("a")
    assert rig.heard == [("t0", "a")]
    assert [(f.stream, f.row, f.routed) for f in rig.runtime.failures] == [("Out", ("bad", 1.5), False)]
    assert rig.faults == []


def test_on_error_stream_sends_what_cannot_be_published_to_the_fault_stream() -> None:
    rig = Rig(
        "topic='{{v}}', on.error='STREAM'",
        "from !Out select k, convert(_error, 'string') as why insert into Faults;",
        "@OnError(action='STREAM')",
    )
    rig.send("a", "bad", "b")
    assert rig.heard == [("1.5", "a"), ("1.5", "b")]
    assert rig.faults == [("bad", "QUERY_FAILED: OSError: nobody listens")]
    assert [f.routed for f in rig.runtime.failures] == [True]


def test_on_error_stream_without_a_fault_stream_keeps_the_event_with_the_failures() -> None:
    rig = Rig("topic='t0', on.error='STREAM'")
    rig.send("bad")
    assert [f.routed for f in rig.runtime.failures] == [False]


@pytest.mark.parametrize("action", ["LOG", "STORE"])
def test_an_event_that_fails_in_a_query_is_a_failure_of_its_stream(action: str) -> None:
    runtime = Runtime(f"@OnError(action='{action}') define stream S (a int); from S select a + 1 as b insert into Out;")
    runtime.start()
    runtime.send("S", [("text",)])
    assert [(f.stream, f.row, f.condition, f.routed) for f in runtime.failures] == [
        ("S", ("text",), "CLASS_CAST", False)
    ]


def test_a_message_is_the_event_itself() -> None:
    broker, got = Broker(), []
    broker.subscribe("t", got.append)
    runtime = Runtime("@sink(type='inMemory', topic='t') define stream S (a int);", broker=broker)
    runtime.start()
    runtime.send("S", [(5, (1,))])
    assert got == [Event(0, 5, (1,))]


# ---- sources: values go by position ----------------------------------------------------------------------------------


def _topic(sent: str, heard: str, rows: list[Any], more: str = "") -> tuple[list[Any], Runtime]:
    """What a source of the attributes `heard` makes of what a sink of the attributes `sent` publishes."""
    app = Runtime(
        f"define stream S ({sent}); @sink(type='inMemory', topic='t') define stream Out ({sent});"
        f"{more} @source(type='inMemory', topic='t') define stream In ({heard});"
        "from S insert into Out; from In insert into Seen;"
        f"{'from !In select convert(_error, chr) as why insert into Faults;'.replace('chr', chr(39) + 'string' + chr(39)) if more else ''}"
    )
    seen: list[Any] = []
    app.on_stream("Seen", lambda chunk: seen.extend(event.row for event in chunk))
    if more:
        app.on_stream("Faults", lambda chunk: seen.extend(event.row for event in chunk))
    app.start()
    app.send("S", [(None, row) for row in rows])
    return seen, app


def test_values_of_a_topic_go_to_attributes_by_position_whatever_they_are_called() -> None:
    seen, app = _topic("av double, total long", "total double, cnt long", [(2.0, 1), (None, None)])
    assert seen == [(2.0, 1), (None, None)]
    assert app.failures == ()


@pytest.mark.parametrize(
    "heard", ["payload string", "a double", "a double, b long, c long", "a double, b int", "b long, a double"]
)
def test_an_event_of_other_types_or_another_number_of_values_is_an_error_and_no_event(heard: str) -> None:
    seen, app = _topic("av double, total long", heard, [(2.0, 1), (3.0, 2)])
    assert seen == []
    assert [(f.stream, f.condition, f.routed) for f in app.failures] == [("In", "ROW_OF_OTHER_TYPES", False)] * 2
    assert "(double, long)" in app.failures[0].message
    kept = app.errors.list()
    assert [one.final for one in kept] == ["it never was an event of the stream"] * 2
    with pytest.raises(NadiError, match="ERROR_NOT_REPLAYABLE"):
        app.errors.replay(kept[0].id)


def test_an_event_of_other_types_goes_to_the_fault_stream_of_the_source() -> None:
    seen, app = _topic("a double", "a long", [(2.0,)], "@OnError(action='STREAM')")
    assert len(seen) == 1
    assert seen[0][0].startswith("ROW_OF_OTHER_TYPES: ")
    assert [f.routed for f in app.failures] == [True]


def test_one_subscriber_of_other_types_keeps_no_event_from_the_others() -> None:
    broker, heard = Broker(), []
    texts = [
        "@sink(type='inMemory', topic='t') define stream Out (a int); define stream S (a int); from S insert into Out;",
        "@source(type='inMemory', topic='t') define stream In (a string); from In insert into Seen;",
        "@source(type='inMemory', topic='t') define stream In (b int); from In insert into Seen;",
    ]
    apps = [Runtime(text, broker=broker) for text in texts]
    apps[2].on_stream("Seen", lambda chunk: heard.extend(event.row for event in chunk))
    for app in apps:
        app.start()
    apps[0].send("S", [(None, (5,))])
    assert heard == [(5,)]
    assert [len(app.failures) for app in apps] == [0, 1, 0]
