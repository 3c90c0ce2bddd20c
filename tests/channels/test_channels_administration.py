"""What a manager does with channels, on a real NATS server."""

from __future__ import annotations

import pytest
from channels_memory import all_of, delivery, give, log_on, sink_on

from nadi.channels import administration, kafkatopics, outside
from nadi.channels.options import Channel
from nadi.channels.records import CLOSE
from nadi.channels.transport import Bounds, open_transport
from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.natsserver import NatsServer


def channel(server: NatsServer, name: str, parts: int = 1) -> Channel:
    return Channel("nats", name, parts, server.url)


def test_a_full_channel_holds_its_producer_and_loses_nothing_old(nats: NatsServer) -> None:
    full = channel(nats, "full")
    administration.create(full, Bounds(bytes=600_000))
    sink = sink_on(open_transport(full))  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    given = 0
    rows = [(f"key{i}", i, 1_000, i) for i in range(3_000)]
    with pytest.raises(ConnectionUnavailableException, match="it is full"):  # noqa: PT012 (which cut it is depends on the server)
        for cut in range(1, 100):
            give(sink, delivery(cut, rows, given, clock=1_000 * cut))
            given += len(rows)
    assert given > 0
    assert len(all_of(log_on(open_transport(full)))) == given  # type: ignore[arg-type]
    done = given // len(rows)
    administration.trim(full, {("A-1", 0): given - 1})
    give(sink, delivery(done + 1, rows, given, clock=1_000 * (done + 1)))
    log = log_on(open_transport(full))  # type: ignore[arg-type]
    assert log.end(0) == given + len(rows)
    assert sum(len(m) for m in log.read(0, given, given + len(rows))) == len(rows)


def test_a_channel_that_is_full_takes_more_when_it_may_be_larger(nats: NatsServer) -> None:
    small = channel(nats, "small")
    administration.create(small, Bounds(bytes=100_000))
    sink = sink_on(open_transport(small))  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    rows = [(f"key{i}", i, 1_000, i) for i in range(5_000)]
    with pytest.raises(ConnectionUnavailableException, match="it is full"):
        give(sink, delivery(1, rows))
    administration.resize(small, Bounds(bytes=10_000_000))
    give(sink, delivery(1, rows))
    assert len(all_of(log_on(open_transport(small)))) == 5_000  # type: ignore[arg-type]


def test_a_producer_that_is_retired_gives_nothing_more_and_holds_nobody(nats: NatsServer) -> None:
    left = channel(nats, "left")
    sink = sink_on(open_transport(left))  # type: ignore[arg-type]
    sink.begin(3, (0, 0))
    give(sink, delivery(1, [("k", 1, 10, 0)], epoch=3))
    with pytest.raises(NadiError, match="FENCED"):
        administration.retire(left, "A-1", 2)
    administration.retire(left, "A-1", 4)
    administration.retire(left, "B-1", 4)  # it has never begun
    administration.retire(left, "A-1", 4)
    with pytest.raises(NadiError, match="FENCED"):
        give(sink, delivery(2, [("k", 2, 20, 1)], 1, epoch=3))
    log = log_on(open_transport(left), ["A-1", "B-1"])  # type: ignore[arg-type]
    assert [row[4] for row in all_of(log)] == [1]
    assert log.finished()
    assert {p.producer: p.kind for p in administration.progress(left).values()} == {"A-1": CLOSE, "B-1": CLOSE}


def test_removed_channels_are_gone_however_often_they_are_removed(nats: NatsServer) -> None:
    gone = channel(nats, "gone")
    administration.create(gone)
    administration.remove(gone)
    administration.remove(gone)
    assert administration.progress(gone) == {}


def test_a_trim_that_is_made_again_or_late_takes_nothing_that_a_later_one_has_left(nats: NatsServer) -> None:
    kept = channel(nats, "kept", 2)
    sink = sink_on(open_transport(kept), parts=2, key="key")  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    for cut in range(1, 8):
        rows = [(f"key{i}", i, 1_000 * cut, i) for i in range(400)]
        give(sink, delivery(cut, rows, 400 * cut, clock=1_000 * cut))
    ends = administration.progress(kept)["A-1"].ends
    needed = {("A-1", part): end // 2 for part, end in enumerate(ends)}
    before = administration.size(kept)
    administration.trim(kept, needed)
    after = administration.size(kept)
    assert after.bytes < before.bytes
    administration.trim(kept, needed)
    administration.trim(kept, dict.fromkeys(needed, 0))  # as a leader of before would
    assert administration.size(kept) == after
    log = log_on(open_transport(kept), parts=2)  # type: ignore[arg-type]
    for part, end in enumerate(ends):
        rows_left = [p for m in log.read(part, end // 2, end) for p in m.positions.tolist()]
        assert sorted(set(rows_left)) == list(range(end // 2, end))


def test_topics_on_several_brokers_have_what_they_acknowledge_on_most_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}
    monkeypatch.setattr(kafkatopics, "create", lambda _admin, topics, _name: made.update({t.topic: t for t in topics}))
    on_kafka = Channel("kafka", "A.S", 2, "127.0.0.1:1", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(outside, "parts", lambda _channel: 0)
    for replicas, least in ((1, "1"), (2, "2"), (3, "2"), (5, "3")):
        made.clear()
        administration.create(on_kafka, Bounds(replicas=replicas))
        outside.create(Channel("kafka", "A.Ctl", 1, "127.0.0.1:1"), Bounds(replicas=replicas))
        assert len(made) == 3, "rows, progress records, and what comes from outside"
        assert {topic.replication_factor for topic in made.values()} == {replicas}
        assert {topic.config["min.insync.replicas"] for topic in made.values()} == {least}
