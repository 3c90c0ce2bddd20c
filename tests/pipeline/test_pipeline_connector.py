"""The Java connector in a real Spark; this process plays the coordinator and the hosts, or a script does that dies when it is told to."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from descriptors import is_readable

from nadi.errors import error
from nadi.pipeline.hosting.lane import (
    RECEIPT,
    Handler,
    LaneServer,
    Op,
    Partition,
    Request,
    Row,
    decode_bodies,
    decode_commit,
    decode_latest,
    decode_plan,
    encode_number,
    encode_partitions,
    encode_rows,
)
from nadi.pipeline.query import named_failure
from nadi.pipeline.session import driver_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

WITHIN = 60.0  # seconds, for what comes in one


class Coordinator:
    """Has batches, each of some partitions, and is told their receipts."""

    def __init__(self, *batches: list[Partition]) -> None:
        self.batches = batches
        self.commits: list[tuple[str, int, list[bytes]]] = []
        self.waits = threading.Event()
        self.asked_by_nobody = threading.Event()
        self._changed = threading.Condition()

    def __call__(self, request: Request) -> bytes:
        if request.op is Op.LATEST:
            _query, start = decode_latest(request.payload)
            if start == len(self.batches):
                self._wait(request)
            return encode_number(min(start + 1, len(self.batches)))
        if request.op is Op.PLAN:
            _query, start, end = decode_plan(request.payload)
            assert end == start + 1
            return encode_partitions(self.batches[start])
        query, batch, receipts = decode_commit(request.payload)
        with self._changed:
            self.commits.append((query, batch, [bytes(r) for r in receipts]))
            self._changed.notify_all()
        return b""

    def _wait(self, request: Request) -> None:
        """As long as somebody waits for the answer."""
        self.waits.set()
        assert is_readable(request, WITHIN)
        assert request.gone()
        self.asked_by_nobody.set()

    def committed(self) -> list[list[bytes]]:
        """The receipts of all batches, sorted in each, when all are there."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.commits) == len(self.batches), WITHIN)
            assert [(query, batch) for query, batch, _ in self.commits] == [("q", n) for n in range(len(self.batches))]
            return [sorted(receipts) for _, _, receipts in self.commits]


@dataclass
class Place:
    """Where a test has its sockets, and what it has started."""

    spark: SparkSession
    base: Path
    command: list[str] = field(default_factory=lambda: ["/bin/false"])
    queries: list[StreamingQuery] = field(default_factory=list)
    servers: list[LaneServer] = field(default_factory=list)

    @property
    def hosts(self) -> Path:
        return self.base / str(driver_jvm(self.spark))

    def serve(self, name: str, handler: Handler) -> None:
        self.hosts.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.servers.append(LaneServer(self.hosts / name, handler))

    def start(self, coordinator: Handler, shuffled: bool = False) -> StreamingQuery:
        self.serve("coordinator", coordinator)
        return self.query(shuffled)

    def query(self, shuffled: bool = False) -> StreamingQuery:
        options = {
            "coordinator": str(self.hosts / "coordinator"),
            "query": "q",
            "hosts.base": str(self.base),
            "hosts.command": "\n".join(self.command),
        }
        rows = self.spark.readStream.format("nadi.Connector").options(**options).load()
        rows = rows.repartition(2, "bk") if shuffled else rows
        sink = rows.writeStream.format("nadi.Connector").options(**options)
        started = sink.option("checkpointLocation", str(self.base / "checkpoint")).outputMode("append").start()
        self.queries.append(started)
        return started

    def failure(self, query: StreamingQuery) -> Exception:
        """What a query has ended with."""
        with pytest.raises(Exception) as failed:
            query.awaitTermination(WITHIN)
        return failed.value


@pytest.fixture
def place(spark: SparkSession) -> Iterator[Place]:
    made = Place(spark, Path(tempfile.mkdtemp(prefix="nadi-lane-")))  # not in tmp_path: paths of sockets are short
    yield made
    for query in made.queries:
        query.stop()
    for server in made.servers:
        server.close()
    for alive in made.base.glob("*/*.pid"):
        os.kill(int(alive.read_text()), 9)
    shutil.rmtree(made.base)


def receipt(body: bytes) -> bytes:
    return encode_rows([Row(0, RECEIPT, body)])


def test_a_batch_of_one_stage_brings_the_receipts_of_its_tasks_to_the_coordinator(place: Place) -> None:
    coordinator = Coordinator(
        [Partition(0, "", b"a"), Partition(1, "127.0.0.1", b"b"), Partition(0, "", b"")], [Partition(1, "", b"c")], []
    )
    for host in (0, 1):
        place.serve(f"{host}.lane", lambda asked, host=host: receipt(b"%d " % host + bytes(asked.payload)))
    query = place.start(coordinator)
    assert coordinator.committed() == [[b"0 ", b"0 a", b"1 b"], [b"1 c"], []]
    assert query.isActive


def test_a_batch_of_two_stages_brings_rows_to_their_hosts_and_their_receipts_to_the_coordinator(place: Place) -> None:
    def host(index: int) -> Callable[[Request], bytes]:
        def answer(request: Request) -> bytes:
            if request.op is Op.READ:
                told = bytes(request.payload)
                return encode_rows(
                    [Row(bk, bk % 2, told + b"%d" % bk) for bk in (10, 11, 12)] + [Row(0, RECEIPT, told)]
                )
            assert request.op is Op.WRITE
            return b"%d: " % index + b" ".join(sorted(map(bytes, decode_bodies(request.payload))))

        return answer

    coordinator = Coordinator(*([Partition(0, "", b"%dx" % n), Partition(1, "", b"%dy" % n)] for n in range(3)))
    for index in (0, 1):
        place.serve(f"{index}.lane", host(index))
    place.start(coordinator, shuffled=True)
    for n, receipts in enumerate(coordinator.committed()):
        # labels of one host may be in one task or in two
        bodies = {i: sorted(w for r in receipts if r.startswith(b"%d: " % i) for w in r.split()[1:]) for i in (0, 1)}
        assert bodies == {
            0: [b"%dx10" % n, b"%dx12" % n, b"%dy10" % n, b"%dy12" % n],
            1: [b"%dx11" % n, b"%dy11" % n],
        }
        assert [r for r in receipts if b":" not in r] == [b"%dx" % n, b"%dy" % n]


def test_rows_of_several_frames_and_of_empty_ones_all_arrive(place: Place) -> None:
    def answer(_request: Request) -> Iterator[bytes]:
        for n in range(0, 50, 5):
            yield encode_rows(Row(0, RECEIPT, b"%02d" % i * 10_000) for i in range(n, n + 5))
            yield b""

    coordinator = Coordinator([Partition(0, "", b"")], [Partition(0, "", b"")])
    place.serve("0.lane", answer)
    place.start(coordinator)
    assert coordinator.committed() == [[b"%02d" % i * 10_000 for i in range(50)]] * 2


SCRIPT = """\
import fcntl, os, pathlib, sys, threading
from nadi.pipeline.hosting.lane import *

dies, folder, index = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
alive = open(folder / f"{index}.alive", "a")
try:
    fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(1)
(folder / f"{index}.pid").write_text(str(os.getpid()))
with open(folder / f"{index}.starts", "a") as starts:
    print("started", file=starts)
first = len((folder / f"{index}.starts").read_text().split()) == 1
if first and dies.startswith("exit"):
    (folder / f"{index}.pid").unlink()
    sys.exit(int(dies.split()[1]))

def answer(request):
    if first and request.op == ord(dies[0]) and len(dies) == 1:
        os._exit(9)
    return b"receipt" if request.op is Op.WRITE else rows(bytes(request.payload))

def rows(asked):
    to = RECEIPT if asked == b"receipts" else 0
    yield encode_rows([Row(0, to, b"one"), Row(0, to, b"two")])
    if first and dies == "R amid frames":
        os._exit(9)
    yield encode_rows([Row(0, to, b"three")])

LaneServer(folder / f"{index}.lane", answer)
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("dies", "asks", "receipts"),
    [
        ("R", b"receipts", [b"one", b"three", b"two"]),
        ("R amid frames", b"receipts", [b"one", b"three", b"two"]),
        ("W", b"rows", [b"receipt"]),
    ],
)
def test_a_host_that_dies_in_an_exchange_is_started_again_and_asked_again(
    place: Place, dies: str, asks: bytes, receipts: list[bytes]
) -> None:
    script = place.base / "host.py"
    script.write_text(SCRIPT)
    place.command = [sys.executable, str(script), dies]
    coordinator = Coordinator([Partition(0, "", asks)], [Partition(0, "", asks)])
    place.start(coordinator)
    assert coordinator.committed() == [receipts] * 2
    assert (place.hosts / "0.starts").read_text().split() == ["started"] * 2
    assert (place.hosts / "0.log").exists()


def test_a_host_that_died_between_two_batches_is_started_again(place: Place) -> None:
    script = place.base / "host.py"
    script.write_text(SCRIPT)
    place.command = [sys.executable, str(script), "-"]
    coordinator = Coordinator(*([Partition(0, "", b"receipts")] for _ in range(2)))
    killed: list[int] = []

    def kills(request: Request) -> bytes:
        if request.op is Op.LATEST and decode_latest(request.payload)[1] == 1 and not killed:
            killed.append(int((place.hosts / "0.pid").read_text()))
            ended = os.pidfd_open(killed[0])
            os.kill(killed[0], 9)
            assert is_readable(ended, WITHIN)
            os.close(ended)
        return coordinator(request)

    place.start(kills)
    assert coordinator.committed() == [[b"one", b"three", b"two"]] * 2
    assert int((place.hosts / "0.pid").read_text()) != killed[0]


@pytest.mark.parametrize("status", [1, 3])
def test_a_host_that_ends_when_it_starts_is_started_again(place: Place, status: int) -> None:
    script = place.base / "host.py"
    script.write_text(SCRIPT)
    place.command = [sys.executable, str(script), f"exit {status}"]
    coordinator = Coordinator([Partition(0, "", b"receipts")])
    place.start(coordinator)
    assert coordinator.committed() == [[b"one", b"three", b"two"]]
    assert (place.hosts / "0.starts").read_text().split() == ["started"] * 2


def test_tasks_that_ask_a_host_at_the_same_time_start_it_once(place: Place) -> None:
    script = place.base / "host.py"
    script.write_text(SCRIPT)
    place.command = [sys.executable, str(script), "-"]
    coordinator = Coordinator([Partition(0, "", b"receipts")] * 2)
    place.start(coordinator)
    assert coordinator.committed() == [[b"one", b"one", b"three", b"three", b"two", b"two"]]
    assert (place.hosts / "0.starts").read_text().split() == ["started"]


def test_the_failure_of_a_host_and_of_the_coordinator_keep_their_names(place: Place) -> None:
    def fails(_request: Request) -> bytes:
        raise error("CUT_FENCED", app="A", current=7, epoch=6)

    place.serve("0.lane", fails)
    failed = place.failure(place.start(Coordinator([Partition(0, "", b"")])))
    assert named_failure("A", failed, "log").condition == "CUT_FENCED"
    place.servers[-1].close()
    shutil.rmtree(place.base / "checkpoint")
    failed = place.failure(place.start(fails))
    assert str(named_failure("A", failed, "log")) == str(error("CUT_FENCED", app="A", current=7, epoch=6))


def test_an_unnamed_failure_is_told_as_it_is(place: Place) -> None:
    place.serve("0.lane", lambda _request: receipt(b"x"))
    place.servers[-1]._unnamed = lambda _reason: None

    def fails(_request: Request) -> bytes:
        raise KeyError("no such group")

    place.serve("coordinator", fails)
    place.servers[-1]._unnamed = lambda _reason: None
    assert "KeyError: 'no such group'" in str(place.failure(place.query()))


def test_a_query_that_waits_for_work_stops_at_once_and_the_coordinator_sees_it(place: Place) -> None:
    coordinator = Coordinator()
    query = place.start(coordinator)
    assert coordinator.waits.wait(WITHIN)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    stopping.join(WITHIN)
    assert not stopping.is_alive()
    assert coordinator.asked_by_nobody.wait(WITHIN)
    assert query.exception() is None


def test_a_query_stops_while_a_host_computes(place: Place) -> None:
    coordinator = Coordinator([Partition(0, "", b"")])
    computes, gone = threading.Event(), threading.Event()

    def slow(request: Request) -> bytes:
        computes.set()
        assert is_readable(request, WITHIN)
        gone.set()
        return b""

    place.serve("0.lane", slow)
    query = place.start(coordinator)
    assert computes.wait(WITHIN)
    query.stop()
    assert gone.wait(WITHIN)
    assert query.exception() is None
    assert coordinator.commits == []


def test_a_coordinator_that_is_gone_ends_the_query_at_once(place: Place) -> None:
    coordinator = Coordinator()
    query = place.start(coordinator)
    assert coordinator.waits.wait(WITHIN)
    place.servers[-1].close()
    assert "the coordinator does not answer" in str(place.failure(query))


def test_an_answer_to_another_request_is_refused(place: Place) -> None:
    place.hosts.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.hosts / "coordinator"))
        listening.listen()
        query = place.query()
        connection, _ = listening.accept()
        with connection:
            length, number, op = struct.unpack("!IQB", connection.recv(13, socket.MSG_WAITALL))
            assert (length, number, op) == (9 + 2 + 1 + 8, 1, Op.LATEST)
            connection.sendall(struct.pack("!IQBq", 17, 77, 0, 1))
            assert "an answer to request 77 came for request 1" in str(place.failure(query))


def test_a_folder_that_others_may_write_to_is_not_taken_for_that_of_the_hosts(place: Place) -> None:
    place.start(Coordinator([Partition(0, "", b"")]))
    place.base.chmod(0o777)
    failed = place.failure(place.queries[-1])
    reason = f"{place.base} belongs to somebody else, or others may write to it"
    told = error("HOST_UNAVAILABLE", reason=reason, log=place.hosts / "0.log")
    assert str(named_failure("A", failed, "log")) == str(told)


def test_an_option_that_is_missing_is_named(place: Place) -> None:
    rows = place.spark.readStream.format("nadi.Connector").load()
    sink = rows.writeStream.format("nadi.Connector").option("checkpointLocation", str(place.base / "checkpoint"))
    place.queries.append(sink.start())
    assert "nadi.Connector needs the option coordinator" in str(place.failure(place.queries[-1]))
