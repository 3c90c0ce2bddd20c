"""What real host processes and their forked children write to services of which another node has a copy, over a real socket of event sync."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from pipeline_played import WITHIN, PlayedNode

from nadi.eventsync.contract import Copy
from nadi.eventsync.journalcopy import JournalCopy
from nadi.eventsync.local import LocalEnd
from nadi.eventsync.logscopy import LogsCopy
from nadi.eventsync.objectscopy import ObjectsCopy
from nadi.io.natsserver import NatsServer
from nadi.pipeline.lives import settle_in
from nadi.pipeline.shape import as_before
from nadi.pipeline.spec import AppSpec
from nadi.replica.address import with_replica
from nadi.replica.contract import ObjectPut, Record, Statements

APP = """@app:name('{name}')
@source(type='test', file='{folder}/in-{name}', endless='true') define stream In (n long);
@sink(type='test', file='{folder}/out-{name}', hold='{folder}/hold-{name}') define stream Out (total long);
from In#window.length(500) select sum(n) as total insert into Out;"""


class Partner:
    """Implements `nadi.eventsync.contract.Gate`: the partner has the bytes of an object when it is prepared, and takes the rest later."""

    def __init__(self, active: ObjectsCopy, passive: ObjectsCopy) -> None:
        self._active, self._passive = active, passive
        self.records: list[Record] = []
        self.confirmed: set[int] = set()
        self.abandoned: set[int] = set()
        self._news = asyncio.Event()

    async def prepare(self, record: Record) -> int:
        ticket = len(self.records)
        self.records.append(record)
        if isinstance(record, ObjectPut):
            await asyncio.to_thread(self._receive, record)
        return ticket

    def _receive(self, record: ObjectPut) -> None:
        made = self._passive.receive(record.path, record.length)
        made.write(self._active.place(record.path).read_bytes())
        made.done()

    def confirm(self, ticket: int) -> None:
        self.confirmed.add(ticket)
        self._news.set()

    def abandon(self, ticket: int) -> None:
        self.abandoned.add(ticket)
        self._news.set()

    async def until_settled(self) -> None:
        """Until it is known of all records what became of them."""
        while len(self.confirmed | self.abandoned) < len(self.records):
            self._news.clear()
            await self._news.wait()


class CopiedNode(PlayedNode):
    """A node whose app travels, with services in `<folder>/pair`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
        self.pair, self.other = folder / "pair", folder / "other"
        self._servers = [NatsServer(self.pair / "journal"), NatsServer(self.other / "journal")]
        for server in self._servers:
            server.start()
        self.mine, self.theirs = (
            (JournalCopy(server.url), LogsCopy(place / "logs.db"), ObjectsCopy(place / "state"))
            for server, place in zip(self._servers, (self.pair, self.other))
        )
        self.partner = Partner(self.mine[2], self.theirs[2])
        self._socket = self.pair / "sync" / "s"
        self._loop = asyncio.new_event_loop()
        self._looping = threading.Thread(target=self._loop.run_forever)
        self._looping.start()
        self._end = LocalEnd(self._socket, self.partner, self.mine, 20)
        asyncio.run_coroutine_threadsafe(self._end.open(), self._loop).result()
        super().__init__(folder, patch, {"A": text}, "pipeline_copied")

    def _spec(self, name: str, text: str, engine: str) -> AppSpec:
        spec = replace(
            super()._spec(name, text, engine),
            journal=with_replica(self._servers[0].url, self._socket),
            cuts=with_replica(f"sqlite:///{self.pair}/logs.db", self._socket),
            store=with_replica(f"file://{self.pair}/state/{name}", self._socket),
            owner=1,
        )
        settle_in(spec)
        shape = as_before(Path(spec.state), spec.plan(), spec)
        return replace(spec, buckets=shape.buckets, inputs=dict(shape.inputs))

    def until_settled(self) -> None:
        """Wait until it is known of all records what became of them."""
        asyncio.run_coroutine_threadsafe(self.partner.until_settled(), self._loop).result(WITHIN)

    def copied(self) -> None:
        """The partner writes what it was told."""

        async def apply() -> None:
            for ticket, record in enumerate(self.partner.records):
                if ticket in self.partner.confirmed:
                    copies: tuple[Copy, ...] = self.theirs
                    await next(copy for copy in copies if isinstance(record, copy.kinds)).apply(record)

        asyncio.run(apply())

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._looping.join()
        self._loop.close()
        for copies in (self.mine, self.theirs):
            copies[0].close()
            copies[1].close()
        for server in self._servers:
            server.stop()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CopiedNode]:
    made = CopiedNode(tmp_path, monkeypatch, APP)
    with made:
        yield made
    made.close()


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {n: connection.execute(f"select * from {n} order by 1").fetchall() for n in names if n != "nadi_copied"}


def objects(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_partner_has_all_that_hosts_and_their_children_write_and_a_killed_host_leaves_nothing_open(node: CopiedNode):
    for n in range(1, 31):
        node.put("A", n)
        node.until(lambda n=n: len(node.out("A")) == n)
        if n == 15:
            pid = node.pid(node.host_of("A"))
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
    assert node.out("A") == list(accumulate(range(1, 31)))
    node.stop()
    assert node.ended() == {"A": "stopped"}
    node.until_settled()
    node.copied()
    assert tables(node.pair / "logs.db") == tables(node.other / "logs.db")
    mine, theirs = objects(node.pair / "state"), objects(node.other / "state")
    assert any("/b-" in path for path in mine), "a base was made"
    assert {path: theirs.get(path) for path in mine if not path.rpartition("/")[2].startswith(".")} == {
        path: data for path, data in mine.items() if not path.rpartition("/")[2].startswith(".")
    }
    numbers = [record.n for record in node.partner.records if isinstance(record, Statements)]
    assert numbers == list(range(1, len(numbers) + 1))
