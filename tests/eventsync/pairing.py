"""Two ends of event sync in one loop, with services in memory, and a wire between them that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nadi.errors import error
from nadi.eventsync.contract import Copy, Hello, Keep, PartnerRefuses, Session, Surplus
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import Keys
from nadi.eventsync.link import TcpLink
from nadi.eventsync.passive import PassiveEnd
from nadi.io.certificate import OwnCertificate
from nadi.io.tls import Tls
from nadi.replica.contract import AppFile, JournalAppend, JournalTrim, Record, Statements

SECRET = "a secret of the cluster that is long"
ACTIVE = Hello("one", "i1", "s1", 7, "1", "1", "c")
PARTNER = Hello("two", "i2", "s2", 7, "1", "1", "c")


def append(first: int, payload: bytes = b"x", subject: str = "s.a", stream: str = "s") -> JournalAppend:
    return JournalAppend(stream, b"{}", subject, first, {"n": "1"}, payload)


class MemoryCopy:
    """A journal in memory. `gate` holds `apply` up while it is clear."""

    kinds = (JournalAppend, JournalTrim)

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], bytes] = {}
        self.order: list[Record] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.pieces = asyncio.Event()  # holds `missing` up while it is clear
        self.pieces.set()
        self.fails: Exception | None = None
        self.asked: list[Record] = []

    def write(self, record: JournalAppend) -> None:
        self.held[record.subject, record.first] = record.payload

    async def holds(self, record: Record) -> bool:
        self.asked.append(record)
        assert isinstance(record, JournalAppend)
        if self.fails is not None:
            raise self.fails
        return self.held.get((record.subject, record.first)) == record.payload

    async def apply(self, record: Record) -> None:
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        self.order.append(record)
        if isinstance(record, JournalAppend):
            there = self.held.setdefault((record.subject, record.first), record.payload)
            if there != record.payload:
                raise error("COPY_DIFFERS", what="the journal", reason="another message is there")
        else:
            assert isinstance(record, JournalTrim)
            for key in [k for k in self.held if k[0] == record.subject and k[1] < record.position]:
                del self.held[key]

    async def standing(self) -> bytes:
        return msgspec.msgpack.encode(list(self.held))

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        theirs = {tuple(key) for key in msgspec.msgpack.decode(standing)}
        for key, payload in list(self.held.items()):
            await self.pieces.wait()
            if key not in theirs:
                yield msgspec.msgpack.encode((True, key, payload))
        for key in theirs - self.held.keys():
            yield msgspec.msgpack.encode((False, key, b""))

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        async for piece in pieces:
            mine, key, payload = msgspec.msgpack.decode(piece)
            if mine:
                self.held[tuple(key)] = payload
            else:
                keep([Surplus("App", key[0], f"event {key[1]}", 5, self.held[tuple(key)])])
                del self.held[tuple(key)]


class MemoryTable:
    """Logs, or app texts, in memory: the last thing that was said."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds
        self.order: list[Record] = []

    async def holds(self, record: Record) -> bool:
        return record in self.order

    async def apply(self, record: Record) -> None:
        if record not in self.order:
            self.order.append(record)

    async def standing(self) -> bytes:
        return b""

    async def missing(self, standing: bytes) -> AsyncIterator[bytes]:
        for record in self.order:
            yield msgspec.msgpack.encode(record)

    async def restore(self, pieces: AsyncIterator[bytes], keep: Keep) -> None:
        self.order = [msgspec.msgpack.decode(piece, type=Record) async for piece in pieces]


@dataclass
class Services:
    journal: MemoryCopy = field(default_factory=MemoryCopy)
    logs: MemoryTable = field(default_factory=lambda: MemoryTable(Statements))
    apps: MemoryTable = field(default_factory=lambda: MemoryTable(AppFile))

    @property
    def copies(self) -> list[Copy]:
        return [self.journal, self.logs, self.apps]


class Decided:
    """Implements `Passive`: notes what it is asked."""

    def __init__(self) -> None:
        self.token = 0
        self.said: list[str] = []
        self.follows = self.fitting = True
        self.ended = asyncio.Event()
        self.unready = ""
        self.apps: dict[str, str] = {}

    def greets(self, active: Hello) -> Hello:
        if active.token < self.token:
            raise PartnerRefuses(self.token)
        self.token = active.token
        self.said.append("greets")
        return PARTNER

    def fits(self, active: Hello) -> bool:
        return self.fitting

    def hello(self) -> Hello:
        return msgspec.structs.replace(PARTNER, apps=self.apps)

    def promises(self, token: int) -> bool:
        return self.follows and token == self.token

    def waits(self) -> str:
        return self.unready

    def complete(self, token: int) -> None:
        self.said.append("complete")

    def takes_over(self, token: int) -> None:
        self.said.append("takes over")

    def over(self, token: int) -> None:
        self.said.append("over")
        self.ended.set()


class Proxy:
    """Between two nodes: hands bytes on, until they are to be lost, or the connections cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.flows = asyncio.Event()
        self.flows.set()
        self.port = 0
        self.first: list[bytes] = []  # what each connection began with, in the direction of the listener
        self.bytes = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, out]
        self.first.append(b"")
        at = len(self.first) - 1
        for source, sink, note in ((reader, out, at), (there, writer, None)):
            task = asyncio.ensure_future(self._hand_on(source, sink, note))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _hand_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, note: int | None) -> None:
        try:
            while data := await source.read(65536):
                await self.flows.wait()
                if note is not None and len(self.first[note]) < 4096:
                    self.first[note] += data
                self.bytes += len(data)
                sink.write(data)
                await sink.drain()
        except OSError:
            return
        finally:
            sink.transport.abort()


@dataclass
class Pair:
    here: Services
    there: Services
    folder: Path
    decided: Decided
    end: PassiveEnd
    link: TcpLink
    surplus: list[Surplus]
    sends: Counters
    takes: Counters

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.end.port}"

    @property
    def objects(self) -> tuple[Path, Path]:
        return self.folder / "here", self.folder / "there"


def certificate(folder: Path) -> Tls:
    return OwnCertificate(folder / "security").tls()


@asynccontextmanager
async def paired(
    folder: Path, silence: int = 5_000, tls: Tls | None = None, secret: str = SECRET, knows: str = "one"
) -> AsyncIterator[Pair]:
    here, there, decided, surplus = Services(), Services(), Decided(), []
    sends, takes = Counters(), Counters()

    async def keep(found: list[Surplus]) -> None:
        surplus.extend(found)

    (folder / "here").mkdir(exist_ok=True)
    end = PassiveEnd(
        Keys(SECRET, tls), folder / "pair", folder / "there", there.copies, decided, lambda id_: id_ == knows,
        silence, takes,
    )  # fmt: skip
    await end.open("127.0.0.1", 0)
    link = TcpLink(Keys(secret, tls), folder / "here", here.copies, keep, silence, sends)
    try:
        yield Pair(here, there, folder, decided, end, link, surplus, sends, takes)
    finally:
        await end.close()


async def over(session: Session) -> None:
    """Ask until the session is over, and raise why."""
    while True:
        await session.beat()


def run(work: Coroutine[Any, Any, None], within: float = 60.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(within):
            await work

    asyncio.run(bounded())
