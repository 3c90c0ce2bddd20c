"""The active node's side of a session: records in flight, their answers by number, beats, and the catch-up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from nadi.eventsync.bulk import BulkSender
from nadi.eventsync.contract import Copy, Hello, PartnerRefuses, SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.places import weight_of
from nadi.eventsync.window import Phase, Window
from nadi.eventsync.wire import NUMBER, Kind, Wire, number_body, numbers
from nadi.replica.contract import ObjectPut, Record
from nadi.replica.wire import record_body

_LOG = logging.getLogger(__name__)
MARKS = 8192  # numbers in one frame
STANDSTILL = 300.0  # seconds that a step of a copy may take: a database of some GB is loaded in one


class ActiveSession:
    """Implements `nadi.eventsync.contract.Session`. Made by `TcpLink.open`."""

    def __init__(
        self, partner: Hello, wire: Wire, bulk_wire: Wire, bulk: BulkSender, copies: Sequence[Copy], counters: Counters
    ) -> None:
        self.partner = self._now = partner
        self._wire, self._bulk_wire, self._bulk = wire, bulk_wire, bulk
        self._copies = copies
        self._counters = counters
        self._over: SessionOver | PartnerRefuses | None = None
        self._window = Window()
        self._turn = asyncio.Lock()  # who sends: records go in the order of their numbers
        self._room = asyncio.Event()
        self._followed = asyncio.Event()
        self._number = 0
        self._flying: deque[tuple[int, asyncio.Future[None]]] = deque()  # in order
        self._objects: set[int] = set()  # numbers of objects, which need no mark
        self._putting: set[asyncio.Task[None]] = set()
        self._marks: dict[Kind, list[int]] = {Kind.CONFIRM: [], Kind.ABANDON: []}
        self._asked: dict[Kind, deque[asyncio.Future[bytes]]] = {
            Kind.PROMISED: deque(),
            Kind.IS_EQUAL: deque(),
            Kind.TAKEN_OVER: deque(),
        }
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._synchronous = False
        self._seen_steps, self._stepped = -1, 0.0  # of the copying, and when the last one was seen
        self._readers = [self._begin(self._read(), "records"), self._begin(bulk.run(), "objects")]

    @property
    def copying(self) -> bool:
        """It goes on while it makes a step from time to time. The first time that it is asked it does."""
        if self._window.phase is not Phase.COPIES:
            return False
        now, steps = time.monotonic(), self._bulk.steps
        if steps != self._seen_steps:
            self._seen_steps, self._stepped = steps, now
        return now - self._stepped < STANDSTILL

    async def catch_up(self) -> Hello:
        for copy in self._copies:
            await self._bulk_step(self._bulk.copy(copy))
        await self._bulk_step(self._become_whole())
        self._window.copied()
        self._moved(self._window.done)
        await self._followed.wait()
        self._check()
        return self._now

    async def _become_whole(self) -> None:
        self._now = await self._bulk.whole()

    async def send(self, record: Record) -> int:
        self._check()
        if isinstance(record, ObjectPut):
            return await self._put(record)
        body = record_body(record)
        async with self._turn:
            while not self._window.has_room() and self._over is None:
                self._room.clear()
                await self._room.wait()
            self._check()
            number = self._next()
            self._window.sent += weight_of(len(body))
            logged = asyncio.get_running_loop().create_future()
            self._flying.append((number, logged))
            self._wire.say(Kind.RECORD, NUMBER.pack(number), body)
            await self._wire.drained()
        if self._synchronous:
            await logged
        return number

    def confirm(self, number: int) -> None:
        self._mark(Kind.CONFIRM, number)

    def abandon(self, number: int) -> None:
        self._mark(Kind.ABANDON, number)

    async def equal(self) -> None:
        self._check()
        while self._putting:
            await asyncio.wait(self._putting)
        await self._ask(Kind.EQUAL, Kind.IS_EQUAL)
        self._synchronous = True

    async def beat(self) -> str:
        return (await self._ask(Kind.BEAT, Kind.PROMISED)).decode(errors="replace")

    async def hand_over(self) -> None:
        self._say_marks()
        await self._ask(Kind.HAND_OVER, Kind.TAKEN_OVER)

    async def close(self) -> None:
        self._say_marks()
        try:
            if self._over is None:
                await asyncio.gather(self._wire.close(), self._bulk_wire.close())
        finally:
            self._end(SessionOver("this node has ended the session"))
        for task in (*self._readers, *self._putting):
            task.cancel()
        await asyncio.wait([*self._readers, *self._putting])

    # ---- what is asked ------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        self._counters.sent_records += 1
        self._counters.in_flight += 1
        return self._number

    async def _put(self, record: ObjectPut) -> int:
        number = self._next()
        self._objects.add(number)
        task = self._begin(self._put_apart(number, record), "an object")
        if self._synchronous:
            await asyncio.wait([task])  # if who waits is cancelled, the object goes on its way
            self._check()
        else:
            self._putting.add(task)
            task.add_done_callback(self._putting.discard)
        return number

    async def _put_apart(self, number: int, record: ObjectPut) -> None:
        try:
            await self._bulk.objects.send(number, record)
        finally:
            self._counters.in_flight -= 1

    async def _ask(self, kind: Kind, answer: Kind) -> bytes:
        self._check()
        asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[answer].append(asked)
        self._wire.say(kind)
        return await asked

    async def _bulk_step(self, step: Coroutine[Any, Any, None]) -> None:
        """What goes wrong with a service of this node ends the session, too."""
        task = self._begin(step, "a copy of a service")
        try:
            await asyncio.wait([task, self._ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        self._check()

    def _mark(self, kind: Kind, number: int) -> None:
        """Marks go together: those of one turn of the loop in one frame."""
        if number in self._objects:
            self._objects.discard(number)
        elif self._over is None:
            if not any(self._marks.values()):
                asyncio.get_running_loop().call_soon(self._say_marks)
            self._marks[kind].append(number)

    def _say_marks(self) -> None:
        for kind, given in self._marks.items():
            if self._over is None:
                for start in range(0, len(given), MARKS):
                    self._wire.say(kind, number_body(*given[start : start + MARKS]))
            given.clear()

    # ---- what is answered ---------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            kind, body = await self._wire.receive()
            match kind:
                case Kind.LOGGED:
                    self._logged(*_some(numbers(body), 2))
                case Kind.PROMISED | Kind.IS_EQUAL | Kind.TAKEN_OVER if self._asked[kind]:
                    asked = self._asked[kind].popleft()
                    if not asked.done():
                        asked.set_result(body)
                case Kind.REFUSED:
                    raise PartnerRefuses(*_some(numbers(body), 1))
                case Kind.TROUBLE:
                    raise SessionOver(f"the partner: {body.decode(errors='replace')}")
                case _:
                    raise SessionOver(f"the partner answered with a frame of kind {kind.name}")

    def _logged(self, newest: int, done: int) -> None:
        while self._flying and self._flying[0][0] <= newest:
            _, logged = self._flying.popleft()
            self._counters.in_flight -= 1
            if not logged.done():
                logged.set_result(None)
        self._moved(done)
        self._counters.last_sync = time.time_ns() // 1_000_000

    def _moved(self, done: int) -> None:
        if self._window.moved(done):
            self._followed.set()
        self._room.set()
        self._counters.backlog = self._window.backlog

    # ---- its end ------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Something whose failing ends the session."""

        async def run() -> None:
            try:
                await work
            except (SessionOver, PartnerRefuses) as reason:
                self._end(reason)
            except Exception as reason:
                _LOG.exception("event sync cannot go on with %s", what)
                self._end(SessionOver(f"{what}: {reason!r}"))

        return asyncio.get_running_loop().create_task(run())

    def _check(self) -> None:
        if self._over is not None:
            raise self._over

    def _end(self, reason: SessionOver | PartnerRefuses) -> None:
        if self._over is not None:
            return
        self._over = reason
        self._ended.set_result(None)
        self._counters.in_flight -= len(self._flying)
        self._counters.backlog = 0
        waits: list[asyncio.Future[Any]] = [logged for _, logged in self._flying]
        for waiting in (*waits, *(one for many in self._asked.values() for one in many)):
            if not waiting.done():
                waiting.set_exception(reason)
                waiting.exception()  # it may be that nobody waits for it
        self._flying.clear()
        self._bulk.over(reason if isinstance(reason, SessionOver) else SessionOver("the partner refuses"))
        self._room.set()
        self._followed.set()
        for wire in (self._wire, self._bulk_wire):
            wire.abort()


def _some(found: list[int], wanted: int) -> list[int]:
    if len(found) != wanted:
        raise SessionOver(f"the partner sent {len(found)} numbers where {wanted} were due")
    return found
