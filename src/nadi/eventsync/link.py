"""How the active node reaches its partner: two connections over TCP, made and proven."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nadi.errors import NadiError
from nadi.eventsync.bulk import BulkSender, WriteDown
from nadi.eventsync.contract import Copy, Hello, PartnerRefuses, SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import BULK, MAIN, PATIENCE, Keys, greet
from nadi.eventsync.session import ActiveSession
from nadi.eventsync.wire import Kind, Wire, numbers

PORT = 9893
_NO_ADDRESS = (
    ValueError,
    OverflowError,
)  # what the system raises for a host that no name can be, and for a port beyond all
BUFFER = 1024 * 1024


class TcpLink:
    """Implements `nadi.eventsync.contract.Link`. `objects` is the folder of this node's objects, `keep` writes down what only the partner had,
    `silence` is for how long (ms) the partner may say nothing."""

    def __init__(
        self, keys: Keys, objects: Path, copies: Sequence[Copy], keep: WriteDown, silence: int, counters: Counters
    ) -> None:
        self._keys = keys
        self._objects = objects
        self._copies = copies
        self._keep = keep
        self._silence = silence
        self._counters = counters

    async def open(self, address: str, mine: Hello) -> ActiveSession:
        """What is wrong with the address, which the other node says of itself, or with a file that this one was given, is SessionOver, too: it does not end a
        node that is active."""
        wire = await self._wire(address, MAIN)
        try:
            wire.say(Kind.HELLO, msgspec.msgpack.encode(mine))
            partner, key = _welcome(*await wire.receive())
            bulk_wire = await self._wire(address, BULK)
        except BaseException:
            wire.abort()
            raise
        bulk_wire.say(Kind.BULK, key)
        bulk = BulkSender(bulk_wire, self._objects, self._keep)
        return ActiveSession(partner, wire, bulk_wire, bulk, self._copies, self._counters)

    async def _wire(self, address: str, purpose: bytes) -> Wire:
        host, port = parted(address)
        try:
            self._keys.check_host(host)
            context = self._keys.connects()
        except NadiError as reason:
            raise SessionOver(str(reason)) from reason
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=context, server_hostname=host if context else None, limit=BUFFER
                )
        except (OSError, TimeoutError, *_NO_ADDRESS) as reason:
            raise SessionOver(f"{address} cannot be reached: {reason!r}") from reason
        try:
            await greet(self._keys, purpose, reader, writer)
        except BaseException:
            writer.transport.abort()
            raise
        return Wire(reader, writer, self._silence, self._counters)


def parted(address: str) -> tuple[str, int]:
    """Host and port. Errors: SessionOver, for what is no address.

    >>> parted("db2:9000"), parted("db2"), parted("[::1]:9000"), parted("::1")
    (('db2', 9000), ('db2', 9893), ('::1', 9000), ('::1', 9893))
    """
    host, port = address, ""
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    if not host or not ((port.isascii() and port.isdecimal()) or not port):
        raise SessionOver(f"'{address}' is no address of a node")
    return host, int(port or PORT)


def _welcome(kind: Kind, body: bytes) -> tuple[Hello, bytes]:
    match kind:
        case Kind.WELCOME:
            try:
                return msgspec.msgpack.decode(body, type=tuple[Hello, bytes])
            except msgspec.MsgspecError as reason:
                raise SessionOver(f"the partner's welcome cannot be read: {reason}") from reason
        case Kind.REFUSED:
            raise PartnerRefuses((numbers(body) or [0])[0])
        case Kind.TROUBLE:
            raise SessionOver(f"the partner: {body.decode(errors='replace')}")
        case _:
            raise SessionOver(f"the partner answered with a frame of kind {kind.name}")
