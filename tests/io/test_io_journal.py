from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from uuid import uuid4

import pytest
from eventually import eventually
from log_contract import check_log, contents, payloads

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.jetstream import Stored
from nadi.io.journal import Journal
from nadi.io.journalholds import hold
from nadi.io.journallog import JournalLog, open_journal_log
from nadi.io.journalmessages import Event, stream_name
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import NatsServer
from nadi.io.retry import unavailable


@pytest.fixture
def client(nats: NatsServer) -> NatsClient:
    return NatsClient(nats.url)


@pytest.fixture
def app() -> str:
    return f"App{uuid4().hex[:8]}"


def event(text: str, time: int = 1_000) -> Event:
    return time, text.encode(), {}


def test_events_come_back_with_times_and_properties_in_the_order_of_the_appends(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    first = journal.append(0, [(5, b"a", {"trp:host": "x"}), (6, b"b", {})])
    second = journal.append(0, [(4, b"c", {})])
    log = JournalLog(client, app, 0)
    assert contents(log) == [(first, 5, b"a"), (first + 1, 6, b"b"), (second, 4, b"c")]
    (piece,) = log.read(0, log.beginning(0), log.end(0))
    assert list(piece.properties) == [{"trp:host": "x"}, {}, {}]


def test_the_journal_keeps_the_rules_of_a_log(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    for n in range(40):
        journal.append(n % 2, [event(f"{n}/{i}", n) for i in range(n * 7 % 13 + 1)])
    check_log(JournalLog(client, app, 0))
    check_log(JournalLog(client, app, 1))


def test_a_journal_that_nobody_wrote_to_is_an_empty_log(client: NatsClient, app: str) -> None:
    log = JournalLog(client, app, 0)
    assert log.beginning(0) == log.end(0)
    check_log(log)


def test_an_event_that_comes_while_somebody_asks_where_the_journal_begins_is_not_passed_over(
    client: NatsClient, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, log, asks = Journal(client, app), JournalLog(client, app, 0), JournalLog._message

    def overtaken(log: JournalLog, which: Mapping[str, object]) -> Stored | None:
        found = asks(log, which)
        journal.append(0, [event("a")])
        return found

    monkeypatch.setattr(JournalLog, "_message", overtaken)
    begins = log.beginning(0)
    monkeypatch.undo()
    assert [body for piece in log.read(0, begins, log.end(0)) for body in piece.payloads] == [b"a"]


def test_sources_of_one_app_do_not_see_each_other(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    journal.append(0, [event("zero")])
    journal.append(1, [event("one")])
    assert payloads(JournalLog(client, app, 0)) == [b"zero"]
    assert payloads(JournalLog(client, app, 1)) == [b"one"]


def test_what_arrives_during_an_append_shares_the_next_one(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    told = [journal.submit(0, [event(str(n))]) for n in range(500)]
    positions = [t.result(60) for t in told]
    assert positions == list(range(500))
    info = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(app)}"))
    assert info["state"]["messages"] < 250
    assert payloads(JournalLog(client, app, 0)) == [str(n).encode() for n in range(500)]


def test_numbers_go_on_where_another_writer_stopped_or_came_between(client: NatsClient, app: str) -> None:
    first, second = Journal(client, app), Journal(client, app)
    assert first.append(0, [event("0"), event("1")]) == 0
    assert second.append(0, [event("2")]) == 2
    assert first.append(0, [event("3"), event("4")]) == 3
    assert second.append(0, [event("5")]) == 5
    assert payloads(JournalLog(client, app, 0)) == [str(n).encode() for n in range(6)]


def test_any_position_is_found_by_a_reader_that_knows_nothing(client: NatsClient, app: str) -> None:
    journal, draw, count = Journal(client, app), random.Random(9), 0
    for _ in range(60):
        many = draw.randint(1, 5)
        journal.append(draw.randint(1, 2), [event("other")])
        journal.append(0, [event(str(count + n)) for n in range(many)])
        count += many
    for position in draw.sample(range(count), 25):
        assert contents(JournalLog(client, app, 0), 0, position, position + 1)[0][2] == str(position).encode()


def test_reading_what_is_not_there_is_an_error(client: NatsClient, app: str) -> None:
    Journal(client, app).append(0, [event("a")])
    with pytest.raises(NadiError, match="there is no event 4"):
        list(JournalLog(client, app, 0).read(0, 0, 5))
    with pytest.raises(NadiError, match="starts at"):
        list(JournalLog(client, app, 1).read(0, 0, 5))


def test_a_large_append_is_split_and_read_whole(client: NatsClient, app: str) -> None:
    bodies = [bytes([n]) * 1_500_000 for n in range(9)]
    Journal(client, app).append(0, [(n, body, {}) for n, body in enumerate(bodies)])
    assert payloads(JournalLog(client, app, 0)) == bodies


def test_an_event_that_no_message_can_hold_is_refused(client: NatsClient, app: str) -> None:
    with pytest.raises(NadiError, match="larger than") as failure:
        Journal(client, app).append(0, [(0, b"x" * 9_000_000, {})])
    assert failure.value.condition == "MESSAGE_TOO_LARGE"


def test_an_app_may_have_any_name(client: NatsClient) -> None:
    for name in (f"a b.c>*{uuid4().hex}", f"ü{uuid4().hex}"):
        Journal(client, name).append(0, [event(name)])
        assert payloads(JournalLog(client, name, 0)) == [name.encode()]


def test_acknowledged_events_are_removed_after_the_retention(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    positions = [journal.append(0, [event(str(n))]) for n in range(3)]
    log = JournalLog(client, app, 0, retention=0)
    log.acknowledge(0, positions[2])
    assert payloads(log) == [b"1", b"2"]  # the last one before stays: the next number is known from it
    with pytest.raises(NadiError) as failure:
        list(log.read(0, positions[0], log.end(0)))
    assert failure.value.condition == "LOG_TRUNCATED"


def test_acknowledged_events_stay_for_the_retention(client: NatsClient, app: str) -> None:
    position = Journal(client, app).append(0, [event("kept")])
    log = JournalLog(client, app, 0)
    log.acknowledge(0, position + 1)
    assert payloads(log) == [b"kept"]


def test_what_a_revision_needs_stays_whatever_its_age(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    positions = [journal.append(0, [event(str(n))]) for n in range(4)]
    log = JournalLog(client, app, 0, retention=0)
    hold(client.url, app, {0: positions[1]})
    log.acknowledge(0, positions[3])
    assert payloads(log) == [b"0", b"1", b"2", b"3"]  # the last one before stays: the next number is known from it
    hold(client.url, app, {0: positions[2]})
    log.acknowledge(0, positions[3])
    assert payloads(log) == [b"1", b"2", b"3"]
    hold(client.url, app, {})
    log.acknowledge(0, positions[3])
    assert payloads(log) == [b"2", b"3"]


def test_nothing_is_removed_while_it_is_not_known_what_revisions_need(client: NatsClient, app: str) -> None:
    position = Journal(client, app).append(0, [event("first")])
    Journal(client, app).append(0, [event("second")])
    log = JournalLog(client, app, 0, retention=0)
    hold(client.url, app, None)
    log.acknowledge(0, position + 1)
    assert payloads(log) == [b"first", b"second"]


def test_a_node_without_a_journal_says_so() -> None:
    with pytest.raises(NadiError, match="this node has none"):
        open_journal_log("", "App", 0)


def test_an_append_without_a_server_fails_in_time_and_is_visible() -> None:
    client = NatsClient("nats://127.0.0.1:1")
    with pytest.raises(NadiError) as failure:
        Journal(client, "App", within=0.2).append(0, [event("x")])
    assert failure.value.condition == "CONNECTION_UNAVAILABLE"
    assert [s.attempts > 1 for s in unavailable() if s.connector == client.name] == [True]


def test_every_acknowledged_event_is_there_once_though_the_server_was_killed_again_and_again(
    own_nats: NatsServer,
) -> None:
    client, draw = NatsClient(own_nats.url), random.Random(7)
    journal = Journal(client, "App", within=15)
    told: list[tuple[str, Future[int]]] = []
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            name = str(len(told))
            told.append((name, journal.submit(0, [event(name)])))
            stop.wait(0.0005)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for kill in range(4):
            mark = len(told) + draw.randint(50, 300)
            eventually(lambda mark=mark: len(told) > mark and told[mark - 40][1].done())
            pid = own_nats.pid
            os.kill(pid, signal.SIGKILL)
            eventually(lambda kill=kill, pid=pid: own_nats.starts == kill + 2 and own_nats.pid not in (0, pid))
    finally:
        stop.set()
        sender.join()
    acknowledged = {name: future.result(60) for name, future in told}
    stored = contents(JournalLog(client, "App", 0))
    assert [payload.decode() for _, _, payload in stored if isinstance(payload, bytes)] == list(acknowledged)
    assert [position for position, _, _ in stored] == list(acknowledged.values())


def test_reading_fails_as_unavailable_while_the_server_is_away(own_nats: NatsServer) -> None:
    client = NatsClient(own_nats.url)
    Journal(client, "App").append(0, [event("x")])
    log = JournalLog(client, "App", 0)
    assert payloads(log) == [b"x"]
    own_nats.stop()
    with pytest.raises(ConnectionUnavailableException):
        payloads(log)
