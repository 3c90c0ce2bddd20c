"""The entrance of a cluster, between real clients and real sources that go away in all ways."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from servers import asking
from servers.ports import free_port

from nadi.cluster.contract import Seen, StoreAway
from nadi.cluster.messages import Owners
from nadi.cluster.rows import Actual, Part, Placement, Row, WorkerRow, key_of
from nadi.cluster.sockets import Socket, written
from nadi.io.httpserver import HttpServer, Receive, Scope, Send
from nadi.server.distributed import entrance
from nadi.server.distributed.entrance import Entrance, client
from nadi.server.distributed.entranceroutes import owners_of


def seen(*rows: Row) -> Seen:
    return Seen(0, {key_of(row): row for row in rows})


@dataclass
class Source:
    """What takes messages: it answers with `status`, and keeps what came."""

    status: int = 202
    body: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    came: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        self.came.append((scope["path"], body, {k.decode(): v.decode() for k, v in scope["headers"]}))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


class Cluster:
    """An entrance, sources, and what the database says of them."""

    def __init__(self, stack: ExitStack) -> None:
        self._running: list[HttpServer] = []
        stack.callback(self._end)
        self.rows: dict[str, list[Row]] = {}
        self.looks = 0
        self.away = False
        made = Entrance(self._look, client)
        server = HttpServer(made, "127.0.0.1", 0, ended=made.close)
        server.start()
        stack.callback(server.stop)
        self.client = stack.enter_context(asking.client(base_url=f"http://127.0.0.1:{server.port}"))

    async def _look(self) -> Owners:
        self.looks += 1
        if self.away:
            raise StoreAway("it is away")
        worker = WorkerRow("w", "http://127.0.0.1:9090", "i", False, False, False, 0)
        return owners_of(seen(worker, *(row for rows in self.rows.values() for row in rows)))

    def source(self, instance: str, source: Any, path: str = "/in") -> HttpServer:
        server = HttpServer(source, "127.0.0.1", 0)
        server.start()
        self._running.append(server)
        self.knows(instance, server.port, path)
        return server

    def stop(self, server: HttpServer) -> None:
        """A source goes away."""
        self._running.remove(server)
        server.stop()

    def _end(self) -> None:
        for server in tuple(self._running):
            self.stop(server)

    def knows(self, instance: str, port: int, path: str = "/in", state: str = "running") -> None:
        listens = written([Socket("S", port, path)])
        self.rows[instance] = [
            Part(instance, "A", "A-g", "d", "", True, 1.0, listens),
            Placement(instance, "w", 1, "d", True),
            Actual(instance, "w", 1, state, ""),
        ]

    def post(self, content: bytes = b"x", path: str = "/A/in", **more: Any) -> httpx.Response:
        return self.client.post(path, content=content, **more)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(entrance, "LEAST", 0.0)
    with ExitStack() as stack:
        yield Cluster(stack)


def test_a_message_reaches_the_source_as_it_is_and_its_answer_the_client(cluster: Cluster) -> None:
    source = Source(400, b'{"error":"no"}', [(b"content-type", b"application/json"), (b"x-own", b"1")])
    cluster.source("A-g-1", source, "/in put")
    sent = {"authorization": "Basic YTpi", "x-tenant": "t", "connection": "x-hop", "x-hop": "1", "te": "trailers"}
    answer = cluster.post(b"m", "/A/in%20put", headers=sent)
    assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (
        400,
        {"error": "no"},
        "application/json",
    )
    assert "x-own" not in answer.headers
    ((path, body, headers),) = source.came
    assert (path, body) == ("/in put", b"m")
    assert (headers["authorization"], headers["x-tenant"]) == ("Basic YTpi", "t")
    assert not headers.keys() & {"x-hop", "te"}


def test_what_is_no_message_for_a_source_is_said_at_once(cluster: Cluster) -> None:
    cluster.source("A-g-1", Source())
    assert cluster.client.get("/A/in").status_code == 405
    assert cluster.post(path="/A/other").status_code == 404
    assert cluster.post(path="/B/in").status_code == 404
    assert cluster.post(b"x" * 8_000_000).status_code == 413


def test_a_client_that_knows_one_address_goes_on_when_the_source_moves(cluster: Cluster) -> None:
    first, second = Source(), Source()
    old = cluster.source("A-g-1", first)
    assert cluster.post(b"1").status_code == 202
    cluster.stop(old)
    answer = cluster.post(b"2")  # it runs nowhere yet
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    cluster.source("A-g-1", second)
    assert cluster.post(b"2").status_code == 202
    assert [[b for _, b, _ in s.came] for s in (first, second)] == [[b"1"], [b"2"]]


def test_a_source_that_is_starting_is_no_unknown_one(cluster: Cluster) -> None:
    cluster.knows("A-g-1", free_port(), state="starting")
    assert cluster.post().status_code == 503
    cluster.source("A-g-1", Source(404))  # its port is there already, its path is not
    assert cluster.post().status_code == 503


def test_instances_take_turns_and_one_that_is_not_there_is_passed_over(cluster: Cluster) -> None:
    sources = [Source() for _ in range(3)]
    servers = [cluster.source(f"A-g-{n}", source) for n, source in enumerate(sources)]
    assert {cluster.post().status_code for _ in range(6)} == {202}
    assert [len(source.came) for source in sources] == [2, 2, 2]
    cluster.stop(servers[0])
    assert {cluster.post().status_code for _ in range(6)} == {202}
    assert sum(len(source.came) for source in sources) == 12


class Odd:
    """A worker that takes a request, and does not answer it."""

    def __init__(self, closes: bool) -> None:
        self._closes = closes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.requests = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            with taken:
                taken.recv(65_536)
                self.requests += 1
                if not self._closes:
                    self._over.wait()

    def close(self) -> None:
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@pytest.mark.parametrize(("closes", "status"), [(True, 502), (False, 504)])
def test_a_message_that_may_have_been_taken_is_not_sent_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, closes: bool, status: int
) -> None:
    monkeypatch.setattr(entrance, "ANSWERS_WITHIN", 30.0 if closes else 0.3)
    odd = Odd(closes)
    try:
        cluster.knows("A-g-1", odd.port)
        answer = cluster.post()
        assert answer.status_code == status
        assert "it may have taken the message" in answer.json()["error"]
        assert odd.requests == 1
    finally:
        odd.close()


def test_what_is_under_way_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.source("A-g-1", Source())
    monkeypatch.setattr(entrance, "WAITING_BYTES", 10_000)
    assert cluster.post(b"x" * 9_000).status_code == 503
    assert cluster.post(b"x" * 1_000).status_code == 202


def test_without_the_database_it_goes_on_with_what_it_knows(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.away = True
    assert cluster.post().status_code == 503
    cluster.away = False
    cluster.source("A-g-1", Source())
    assert cluster.post().status_code == 202
    cluster.away = True
    monkeypatch.setattr(entrance, "FRESH", -1.0)
    assert cluster.post().status_code == 202
    assert cluster.post(path="/A/other").status_code == 503, "nobody can say that there is none"


def test_the_database_is_asked_seldom_whatever_strangers_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "LEAST", 0.2)
    with ExitStack() as stack:
        found = Cluster(stack)
        assert found.post().status_code == 404
        looks, began = found.looks, time.monotonic()
        with ThreadPoolExecutor(16) as strangers:
            assert set(strangers.map(lambda n: found.post(path=f"/A/{n}").status_code, range(16))) == {404}
        assert found.looks - looks <= 1 + (time.monotonic() - began) / 0.2, "they wait for one look"


def test_an_app_that_has_come_just_now_is_no_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "LEAST", 0.2)
    with ExitStack() as stack:
        found = Cluster(stack)
        assert found.post().status_code == 404
        found.source("A-g-1", Source())
        assert found.post().status_code == 202


def test_a_timer_that_rings_early_makes_no_app_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asyncio.sleep

    async def early(seconds: float) -> None:
        await whole(seconds * 0.9)

    monkeypatch.setattr(entrance, "LEAST", 0.5)
    with ExitStack() as stack:
        found = Cluster(stack)
        assert found.post().status_code == 404
        found.source("A-g-1", Source())
        monkeypatch.setattr(asyncio, "sleep", early)
        assert found.post().status_code == 202


def test_owners_run_what_is_wanted() -> None:
    listens = written([Socket("S", 8006, "/in"), Socket("T", 8007, "/A/T", secure=True)])
    part = Part("A-g-1", "A", "A-g", "d2", "", True, 1.0, listens)
    worker = WorkerRow("w", "https://[::1]:9443", "i", False, False, False, 0)
    running = Actual("A-g-1", "w", 1, "running", "")
    found = owners_of(seen(part, worker, running, Placement("A-g-1", "w", 1, "d2", True)))
    assert {path: [o.url for o in owners] for path, owners in found.by_path.items()} == {
        "/A/in": ["http://[::1]:8006/in"],
        "/A/T": ["https://[::1]:8007/A/T"],
    }
    for placed in (Placement("A-g-1", "w", 1, "d1", True), Placement("A-g-1", "w", 2, "d2", True)):
        assert owners_of(seen(part, worker, running, placed)).by_path == {"/A/in": (), "/A/T": ()}
