"""What an app in this process could not take: kept, sent again once, forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.runtime import Broker, Runtime

FRAGILE = """define stream S (k string, o object);
{on_error} @sink(type='inMemory', topic='t', on.error='{action}', @map(type='passThrough')) define stream Out (k string, n int);
from S select k, sizeOfSet(o) as n insert into Out;
"""


class Rig:
    """An app whose query fails what is no set, and whose topic does not take the key "bad" while it is `strict`."""

    def __init__(self, action: str = "STORE", on_error: str = "") -> None:
        broker = Broker()
        self.strict = True
        self.heard: list[tuple[Any, ...]] = []
        broker.subscribe("t", self._hear)
        self.app = Runtime(FRAGILE.format(action=action, on_error=on_error), broker=broker)
        self.app.start(5)

    def _hear(self, message: Any) -> None:
        if self.strict and message.row[0] == "bad":
            raise OSError("not this one")
        self.heard.append((message.ts, *message.row))

    def send(self, *rows: tuple[Any, ...]) -> None:
        for row in rows:
            self.app.send("S", [(7, row)])


def test_a_failed_event_goes_to_its_stream_again_at_its_time_and_once():
    rig = Rig()
    rig.send(("a", {1}), ("b", "no set"))
    (kept,) = rig.app.errors.list()
    assert (kept.id, kept.kind, kept.stream, kept.time, kept.payload) == ("1", "query", "S", 7, (("b", "no set"),))
    assert kept.reason.startswith("[CLASS_CAST]")
    assert rig.app.errors.replay("1", payload=[("b", {1, 2})]) == 1
    assert rig.heard == [(7, "a", 1), (7, "b", 2)]
    with pytest.raises(NadiError) as twice:
        rig.app.errors.replay("1")
    assert twice.value.condition == "ERROR_REPLAYED"
    assert rig.app.errors.replay() == 0
    assert rig.app.errors.replay("1", again=True) == 1
    assert [(e.id, e.replayed) for e in rig.app.errors.list()] == [("1", 2), ("2", 0)]
    assert len(rig.app.failures) == 2


def test_an_unpublished_message_goes_to_its_topic_again():
    rig = Rig()
    rig.send(("bad", {1}), ("c", {2}))
    (kept,) = rig.app.errors.list(kind="sink")
    assert (kept.stream, kept.payload, rig.heard) == ("Out", (("bad", 1),), [(7, "c", 1)])
    assert rig.app.errors.replay() == 1  # refused again
    assert [e.id for e in rig.app.errors.list()] == ["1", "2"]
    rig.strict = False
    assert rig.app.errors.replay() == 1
    assert rig.heard == [(7, "c", 1), (7, "bad", 1)]


@pytest.mark.parametrize(
    ("action", "on_error", "count"), [("LOG", "", 0), ("STREAM", "", 1), ("STREAM", "@OnError(action='STREAM')", 0)]
)
def test_what_the_sink_logs_or_a_fault_stream_has_is_not_kept(action: str, on_error: str, count: int):
    rig = Rig(action, on_error)
    rig.send(("bad", {1}))
    assert len(rig.app.errors.list()) == count
    assert len(rig.app.failures) == 1


def test_errors_are_chosen_shown_and_purged():
    rig = Rig()
    rig.send(("b", "no set"), ("bad", {1}), ("c", "no set"))
    errors = rig.app.errors
    assert [e.id for e in errors.list(limit=2)] == ["2", "3"]
    assert [e.id for e in errors.list("query")] == ["1", "3"]
    assert errors.list(until=7) == []
    assert len(errors.list(since=7, stream="Out")) == 1
    assert errors.show("2").kind == "sink"
    assert errors.purge("2", "9") == 1
    with pytest.raises(NadiError) as gone:
        errors.show("2")
    assert gone.value.condition == "ERROR_NOT_FOUND"
    assert errors.purge(kind="sink") == 0
    assert errors.purge() == 2
    rig.send(("d", "no set"))
    assert [e.id for e in errors.list()] == ["4"]


def test_an_app_that_has_stopped_sends_nothing_again():
    rig = Rig()
    rig.send(("b", "no set"))
    rig.app.shutdown()
    with pytest.raises(NadiError) as stopped:
        rig.app.errors.replay("1")
    assert stopped.value.condition == "NOT_RUNNING"
    assert rig.app.errors.show("1").replayed == 0
