"""What strangers may have of an http source (findings 1 and 9 of the security review)."""

from __future__ import annotations

import asyncio
import errno
import gzip
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from log_contract import payloads
from rawclient import RawClient, raw
from sample import connector
from servers import asking

from nadi.errors import NadiError
from nadi.io.contract import Decoded, Messages, Place
from nadi.io.listeners import LEAST_CONNECTIONS, Limits, Listening
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log
from nadi.io.sources.http import HttpIngress

GOOD = b'{"event":{"name":"a","size":1}}'
ANY = "http://127.0.0.1:0/orders"
Make = Callable[..., HttpIngress]


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path, nats.url)


@pytest.fixture
def make(place: Place) -> Iterator[Make]:
    """Makes a source that listens, with limits and options."""
    made: list[HttpIngress] = []

    def one(limits: Limits | None = None, ordinal: int = 0, **options: str) -> HttpIngress:
        given = {"receiver.url": ANY} | {name.replace("_", "."): value for name, value in options.items()}
        where = replace(place, listening=Listening(limits or Limits()))
        ingress = HttpIngress(connector("http", given, ordinal=ordinal), where)
        made.append(ingress)
        ingress.start()
        return ingress

    yield one
    for ingress in made:
        ingress.stop()


def kept(place: Place) -> list[bytes]:
    return [bytes(p) for p in payloads(open_log(connector("http", {}), place))]


# ---- connections


def test_a_connection_too_many_hears_503_and_the_others_go_on(make: Make) -> None:
    """Finding 9."""
    ingress = make(Limits(connections=2))
    with raw(ingress.url) as first, raw(ingress.url) as second:
        for client in (first, second):
            client.post(GOOD)
            assert client.hear().status == 202
        with raw(ingress.url) as third:
            answer = third.hear()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert third.over()
        first.post(GOOD)
        assert first.hear().status == 202
        second.close()
        assert until_accepted(ingress.url)


def until_accepted(url: str) -> bool:
    """Whether a new connection is taken, now or as soon as the server has seen that another one has ended."""
    for _ in range(1_000):
        with raw(url) as client:
            try:
                client.post(GOOD)
                if client.hear().status == 202:
                    return True
            except (ConnectionError, EOFError):
                continue
    return False


def test_a_server_takes_no_more_connections_than_its_process_may_have_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 9: a process without a file left can neither keep state nor answer."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.setrlimit", lambda _which, limits: asked.append(limits))

    def room(connections: int, now: int, most: int) -> int:
        monkeypatch.setattr("resource.getrlimit", lambda _which: (now, most))
        return Limits(connections=connections).make_room()

    assert room(16_000, 1_024, 1_000_000) == 16_000  # the usual limits: it may have more, and says so
    assert room(16_000, 1_024, 4_096) == 4_096 - 512
    assert asked == [(16_512, 1_000_000), (4_096, 4_096)]
    assert room(16_000, 256, 256) == LEAST_CONNECTIONS
    assert room(77, 20_000, 20_000) == 77
    assert room(16_000, -1, -1) == 16_000
    assert len(asked) == 2


def test_a_source_does_not_start_where_the_process_has_no_file_left_for_its_server(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started it waited for ever for a thread that had ended."""

    def refuses() -> asyncio.AbstractEventLoop:
        raise OSError(errno.EMFILE, "Too many open files")

    ingress = HttpIngress(connector("http", {"receiver.url": ANY}), replace(place, listening=Listening(Limits())))
    with monkeypatch.context() as patch:
        patch.setattr("asyncio.new_event_loop", refuses)
        with pytest.raises(NadiError, match="Too many open files") as failed:
            ingress.start()
    assert failed.value.condition == "SERVER_NOT_STARTED"
    ingress.start()
    assert asking.post(ingress.url, content=GOOD).status_code == 202
    ingress.stop()


# ---- time


@pytest.mark.parametrize("sent", [b"P", b"POST /orders HTTP/1.1\r\n", b"POST /orders HTTP/1.1\r\nHost: h\r\nX: "])
def test_a_head_that_does_not_come_in_time_ends_the_connection(make: Make, sent: bytes) -> None:
    """Finding 9: slowloris."""
    with raw(make(Limits(head=50)).url) as client:
        client.send(sent)
        assert client.hear().status == 408
        assert client.over()


def test_a_client_that_sends_a_byte_now_and_then_gets_no_more_time(make: Make) -> None:
    """Finding 9: slowloris; the time is that of the whole head, not of a byte."""
    with raw(make(Limits(head=100)).url) as client:
        client.send(b"POST /orders HTTP/1.1\r\n")
        answered = threading.Event()

        def trickle() -> None:
            while not answered.wait(0.01):
                try:
                    client.send(b"X: y\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            assert client.hear().status == 408
        finally:
            answered.set()
            thread.join()


def test_a_body_that_does_not_come_in_time_ends_the_connection_and_is_not_kept(make: Make, place: Place) -> None:
    """Finding 9."""
    ingress = make(Limits(body=50))
    with raw(ingress.url) as client:
        client.post(GOOD[:5], length=len(GOOD))
        assert client.hear().status == 408
        assert client.over()
    with raw(ingress.url) as client:
        client.post(GOOD)  # in one piece: a busy machine may send the pieces of a library later than that
        assert client.hear().status == 202
    assert kept(place) == [GOOD]


def test_a_connection_that_is_silent_ends_after_the_time_of_the_source(make: Make) -> None:
    """Finding 9; `socket.idle.timeout` is Siddhi's."""
    ingress = make(socket_idle_timeout="700")  # what comes at once comes within that, also on a busy machine
    with raw(ingress.url) as silent:
        assert silent.over()
    with raw(ingress.url) as client:
        client.post(GOOD)
        assert client.hear().status == 202
        assert client.over()


# ---- bytes


def test_too_much_that_waits_is_answered_with_503_and_room_comes_back(make: Make, place: Place) -> None:
    """Finding 9: a message that is half there waits, too."""
    ingress = make(Limits(waiting=4_000))
    with raw(ingress.url) as half, raw(ingress.url) as client:
        half.post(b" " * 3_000, length=3_000 + len(GOOD))
        client.post(b" " * 3_000 + GOOD)
        answer = client.hear()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        half.send(GOOD)
        assert half.hear().status == 202
        client.post(b" " * 3_000 + GOOD)  # on the same connection
        assert client.hear().status == 202
    assert len(kept(place)) == 2


def test_a_client_that_goes_away_leaves_no_bytes_behind(make: Make) -> None:
    """Finding 9."""
    ingress = make(Limits(waiting=4_000))
    server = ingress._shared.server
    for _ in range(5):
        with raw(ingress.url) as client:
            client.post(b" " * 2_000, length=3_000)
            client.finish()
            assert client.over()
    with raw(ingress.url) as client:
        client.post(b" " * 3_000 + GOOD)
        assert client.hear().status == 202
    assert server.waiting == 0


@pytest.mark.parametrize("megabytes", [8, 100])
def test_a_body_that_is_too_large_hears_413_although_it_is_still_being_sent(make: Make, megabytes: int) -> None:
    """Finding 9: 100 MB were cut off with a reset, which says nothing."""
    url = make().url
    piece = b" " * (1024 * 1024)
    with raw(url) as client:  # sends all before it looks for an answer
        client.post(length=megabytes * len(piece))
        for _ in range(megabytes):
            client.send(piece)
        answer = client.hear()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert "7340032 bytes" in answer.error
    with raw(url) as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(megabytes):
            client.send(b"100000\r\n" + piece + b"\r\n")
        client.send(b"0\r\n\r\n")
        assert client.hear().status == 413


def test_a_client_that_asks_first_hears_413_before_it_sends(make: Make) -> None:
    """Finding 9; `Expect: 100-continue`, as curl does for large bodies."""
    url = make().url
    with raw(url) as client:
        client.post(b"", "Expect: 100-continue", length=100_000_000)
        assert client.hear().status == 413
    with raw(url) as client:
        client.post(b"", "Expect: 100-continue", length=len(GOOD))
        assert client.hear().status == 100
        client.send(GOOD)
        assert client.hear().status == 202


@pytest.mark.parametrize(
    "endless",
    [
        b"X" * 1_000,
        b"X-Many: headers\r\n",
    ],
)
def test_a_head_without_an_end_is_refused(make: Make, endless: bytes) -> None:
    """Finding 9."""
    with raw(make().url) as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: h\r\n")
        until_refused(client, endless)
        assert client.hear().status == 431


def test_a_path_without_an_end_is_refused(make: Make) -> None:
    """Finding 9."""
    with raw(make().url) as client:
        client.send(b"POST /")
        until_refused(client, b"x" * 1_000)
        assert client.hear().status == 431


@pytest.mark.parametrize("start", [b"4;", b"4\r\n    \r\n0\r\nTrailer: "])
def test_what_stands_between_and_after_chunks_is_bounded(make: Make, start: bytes) -> None:
    """Finding 9: extensions of chunks, and headers after the body."""
    with raw(make().url) as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + start)
        until_refused(client, b"x" * 1_000)
        assert client.hear().status in (400, 431)


def until_refused(client: RawClient, endless: bytes) -> None:
    for _ in range(400_000 // len(endless)):
        client.send(endless)


def test_a_client_that_does_not_read_its_answers_is_not_read_any_further(make: Make) -> None:
    """Finding 9: answers that nobody takes are memory, too."""
    ingress = make()
    with raw(ingress.url) as client:
        for _ in range(3):
            client.send((f"POST {client.path} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n{{").encode() * 500)
        statuses = [client.hear().status for _ in range(1_500)]
        assert set(statuses) == {400}


# ---- what is no message


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"NONSENSE\r\n\r\n",
        b"POST /orders HTTP/9.9\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /orders HTTP/1.1\r\nHost : h\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /orders HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /orders HTTP/1.1\r\nHost: h\r\nX: a\r\n folded: b\r\x00\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_nothing_of_it_is_kept(make: Make, place: Place, sent: bytes) -> None:
    """Finding 9: malformed chunks, two lengths (smuggling), random bytes."""
    ingress = make()
    with raw(ingress.url) as client:
        client.send(sent)
        assert client.hear().status == 400
    assert asking.post(ingress.url, content=GOOD).status_code == 202
    assert kept(place) == [GOOD]


def test_a_coded_body_is_refused_whatever_it_really_is(make: Make, place: Place) -> None:
    """Finding 9: `Content-Encoding` that lies."""
    url = make().url
    for body in (GOOD, gzip.compress(GOOD)):
        for coding in ("gzip", "br", "identity, gzip", "nonsense"):
            answer = asking.post(url, content=body, headers={"content-encoding": coding})
            assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    assert asking.post(url, content=gzip.compress(GOOD)).status_code == 400  # says that it is not coded
    assert asking.post(url, content=GOOD, headers={"content-encoding": "identity"}).status_code == 202
    with raw(url) as client:
        client.send(b"POST /orders HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
        assert client.hear().status == 501
    assert kept(place) == [GOOD]


def test_a_client_that_wants_another_protocol_gets_an_answer_in_this_one(make: Make) -> None:
    """Finding 9: bytes of the other protocol are not read as requests."""
    url = make().url
    with raw(url) as client:
        for _ in range(2):
            client.post(GOOD, "Connection: Upgrade", "Upgrade: h2c")
            assert client.hear().status == 202
    with raw(url) as client:
        client.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nPOST /orders HTTP/1.1\r\n\r\n")
        assert client.hear().status == 404
        assert client.over()


# ---- requests behind one another


def test_requests_that_come_at_once_are_answered_in_their_order(make: Make, place: Place) -> None:
    with raw(make().url) as client:
        bodies = [b'{"event":{"name":"a","size":%d}}' % n for n in range(300)]
        for body in bodies:
            client.post(b"{" if body is bodies[7] else body)
        statuses = [client.hear().status for _ in bodies]
    assert statuses == [400 if n == 7 else 202 for n in range(300)]
    assert kept(place) == [b for b in bodies if b is not bodies[7]]


def test_a_client_that_wants_the_connection_closed_gets_it_closed(make: Make) -> None:
    url = make().url
    with raw(url) as client:
        client.post(GOOD, "Connection: close")
        assert client.hear().headers["connection"] == "close"
        assert client.over()
    with raw(url) as client:
        client.send(b"POST /orders HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(GOOD), GOOD))
        assert client.hear().status == 202
        assert client.over()
    with raw(url) as client:
        client.post(GOOD)
        client.finish()  # and still wants to hear
        assert client.hear().status == 202
        assert client.over()


def test_a_request_for_a_head_only_is_answered_without_a_body(make: Make) -> None:
    with raw(make().url) as client:
        client.send(b"HEAD /orders HTTP/1.1\r\nHost: h\r\n\r\nGET /orders HTTP/1.1\r\nHost: h\r\n\r\n")
        head = client._socket.recv(65_536)
        assert head.startswith(b"HTTP/1.1 405 ")
        assert b'"error"' not in head.partition(b"HTTP/1.1 405")[2].partition(b"HTTP/1.1")[0]


# ---- checking


class _SlowMapper:
    """Takes as long as a test wants."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.begun, self.go = threading.Event(), threading.Event()

    def decode(self, messages: Messages) -> Decoded:
        self.begun.set()
        assert self.go.wait(60)
        made: Decoded = self._inner.decode(messages)  # type: ignore[attr-defined]
        return made


def test_a_message_whose_check_takes_long_holds_up_no_other_source_of_the_port(make: Make) -> None:
    """Finding 1: bodies were checked where connections are served."""
    slow, quick = make(), make(ordinal=1, receiver_url=ANY.replace("orders", "more"))
    mapper = _SlowMapper(slow._endpoint._mapper)
    slow._endpoint._mapper = mapper
    with raw(slow.url) as client:
        client.post(GOOD)
        assert mapper.begun.wait(60)
        assert asking.post(quick.url, content=GOOD).status_code == 202
        assert asking.get(slow.url).status_code == 405
        mapper.go.set()
        assert client.hear().status == 202


def test_what_is_checked_in_one_go_is_bounded_in_bytes(make: Make, place: Place) -> None:
    """Finding 1."""
    ingress = make()
    sizes: list[int] = []
    inner = ingress._endpoint._mapper
    first = _SlowMapper(inner)

    class Counting:
        def decode(self, messages: Messages) -> Decoded:
            sizes.append(sum(len(p) for p in messages.payloads))
            return first.decode(messages) if len(sizes) == 1 else inner.decode(messages)

    ingress._endpoint._mapper = Counting()
    body = GOOD + b" " * 1_500_000
    clients = [RawClient(ingress.url) for _ in range(7)]
    clients[0].post(body)
    assert first.begun.wait(60)
    for client in clients[1:]:
        client.post(body)
    for client in clients[1:]:  # all have been read when a later request of each connection is known
        client.send(b"GET /orders HTTP/1.1\r\nHost: h\r\n\r\n")
    first.go.set()
    for client in clients:
        assert client.hear().status == 202
        client.close()
    assert max(sizes) < 4_300_000
    assert sum(sizes) == 7 * len(body)
