from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from eventually import eventually as waits
from rawclient import raw
from servers import asking

from nadi.io import httpserver
from nadi.io.certificate import OwnCertificate
from nadi.io.httpserver import Application, HttpServer, Receive, Scope, Send


async def hello(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(httpserver, "HEAD_WITHIN", 1.0)
    server = HttpServer(hello, "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.stop()


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: h\r\nX: "])
def test_a_head_that_does_not_come_ends_the_connection(url: str, sent: bytes) -> None:
    """Finding 9, for the REST APIs."""
    with raw(url) as client:
        client.send(sent)
        assert client.over()


def test_a_second_head_that_stops_in_the_middle_ends_the_connection(url: str) -> None:
    """Finding 9: uvicorn takes its time off with the first byte that comes."""
    with raw(url) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.hear().body == b"hello"
        client.send(b"GET / HT")
        assert client.over()


def test_a_head_that_never_ends_is_refused() -> None:
    server = HttpServer(hello, "127.0.0.1", 0)
    server.start()
    sent = 0
    with raw(f"http://127.0.0.1:{server.port}/") as client, contextlib.suppress(ConnectionError):
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n")
        for sent in range(100_000):  # 100 MB: more than the buffers between the two hold
            client.send(b"X-%d: %s\r\n" % (sent, b"a" * 1_000))
    assert sent < 20_000
    server.stop()


async def at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def test_a_body_that_comes_after_its_answer_is_no_head() -> None:
    server = HttpServer(at_once, "127.0.0.1", 0)
    server.start()
    with raw(f"http://127.0.0.1:{server.port}/") as client:
        client.post(length=1_000_000)
        assert client.hear().body == b"hello"
        client.send(b"a" * 1_000_000)
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert client.hear().body == b"hello"
    server.stop()


def test_requests_behind_one_another_are_answered_for_longer_than_a_head_may_take(url: str) -> None:
    with asking.client() as client:
        answers = [client.get(url).text for _ in range(1_000)]
    assert set(answers) == {"hello"}


def test_a_connection_that_goes_away_is_no_trouble(url: str) -> None:
    with socket.create_connection(("127.0.0.1", int(url.split(":")[2].rstrip("/")))) as gone:
        gone.sendall(b"GET / HT")
    assert asking.get(url).text == "hello"


def test_an_answer_does_not_wait_until_the_client_has_acknowledged_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head and body are written one after the other: without this, each answer on a connection that stays open took 40 ms."""
    found: list[int] = []
    real = httpserver._Bounded.connection_made

    def seen(self: httpserver._Bounded, transport: asyncio.Transport) -> None:
        found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        real(self, transport)

    monkeypatch.setattr(httpserver._Bounded, "connection_made", seen)
    server = HttpServer(hello, "127.0.0.1", 0)
    server.start()
    assert asking.get(f"http://127.0.0.1:{server.port}/").text == "hello"
    server.stop()
    assert found == [1]


def test_a_server_that_has_ended_by_itself_is_stopped_without_an_error() -> None:
    server = HttpServer(hello, "127.0.0.1", 0)
    server.start()
    server._server.end()
    server._thread.join()
    server.stop()


def test_a_server_without_requests_waits_for_nothing_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float, *more: object) -> None:
        waited.append(seconds)
        await real(seconds, *more)

    server = HttpServer(hello, "127.0.0.1", 0)
    server.start()
    with asking.client() as client:
        assert client.get(f"http://127.0.0.1:{server.port}/").text == "hello"
        monkeypatch.setattr(asyncio, "sleep", sleep)
        server.stop()  # its connection is open, and idle
    assert set(waited) == {0}


# ---- answers that are not read, and handshakes that stop (finding N6)


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    body = b"x" * 20_000_000
    head = [(b"content-length", b"%d" % len(body)), *([(b"connection", b"close")] if scope["path"] == "/last" else [])]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("path", ["/", "/last"])
def test_a_client_that_does_not_read_its_answer_is_let_go(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(httpserver, "WRITE_WITHIN", 0.2)
    server = HttpServer(large, "127.0.0.1", 0)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            waits(lambda: server._server.server_state.connections)
            waits(lambda: not server._server.server_state.connections)
    finally:
        server.stop()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("application", [hello, large])
def test_a_client_that_reads_its_answer_gets_all_of_it(tmp_path: Path, application: Application, secure: bool) -> None:
    own = OwnCertificate(tmp_path).tls()
    server = HttpServer(application, "127.0.0.1", 0, own.context() if secure else None)
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(own.certificate))
        with httpx.Client(verify=trusted) as client:
            for _ in range(2):
                got = client.get(f"{'https' if secure else 'http'}://127.0.0.1:{server.port}/").content
                assert got == (b"hello" if application is hello else b"x" * 20_000_000)
    finally:
        server.stop()


def test_a_handshake_that_stops_ends_the_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(httpserver, "HANDSHAKE_WITHIN", 0.2)
    server = HttpServer(hello, "127.0.0.1", 0, OwnCertificate(tmp_path).tls().context())
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(b"\x16\x03\x01\x02")  # the beginning of a first record
            assert client.recv(1) == b""
    finally:
        server.stop()


# ---- what others could read in another way (finding N7)

HEAD = "POST / HTTP/1.1\r\nHost: h\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        f"{HEAD}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{HEAD}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        f"{HEAD}Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        f"{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        f"{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\n\n",
        "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n z\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\tz\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    ],
)
def test_a_request_that_others_could_read_in_another_way_is_400(url: str, request_: str) -> None:
    with raw(url) as client:
        client.send(request_.encode())
        assert client.hear().status == 400
        assert client.over()
