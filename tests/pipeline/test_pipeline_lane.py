"""The lane without Java: what is sent comes back as it was, failures arrive as texts, and what breaks breaks one connection only."""

from __future__ import annotations

import doctest
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from descriptors import is_readable
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.pipeline.hosting import lane
from nadi.pipeline.hosting.lane import LaneClient, LaneFailure, LaneServer, Op, Partition, Request, Row
from nadi.pipeline.query import named_failure

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
BODIES = st.binary(max_size=50)


@given(TEXTS, LONGS, LONGS)
def test_numbers_and_names_come_back(query: str, start: int, end: int) -> None:
    assert lane.decode_latest(lane.encode_latest(query, start)) == (query, start)
    assert lane.decode_plan(lane.encode_plan(query, start, end)) == (query, start, end)
    assert lane.decode_number(lane.encode_number(end)) == end


@given(st.lists(st.builds(Partition, INTS, TEXTS, BODIES)), TEXTS, LONGS, st.lists(BODIES))
def test_partitions_and_commits_come_back(parts: list[Partition], query: str, batch: int, bodies: list[bytes]) -> None:
    assert lane.decode_partitions(lane.encode_partitions(parts)) == parts
    assert lane.decode_commit(lane.encode_commit(query, batch, bodies)) == (query, batch, bodies)


@given(st.lists(st.builds(Row, INTS, INTS, BODIES)))
def test_rows_and_bodies_come_back(rows: list[Row]) -> None:
    assert lane.decode_rows(lane.encode_rows(rows)) == rows
    bodies = [bytes(r.body) for r in rows]
    assert lane.decode_bodies(lane.encode_bodies(bodies)) == bodies


@given(st.lists(st.builds(Row, INTS, INTS, BODIES), min_size=1), st.data())
def test_what_is_cut_short_is_not_read_as_something_shorter(rows: list[Row], data: st.DataObject) -> None:
    bodies = lane.encode_bodies([r.body for r in rows])
    cut = data.draw(st.integers(0, len(bodies) - 1))
    with pytest.raises((ValueError, struct.error)):
        lane.decode_bodies(bodies[:cut])


def answer(request: Request) -> bytes | Iterator[bytes]:
    """Echoes; READ frame by frame, which fails at a byte 0."""
    if request.op is Op.READ:
        return frames(bytes(request.payload))
    if request.op is Op.COMMIT:
        raise error("HOST_UNAVAILABLE", reason="it sleeps", log="h.log")
    return bytes(request.payload)


def frames(payload: bytes) -> Iterator[bytes]:
    for value in payload:
        if value == 0:
            raise KeyError("zero")
        yield bytes([value])


@pytest.fixture
def unnamed() -> list[BaseException]:
    return []


@pytest.fixture
def server(tmp_path: Path, unnamed: list[BaseException]) -> Iterator[LaneServer]:
    with LaneServer(tmp_path / "0.lane", answer, unnamed.append) as served:
        yield served


def test_a_payload_of_a_megabyte_comes_back(server: LaneServer) -> None:
    large = bytes(range(256)) * 4096
    with LaneClient(server.path) as client:
        assert client.ask(Op.WRITE, large) == large
        assert client.ask(Op.WRITE) == b""


def test_several_frames_arrive_one_by_one_and_none_is_an_answer_too(server: LaneServer) -> None:
    with LaneClient(server.path) as client:
        assert [bytes(f) for f in client.frames(Op.READ, b"\1\2")] == [b"\1", b"\2", b""]
        assert client.ask(Op.READ, b"") == b""


def test_a_frame_is_sent_before_the_next_one_is_made(tmp_path: Path) -> None:
    arrived = threading.Event()

    def slowly(_request: Request) -> Iterator[bytes]:
        yield b"first"
        assert arrived.wait(60)
        yield b"second"

    with LaneServer(tmp_path / "0.lane", slowly) as server, LaneClient(server.path) as client:
        answered = client.frames(Op.READ)
        assert next(answered) == b"first"
        arrived.set()
        assert [bytes(f) for f in answered] == [b"second", b""]


def test_a_named_failure_is_found_in_its_text(server: LaneServer, unnamed: list[BaseException]) -> None:
    with LaneClient(server.path) as client:
        with pytest.raises(LaneFailure) as failed:
            client.ask(Op.COMMIT)
        found = named_failure(
            "app", RuntimeException(f"java.lang.RuntimeException: {failed.value}\n\tat nadi.Lane"), "log"
        )
        assert isinstance(found, ConnectionUnavailableException)
        assert found.condition == "HOST_UNAVAILABLE"
        assert client.ask(Op.PLAN, b"goes on") == b"goes on"
    assert unnamed == []


class RuntimeException(Exception):
    """As PySpark raises for one of Java."""


def test_a_failure_amid_frames_is_told_after_them_and_the_connection_goes_on(
    server: LaneServer, unnamed: list[BaseException]
) -> None:
    with LaneClient(server.path) as client:
        answered = client.frames(Op.READ, b"\1\0\2")
        assert next(answered) == b"\1"
        with pytest.raises(LaneFailure, match=r"^KeyError: 'zero'$"):
            next(answered)
        assert client.ask(Op.WRITE, b"x") == b"x"
    assert [type(reason) for reason in unnamed] == [KeyError]


def test_an_operation_that_is_none_and_a_payload_that_is_too_long_are_failures(
    server: LaneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LaneClient(server.path) as client:
        with pytest.raises(LaneFailure, match="ValueError: 7 is not a valid Op"):
            client.ask(7)  # type: ignore[arg-type]
        with LaneClient(server.path) as other:
            monkeypatch.setattr(lane, "LONGEST", 40)
            with pytest.raises(ValueError, match="41 bytes is longer"):
                other.ask(Op.WRITE, b"x" * 41)


def test_a_broken_connection_of_a_handler_is_its_failure_and_not_taken_for_that_of_who_asks(tmp_path: Path) -> None:
    def broken(_request: Request) -> bytes:
        raise BrokenPipeError("somebody else's")

    with LaneServer(tmp_path / "0.lane", broken, lambda _: None) as server, LaneClient(server.path) as client:
        for _ in range(2):
            with pytest.raises(LaneFailure, match="BrokenPipeError: somebody else's"):
                client.ask(Op.WRITE)


def test_a_handler_sees_that_nobody_waits_any_more(tmp_path: Path) -> None:
    asked, closed, seen = threading.Event(), threading.Event(), threading.Event()

    def waits(request: Request) -> bytes:
        assert not request.gone()
        asked.set()
        assert closed.wait(60)
        if is_readable(request, 20) and request.gone():
            seen.set()
        return b""

    with LaneServer(tmp_path / "0.lane", waits) as server:
        client = LaneClient(server.path)
        waiting = threading.Thread(target=_ask_and_break, args=(client,))
        waiting.start()
        assert asked.wait(60)
        client._connection.shutdown(socket.SHUT_RDWR)
        closed.set()
        waiting.join()
        client.close()
        assert seen.wait(60)


def _ask_and_break(client: LaneClient) -> None:
    with pytest.raises(ConnectionError):
        client.ask(Op.LATEST)


def test_connections_are_served_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def meets(_request: Request) -> bytes:
        both.wait(60)
        return b"met"

    with (
        LaneServer(tmp_path / "0.lane", meets) as server,
        LaneClient(server.path) as one,
        LaneClient(server.path) as two,
    ):
        other = threading.Thread(target=one.ask, args=(Op.WRITE,))
        other.start()
        assert two.ask(Op.WRITE) == b"met"
        other.join()


def test_a_frame_that_has_no_room_for_its_head_ends_that_connection_only(server: LaneServer) -> None:
    with socket.socket(socket.AF_UNIX) as odd:
        odd.connect(str(server.path))
        odd.sendall(struct.pack("!IQB", 3, 1, Op.WRITE))
        assert odd.recv(1) == b""
    with LaneClient(server.path) as client:
        assert client.ask(Op.WRITE, b"x") == b"x"


def test_an_answer_to_another_request_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "0.lane"))
        listening.listen()
        with LaneClient(tmp_path / "0.lane") as client:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(struct.pack("!IQB", 9, 77, 0))
                with pytest.raises(ConnectionError, match="request 77 came for request 1"):
                    client.ask(Op.WRITE)


def test_a_closed_server_ends_its_connections_and_leaves_no_socket_and_a_new_one_takes_the_place(
    tmp_path: Path,
) -> None:
    first = LaneServer(tmp_path / "0.lane", answer)
    with LaneClient(first.path) as client:
        assert client.ask(Op.WRITE, b"x") == b"x"
        first.close()
        first.close()
        with pytest.raises(OSError):
            client.ask(Op.WRITE, b"x")
    assert not first.path.exists()
    first.path.touch()  # as a server that was killed leaves it
    with LaneServer(first.path, answer), LaneClient(first.path) as client:
        assert client.ask(Op.WRITE, b"x") == b"x"
        assert first.path.stat().st_mode & 0o777 == 0o600


def test_the_examples_of_the_module_are_true() -> None:
    done = doctest.testmod(lane)
    assert done.attempted > 10
    assert done.failed == 0
