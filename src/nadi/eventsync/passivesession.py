"""The passive node's side of a session."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nadi.eventsync.contract import Copy, Hello, Passive, SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.heldlog import HeldLog
from nadi.eventsync.objects import ObjectReceiver
from nadi.eventsync.restorer import Restorer
from nadi.eventsync.surplus import KeptSurplus
from nadi.eventsync.wire import NUMBER, Kind, Wire, number_body, numbers

KEY = 32  # bytes of what the second connection shows
LONGEST = 1_000  # bytes of a sentence for people
EASED = 0.01  # seconds: so often the active node is told what has been written, where it is told nothing else
_LOG = logging.getLogger(__name__)


class PassiveSession:
    """Of one active node, under its token. `key` is what the second connection shows."""

    def __init__(
        self, active: Hello, wire: Wire, passive: Passive, log: HeldLog, copies: Mapping[str, Copy], objects: Path,
        kept: KeptSurplus, counters: Counters,
    ) -> None:  # fmt: skip
        self.active = active
        self.key = secrets.token_bytes(KEY)
        self._wire = wire
        self._passive = passive
        self._log = log
        self._copies = copies
        self._objects = objects
        self._kept = kept
        self._counters = counters
        self._bulk_wire: Wire | None = None
        self._newest = 0  # durable
        self._given = 0  # the number of the newest record that came
        self._told: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[SessionOver] = asyncio.get_running_loop().create_future()
        self._ended, self._bulk_ended, self._said = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._bulk_ended.set()
        log.synced, log.eased, log.failed = self._synced, self._eased, self._failed

    async def run(self) -> None:
        """Until it is over; returns why."""
        reading = asyncio.ensure_future(self._hear(self._read()))
        try:
            reason = await asyncio.shield(self._over)
            await self._say_trouble(reason)
        finally:
            self.end(SessionOver("the passive node has ended the session"))
            self._wire.abort()
            self._said.set()
            await asyncio.wait([reading])
            await self._bulk_ended.wait()
            self._log.synced = self._log.eased = self._log.failed = _nothing
            if self._told is not None:
                self._told.cancel()
            self._passive.over(self.active.token)
            self._ended.set()

    async def bulk(self, wire: Wire) -> None:
        """The second connection, until it or the session is over."""
        if self._bulk_wire is not None or self._over.done():
            raise SessionOver("this session has no place for a second connection")
        self._bulk_wire = wire
        self._bulk_ended.clear()
        receiver = ObjectReceiver(self._objects, self._stored, self._failed)
        restorer = Restorer(wire, self._copies, self._kept, self._whole)
        restoring = asyncio.ensure_future(self._hear(restorer.run()))
        reading = asyncio.ensure_future(self._hear(self._read_bulk(wire, receiver, restorer)))
        try:
            await asyncio.shield(self._over)
            await self._said.wait()  # why, on the first connection
        finally:
            self.end(SessionOver("the second connection is over"))
            restorer.over(self._over.result())
            wire.abort()
            await asyncio.wait([restoring, reading])
            await receiver.close()
            self._bulk_ended.set()

    def end(self, reason: SessionOver) -> None:
        """Not at once: `closed` waits for it."""
        if not self._over.done():
            self._over.set_result(reason)

    async def closed(self) -> None:
        """Nothing of it is at work on a service any more."""
        await self._ended.wait()

    # ---- what comes -----------------------------------------------------------------------------------------------

    async def _hear(self, work: Coroutine[Any, Any, None]) -> None:
        """Whatever goes wrong ends the session."""
        try:
            await work
        except SessionOver as reason:
            self.end(reason)
        except Exception as reason:
            self._failed(reason)

    async def _read(self) -> None:
        while not self._over.done():
            kind, body = await self._wire.receive()
            match kind:
                case Kind.RECORD:
                    await self._record(body)
                case Kind.CONFIRM:
                    await self._log.confirm(numbers(body))
                case Kind.ABANDON:
                    await self._log.abandon(numbers(body))
                case Kind.BEAT:
                    self._beat()
                case Kind.EQUAL:
                    await self._log.after(self._equal)
                case Kind.HAND_OVER:
                    await self._log.after(self._take_over)
                case _:
                    raise SessionOver(f"the partner sent a frame of kind {kind.name}")

    async def _record(self, body: bytes) -> None:
        number = NUMBER.unpack_from(body)[0] if len(body) > NUMBER.size else 0
        if number <= self._given:
            raise SessionOver(f"the partner sent record {number} after {self._given}")
        self._given = number
        self._counters.received_records += 1
        await self._log.put(number, body[NUMBER.size :])

    def _beat(self) -> None:
        if self._passive.promises(self.active.token):
            self._wire.say(Kind.PROMISED, self._passive.waits().encode()[:LONGEST])
        else:
            self._wire.say(Kind.REFUSED, number_body(0))

    def _equal(self) -> None:
        if not self._log.whole:
            self.end(SessionOver("the partner takes a copy for complete that is not"))
            return
        self._passive.complete(self.active.token)
        self._tell()
        self._wire.say(Kind.IS_EQUAL)

    def _take_over(self) -> None:
        self._passive.takes_over(self.active.token)
        self._wire.say(Kind.TAKEN_OVER)

    async def _read_bulk(self, wire: Wire, receiver: ObjectReceiver, restorer: Restorer) -> None:
        while not self._over.done():
            kind, body = await wire.receive()
            match kind:
                case Kind.OBJECT:
                    self._counters.received_records += 1
                    await receiver.begin(body)
                case Kind.PART:
                    await receiver.part(body)
                case _:
                    await restorer.take(kind, body)

    # ---- what is answered -----------------------------------------------------------------------------------------

    def _stored(self, number: int) -> None:
        if self._bulk_wire is not None and not self._over.done():
            self._bulk_wire.say(Kind.STORED, number_body(number))

    async def _whole(self) -> bytes:
        await self._log.make_whole()
        return msgspec.msgpack.encode(self._passive.hello())

    def _synced(self, newest: int) -> None:
        self._newest = newest
        self._tell()

    def _eased(self) -> None:
        if self._told is None:
            self._told = asyncio.get_running_loop().call_later(EASED, self._tell)

    def _tell(self) -> None:
        if self._told is not None:
            self._told.cancel()
            self._told = None
        if self._over.done():
            return
        self._counters.backlog = self._log.weight
        self._counters.last_sync = time.time_ns() // 1_000_000
        self._wire.say(Kind.LOGGED, number_body(self._newest, self._log.done))

    # ---- its end --------------------------------------------------------------------------------------------------

    def _failed(self, reason: BaseException) -> None:
        _LOG.error("a session of event sync ends: %r", reason, exc_info=reason)
        self.end(_Trouble(f"{type(reason).__name__}: {reason}"))

    async def _say_trouble(self, reason: SessionOver) -> None:
        if isinstance(reason, _Trouble):
            self._wire.say(Kind.TROUBLE, str(reason).encode()[:10_000])
            await self._wire.close()


class _Trouble(SessionOver):
    """Something of this node does not work: the partner is told."""


def _nothing(*_: object) -> None:
    """Nobody listens."""
