"""Connections without a network: whatever comes in whatever pieces, messages are taken whole, answers are in order, and nothing is left behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from nadi.io.listeners import Limits
from nadi.io.postanswer import Answer, Header
from nadi.io.postconnection import Connection, Exchange

LARGEST = 1_000


class Wire(asyncio.Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.over
        self.sent += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.over = True

    def close(self) -> None:
        self.over = True

    def abort(self) -> None:
        self.over = True

    def is_closing(self) -> bool:
        return self.over

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", self.sent)]


class Source:
    """A server with one path, which takes all messages: it answers some at once, and others when it is told to."""

    def __init__(self, late: Sequence[bool]) -> None:
        self.limits = Limits()
        self.waiting = 0
        self.ending = False
        self.bodies: list[bytes] = []
        self._late = late
        self._owed: list[Exchange] = []

    def closed(self, connection: Connection) -> None:
        return

    def endpoint(self, path: str) -> Source | None:
        return self if path == "/in" else None

    def idle(self) -> float:
        return 60.0

    def refusal(self, headers: Sequence[Header]) -> Answer | None:
        return None

    def take(self, exchange: Exchange, headers: Sequence[Header]) -> None:
        self.bodies.append(exchange.body)
        self._owed.append(exchange)
        if not (self._late and self._late[len(self.bodies) % len(self._late)]):
            self.pay()

    def pay(self) -> None:
        """Answer all that is owed, the last one first."""
        owed, self._owed = self._owed[::-1], []
        for exchange in owed:
            self.waiting -= exchange.size
            exchange.answer = Answer(202)
            if exchange.connection is not None:
                exchange.connection.flush()


def told(pieces: Sequence[bytes], late: Sequence[bool]) -> tuple[list[bytes], list[int]]:
    """The messages that were taken and the statuses that were sent."""

    async def run() -> tuple[list[bytes], list[int]]:
        source, wire = Source(late), Wire()
        connection = Connection(source, LARGEST)
        connection.connection_made(wire)
        for piece in pieces:
            connection.data_received(piece)
        source.pay()
        connection.connection_lost(None)
        assert source.waiting == 0
        return source.bodies, wire.statuses()

    return asyncio.run(run())


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(ends)]


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes | None, int]:
    """A request, the message that is taken of it (None: none is) and its status."""
    body = draw(st.binary(max_size=60))
    path, status = draw(st.sampled_from([("/in", 202), ("/in?x=1", 202), ("/%69n", 202), ("/other", 404)]))
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n"
    if draw(st.booleans()):
        head += "Connection: Upgrade\r\nUpgrade: h2c\r\n"
    if draw(st.booleans()):
        head += "Content-Encoding: gzip\r\n"
        status = 415 if status == 202 else status
    if draw(st.booleans()):
        parts = cut(body, draw(st.lists(st.integers(0, 60), max_size=3)))
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        text = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
    else:
        text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    return text, body if status == 202 else None, status


@given(
    st.lists(requests(), max_size=6),
    st.lists(st.integers(0, 2_000), max_size=12),
    st.lists(st.booleans(), max_size=4),
)
def test_messages_are_the_same_in_whatever_pieces_they_come(
    sent: list[tuple[bytes, bytes | None, int]], places: list[int], late: list[bool]
) -> None:
    bodies, statuses = told(cut(b"".join(text for text, _, _ in sent), places), late)
    assert bodies == [body for _, body, _ in sent if body is not None]
    assert statuses == [status for _, _, status in sent]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"POST /in HTTP/1.1\r\n",
                    b"Host: h\r\n",
                    b"Content-Length: 5\r\n",
                    b"Upgrade: x\r\nConnection: upgrade\r\n",
                    b"Transfer-Encoding: chunked\r\n",
                    b"\r\n",
                    b"5\r\n12345\r\n0\r\n\r\n",
                    b"12345",
                    b"CONNECT h:1 HTTP/1.1\r\n",
                ]
            ),
            requests().map(lambda made: made[0]),
        ),
        max_size=20,
    ),
    st.lists(st.booleans(), max_size=4),
)
def test_nothing_that_comes_is_an_error_or_stays(pieces: list[bytes], late: list[bool]) -> None:
    """Finding 9: random bytes and broken requests."""
    _bodies, statuses = told(pieces, late)
    assert set(statuses) <= {100, 202, 400, 404, 405, 413, 415, 501}


@given(st.integers(1, 3 * LARGEST), st.booleans())
def test_no_message_is_larger_than_the_bound(size: int, chunked: bool) -> None:
    body = b"x" * size
    how = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    text = f"POST /in HTTP/1.1\r\nHost: h\r\n{how}\r\n\r\n".encode()
    text += b"%x\r\n%s\r\n0\r\n\r\n" % (size, body) if chunked else body
    bodies, statuses = told([text], ())
    assert (bodies, statuses) == (([body], [202]) if size <= LARGEST else ([], [413]))


def test_a_client_that_has_gone_is_answered_by_nobody() -> None:
    async def run() -> None:
        source, wire = Source([True]), Wire()
        connection = Connection(source, LARGEST)
        connection.connection_made(cast("asyncio.BaseTransport", wire))
        connection.data_received(b"POST /in HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
        connection.connection_lost(ConnectionResetError())
        source.pay()
        assert (source.bodies, wire.sent, source.waiting) == ([b"{}"], b"", 0)

    asyncio.run(run())
