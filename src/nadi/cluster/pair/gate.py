"""The gate of one term: what a record waits for before its writer may write it, and which records are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from nadi.cluster.contract import Clock
from nadi.cluster.pair.patience import within
from nadi.errors import error
from nadi.eventsync.contract import Hello, PartnerRefuses, Session, SessionOver
from nadi.replica.contract import ObjectPut, Record

_TICKETS = count(1)
"""Of all terms of this process: a ticket of an earlier one is nobody's."""


@dataclass(eq=False, slots=True)
class Companion:
    """The partner, in one session. Once it is `required` no record is prepared without it, until it is `released`: taken out of the in-sync set. What was sent
    to it is waited for until it has `given_up`: it is broken, or the term is over."""

    session: Session
    required: bool = False
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    higher: int = 0  # a token that it has named

    @property
    def hello(self) -> Hello:
        return self.session.partner

    def breaks(self, reason: Exception) -> None:
        """It does not answer any more, or does not follow."""
        if isinstance(reason, PartnerRefuses):
            self.higher = max(self.higher, reason.token)
        if not self.broken.is_set():
            refuses = isinstance(reason, PartnerRefuses)
            self.why = "it refuses to follow" if refuses else f"it does not answer: {reason}"
            self.broken.set()
            self.given_up.set()

    async def closed(self, clock: Clock, ms: int) -> None:
        """End the session; one that cannot be ended in this time is left to itself."""
        try:
            await within(clock, ms, self.session.close())
        except (SessionOver, PartnerRefuses):
            return


class TermGate:
    """Implements `nadi.eventsync.contract.Gate` for one term. `valid` says whether the node has the right now."""

    def __init__(self, valid: Callable[[], bool]) -> None:
        self._valid = valid
        self._ended = ""
        self._open = asyncio.Event()
        self._open.set()
        self._sending: dict[int, Record] = {}  # what waits for a companion, by numbers, in order
        self._came = 0  # objects that are there
        self._under_way: dict[int, tuple[Companion | None, int]] = {}
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.companion: Companion | None = None

    @property
    def suspended(self) -> bool:
        """Whether nothing is let through until the partner is out of the set."""
        found = self.companion
        return found is not None and found.required and found.broken.is_set() and not found.released.is_set()

    @property
    def oldest(self) -> int:
        """Which record waits longest for the companion, by a number that no other one has; 0 where none waits. Objects do not count: they take as long as they
        are large."""
        return next((number for number, record in self._sending.items() if not isinstance(record, ObjectPut)), 0)

    @property
    def objects(self) -> tuple[int, int]:
        """How many objects have come to the companion, and how many bytes have those that are on their way; -1 where none is."""
        waiting = [record.length for record in self._sending.values() if isinstance(record, ObjectPut)]
        return self._came, sum(waiting) if waiting else -1

    # ---- writers -------------------------------------------------------------------------------------------------------

    async def prepare(self, record: Record) -> int:
        """See `Gate`. Errors: NOT_ACTIVE, CONNECTION_UNAVAILABLE."""
        sent = False
        while True:
            await self._opened(sent)
            companion = self.companion
            if companion is None:
                return self._ticket(None, 0)
            sent = True
            number = await self._sent(companion, record)
            if number is not None:
                self._demand(sent)
                return self._ticket(companion, number)
            await companion.released.wait()

    async def _opened(self, sent: bool) -> None:
        """Wait until the gate is open."""
        self._demand(sent)
        while not self._open.is_set():
            await self._open.wait()
            self._demand(sent)

    def _demand(self, sent: bool) -> None:
        """The node is active; where it is not, what was sent may be written by the partner."""
        if not self._ended and self._valid():
            return
        reason = self._ended or "its right to be active has ended"
        if sent:
            raise error("CONNECTION_UNAVAILABLE", connector="the partner of this node", reason=reason)
        raise error("NOT_ACTIVE", reason=reason)

    async def _sent(self, companion: Companion, record: Record) -> int | None:
        """The number of the record in this session; None where the session is over, or the term."""
        sending = asyncio.ensure_future(companion.session.send(record))
        given_up = asyncio.ensure_future(companion.given_up.wait())
        mine = next(_TICKETS)
        self._sending[mine] = record
        try:
            await asyncio.wait((sending, given_up), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                return None
            number = sending.result()
            self._came += isinstance(record, ObjectPut)
            return number
        except (SessionOver, PartnerRefuses) as reason:
            companion.breaks(reason)
            return None
        finally:
            del self._sending[mine]
            sending.cancel()
            given_up.cancel()
            self._look()

    def _ticket(self, companion: Companion | None, number: int) -> int:
        ticket = next(_TICKETS)
        self._under_way[ticket] = (companion, number)
        return ticket

    def confirm(self, ticket: int) -> None:
        companion, number = self._under_way.pop(ticket, (None, 0))
        if companion is not None and not companion.broken.is_set():
            companion.session.confirm(number)
        self._look()

    def abandon(self, ticket: int) -> None:
        companion, number = self._under_way.pop(ticket, (None, 0))
        if companion is not None and not companion.broken.is_set():
            companion.session.abandon(number)
        self._look()

    # ---- who decides ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let no new record in."""
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def end(self, reason: str) -> None:
        """Refuse all from now on; wake all that waits."""
        self._ended = reason
        self._open.set()
        if self.companion is not None:
            self.companion.given_up.set()
            self.companion.released.set()

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await self._until(lambda: not self._sending and not self._under_way)

    async def only(self, companion: Companion) -> None:
        """Wait until nothing is under way but what was sent to this companion. What was prepared before may still be written, and comparing services would
        miss it."""
        await self._until(lambda: all(found is companion for found, _number in self._under_way.values()))

    async def _until(self, holds: Callable[[], bool]) -> None:
        if holds():
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((holds, waiting))
        await waiting

    def _look(self) -> None:
        """Wake those for whom it is so now."""
        if not self._waiting:
            return
        for _holds, waiting in [entry for entry in self._waiting if entry[0]()]:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]
