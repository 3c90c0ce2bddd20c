"""The log of the passive node: what came from the active one is durable here before it is answered, and goes into the services beside that.

Whatever arrives while one group is being synced is the next group: many records, one sync. Lanes are written beside each other, each in its order. Marks
(confirmed, abandoned, done) are not synced by themselves. Where a crash loses some, a record is written once more, which does nothing, or a take-over writes
one that was abandoned, whose sender had no answer.

A new session forgets all: the catch-up of the services brings what counts. While it lasts nothing is written, as the services are being replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nadi.errors import NadiError
from nadi.eventsync.backlog import Backlog, Held
from nadi.eventsync.contract import Copy, Keep, SessionOver, Surplus
from nadi.eventsync.heldsurplus import told
from nadi.eventsync.places import lane_of, place_of
from nadi.eventsync.segments import SEGMENT, Entry, Kind, Segments, Span
from nadi.eventsync.wire import number_body, numbers
from nadi.replica.contract import Record

WAITING = 16 * 1024 * 1024  # bytes that wait to be synced, before who brings more waits, too
TOGETHER = 16  # lanes that are written at a time
SMALL = 1024 * 1024  # bytes that are read without a thread: they were just written
KEPT_TOGETHER = 4 * 1024 * 1024  # what records weigh that are kept in one step
NOTED = 0.05  # seconds after which it is noted what is in its service
PATIENCE = 10.0  # seconds that a service may refuse before it is told
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Something to be done when all that came before it is durable."""

    then: Callable[[], object]


class HeldLog:
    """In one event loop. `synced` is called with the number of the newest durable record; `eased` when less is held; `failed` when the log or a service does
    not work any more: then the session has to end."""

    def __init__(
        self, folder: Path, copies: Sequence[Copy], patience: float = PATIENCE, segment: int = SEGMENT
    ) -> None:
        self._segments = Segments(folder, segment)
        self._copies: Mapping[type, Copy] = {kind: copy for copy in copies for kind in copy.kinds}
        self._patience = patience
        self._backlog = Backlog()
        self._thread = ThreadPoolExecutor(1, "heldlog")
        self._together = asyncio.Semaphore(TOGETHER)
        self._waiting: list[Entry | Barrier] = []
        self._waiting_bytes = 0
        self._done: list[int] = []  # numbers that are in their service, and not in the log yet
        self._work, self._room = asyncio.Event(), asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._lanes: dict[Hashable, asyncio.Task[None]] = {}
        self._applies, self._stops = False, False
        self.trouble: BaseException | None = None
        self.synced: Callable[[int], object] = _nothing
        self.eased: Callable[[], object] = _nothing
        self.failed: Callable[[BaseException], object] = _nothing

    @property
    def token(self) -> int:
        """Whose session the log is of."""
        return self._segments.token

    @property
    def store(self) -> str:
        """The id of the store of who has sent what is held; "": it is not known."""
        return self._segments.store

    @property
    def whole(self) -> bool:
        """Whether the services and this log together have all that the active node had when the catch-up ended, and all that it sent since then."""
        return self._segments.whole

    @property
    def weight(self) -> int:
        """Of what is held."""
        return self._backlog.weight

    @property
    def done(self) -> int:
        """Of what was held since the session began and is not any more."""
        return self._backlog.done

    @property
    def count(self) -> int:
        """How many records are held."""
        return len(self._backlog)

    async def open(self) -> None:
        """Find what was there before a crash; what is settled goes on into the services. Errors: OSError, STATE_FILE_NOT_READABLE."""
        await self._apart(self._recover)
        self._applies = self.whole
        self._start()
        self._wake(self._backlog.lanes())

    async def begin(self, token: int, store: str, keep: Keep) -> None:
        """A session of the active node with this store: nothing of the one before is held any more. What another store has sent may be nowhere else, where that
        one was lost: `keep` gets it before. Errors: OSError, DISK_FULL."""
        await self._stop()
        if self.store not in ("", store):
            self._backlog.settle()
            await self._apart(lambda: self._keep(keep))
        await self._apart(lambda: self._segments.restart(token, store))
        self._backlog, self.trouble, self._applies = Backlog(), None, False
        self._start()

    async def put(self, number: int, body: bytes) -> None:
        """A record. It waits where too much has to be synced. Errors: SessionOver."""
        await self._put(Entry(Kind.RECORD, number, body))

    async def confirm(self, given: Sequence[int]) -> None:
        """Errors: SessionOver."""
        await self._put(Entry(Kind.CONFIRMED, 0, number_body(*given)))

    async def abandon(self, given: Sequence[int]) -> None:
        """Errors: SessionOver."""
        await self._put(Entry(Kind.ABANDONED, 0, number_body(*given)))

    async def after(self, then: Callable[[], object]) -> None:
        """`then` is called when all that was put before is durable. Errors: SessionOver."""
        await self._put(Barrier(then))

    async def make_whole(self) -> None:
        """The services are as those of the active node; what is held is written from now on. Errors: SessionOver."""
        await self._put(Entry(Kind.WHOLE, 0, b""))
        await self._written()
        if self.trouble is not None:
            raise SessionOver(f"the log of the passive node does not work: {self.trouble}") from self.trouble
        self._applies = True
        self._wake(self._backlog.lanes())

    async def take_over(self) -> None:
        """Write all that is held and not abandoned. There is no session any more. Of a copy that is not whole nothing is written: its services are what
        they are. If this fails, it can be called again. Errors: what `Copy.apply` raises; OSError, DISK_FULL."""
        await self._stop()
        if self.whole:
            self.trouble, self._applies = None, True
            self._backlog.settle()
            self._start()
            self._wake(self._backlog.lanes())
            while self._lanes:
                await asyncio.wait(self._lanes.values())
            if self.trouble is not None:
                raise self.trouble
            await self._stop()
        await self._apart(lambda: self._segments.restart(self.token, self.store))
        self._backlog = Backlog()
        self._start()

    async def close(self) -> None:
        await self._stop()
        self._thread.shutdown(wait=True)
        self._segments.close()

    def _keep(self, keep: Keep) -> None:
        """Have all kept that is held."""
        found: list[Surplus] = []
        size = 0
        for held in self._backlog.all():
            found += told(_DECODER.decode(self._segments.read(held.span)))
            size += held.weight
            if size > KEPT_TOGETHER:
                keep(found)
                found, size = [], 0
        keep(found)

    async def _apart(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _start(self) -> None:
        self._stops = False
        self._waiting, self._waiting_bytes, self._done = [], 0, []
        self._work.clear()
        self._room.set()
        self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _stop(self) -> None:
        """What is being written to a service is written to its end."""
        self._applies, self._stops = False, True
        while self._lanes:
            await asyncio.wait(self._lanes.values())
        if self._writer is not None:
            await self._written()
            self._writer.cancel()
            await asyncio.wait([self._writer])
            self._writer = None

    async def _written(self) -> None:
        """Wait until all that is waiting has been written, if it can be."""
        assert self._writer is not None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Barrier(lambda: done.set_result(None)))
        self._work.set()
        await asyncio.wait([done, self._writer], return_when=asyncio.FIRST_COMPLETED)

    async def _put(self, item: Entry | Barrier) -> None:
        while not self._room.is_set() and self.trouble is None:
            await self._room.wait()
        if self.trouble is not None:
            raise SessionOver(f"the log of the passive node does not work: {self.trouble}") from self.trouble
        self._waiting.append(item)
        self._waiting_bytes += len(item.body) if isinstance(item, Entry) else 0
        if self._waiting_bytes > WAITING:
            self._room.clear()
        self._work.set()

    async def _write(self) -> None:
        while True:
            await self._work.wait()
            group, self._waiting, self._waiting_bytes = self._waiting, [], 0
            if self._done:
                group.insert(0, Entry(Kind.DONE, 0, number_body(*self._done)))
                self._done = []
            self._work.clear()
            self._room.set()
            try:
                await self._write_group(group)
            except Exception as reason:  # of the disk, of a record that is none, of who is told
                self._fail(reason)
                return

    async def _write_group(self, group: list[Entry | Barrier]) -> None:
        entries = [item for item in group if isinstance(item, Entry)]
        records = {id(entry): _DECODER.decode(entry.body) for entry in entries if entry.kind == Kind.RECORD}
        urgent = bool(records) or any(entry.kind == Kind.WHOLE for entry in entries)
        spans: list[Span] = []
        if entries:
            run = asyncio.get_running_loop().run_in_executor
            spans = await run(self._thread, self._segments.append, entries, urgent)
        newest, found, done = 0, iter(spans), self._backlog.done
        for item in group:
            if isinstance(item, Barrier):
                newest = self._tell(newest)
                item.then()
                continue
            self._wake(self._take(item, next(found), records.get(id(item))))
            newest = max(newest, item.number) if item.kind == Kind.RECORD else newest
        self._tell(newest)
        if self._backlog.done != done:
            self.eased()
        await self._forget()

    def _tell(self, newest: int) -> int:
        if newest:
            self.synced(newest)
        return 0

    def _take(self, entry: Entry, span: Span, record: Record | None) -> set[Hashable]:
        """Into the backlog. -> the lanes in which something may be written now."""
        match entry.kind:
            case Kind.RECORD if record is not None:
                self._backlog.add(Held(entry.number, span, lane_of(record), place_of(record)))
            case Kind.CONFIRMED:
                return self._backlog.confirm(numbers(entry.body))
            case Kind.ABANDONED:
                return self._backlog.abandon(numbers(entry.body))
            case Kind.DONE:
                self._backlog.done_with(numbers(entry.body))
            case Kind.BEGIN:
                self._backlog = Backlog()
        return set()

    def _recover(self) -> None:
        for entry, span in self._segments.open():
            self._take(entry, span, _DECODER.decode(entry.body) if entry.kind == Kind.RECORD else None)

    async def _forget(self) -> None:
        """Remove segments of which all is done."""
        last = self._segments.last
        if (oldest := self._backlog.oldest(last)) > self._segments.first:
            await self._apart(lambda: self._segments.forget(oldest))

    def _wake(self, lanes: Sequence[Hashable] | set[Hashable]) -> None:
        for lane in lanes:
            if self._applies and lane not in self._lanes and self._backlog.next_of(lane) is not None:
                self._lanes[lane] = asyncio.get_running_loop().create_task(self._apply_lane(lane))

    async def _apply_lane(self, lane: Hashable) -> None:
        try:
            while self._applies and (held := self._backlog.next_of(lane)) is not None:
                async with self._together:
                    await self._apply(held)
                self._backlog.done_with([held.number])
                self._note(held.number)
                self.eased()
        except Exception as reason:
            if not self._stops:
                self._fail(reason)
        finally:
            del self._lanes[lane]
            self._wake([lane])

    def _note(self, number: int) -> None:
        """It is in its service. That goes into the log with others, a moment later."""
        if not self._done:
            asyncio.get_running_loop().call_later(NOTED, self._work.set)
        self._done.append(number)

    async def _apply(self, held: Held) -> None:
        """Errors: what the service said last, when it has refused for longer than the patience."""
        loop = asyncio.get_running_loop()
        if held.span.length > SMALL:
            body = await loop.run_in_executor(None, self._segments.read, held.span)
        else:
            body = self._segments.read(held.span)
        record: Record = _DECODER.decode(body)
        until, pause = loop.time() + self._patience, 0.05
        while True:
            try:
                await self._copies[type(record)].apply(record)
                return
            except Exception as reason:  # whatever a service's client raises
                if held.presumed and isinstance(reason, NadiError) and reason.condition == "COPY_DIFFERS":
                    _LOG.info("a %s is left out: another one was confirmed for its place", type(record).__name__)
                    return
                if loop.time() + pause > until or not self._applies:
                    raise
                _LOG.warning("a %s is not in its service yet: %s", type(record).__name__, reason)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _fail(self, reason: BaseException) -> None:
        _LOG.error("the copy of this node cannot be kept: %r", reason)
        self._applies = False
        self.trouble = reason
        self._room.set()
        self.failed(reason)


def _nothing(*_: object) -> None:
    """Nobody listens."""


_DECODER = msgspec.msgpack.Decoder(Record)
