"""Writers at the Unix socket: threads, loops, forked and killed processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pairing import MemoryCopy, MemoryTable, append, run

from nadi.errors import NadiError, error
from nadi.eventsync.local import LocalEnd
from nadi.replica.client import BlockingReplica, LoopReplica, blocking_replica, replica_in_loop
from nadi.replica.contract import Record, Statements
from nadi.replica.wire import HEAD, LARGEST, Kind


class NotedGate:
    """Implements `Gate`: notes what comes."""

    def __init__(self) -> None:
        self.prepared: list[Record] = []
        self.settled: list[tuple[str, int]] = []
        self.refusal: NadiError | None = None
        self.opens = asyncio.Event()
        self.opens.set()
        self.news = asyncio.Event()

    async def prepare(self, record: Record) -> int:
        self.prepared.append(record)
        ticket = 100 + len(self.prepared)
        self.news.set()
        await self.opens.wait()
        if self.refusal is not None:
            raise self.refusal
        return ticket

    def confirm(self, ticket: int) -> None:
        self.settled.append(("confirm", ticket))
        self.news.set()

    def abandon(self, ticket: int) -> None:
        self.settled.append(("abandon", ticket))
        self.news.set()

    async def until(self, settled: int = 0, prepared: int = 0) -> None:
        while len(self.settled) < settled or len(self.prepared) < prepared:
            self.news.clear()
            await self.news.wait()


class Local:
    def __init__(self, path: Path, gate: NotedGate, journal: MemoryCopy, end: LocalEnd) -> None:
        self.path, self.gate, self.journal, self.end = path, gate, journal, end


@asynccontextmanager
async def local(folder: Path, settled: int = 20) -> AsyncIterator[Local]:
    gate, journal = NotedGate(), MemoryCopy()
    path = folder / "sync" / "s"
    end = LocalEnd(path, gate, [journal, MemoryTable(Statements)], settled)
    await end.open()
    try:
        yield Local(path, gate, journal, end)
    finally:
        await end.close()


def test_only_this_user_reaches_the_socket_and_an_old_one_is_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            assert stat.S_IMODE(node.path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(node.path.stat().st_mode) == 0o600
        old = socket.socket(socket.AF_UNIX)
        old.bind(str(node.path))
        old.close()
        async with local(tmp_path) as node:
            replica = LoopReplica(node.path)
            await replica.prepare(append(1))
            await replica.close()

    run(scene())


def test_a_socket_whose_path_is_too_long_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(NadiError, match="too long") as problem:
            await LocalEnd(tmp_path / ("x" * 120), NotedGate(), []).open()
        assert problem.value.condition == "SERVER_NOT_STARTED"

    run(scene())


def test_a_loop_prepares_confirms_and_abandons(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            replica = replica_in_loop(node.path)
            assert replica is replica_in_loop(node.path)
            tickets = await asyncio.gather(*(replica.prepare(append(n)) for n in range(30)))
            assert node.gate.prepared == [append(n) for n in range(30)]
            replica.confirm(tickets[3])
            replica.abandon(tickets[1])
            await node.gate.until(settled=2)
            assert node.gate.settled == [("confirm", 104), ("abandon", 102)]
            await replica.close()

    run(scene())


def test_threads_share_a_connection_and_large_records_come_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            replica = blocking_replica(node.path)
            assert replica is blocking_replica(node.path)
            payloads = [os.urandom(8_000_000 if n < 3 else 500) for n in range(60)]

            def write(n: int) -> None:
                replica.confirm(replica.prepare(append(n, payloads[n])))

            def all_of_them() -> None:
                with ThreadPoolExecutor(8) as pool:
                    list(pool.map(write, range(60)))

            await asyncio.to_thread(all_of_them)
            await node.gate.until(settled=60)
            found = {record.first: record.payload for record in node.gate.prepared}  # type: ignore[union-attr]
            assert found == dict(enumerate(payloads))
            assert {what for what, _ in node.gate.settled} == {"confirm"}
            assert len(node.end._tasks) == 1  # the one connection
            replica.close()

    run(scene())


@pytest.mark.parametrize("condition", ["NOT_ACTIVE", "CONNECTION_UNAVAILABLE"])
def test_a_refusal_comes_to_the_writer_as_it_is(tmp_path: Path, condition: str) -> None:
    from nadi.errors.catalogue import conditions

    if condition not in conditions():
        pytest.skip("this condition comes with who decides")

    async def scene() -> None:
        async with local(tmp_path) as node:
            node.gate.refusal = error(condition, **dict.fromkeys(conditions()[condition].parameters, "why"))
            loop, blocking = LoopReplica(node.path), BlockingReplica(node.path)
            for ask in (loop.prepare(append(1)), asyncio.to_thread(blocking.prepare, append(1))):
                with pytest.raises(NadiError) as problem:
                    await ask
                assert problem.value.condition == condition
                assert str(problem.value) == str(node.gate.refusal)
            node.gate.refusal = None
            await loop.prepare(append(1))  # the connection is as good as before
            await loop.close()
            await asyncio.to_thread(blocking.close)

    run(scene())


def test_a_writer_that_cannot_reach_event_sync_gets_an_error_and_the_next_record_a_new_connection(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        loop, blocking = LoopReplica(tmp_path / "sync" / "s"), BlockingReplica(tmp_path / "sync" / "s")
        for _ in range(2):
            async with local(tmp_path) as node:
                await loop.prepare(append(1))
                await asyncio.to_thread(blocking.prepare, append(1))
                node.gate.opens.clear()
                asked = [asyncio.ensure_future(loop.prepare(append(2)))]
                asked += [asyncio.ensure_future(asyncio.to_thread(blocking.prepare, append(n))) for n in (2, 3)]
                await node.gate.until(prepared=5)
            for failing in asked:
                with pytest.raises(NadiError) as problem:
                    await failing
                assert problem.value.condition == "CONNECTION_UNAVAILABLE"
            for ask in (loop.prepare(append(1)), asyncio.to_thread(blocking.prepare, append(1))):
                with pytest.raises(NadiError) as problem:
                    await ask
                assert problem.value.condition == "CONNECTION_UNAVAILABLE"
        await loop.close()
        await asyncio.to_thread(blocking.close)

    run(scene())


def test_tickets_of_a_connection_that_broke_settle_nothing_of_the_next_one(tmp_path: Path) -> None:
    async def scene() -> None:
        replica = LoopReplica(tmp_path / "sync" / "s")
        async with local(tmp_path):
            old = await replica.prepare(append(1))
        async with local(tmp_path) as node:
            while not replica._connection.broken:  # type: ignore[union-attr]
                await asyncio.sleep(0.005)
            replica.confirm(old)
            new = await replica.prepare(append(2))
            replica.confirm(old)
            replica.confirm(new)
            await node.gate.until(settled=1)
            assert node.gate.settled == [("confirm", 101)]
            await replica.close()

    run(scene())


def test_a_record_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            replica = LoopReplica(node.path)
            with pytest.raises(NadiError, match="the most") as problem:
                await replica.prepare(append(1, bytes(LARGEST)))
            assert problem.value.condition == "REFUSED"

    run(scene())


GARBAGE = [
    HEAD.pack(LARGEST + 1, Kind.PREPARE, 1),
    HEAD.pack(3, Kind.PREPARE, 1) + b"\xc1\xc1\xc1",
    HEAD.pack(0, 77, 1),
    HEAD.pack(0, Kind.PREPARED, 1),
]


@pytest.mark.parametrize("said", GARBAGE)
def test_a_writer_that_sends_what_is_no_frame_loses_its_connection(tmp_path: Path, said: bytes) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            reader, writer = await asyncio.open_unix_connection(node.path)
            writer.write(said)
            with pytest.raises(EOFError):
                await reader.readexactly(1)
            writer.close()
            replica = LoopReplica(node.path)
            await replica.prepare(append(1))
            await replica.close()

    run(scene())


# ---- writers that end without a word -----------------------------------------------------------------------------


def forked(path: Path, record: Record) -> int:
    """A process that prepares a record with the replica that its parent has used, and then does nothing."""
    child = os.fork()
    if child:
        return child
    try:
        blocking_replica(path).prepare(record)
        signal.pause()
    finally:
        os._exit(1)


@pytest.mark.parametrize(("stored", "settled"), [(True, "confirm"), (False, "abandon")])
def test_the_service_is_asked_about_a_record_whose_writer_was_killed(
    tmp_path: Path, stored: bool, settled: str
) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            parent = blocking_replica(node.path)
            kept = await asyncio.to_thread(parent.prepare, append(1))
            child = forked(node.path, append(2))
            await node.gate.until(prepared=2)
            await asyncio.sleep(0.05)
            assert node.journal.asked == []
            if stored:
                node.journal.write(append(2))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            await node.gate.until(settled=1)
            assert node.gate.settled == [(settled, 102)]
            assert len(node.journal.asked) == (1 if stored else 2)
            parent.confirm(kept)  # the parent's connection was not touched by its child
            await node.gate.until(settled=2)
            assert node.gate.settled[1] == ("confirm", 101)
            parent.close()

    run(scene())


def test_what_a_killed_writer_had_on_its_way_is_seen_the_second_time(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            replica = LoopReplica(node.path)
            await replica.prepare(append(1))
            await replica.close()
            while not node.journal.asked:
                await asyncio.sleep(0.001)
            node.journal.write(append(1))  # the service handles it a moment late
            await node.gate.until(settled=1)
            assert node.gate.settled == [("confirm", 101)]

    run(scene())


def test_a_service_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            node.journal.fails = OSError("away")
            replica = LoopReplica(node.path)
            await replica.prepare(append(1))
            await replica.close()
            while len(node.journal.asked) < 3:
                await asyncio.sleep(0.005)
            assert (node.gate.settled, node.end.unsettled) == ([], 1)
            node.journal.fails = None
            node.journal.write(append(1))
            await node.gate.until(settled=1)
            assert (node.gate.settled, node.end.unsettled) == ([("confirm", 101)], 0)

    run(scene())


def test_a_record_of_a_writer_that_ended_is_abandoned_when_another_one_has_its_place(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path, settled=60_000) as node:
            first, second = LoopReplica(node.path), LoopReplica(node.path)
            await first.prepare(append(1, b"first"))
            await first.prepare(append(2, b"other"))
            await first.close()
            while node.end.unsettled < 2:
                await asyncio.sleep(0.001)
            second.confirm(await second.prepare(append(1, b"second")))
            await node.gate.until(settled=2)
            assert node.gate.settled == [("abandon", 101), ("confirm", 103)]
            assert node.end.unsettled == 1
            await second.close()

    run(scene())


def test_a_record_waits_for_one_of_another_writer_that_lives_and_has_its_place(tmp_path: Path) -> None:
    """Of two that nobody has settled a take-over writes the last one: that must not be one that the service refuses, as the first one is there."""

    async def scene() -> None:
        async with local(tmp_path, settled=60_000) as node:
            first, second = LoopReplica(node.path), LoopReplica(node.path)
            ticket = await first.prepare(append(1, b"first"))
            late = asyncio.ensure_future(second.prepare(append(1, b"second")))
            await second.prepare(append(2, b"another place"))
            assert [record.payload for record in node.gate.prepared] == [b"first", b"another place"]  # type: ignore[union-attr]
            first.confirm(ticket)
            second.abandon(await late)
            await node.gate.until(settled=2)
            assert node.gate.settled == [("confirm", 101), ("abandon", 103)]
            asked = asyncio.ensure_future(second.prepare(append(2, b"its own, which it asks for too early")))
            await asyncio.sleep(0.05)
            assert not asked.done()
            await second.close()  # it ends: nobody waits for what it had
            assert await first.prepare(append(2, b"of a writer that lives"))
            assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], NadiError)
            await first.close()

    run(scene())


def test_a_record_waits_no_longer_than_a_service_is_given_to_settle(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path, settled=30) as node:
            first, second = LoopReplica(node.path), LoopReplica(node.path)
            await first.prepare(append(1, b"first"))
            await second.prepare(append(1, b"second"))
            assert len(node.gate.prepared) == 2
            await first.close()
            await second.close()

    run(scene())


def test_a_writer_that_ends_while_it_waits_for_the_partner_is_settled_after_that(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            node.gate.opens.clear()
            child = forked(node.path, append(1))
            await node.gate.until(prepared=1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            await asyncio.sleep(0.1)
            assert (node.gate.settled, node.journal.asked) == ([], [])
            node.gate.opens.set()
            await node.gate.until(settled=1)
            assert node.gate.settled == [("abandon", 101)]

    run(scene())


def test_threads_that_wait_are_woken_when_the_replica_is_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with local(tmp_path) as node:
            node.gate.opens.clear()
            replica = BlockingReplica(node.path)
            found: list[str] = []

            def wait() -> None:
                try:
                    replica.prepare(append(1))
                except NadiError as reason:
                    found.append(reason.condition)

            threads = [threading.Thread(target=wait) for _ in range(3)]
            for thread in threads:
                thread.start()
            await node.gate.until(prepared=3)
            replica.close()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            assert found == ["CONNECTION_UNAVAILABLE"] * 3

    run(scene())
