"""A partner that stands still (SIGSTOP) while the database is away: who waits in `prepare` hears of it, and the node goes on when both are back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pairing import SECRET, append, run
from passiveprocess import FileCopy
from test_eventsync_kill import started

from nadi.cluster.contract import Change, Decide, Seen, StoreAway
from nadi.cluster.leases import Candidate
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.pair import DiskMemory, PairNode, PairSettings, Role
from nadi.cluster.rows import Key, ManagerRow, Row
from nadi.cluster.sqlstore import SqlStore
from nadi.databases import Address
from nadi.errors import NadiError
from nadi.eventsync.contract import Hello
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.local import LocalEnd
from nadi.replica.client import BlockingReplica

LARGE = 24 * 1024 * 1024  # bytes: more than the sockets between the two take
SILENCE = 60_000  # ms: the connection itself notices nothing


class Database:
    """A database that may be away."""

    def __init__(self, path: Path) -> None:
        self._store = SqlStore(Address(f"jdbc:sqlite:{path}"), "sp", within=15_000)
        self._store.open()
        self.away = False

    async def read(self, *kinds: type[Row]) -> Seen:
        self._check()
        return await self._store.read(*kinds)

    async def transact(self, keys: Sequence[Key], decide: Decide) -> Change:
        self._check()
        return await self._store.transact(keys, decide)

    def close(self) -> None:
        self._store.close()

    def _check(self) -> None:
        if self.away:
            raise StoreAway("the test says so")


class Duties:
    """None."""

    async def activate(self, token: int) -> None:
        self.token = token

    def hurry(self) -> None:
        """Nothing takes long."""

    async def deactivate(self, gentle: bool) -> None:
        self.token = 0

    def waits(self) -> str:
        return ""


class Active:
    """The node of this process."""

    def __init__(self, folder: Path, database: Database, copy: FileCopy) -> None:
        keys = Keys(SECRET, None)
        link = TcpLink(keys, folder, [copy], self._keep, SILENCE, Counters())
        self.news = asyncio.Event()
        self.node = PairNode(
            Candidate("one", "i1", "nowhere:1"), PairSettings(interval=1_500), MachineClock(),
            lambda: time.time_ns() // 1_000_000, database, DiskMemory(folder / "one"), link,
            Duties(), lambda: Hello("", "", "", 0, "1", "1", "c"), self.news.set,
        )  # fmt: skip

    async def _keep(self, found: object) -> None:
        raise AssertionError(f"there is no surplus: {found}")

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.news.clear()
            await self.news.wait()


def test_a_writer_hears_that_its_record_may_not_be_there_and_writes_again_when_all_is_back(tmp_path: Path) -> None:
    async def scene() -> None:
        process, port = await started(tmp_path)
        database, own = Database(tmp_path / "cluster.db"), FileCopy(tmp_path / "own")
        partner = ManagerRow("two", f"127.0.0.1:{port}", "i2", False, 0)
        await database.transact([], lambda _seen: Change(put=(partner,)))
        active = Active(tmp_path, database, own)
        node = active.node
        local = LocalEnd(tmp_path / "sync" / "s", node, [own])
        await local.open()
        living = asyncio.create_task(node.run())
        replica = BlockingReplica(tmp_path / "sync" / "s")

        async def written(first: int, payload: bytes = b"x") -> None:
            replica.confirm(await asyncio.to_thread(replica.prepare, append(first, payload)))

        await active.until(lambda: node.status.in_sync)
        await written(0)

        database.away = True
        os.kill(process.pid, signal.SIGSTOP)
        writers = [*(written(n) for n in range(1, 8)), written(8, bytes(LARGE))]
        told = await asyncio.gather(*writers, return_exceptions=True)
        conditions = [reason.condition for reason in told if isinstance(reason, NadiError)]
        assert len(conditions) == len(writers)
        # who came when the right had ended was refused; what was sent the partner may have
        assert set(conditions) in ({"CONNECTION_UNAVAILABLE"}, {"CONNECTION_UNAVAILABLE", "NOT_ACTIVE"})
        await active.until(lambda: node.role is Role.PASSIVE)

        os.kill(process.pid, signal.SIGCONT)
        database.away = False
        await active.until(lambda: node.status.in_sync)
        await written(1)

        os.kill(process.pid, signal.SIGSTOP)  # with a database the node goes on alone
        await written(2)
        assert not node.status.in_sync

        replica.close()
        living.cancel()
        await asyncio.wait([living])
        await local.close()
        process.kill()
        await process.wait()
        database.close()
        own.close()

    run(scene())
