from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from bell import Bell, looked, requests
from eventually import alive, eventually
from io_build import connector as file_connector
from sample import connector

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import faultlog, filebell, folderwatch, journal, streamear
from nadi.io.contract import Place
from nadi.io.controllog import append, control_path
from nadi.io.jetstream import Outgoing, publish
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.natsclient import NatsClient, api, shared
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log
from nadi.io.rotatedlog import RotatedLog
from nadi.io.sources.file import FileLog
from nadi.io.sources.nats import StreamLog
from nadi.io.wakes import Doorbell, Wakes

SOON = 15.0  # seconds: far more than it takes on a busy machine, far less than the look without being told (`TRUSTED`)


@pytest.fixture
def client(nats: NatsServer) -> NatsClient:
    return connected(nats)


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def elsewhere(nats: NatsServer) -> Iterator[NatsClient]:
    """A client that is not the logs' own, as other processes have."""
    made = NatsClient(nats.url)
    yield made
    made.close()


def connected(server: NatsServer) -> NatsClient:
    """The logs' client; who begins to wait without a connection is told once there is one."""
    client = shared(server.url)
    client.call(lambda nc: nc.flush())
    return client


def app() -> str:
    return f"App{uuid4().hex[:8]}"


def event(text: str) -> journal.Event:
    return 0, text.encode(), {}


def send(client: NatsClient, subject: str, *texts: str) -> None:
    for text in texts:
        client.call(lambda nc, text=text: publish(nc, Outgoing(subject, text.encode(), {})))


def consumers(client: NatsClient, stream: str) -> list[str]:
    found = client.call(lambda nc: api(nc, f"CONSUMER.NAMES.{stream}", {}))
    return found.get("consumers") or []


def subscriptions(client: NatsClient) -> int:
    async def count(nc: Any) -> int:
        return len(nc._subs)

    return client.call(count)


# ---- the doorbell


def test_a_doorbell_tells_once_between_two_looks() -> None:
    told: list[str] = []
    bell = Doorbell()
    bell.register(lambda: told.append("come"))
    assert told == ["come"], "who begins to wait is told to look"
    with bell.look():
        pass
    for _ in range(100):
        bell.ring()
    assert told == ["come"] * 2
    with bell.look():
        bell.ring()
    assert bell.due(), "what rings during a look is for the next one"
    assert told == ["come"] * 3


def test_a_look_that_fails_does_not_count_and_is_told_of_again() -> None:
    told: list[str] = []
    bell = Doorbell()
    bell.register(lambda: told.append("come"))
    with pytest.raises(ConnectionUnavailableException), bell.look():
        raise journal.no_journal()
    assert bell.due()
    bell.ring()
    assert len(told) == 2


def test_many_threads_that_ring_are_never_lost_between_looks() -> None:
    bell, came, seen = Doorbell(), threading.Event(), 0
    counts = [0] * 4
    bell.register(came.set)

    def ring(at: int) -> None:
        for _ in range(5_000):
            counts[at] += 1
            bell.ring()

    threads = [threading.Thread(target=ring, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while seen < 20_000:
        assert came.wait(SOON), f"asleep at {seen} of {sum(counts)}"
        came.clear()
        if bell.due():
            with bell.look():
                seen = sum(counts)
    for thread in threads:
        thread.join()


# ---- journals


def test_an_append_wakes_its_log_which_knows_the_end_without_asking(
    nats: NatsServer, client: NatsClient, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = app()
    writer, log = Journal(client, name), JournalLog(client, name, 0)
    bell.wake(log)
    asked = requests(monkeypatch, client)
    writer.append(0, [event("a"), event("b")])
    assert bell.wait(SOON) == {""}
    assert log.end(0) == 2
    assert log.end(0) == 2
    assert not asked
    assert consumers(client, f"NADI_{name}") == []
    log.close()


def test_only_the_right_one_of_two_hundred_journals_wakes(nats: NatsServer, client: NatsClient, bell: Bell) -> None:
    names = [app() for _ in range(200)]
    writers = {name: Journal(client, name) for name in names}
    logs = {name: JournalLog(client, name, 0) for name in names}
    for name, log in logs.items():
        bell.wake(log, name)
    for name in random.Random(1).sample(names, 20):
        writers[name].append(0, [event("x")])
        assert bell.wait(SOON) == {name}
        assert logs[name].end(0) == 1
    writers[names[0]].append(1, [event("another source of the app")])
    assert not bell.rung
    for log in logs.values():
        log.close()


def test_a_journal_that_another_process_writes_wakes_by_the_server(
    nats: NatsServer, client: NatsClient, elsewhere: NatsClient, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.io.journallog.written_here", lambda _url, _app: False)
    monkeypatch.setattr(Journal, "tell", lambda *_: None)
    name = app()
    log = JournalLog(client, name, 0)
    bell.wake(log)
    eventually(lambda: consumers(client, f"NADI_{name}"))
    Journal(elsewhere, name).append(0, [event("a")])
    bell.wait(SOON)
    assert log.end(0) == 1
    log.close()
    eventually(lambda: not consumers(elsewhere, f"NADI_{name}"))


def test_an_append_that_may_have_been_stored_wakes(own_nats: NatsServer, bell: Bell) -> None:
    client = connected(own_nats)
    writer, log = Journal(client, "App", within=0.2), JournalLog(client, "App", 0)
    writer.append(0, [event("a")])
    bell.wake(log)
    own_nats.stop()
    with pytest.raises(ConnectionUnavailableException):
        writer.append(0, [event("b")])
    assert bell.wait(SOON) == {""}
    with pytest.raises(ConnectionUnavailableException):
        log.end(0)
    log.close()


# ---- streams


def test_a_message_wakes_the_log_of_its_subject(
    nats: NatsServer, client: NatsClient, elsewhere: NatsClient, bell: Bell
) -> None:
    name = f"s{uuid4().hex[:8]}"
    one, other = StreamLog(client, name), StreamLog(client, f"{name}.other")
    bell.wake(one, "one")
    bell.wake(other, "other")
    for n in range(3 * streamear.WINDOW):
        send(elsewhere, name, f"{n}")
        assert bell.wait(SOON) == {"one"}
        assert one.end(0) == n + 2
        assert [m for piece in one.read(0, n + 1, n + 2) for m in piece.payloads] == [f"{n}".encode()]
    one.close()
    other.close()


def test_an_idle_stream_is_asked_nothing_and_many_messages_wake_once(
    nats: NatsServer, client: NatsClient, elsewhere: NatsClient, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"s{uuid4().hex[:8]}"
    log = StreamLog(client, name)
    bell.wake(log)
    asked = requests(monkeypatch, client)
    assert [log.end(0) for _ in range(100)] == [1] * 100
    assert not asked
    send(elsewhere, name, *(f"{n}" for n in range(10 * streamear.WINDOW)))
    assert bell.rung == {"": 1}
    looked(log, bell, 10 * streamear.WINDOW + 1, SOON)
    send(elsewhere, name, "after the window of the first consumer")
    looked(log, bell, 10 * streamear.WINDOW + 2, SOON)
    log.close()


def test_a_log_whose_server_is_behind_with_delivering_is_looked_at_while_it_moves(
    nats: NatsServer, client: NatsClient, elsewhere: NatsClient, bell: Bell
) -> None:
    name = f"s{uuid4().hex[:8]}"
    log = StreamLog(client, name)
    bell.wake(log)
    assert log.next_look() is None
    send(elsewhere, name, *(f"{n}" for n in range(streamear.WINDOW)))
    eventually(lambda: log._ear.spent)
    assert log.end(0) == streamear.WINDOW + 1
    log._ear.close()  # nothing more is delivered
    send(elsewhere, name, "x")
    looked(log, bell, streamear.WINDOW + 2, SOON)
    eventually(lambda: log.end(0) and log.next_look() is None, SOON)
    log.close()


def test_what_closes_leaves_nothing_on_the_server(nats: NatsServer, client: NatsClient, bell: Bell) -> None:
    client.call(lambda nc: api(nc, "INFO", {}))  # a client's first request subscribes to its answers for good
    before = subscriptions(client)
    name = f"s{uuid4().hex[:8]}"
    logs = [StreamLog(client, name) for _ in range(5)]
    for log in logs:
        bell.wake(log)
    eventually(lambda: len(consumers(client, name)) == 5)
    for log in logs:
        log.close()
    eventually(lambda: not consumers(client, name))
    eventually(lambda: subscriptions(client) == before)
    send(client, name, "nobody is told of it")
    assert not bell.rung


def test_a_topic_in_memory_wakes_its_log_only(nats: NatsServer, client: NatsClient, bell: Bell, tmp_path: Path) -> None:
    place = Place("App", tmp_path, nats.url)
    logs = {topic: open_log(connector("inmemory", {"topic": topic}), place) for topic in ("t1", "t2", "t3")}
    for topic, log in logs.items():
        bell.wake(log, topic)
    send(client, "nadi.memory.t2", "x")
    assert bell.wait(SOON) == {"t2"}
    for log in logs.values():
        log.close()


def test_a_consumer_that_somebody_removed_is_made_again_by_the_next_look_that_checks(
    nats: NatsServer, client: NatsClient, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"s{uuid4().hex[:8]}"
    log = StreamLog(client, name)
    bell.wake(log)
    eventually(lambda: consumers(client, name))
    (made,) = consumers(client, name)
    client.call(lambda nc: api(nc, f"CONSUMER.DELETE.{name}.{made}"))
    send(client, name, "unheard")
    assert log.end(0) == 1
    log._bell.looked -= 61  # a minute later
    assert log.end(0) == 2
    send(client, name, "heard")
    bell.wait(SOON)
    assert log.end(0) == 3
    log.close()


def test_no_wake_is_missed_across_kills_of_the_server(own_nats: NatsServer, bell: Bell) -> None:
    client, writing = connected(own_nats), NatsClient(own_nats.url)
    log, own, writer = StreamLog(client, "s"), JournalLog(client, "App", 0), Journal(client, "App", within=20)
    bell.wake(log, "s")
    bell.wake(own, "App")
    sent = 0
    for kill in range(3):
        pid = own_nats.pid
        os.kill(pid, signal.SIGKILL)
        rung = bell.wait(SOON) | (bell.wait(SOON) if len(bell.rung) else set())
        assert rung <= {"s", "App"}, "that the connection is lost is told"
        for waiting in (log, own):
            with contextlib.suppress(ConnectionUnavailableException):
                waiting.end(0)
        eventually(lambda pid=pid: not alive(pid) and own_nats.pid not in (0, pid))
        assert bell.wait(60) <= {"s", "App"}, "so is that there is one again"
        while sent < 5 * (kill + 1):
            try:
                send(writing, "s", f"{sent}")
            except ConnectionUnavailableException:
                time.sleep(0.01)
            else:
                sent += 1
        position = writer.append(0, [event("x")])
        for waiting, end in ((log, sent + 1), (own, position + 1)):
            until = time.monotonic() + 20
            while True:  # as whoever waits does: after an error it looks again by itself
                try:
                    looked(waiting, bell, end, SOON)
                    break
                except ConnectionUnavailableException:
                    assert time.monotonic() < until
                    time.sleep(0.05)
        eventually(lambda: consumers(writing, "s"))
        bell.rung.clear()
        send(writing, "s", "after the restart")
        sent += 1
        bell.wait(SOON)
        assert log.end(0) == sent + 1
    log.close()
    own.close()
    writing.close()


def test_a_log_waits_for_a_server_that_is_not_there_yet(tmp_path: Path, bell: Bell) -> None:
    server = NatsServer(tmp_path / "nats")
    with server:
        url = server.url
    client = NatsClient(url)
    log = JournalLog(client, "App", 0)
    log.wake(lambda: bell.ring("App"))
    with pytest.raises(ConnectionUnavailableException):
        log.end(0)
    bell.rung.clear()
    with server:
        assert bell.wait(60) == {"App"}
        eventually(lambda: log.end(0) == 0)
        log.close()
        client.close()


# ---- files


def put(path: Path, content: bytes) -> Path:
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(content)
    return hidden.rename(path)


def file_log(tmp_path: Path, where: Path | str, **more: str) -> FileLog:
    name = "file.uri" if "*" in str(where) else "dir.uri"
    options = {name: str(where), **{k.replace("_", "."): v for k, v in more.items()}}
    made = open_log(file_connector("a int", "json", type_="file", options=options), Place("app", tmp_path / "state"))
    assert isinstance(made, FileLog)
    return made


@pytest.mark.parametrize("pattern", ["in", "in/*.json"])
def test_a_file_that_comes_wakes_and_one_that_settles_is_looked_at_in_time(
    tmp_path: Path, bell: Bell, pattern: str
) -> None:
    (tmp_path / "in").mkdir()
    log = file_log(tmp_path, tmp_path / pattern, file_settle="1500")  # a busy machine may look at it as late as that
    bell.wake(log)
    assert log.next_look() is None
    put(tmp_path / "in/a.json", b"1\n2\n")
    came = time.monotonic()
    bell.wait(SOON)
    eventually(lambda: log.end(0) == 0 and log.next_look() is not None, SOON)
    looked(log, bell, 2, SOON)
    assert 1.4 < time.monotonic() - came < SOON
    assert log.next_look() is None
    log.close()


def test_a_file_that_is_still_written_is_looked_at_until_it_has_settled(tmp_path: Path, bell: Bell) -> None:
    (tmp_path / "in").mkdir()
    log = file_log(tmp_path, tmp_path / "in", file_settle="1500")  # far more than passes between two pieces
    bell.wake(log)
    with (tmp_path / "in/a.json").open("wb") as file:
        for n in range(5):
            file.write(f"{n}\n".encode())
            file.flush()
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                assert log.end(0) == 0
                at = log.next_look()
                with bell._came:
                    bell._came.wait(max(0.001, min(until, at or until) - time.monotonic()))
    looked(log, bell, 5, SOON)
    log.close()


def test_a_folder_without_changes_is_not_looked_at(tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    log = file_log(tmp_path, tmp_path / "in")
    bell.wake(log)
    monkeypatch.setattr(FileLog, "_discover", lambda _self: pytest.fail("it was looked at"))
    assert [log.end(0) for _ in range(50)] == [0] * 50
    log.close()


@pytest.mark.parametrize("why", ["nobody tells", "folders in between", "another machine may write"])
def test_where_changes_are_not_told_the_folder_is_looked_at_again_and_again(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    where = tmp_path / ("in/*/*.json" if why == "folders in between" else "in/deep")
    if why == "nobody tells":
        monkeypatch.setattr(filebell, "watch_folder", lambda *_: None)
    if why == "another machine may write":
        monkeypatch.setattr(folderwatch, "LOCAL", frozenset[str]())
    log = file_log(tmp_path, where, file_settle="0")
    bell.wake(log)
    at = log.next_look()
    assert at is not None
    assert 0 < at - time.monotonic() <= filebell.LOOK_EVERY
    put(tmp_path / "in/deep/a.json", b"1\n")
    looked(log, bell, 1, SOON)
    log.close()


def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path, bell: Bell) -> None:
    (tmp_path / "in").mkdir()
    log = file_log(tmp_path, tmp_path / "in/*.json", file_settle="0")
    bell.wake(log)
    (tmp_path / "in").rename(tmp_path / "old")
    (tmp_path / "in").mkdir()
    bell.wait(SOON)
    log.end(0)
    put(tmp_path / "in/a.json", b"1\n")
    looked(log, bell, 1, SOON)
    log.close()


def test_folders_share_one_thread_which_ends_with_the_last_of_them(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folderwatch, "_HUBS", {})  # other tests of this process may watch folders as well
    others = set(threading.enumerate())

    def threads() -> int:
        return sum(t.name == "folder-watch" for t in set(threading.enumerate()) - others)

    logs = []
    for n in range(50):
        (tmp_path / f"in{n}").mkdir()
        logs.append(file_log(tmp_path / f"state{n}", tmp_path / f"in{n}", file_settle="0"))
        bell.wake(logs[-1], n)
    assert threads() == 1
    put(tmp_path / "in7/a.json", b"1\n")
    assert bell.wait(SOON) == {7}
    opened = len(os.listdir("/proc/self/fd"))
    for log in logs:
        log.close()
    assert threads() == 0
    assert len(os.listdir("/proc/self/fd")) == opened - 3


# ---- the node's own files


@pytest.mark.parametrize("size", [1, 1_000_000], ids=["a file a record", "one file"])
def test_a_record_of_the_control_log_wakes_from_the_first_one_on(
    tmp_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("nadi.io.linefile.FILE_BYTES", size)
    path = control_path(tmp_path)
    log = RotatedLog(path)
    bell.wake(log)
    assert log.next_look() is None
    (tmp_path / "something else").write_text("0")
    assert not bell.rung  # later on a file that was begun behind a record may ring once more
    for n in range(3):
        append(path, f"{n}", "select 1")
        assert bell.wait(SOON) == {""}
        looked(log, bell, n + 1, SOON)
    log.close()


def test_what_sinks_refused_wakes_when_its_cut_is_committed(tmp_path: Path, bell: Bell) -> None:
    log = faultlog.fault_log(tmp_path)
    bell.wake(log)
    fault = faultlog.Fault(1, "S", 0, 1, 0, 0, 0, "refused", [(1, ["a"])])
    for cut in (1, 2):
        faultlog.stage(tmp_path, cut, 0, [fault])
        faultlog.commit(tmp_path, cut, [0])
        assert bell.wait(SOON) == {""}
        looked(log, bell, cut, SOON)
    assert log.next_look() is None
    log.close()


def test_logs_that_tell_say_so(tmp_path: Path, nats: NatsServer, client: NatsClient) -> None:
    (tmp_path / "in").mkdir()
    logs = [
        JournalLog(client, "A", 0),
        StreamLog(client, "s"),
        RotatedLog(tmp_path / "x"),
        faultlog.fault_log(tmp_path),
    ]
    assert all(isinstance(log, Wakes) for log in (*logs, file_log(tmp_path, tmp_path / "in")))


def test_the_loop_of_the_client_is_not_kept_busy_by_logs_that_wait(client: NatsClient, bell: Bell) -> None:
    names = [f"s{uuid4().hex[:8]}" for _ in range(20)]
    logs = [StreamLog(client, name) for name in names]
    for log in logs:
        bell.wake(log)
    for name in names:
        eventually(lambda name=name: consumers(client, name))

    async def tasks(_nc: Any) -> int:
        return len([t for t in asyncio.all_tasks() if "_begin" in repr(t) or "_return" in repr(t)])

    assert client.call(tasks) == 0
    for log in logs:
        log.close()
