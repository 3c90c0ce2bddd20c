"""The local end of event sync: what writers of this node ask over its Unix socket goes to the gate, and back.

A writer may end between `prepare` and `confirm`: then the service is asked whether it has the record. What the writer's process had sent before it died may
still lie in a buffer of the service, so the question is not asked at once, and *no* is believed only when it was said twice: the first answer shows that the
service is awake, the second comes `SETTLED` ms later. It is assumed that a service that answers handles what a dead client sent within that time. Until then
the record is neither confirmed nor abandoned. If another one for the same place is confirmed meanwhile, the service cannot have this one.

Two processes may write to one subject of the journal: the one that comes second is refused there. Its record waits here until that of the first one is settled,
for `SETTLED` ms at most: of two for one place that nobody has settled a take-over writes the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nadi.config.ownership import OWN_FILE, make_private
from nadi.errors import NadiError, error
from nadi.eventsync.contract import Copy, Gate
from nadi.eventsync.places import place_of
from nadi.replica.contract import Record
from nadi.replica.wire import HEAD, Kind, Misused, failure_body, head, read_head, read_record

SETTLED = 1_000  # ms
LONGEST_PAUSE = 10.0  # seconds between two questions to a service that does not answer
BUFFER = 1024 * 1024
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A record that is prepared, and neither confirmed nor abandoned."""

    ticket: int
    record: Record


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """At the place of a record, until it is settled."""

    place: Hashable | None
    over: asyncio.Event


class LocalEnd:
    """Listens at a socket in a folder that only this user can enter. `settled`: ms, see above."""

    def __init__(self, path: Path, gate: Gate, copies: Sequence[Copy], settled: int = SETTLED) -> None:
        self._path = path
        self._gate = gate
        self._copies: Mapping[type, Copy] = {kind: copy for copy in copies for kind in copy.kinds}
        self._settled = settled / 1000
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: dict[Prepared, None] = {}  # of writers that have ended
        self._turns: dict[Hashable, Turn] = {}  # of those that live, by place

    async def open(self) -> None:
        """Errors: FOLDER_NOT_PRIVATE, FOLDER_NOT_MADE, SERVER_NOT_STARTED."""
        make_private(self._path.parent)
        try:
            self._path.unlink(missing_ok=True)  # of a process that was killed
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=BUFFER)
            self._path.chmod(OWN_FILE)
        except (OSError, ValueError) as reason:  # a path may be too long
            raise error("SERVER_NOT_STARTED", server=f"event sync at {self._path}", reason=reason) from reason

    async def close(self) -> None:
        """End all connections. What is not settled stays so: the end of the session settles it."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._path.unlink(missing_ok=True)

    @property
    def unsettled(self) -> int:
        """Records of writers that have ended, of which it is not known yet whether the service has them."""
        return len(self._left)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        connection = _Writer(self, self._gate, writer)
        try:
            while True:
                length, kind, number = read_head(await reader.readexactly(HEAD.size))
                connection.take(kind, number, await reader.readexactly(length))
        except Misused as reason:
            _LOG.warning("a writer of this node sent what is no record: %s", reason)
        except (OSError, EOFError):
            _LOG.debug("a writer of this node has ended")
        except asyncio.CancelledError:
            return  # this end is closed, and nobody waits for this task but `close`
        finally:
            writer.transport.abort()
        for prepared in await connection.left():
            self._left[prepared] = None
            self.begin(self._settle(prepared))

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done beside; `close` ends it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def turn(self, record: Record) -> Turn:
        """Wait for the turn of a record at its place; `over` ends it."""
        place, until = place_of(record), asyncio.get_running_loop().time() + self._settled
        mine = Turn(place, asyncio.Event())
        if place is None:
            return mine
        try:
            async with asyncio.timeout_at(until):
                while (before := self._turns.get(place)) is not None:
                    await before.over.wait()
        except TimeoutError:
            _LOG.info("a record of another writer for the same place is not settled yet")
        self._turns[place] = mine
        return mine

    def over(self, turn: Turn) -> None:
        """A record is settled, or its writer has ended."""
        turn.over.set()
        if self._turns.get(turn.place) is turn:
            del self._turns[turn.place]

    def confirmed(self, record: Record) -> None:
        """A writer says that its service has the record, which is thus no other one for that place."""
        place = place_of(record)
        if place is None or not self._left:
            return
        for prepared in [left for left in self._left if place_of(left.record) == place]:
            del self._left[prepared]
            self._gate.abandon(prepared.ticket)

    async def _settle(self, prepared: Prepared) -> None:
        held = False
        for _ in range(2):
            await asyncio.sleep(self._settled)
            held = await self._is_held(prepared)
            if held or prepared not in self._left:
                break
        if prepared not in self._left:
            return
        del self._left[prepared]
        if held:
            self._gate.confirm(prepared.ticket)
        else:
            self._gate.abandon(prepared.ticket)

    async def _is_held(self, prepared: Prepared) -> bool:
        """Asks until the service answers."""
        pause = self._settled
        while prepared in self._left:
            try:
                return await self._copies[type(prepared.record)].holds(prepared.record)
            except Exception as reason:  # whatever a service's client raises
                _LOG.warning("whether a %s is there is not known yet: %s", type(prepared.record).__name__, reason)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return False


class _Writer:
    """A connection of a writer. Its records are asked for in the order in which they come; they are kept until they are settled."""

    def __init__(self, end: LocalEnd, gate: Gate, writer: asyncio.StreamWriter) -> None:
        self._end, self._gate, self._writer = end, gate, writer
        self._prepared: dict[int, Prepared] = {}
        self._turns: dict[int, Turn] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def take(self, kind: Kind, number: int, body: bytes) -> None:
        """Errors: Misused."""
        if kind == Kind.PREPARE:
            task = self._end.begin(self._prepare(number, read_record(body)))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        elif kind in (Kind.CONFIRM, Kind.ABANDON):
            self._settle(number, kind == Kind.CONFIRM)
        else:
            raise Misused(f"a frame of kind {kind} from a writer")

    async def left(self) -> list[Prepared]:
        """What is prepared and not settled, when all that was asked has been answered."""
        for number in self._prepared:
            self._over(number)
        while self._asking:
            await asyncio.wait(self._asking)
        for number in list(self._turns):
            self._over(number)
        return list(self._prepared.values())

    async def _prepare(self, number: int, record: Record) -> None:
        self._turns[number] = await self._end.turn(record)
        try:
            self._prepared[number] = Prepared(await self._gate.prepare(record), record)
        except NadiError as reason:
            self._fail(number, reason)
        except Exception as reason:
            _LOG.exception("a record of a writer could not be prepared")
            self._fail(number, error("CONNECTION_UNAVAILABLE", connector="event sync", reason=repr(reason)))
        else:
            self._writer.write(head(Kind.PREPARED, number))

    def _over(self, number: int) -> None:
        turn = self._turns.pop(number, None)
        if turn is not None:
            self._end.over(turn)

    def _fail(self, number: int, reason: NadiError) -> None:
        self._over(number)
        body = failure_body(reason)
        self._writer.write(head(Kind.FAILED, number, body) + body)

    def _settle(self, number: int, held: bool) -> None:
        prepared = self._prepared.pop(number, None)
        if prepared is None:
            return  # of a connection before this one: it was settled without the writer
        if held:
            self._end.confirmed(prepared.record)
            self._gate.confirm(prepared.ticket)
        else:
            self._gate.abandon(prepared.ticket)
        self._over(number)
