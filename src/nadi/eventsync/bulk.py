"""The second connection of a session, at the active node: objects, and the pieces of a catch-up, so that records and beats do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import msgspec

from nadi.eventsync.contract import Copy, Hello, SessionOver, Surplus
from nadi.eventsync.objects import ObjectSender
from nadi.eventsync.surplus import read_surplus
from nadi.eventsync.wire import Joined, Kind, Wire, numbers, parts_of

T = TypeVar("T")
WriteDown = Callable[[list[Surplus]], Awaitable[None]]


def name_of(copy: Copy) -> str:
    """By what both ends know which service is meant."""
    return copy.kinds[0].__name__


class BulkSender:
    """Errors of all methods: SessionOver. `keep` writes down what only the partner had."""

    def __init__(self, wire: Wire, folder: Path, keep: WriteDown) -> None:
        self._wire = wire
        self._keep = keep
        self.objects = ObjectSender(folder, wire)
        self._joined = Joined()
        self.steps = 0  # frames of the copying, of both ends
        self._standing: asyncio.Future[bytes] | None = None
        self._done: asyncio.Future[bytes] | None = None

    async def run(self) -> None:
        """Hear what the other end says, until the connection breaks."""
        while True:
            kind, body = await self._wire.receive()
            self.steps += kind != Kind.STORED
            match kind:
                case Kind.STORED:
                    for number in numbers(body):
                        self.objects.stored(number)
                case Kind.STANDING:
                    _set(self._standing, self._joined.add(body))
                case Kind.SURPLUS:
                    await self._take(body)
                case Kind.RESTORED | Kind.IS_WHOLE:
                    _set(self._done, body)
                case Kind.TROUBLE:
                    raise SessionOver(f"the partner: {body.decode(errors='replace')}")
                case _:
                    raise SessionOver(f"the partner answered with a frame of kind {kind.name}")

    async def copy(self, copy: Copy) -> None:
        """Have the partner's copy of a service become equal to this node's."""
        loop = asyncio.get_running_loop()
        self._standing, self._done = loop.create_future(), loop.create_future()
        self._wire.say(Kind.STANDING_OF, name_of(copy).encode())
        standing = await self._standing
        pieces = copy.missing(standing)
        async with aclosing(pieces):  # type: ignore[type-var]  # an iterator that is no generator has nothing to close
            async for piece in pieces:
                for part in parts_of(piece):
                    self._wire.say(Kind.PIECE, *part)
                    await self._wire.drained()
                    self.steps += 1
        self._wire.say(Kind.END)
        await self._done

    async def whole(self) -> Hello:
        """All services are copied: the partner begins to write what it held back. -> what it says of itself now."""
        self._done = asyncio.get_running_loop().create_future()
        self._wire.say(Kind.WHOLE)
        try:
            return msgspec.msgpack.decode(await self._done, type=Hello)
        except msgspec.MsgspecError as reason:
            raise SessionOver(f"what the partner says of itself cannot be read: {reason}") from reason

    def over(self, reason: SessionOver) -> None:
        """The connection broke: whoever waits gets the reason."""
        self.objects.over(reason)
        for waiting in (self._standing, self._done):
            if waiting is not None and not waiting.done():
                waiting.set_exception(reason)
                waiting.exception()  # it may be that nobody waits any more

    async def _take(self, body: bytes) -> None:
        try:
            found = read_surplus(body)
        except msgspec.MsgspecError as reason:
            raise SessionOver(f"the partner sent what cannot be read: {reason}") from reason
        await self._keep(found)
        self._wire.say(Kind.KEPT)


def _set(waiting: asyncio.Future[bytes] | None, found: bytes | None) -> None:
    if waiting is not None and found is not None and not waiting.done():
        waiting.set_result(found)
