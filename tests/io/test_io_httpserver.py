from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest
from rawclient import raw

from nadi.io import httpserver
from nadi.io.httpserver import HttpServer, Receive, Scope, Send


async def hello(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(httpserver, "HEAD_WITHIN", 0.3)
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


def test_requests_behind_one_another_are_answered_for_longer_than_a_head_may_take(url: str) -> None:
    with httpx.Client() as client:
        answers = [client.get(url).text for _ in range(400)]
    assert set(answers) == {"hello"}


def test_a_connection_that_goes_away_is_no_trouble(url: str) -> None:
    with socket.create_connection(("127.0.0.1", int(url.split(":")[2].rstrip("/")))) as gone:
        gone.sendall(b"GET / HT")
    assert httpx.get(url).text == "hello"
