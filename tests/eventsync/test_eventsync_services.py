"""The real services of two nodes, with everything between them: writers, the Unix socket, a session over TCP, the log, a catch-up, a take-over."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from pairing import ACTIVE, SECRET, Decided, run

from nadi.eventsync.contract import Copy, Session, Surplus
from nadi.eventsync.counters import Counters
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.local import LocalEnd
from nadi.eventsync.logscopy import LogsCopy
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.eventsync.passive import PassiveEnd
from nadi.io.appnotes import AppNotes
from nadi.io.journal import open_journal
from nadi.io.journallog import JournalLog
from nadi.io.natsclient import shared
from nadi.io.natsserver import NatsServer
from nadi.pipeline.statelog.stores import open_store
from nadi.replica.address import with_replica
from nadi.replica.client import blocking_replica
from nadi.replica.contract import Record

APP = "Services"


class Alone:
    """Implements `nadi.eventsync.contract.Gate`: without a session nobody is asked."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self._settled = asyncio.Event()
        self._open: set[int] = set()
        self._turn = asyncio.Lock()
        self._alone = count(-1, -1)

    async def prepare(self, record: Record) -> int:
        async with self._turn:
            session = self.session
            if session is None:
                ticket = next(self._alone)
                self._open.add(ticket)
                return ticket
        return await session.send(record)

    async def begin(self, session: Session) -> None:
        """What was prepared before the session is settled when it begins."""
        async with self._turn:
            while self._open:
                self._settled.clear()
                await self._settled.wait()
            self.session = session

    def confirm(self, ticket: int) -> None:
        self._settle(ticket, lambda session: session.confirm(ticket))

    def abandon(self, ticket: int) -> None:
        self._settle(ticket, lambda session: session.abandon(ticket))

    def _settle(self, ticket: int, tell: Callable[[Session], None]) -> None:
        if ticket < 0:
            self._open.discard(ticket)
            self._settled.set()
        elif self.session is not None:
            tell(self.session)


class Node:
    def __init__(self, folder: Path, server: NatsServer) -> None:
        self.folder, self.server = folder, server
        self.objects = folder / "state"
        self.copies: tuple[Copy, ...] = (
            JournalCopy(server.url),
            LogsCopy(folder / "logs.db"),
            ObjectsCopy(self.objects),
        )

    def close(self) -> None:
        for copy in self.copies[:2]:
            copy.close()  # type: ignore[attr-defined]

    def has(self) -> tuple[object, ...]:
        """All that readers see."""
        log = JournalLog(shared(self.server.url), APP, 0)
        events = [bytes(body) for messages in log.read(0, 0, log.end(0)) for body in messages.payloads]
        log.close()
        with closing(sqlite3.connect(self.folder / "logs.db")) as connection:
            notes = connection.execute("select * from nadi_notes order by app, name").fetchall()
        files = {
            path.relative_to(self.objects).as_posix(): path.read_bytes()
            for path in self.objects.rglob("*")
            if path.is_file()
        }
        return events, notes, files


def writes(node: Node, socket: Path, numbers: range) -> None:
    """What processes of a node write; each number once to each service."""
    notes = AppNotes(with_replica(f"sqlite:///{node.folder}/logs.db", socket), APP)
    journal = open_journal(with_replica(node.server.url, socket), APP)
    store = open_store(with_replica(f"file://{node.objects}/{APP}/log", socket))
    for n in numbers:
        notes.once(f"{n}", lambda n=n: n)
        journal.append(0, [(n, b"%d" % n, {})])
        store.put(f"o-{n}", [b"%d" % n] * n)


def test_a_partner_has_all_that_was_written_before_while_and_after_it_caught_up(tmp_path: Path):
    async def scene(one: NatsServer, two: NatsServer) -> None:
        here, there = Node(tmp_path / "here", one), Node(tmp_path / "there", two)
        gate, surplus = Alone(), list[Surplus]()

        async def keep(found: list[Surplus]) -> None:
            surplus.extend(found)

        keys, socket = Keys(SECRET, None), tmp_path / "sync" / "s"
        local = LocalEnd(socket, gate, here.copies, 20)
        end = PassiveEnd(
            keys, tmp_path / "pair", there.objects, there.copies, Decided(), lambda _id: True, 5_000, Counters()
        )
        await local.open()
        await end.open("127.0.0.1", 0)
        await asyncio.to_thread(writes, here, socket, range(1, 40))
        link = TcpLink(keys, here.objects, here.copies, keep, 5_000, Counters())
        session = await link.open(f"127.0.0.1:{end.port}", ACTIVE)
        writing = asyncio.create_task(asyncio.to_thread(writes, here, socket, range(40, 80)))
        await gate.begin(session)
        await session.catch_up()
        await writing
        await session.equal()
        await asyncio.to_thread(writes, here, socket, range(80, 110))
        await session.close()
        await end.take_over()
        mine, theirs = await asyncio.to_thread(here.has), await asyncio.to_thread(there.has)
        assert len(mine[0]) == len(mine[1]) == len(mine[2]) == 109  # type: ignore[arg-type]
        assert theirs == mine
        assert surplus == []
        blocking_replica(socket).close()
        await local.close()
        await end.close()
        here.close()
        there.close()

    with NatsServer(tmp_path / "one") as one, NatsServer(tmp_path / "two") as two:
        run(scene(one, two))
