"""On a cluster a bucket stays where its kernel is, wherever its rows go (rules.md#p7)."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_reference import APP as RISES
from pipeline_reference import write_input
from pipeline_seats import TOKEN, Cluster, Counting, Executor
from pipeline_work import Rig, cuts_of, spec_of, sweep

from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.executor import livekernels
from nadi.pipeline.hosting.doors import Door, DoorClient
from nadi.pipeline.hosting.lane import LaneFailure, Op, Request

BATCHES = 1_000


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[list[Executor]]:
    made = [Executor(tmp_path, number) for number in range(2)]
    yield made
    for each in made:
        each.die()


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    """Reads of the state log by hosts are counted."""
    monkeypatch.setattr(Counting, "gets", Counting.gets.__class__())
    monkeypatch.setattr(livekernels, "open_store", lambda place: Counting(Path(place)))
    monkeypatch.setattr("nadi.io.durablefiles.sync", lambda _descriptor: None)  # of no interest here, and slow
    return Counting


def rig_of(folder: Path, buckets: int, cuts: int, size: int = 2) -> Rig:
    spec = spec_of(folder, RISES, buckets=buckets, cluster=True, token=TOKEN, engine="pipeline_small")
    write_input(folder / "in", cuts * size * 3)
    return Rig(spec, cuts_of(folder / "in", [size * n for n in range(1, cuts + 1)]))


@pytest.mark.parametrize(("stages", "buckets"), [(1, 1), (2, 3)])
def test_no_base_is_read_after_the_warm_up_though_tasks_go_anywhere(
    tmp_path: Path, executors: list[Executor], counted: type[Counting], stages: int, buckets: int
):
    cluster = Cluster(rig_of(tmp_path, buckets, BATCHES + 20), executors)
    for _ in range(20):
        cluster.step(stages)
    warm, bases = dict(counted.gets), {b: cluster.rig.lines[b].base for b in cluster.rig.lines}
    for _ in range(BATCHES):
        cluster.step(stages)
    assert dict(counted.gets) == warm == {}
    assert all(cluster.rig.lines[b].base != base for b, base in bases.items())  # they were renewed meanwhile
    cluster.rig.check()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_base_of_a_gigabyte_is_read_after_the_warm_up(
    tmp_path: Path, executors: list[Executor], counted: type[Counting]
):
    text = """@app:name('Work')
    @source(type='test', file='{folder}/in') define stream In (k string, n long);
    @sink(type='test', file='{folder}/out') define stream Out (seen long, last long);
    from In#window.length(1000) select count() as seen, max(n) as last insert into Out;"""
    spec = replace(spec_of(tmp_path, text, cluster=True, token=TOKEN), connectors="pipeline_large")
    ends = [*range(100, 1_100, 100), *range(1_001, 2_001)]
    times = [Cut(n, 1, end * 10, 0, {(0, 0): end}, {}, {}) for n, end in enumerate(ends, 1)]
    cluster = Cluster(Rig(spec, [Cut(0, 1, 0, 0, {(0, 0): 0}), *times]), executors)
    for _ in range(10):
        cluster.step(1)
    counted.gets.clear()
    written = 0
    for _ in range(BATCHES):
        cluster.step(1)
        sweep(cluster.rig)
        (told,) = cluster.rig.told[-1].values()
        written += told["base"] is not None
    assert told["state_bytes"] > 1_000_000_000
    assert written > 0  # others were made beside
    assert counted.gets["d"] == 0
    assert counted.gets["bytes"] < 10_000_000  # indexes of bases, by which the next ones go
    (row,) = cluster.rig.delivered()[1_010, 0]
    assert (row["seen"], row["last"]) == (1_000, 1_999)


@pytest.mark.parametrize(("stages", "buckets"), [(1, 1), (2, 3)])
def test_what_an_executor_had_that_is_lost_is_taken_up_by_another_one(
    tmp_path: Path, executors: list[Executor], stages: int, buckets: int
):
    cluster = Cluster(rig_of(tmp_path, buckets, 60), executors)
    for round_ in range(4):
        for _ in range(10):
            cluster.step(stages)
        lost = next(e for e in cluster.executors if e.place == cluster.seats[0].place)
        cluster.executors.remove(lost)
        lost.die()
        cluster.executors.append(Executor(tmp_path, 2 + round_))
    for _ in range(10):
        cluster.step(stages)
    cluster.rig.check()
    living = {executor.place for executor in cluster.executors}
    assert {seat.place for seat in cluster.seats.values()} <= living
    for executor in cluster.executors:
        executor.die()


# ---- doors


@pytest.fixture
def door() -> Iterator[Door]:
    def answer(request: Request) -> bytes:
        if request.op is Op.WRITE:
            raise ValueError("no")
        return bytes(request.payload) * 2

    with Door("127.0.0.1", TOKEN, answer) as made:
        yield made


def test_who_has_the_token_is_answered_and_told_of_failures(door: Door):
    with DoorClient(door.address, TOKEN) as client:
        assert client.ask(Op.READ, b"ab") == b"abab"
        with pytest.raises(LaneFailure, match="no"):
            client.ask(Op.WRITE)
        assert client.ask(Op.READ, b"c") == b"cc"


def test_who_has_another_token_is_not_let_in_and_learns_nothing(door: Door):
    with pytest.raises(ConnectionError, match="does not know the token"):
        DoorClient(door.address, "another")


def test_what_was_heard_of_a_connection_opens_no_other_one(door: Door):
    machine, _, port = door.address.rpartition(":")
    said: list[bytes] = []
    heard = _Recorder(machine, int(port), said)
    with heard, pytest.raises(ConnectionError):  # the proof is for the address of the other door
        DoorClient(heard.address, TOKEN)
    with socket.create_connection((machine, int(port)), 5) as stranger:
        stranger.sendall(said[0])  # what a client began with, once more
        assert len(stranger.recv(64, socket.MSG_WAITALL)) == 64
        stranger.sendall(bytes(32))
        assert stranger.recv(1) == b""


class _Recorder:
    """Stands between a client and a door, and keeps what the client said first."""

    def __init__(self, machine: str, port: int, said: list[bytes]) -> None:
        self._there, self._said = (machine, port), said
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> _Recorder:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        client, _ = self._listening.accept()
        with client, socket.create_connection(self._there, 5) as door:
            self._said.append(client.recv(1_000))
            door.sendall(self._said[0])
            client.sendall(door.recv(1_000))


@pytest.mark.parametrize(
    "hello", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64), b"NADIDOOR1" + bytes(10)], ids=["http", "cut short"]
)
def test_a_stranger_is_not_answered(door: Door, hello: bytes):
    machine, _, port = door.address.rpartition(":")
    with socket.create_connection((machine, int(port)), 5) as stranger:
        stranger.sendall(hello)
        assert _says_nothing(stranger)


def _says_nothing(connection: socket.socket) -> bool:
    """Whether the other side closes without a word once no more is sent to it."""
    try:
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1) == b""
    except OSError as error:  # it closed, maybe before the shutdown, and had not read all that it was sent
        return error.errno in (errno.ECONNRESET, errno.ENOTCONN)
