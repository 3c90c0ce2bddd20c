"""The passive node's part of a catch-up: one service after the other becomes equal to that of the active node."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from nadi.eventsync.contract import Copy, SessionOver
from nadi.eventsync.surplus import KeptSurplus
from nadi.eventsync.wire import Joined, Kind, Wire, parts_of

AHEAD = 64  # frames that wait to be taken in


class Restorer:
    """Takes frames of the second connection. `whole` is awaited when all services are equal; what it gives is told to the active node. It is never cancelled,
    as a thread may be at work on a service: once the session is over the next piece is an error."""

    def __init__(
        self, wire: Wire, copies: Mapping[str, Copy], kept: KeptSurplus, whole: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> None:
        self._wire = wire
        self._copies = copies
        self._kept = kept
        self._whole = whole
        self._frames: deque[tuple[Kind, bytes]] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._answers = asyncio.Semaphore(0)  # KEPT
        self._over: SessionOver | None = None

    async def take(self, kind: Kind, body: bytes) -> None:
        """A frame. Waits while many wait."""
        if kind == Kind.KEPT:
            self._answers.release()
            return
        while len(self._frames) >= AHEAD and self._over is None:
            self._room.clear()
            await self._room.wait()
        self._frames.append((kind, body))
        self._news.set()

    def over(self, reason: SessionOver) -> None:
        """No more frames will come."""
        self._over = self._over or reason
        self._news.set()
        self._room.set()
        self._answers.release()

    async def run(self) -> None:
        """Until the session is over. Errors: SessionOver; what a service's client raises; OSError, DISK_FULL."""
        while True:
            kind, body = await self._next()
            match kind:
                case Kind.STANDING_OF:
                    await self._restore(body.decode(errors="replace"))
                case Kind.WHOLE:
                    await self._finish()
                case _:
                    raise SessionOver(f"the partner sent a frame of kind {kind.name} in a catch-up")

    async def _next(self) -> tuple[Kind, bytes]:
        while not self._frames and self._over is None:
            self._news.clear()
            await self._news.wait()
        if self._over is not None:
            raise self._over
        self._room.set()
        return self._frames.popleft()

    async def _restore(self, name: str) -> None:
        copy = self._copies.get(name)
        if copy is None:
            raise SessionOver(f"the partner has a service that this node does not know: {name}")
        for part in parts_of(await copy.standing()):
            self._wire.say(Kind.STANDING, *part)
            await self._wire.drained()
        pieces = self._pieces()
        await copy.restore(pieces, self._kept.add)
        async for _ in pieces:
            continue  # what it did not want
        self._wire.say(Kind.RESTORED)

    async def _pieces(self) -> AsyncIterator[bytes]:
        joined = Joined()
        while True:
            kind, body = await self._next()
            if kind == Kind.END:
                return
            if kind != Kind.PIECE:
                raise SessionOver(f"the partner sent a frame of kind {kind.name} among pieces")
            whole = joined.add(body)
            if whole is not None:
                yield whole

    async def _finish(self) -> None:
        groups = self._kept.groups()
        while (group := await asyncio.to_thread(next, groups, None)) is not None:
            self._wire.say(Kind.SURPLUS, group)
            await self._answers.acquire()
            if self._over is not None:
                raise self._over
        await asyncio.to_thread(self._kept.clear)
        self._wire.say(Kind.IS_WHOLE, await self._whole())
