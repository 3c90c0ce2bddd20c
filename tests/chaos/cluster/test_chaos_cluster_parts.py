"""That the kill test of a cluster sees what it must: ways that lose what is sent, records that go back, rows that differ."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from clusterapps import Reference
from clusteroracle import Oracle, difference, succession
from servers.ports import free_ports
from wires import IN, OUT, Wires

from nadi.channels.records import CUT, IDLE, OPEN, Progress

BEAT = b'POST /resourceManager/heartbeat HTTP/1.1\r\n\r\n{"id":"worker-1","x":1}'


class Echo:
    """A server that answers each piece with itself, and remembers all of them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.heard: list[bytes] = []
        self.rang = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _address = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    self.heard.append(data)
                    self.rang.release()
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def wires() -> Iterator[Wires]:
    made = Wires()
    yield made
    made.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=0.3)


def test_a_whole_way_brings_requests_and_answers(wires: Wires, echo: Echo):
    (port,) = free_ports(1)
    wires.to_manager(port, echo.port)
    with connected(port) as client:
        client.sendall(BEAT)
        assert client.recv(65536) == BEAT


@pytest.mark.parametrize(("ways", "arrives"), [((OUT,), False), ((IN,), True), ((OUT, IN), False)])
def test_a_worker_that_is_cut_off_hears_nothing_and_is_heard_where_only_answers_are_lost(
    wires: Wires, echo: Echo, ways: tuple[str, ...], arrives: bool
):
    (port,) = free_ports(1)
    wires.to_manager(port, echo.port)
    wires.lose("worker-1", *ways)
    with connected(port) as client:
        client.sendall(BEAT)
        with pytest.raises(TimeoutError):
            client.recv(65536)
    assert echo.rang.acquire(timeout=10 if arrives else 0.1) is arrives


def test_another_worker_goes_on_and_a_way_that_is_whole_again_takes_new_connections(wires: Wires, echo: Echo):
    (port,) = free_ports(1)
    wires.to_manager(port, echo.port)
    wires.lose("worker-1", OUT, IN)
    other = BEAT.replace(b"worker-1", b"worker-2")
    with connected(port) as client, connected(port) as neighbour:
        client.sendall(BEAT)
        neighbour.sendall(other)
        assert neighbour.recv(65536) == other
        with pytest.raises(TimeoutError):
            client.recv(65536)
        wires.lose("worker-1")
        with connected(port) as again:
            again.sendall(BEAT)
            assert again.recv(65536) == BEAT


def test_pokes_to_a_worker_are_lost_where_what_comes_to_it_is(wires: Wires, echo: Echo):
    (port,) = free_ports(1)
    wires.to_worker(port, echo.port, "worker-1")
    wires.lose("worker-1", IN)
    with connected(port) as client:
        client.sendall(b"poke")
        with pytest.raises(TimeoutError):
            client.recv(65536)
    assert echo.heard == []


def progress(epoch: int, kind: str, cut: int) -> Progress:
    return Progress("A-1", epoch, kind, cut, 1_000, 900, ())


@pytest.mark.parametrize(
    ("before", "now", "is_wrong"),
    [
        ((3, CUT, 7), (3, CUT, 8), False),
        ((3, CUT, 7), (3, IDLE, 7), False),
        ((3, CUT, 7), (4, OPEN, 7), False),
        ((3, CUT, 7), (3, CUT, 7), True),
        ((3, CUT, 7), (4, OPEN, 6), True),
        ((4, OPEN, 7), (3, IDLE, 7), True),
    ],
)
def test_a_record_of_an_older_run_or_of_a_cut_that_was_done_is_found(
    before: tuple[int, str, int], now: tuple[int, str, int], is_wrong: bool
):
    assert bool(succession("c", progress(*before), progress(*now))) is is_wrong


def test_rows_that_differ_are_told_and_those_that_are_missing_or_too_many():
    rows = [("a", 1), ("a", 2)]
    assert difference("t", rows, rows) == []
    assert "row 1 is ('a', 1), wanted ('a', 2)" in difference("t", [("a", 1), ("a", 1)], rows)[0]
    assert "row 1 is not there" in difference("t", rows[:1], rows)[0]
    assert "wanted not there" in difference("t", [*rows, ("a", 2)], rows)[0]


def test_a_row_may_be_missing_only_of_an_event_that_came_after_the_rows_were_looked_at():
    oracle = Oracle.__new__(Oracle)
    oracle.reference = Reference()
    first, second = (json.dumps({"event": {"id": f"i{n}", "dev": "d1", "v": 1}}).encode() for n in range(2))
    oracle.reference.take([first])
    written, rows = oracle._written(), oracle.reference.rows("sums")
    oracle.reference.take([second])
    assert oracle._in_tables({"sums": rows, "pairs": {}}, written) == []
    assert oracle._in_tables({"sums": oracle.reference.rows("sums"), "pairs": {}}, written) == []
    (told,) = oracle._in_tables({"sums": {}, "pairs": {}}, written)
    assert told.startswith("table sums, d1: row 0 is not there")
    (told,) = oracle._in_tables({"sums": {"d1": [*rows["d1"], ("d1", 9)]}, "pairs": {}}, written)
    assert told.startswith("table sums, d1: row 1 is ('d1', 9)")


def test_the_reference_gives_rows_by_device():
    reference = Reference()
    events = [{"id": f"i{n}", "dev": "d1", "v": v} for n, v in enumerate((2, -1, 3))]
    reference.take([json.dumps({"event": event}).encode() for event in events])
    assert reference.ids == ["i0", "i1", "i2"]
    assert reference.rows("sums") == {"d1": [("d1", 1, "i0", 2, 2, 1), ("d1", 2, "i2", 3, 5, 2)]}
    assert reference.rows("pairs") == {"d1": [("d1", 1, "i0", "i2")]}
