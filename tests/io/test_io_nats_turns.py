"""A nats sink of an app that another node may go on with: what is there is never published again, whoever wakes up when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from eventually import eventually
from log_contract import payloads
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.io.appnotes import AppNotes
from nadi.io.contract import Place, Sink
from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log, open_sink
from nadi.io.sinks import ledger, streamturn
from nadi.io.sinks import nats as natssink


@pytest.fixture
def subject(nats: NatsServer) -> str:
    """One whose stream forgets the ids of messages at once, as every stream does after a while."""
    name = f"t.{uuid4().hex[:8]}"
    client = NatsClient(nats.url)
    config = {**stream_config(uuid4().hex, [f"{name}.>"]), "duplicate_window": 100_000_000}
    client.call(lambda nc: ensure_stream(nc, config))
    client.close()
    return f"{name}.out"


class Nodes:
    """Nodes that have nothing in common but a database and a store, and run the same app one after the other."""

    def __init__(self, folder: Path, server: NatsServer, subject: str) -> None:
        self._folder, self._server, self._subject = folder, server, subject
        self._count = 0

    def next(self) -> Sink:
        """The sink of the app on a node that has just taken it over, with an empty home."""
        self._count += 1
        shared = f"sqlite:///{self._folder}/shared.db"
        notes = str(self._folder / "store")
        place = Place("App", self._folder / str(self._count), notes=notes, shared=shared, epoch=self._count)
        mine = connector("nats", {"destination": self._subject, "url": self._server.url})
        AppNotes(shared, "App", self._count).begin()
        ledger.give_run(mine, place)
        return open_sink(mine, place)

    def stored(self) -> list[str]:
        log = open_log(connector("nats", {"destination": self._subject, "url": self._server.url}), Place("App", Path()))
        return [p.decode() for p in payloads(log) if isinstance(p, bytes)]

    def forget(self) -> None:
        """Wait until the stream has forgotten all ids."""
        client, probe = NatsClient(self._server.url), self._subject.replace(".out", ".probe")
        message = Outgoing(probe, b"probe", {"Nats-Msg-Id": uuid4().hex})

        def accepted() -> int:
            return client.call(lambda nc: publish_all(nc, [message]))[0]

        first = accepted()
        eventually(lambda: accepted() != first)
        client.close()


@pytest.fixture
def nodes(tmp_path: Path, nats: NatsServer, subject: str) -> Nodes:
    return Nodes(tmp_path, nats, subject)


def test_a_node_with_an_empty_home_completes_the_cut_that_a_dead_one_has_begun(nodes: Nodes) -> None:
    dead = nodes.next()
    dead.commit(1, [dead.write(delivery(1, ["a"]))])
    dead.write(delivery(2, ["b", "c"], first=1))
    nodes.forget()
    heir = nodes.next()
    heir.commit(2, [heir.write(delivery(2, ["b", "c", "d"], first=1))])
    heir.commit(3, [heir.write(delivery(3, ["e"], first=4))])
    assert nodes.stored() == ["a", "b", "c", "d", "e"]


def test_a_writer_that_wakes_up_later_than_any_window_publishes_nothing_that_is_there(nodes: Nodes) -> None:
    sleeper = nodes.next()
    sleeper.commit(1, [sleeper.write(delivery(1, ["a"]))])
    heir = nodes.next()
    heir.commit(2, [heir.write(delivery(2, ["b", "c"], first=1))])
    heir.commit(3, [heir.write(delivery(3, ["d"], first=3))])
    nodes.forget()
    receipt = sleeper.write(delivery(2, ["b", "c"], first=1))
    assert nodes.stored() == ["a", "b", "c", "d"]
    with pytest.raises(NadiError) as failure:
        sleeper.commit(2, [receipt])
    assert failure.value.condition == "FENCED"


def test_a_writer_that_sleeps_between_looking_and_publishing_is_refused_by_the_server(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = nodes.next()
    first.commit(1, [first.write(delivery(1, ["a"]))])
    sleeper, heir = nodes.next(), nodes.next()
    looked: list[int] = []

    def look(*given: Any) -> Any:
        found = natssink_look(*given)
        if not looked:
            looked.append(1)
            heir.commit(2, [heir.write(delivery(2, ["b", "c"], first=1))])
            nodes.forget()
        return found

    natssink_look = natssink.present_after
    monkeypatch.setattr(natssink, "present_after", look)
    sleeper.write(delivery(2, ["b", "c"], first=1))
    assert looked
    assert nodes.stored() == ["a", "b", "c"]


@pytest.mark.parametrize("at_once", [1, 5, 2_000])
def test_two_that_publish_the_same_at_the_same_time_publish_it_once_and_in_order(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(streamturn, "AT_ONCE", at_once)
    rows = [str(n) for n in range(60)]
    writers = [nodes.next(), nodes.next()]
    together(*(lambda one=one: one.write(delivery(1, rows)) for one in writers))
    assert nodes.stored() == rows


def test_what_others_write_to_the_stream_neither_stops_nor_reorders_what_the_sink_writes(
    nodes: Nodes, nats: NatsServer, subject: str
) -> None:
    target, client, over = nodes.next(), NatsClient(nats.url), threading.Event()

    def others() -> None:
        other = subject.replace(".out", ".other")
        while not over.is_set():
            client.call(lambda nc: publish_all(nc, [Outgoing(other, b"x", {})]))

    def mine() -> None:
        try:
            for cut in range(4):
                rows = [str(n) for n in range(cut * 100, cut * 100 + 100)]
                target.commit(cut, [target.write(delivery(cut, rows, first=cut * 100))])
        finally:
            over.set()

    together(others, mine)
    client.close()
    assert nodes.stored() == [str(n) for n in range(400)]


def test_buckets_that_write_side_by_side_keep_their_own_order(nodes: Nodes) -> None:
    one, two = nodes.next(), nodes.next()
    lower, upper = [f"a{n}" for n in range(80)], [f"b{n}" for n in range(80)]
    together(
        lambda: [one.write(delivery(c, lower[c * 20 : c * 20 + 20], c * 20, 0, 0)) for c in range(4)],
        lambda: [two.write(delivery(c, upper[c * 20 : c * 20 + 20], c * 20, 1, 5)) for c in range(4)],
    )
    found = nodes.stored()
    assert [text for text in found if text[0] == "a"] == lower
    assert [text for text in found if text[0] == "b"] == upper
    assert len(found) == 160


def together(*works: Callable[[], object]) -> None:
    """Do some things side by side; what one of them raises is raised."""
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as reason:
            failures.append(reason)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
