"""The passive end of event sync: listens for the active node, keeps what it sends, and gives it to the services of this node."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nadi.errors import error
from nadi.eventsync.bulk import name_of
from nadi.eventsync.contract import Copy, Hello, PartnerRefuses, Passive, SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.heldlog import HeldLog
from nadi.eventsync.keys import MAIN, PATIENCE, Keys, greeted
from nadi.eventsync.link import BUFFER, PORT
from nadi.eventsync.passivesession import KEY, PassiveSession
from nadi.eventsync.surplus import KeptSurplus
from nadi.eventsync.wire import Kind, Wire, number_body

STRANGERS = 256  # connections at a time of those who have not proven yet to be of the cluster
_LOG = logging.getLogger(__name__)


class PassiveEnd:
    """`folder` is where the log is, `objects` where objects go, `knows` says whether a node of this id may be the partner. It listens in every role: `Passive`
    decides whether a session begins."""

    def __init__(
        self, keys: Keys, folder: Path, objects: Path, copies: Sequence[Copy], passive: Passive,
        knows: Callable[[str], bool], silence: int, counters: Counters,
    ) -> None:  # fmt: skip
        self._keys = keys
        self._objects = objects
        self._copies = {name_of(copy): copy for copy in copies}
        self._passive = passive
        self._knows = knows
        self._silence = silence
        self._counters = counters
        self._log = HeldLog(folder / "held", copies)
        self._kept = KeptSurplus(folder / "surplus.log")
        self._life = asyncio.Lock()  # who begins a session, or takes over
        self._session: PassiveSession | None = None
        self._server: asyncio.Server | None = None
        self._shown = b""
        self._strangers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = PORT

    @property
    def log(self) -> HeldLog:
        """What is held."""
        return self._log

    async def open(self, host: str, port: int = PORT) -> None:
        """Errors: INVALID_SETTING, for a host that others reach where there is no certificate; CERTIFICATE_UNUSABLE; SERVER_NOT_STARTED;
        STATE_FILE_NOT_READABLE; OSError."""
        self._keys.check_host(host)
        context, self._shown = self._keys.listens()
        await self._log.open()
        handshake = PATIENCE if context is not None else None
        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, ssl=context, ssl_handshake_timeout=handshake, limit=BUFFER
            )
        except OSError as reason:
            await self._log.close()
            raise error("SERVER_NOT_STARTED", server=f"event sync at {host}:{port}", reason=reason) from reason
        self.port = self._server.sockets[0].getsockname()[1]

    async def take_over(self) -> None:
        """This node becomes active: end the session, and write all that is held. What fails can be tried again. Errors: those of `HeldLog.take_over`."""
        async with self._life:
            await self._end_session("this node takes over")
            await self._log.take_over()

    async def interrupt(self, reason: str) -> None:
        """End the session, if there is one: the active node begins another one, and hears what this node has now."""
        async with self._life:
            await self._end_session(reason)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        async with self._life:
            await self._end_session("this node ends")
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._log.close()

    async def _end_session(self, reason: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end(SessionOver(reason))
            await session.closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            purpose = await self._proven(reader, writer)
            wire = Wire(reader, writer, self._silence, self._counters)
            try:
                await (self._main(wire) if purpose == MAIN else self._bulk(wire))
            finally:
                wire.abort()
        except SessionOver as reason:
            _LOG.info("a connection to event sync is over: %s", reason)
        except asyncio.CancelledError:
            _LOG.debug("event sync is closed")  # nobody waits for this task but `close`
        except Exception:
            _LOG.exception("a connection to event sync failed")
        finally:
            writer.transport.abort()

    async def _proven(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        if self._strangers >= STRANGERS:
            raise SessionOver("too many connect that have not proven to be nodes")
        self._strangers += 1
        try:
            return await greeted(self._keys, self._shown, reader, writer)
        finally:
            self._strangers -= 1

    async def _main(self, wire: Wire) -> None:
        active = _hello(*await wire.receive())
        if not self._knows(active.id):
            raise SessionOver(f"'{active.id}' is not the partner of this node")
        session = await self._begun(active, wire)
        if session is None:
            return
        try:
            await session.run()
        finally:
            if self._session is session:
                self._session = None

    async def _begun(self, active: Hello, wire: Wire) -> PassiveSession | None:
        """A session, when the one before has ended; None where it is refused."""
        async with self._life:
            if wire.is_over:
                raise SessionOver("the partner did not wait")
            await self._end_session("the partner begins another one")
            try:
                mine = self._passive.greets(active)
            except PartnerRefuses as refusal:
                wire.say(Kind.REFUSED, number_body(refusal.token))
                await wire.close()
                return None
            if not self._passive.fits(active):
                await self._apart(active, mine, wire)
                return None
            try:
                await self._log.begin(active.token, active.store, self._kept.add)
            except Exception as reason:
                _LOG.exception("the log of event sync cannot be written")
                wire.say(Kind.TROUBLE, f"its log cannot be written: {reason}".encode())
                await wire.close()
                self._passive.over(active.token)
                return None
            made = PassiveSession(
                active, wire, self._passive, self._log, self._copies, self._objects, self._kept, self._counters
            )
            self._session = made
            wire.say(Kind.WELCOME, msgspec.msgpack.encode((mine, made.key)))
            return made

    async def _apart(self, active: Hello, mine: Hello, wire: Wire) -> None:
        """The active node hears what this one is, and that is all: it may be the only one that has what it holds."""
        wire.say(Kind.WELCOME, msgspec.msgpack.encode((mine, secrets.token_bytes(KEY))))
        await wire.close()
        self._passive.over(active.token)

    async def _bulk(self, wire: Wire) -> None:
        kind, key = await wire.receive()
        session = self._session
        if kind != Kind.BULK or session is None or not hmac.compare_digest(key, session.key):
            raise SessionOver("a second connection belongs to no session")
        await session.bulk(wire)


def _hello(kind: Kind, body: bytes) -> Hello:
    if kind != Kind.HELLO:
        raise SessionOver(f"a session begins with a frame of kind {kind.name}")
    try:
        return msgspec.msgpack.decode(body, type=Hello)
    except msgspec.MsgspecError as reason:
        raise SessionOver(f"the partner's hello cannot be read: {reason}") from reason
