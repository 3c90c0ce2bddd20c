"""A manager: takes part in the election, leads while it holds the lease, and answers requests.

Any manager answers what is only read, from the database. Writes and heartbeats are the leader's: another manager passes writes on, and tells a worker where
the leader is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from nadi.cluster.contract import Clock, Network, NoAnswer, Store
from nadi.cluster.election import Elector, Term
from nadi.cluster.leader import LeaderTerm
from nadi.cluster.leases import Candidate
from nadi.cluster.membership import Members, MembershipEvent
from nadi.cluster.messages import (
    Cleaned,
    Delete,
    Deploy,
    Drain,
    Elsewhere,
    Forget,
    Heartbeat,
    Message,
    Move,
    Nobody,
    Record,
    Rejected,
    Restart,
    Restore,
    Stranger,
    Unknown,
    Write,
)
from nadi.cluster.poker import Poker
from nadi.cluster.settings import Election, Placing, Timing

FORWARD_WITHIN = 5_000  # ms
NO_WORKER = "it is no worker of nadi: its heartbeat has not what it would be given instances by"


class Manager:
    """One manager. `run` is its life; `answer` serves requests while it runs."""

    def __init__(
        self,
        me: Candidate,
        clock: Clock,
        store: Store,
        network: Network,
        election: Election | None = None,
        timing: Timing | None = None,
        placing: Placing | None = None,
        wrote: Callable[[], object] = lambda: None,
    ) -> None:
        """`wrote` is called after each write that this manager makes as the leader."""
        self._me = me
        self._clock = clock
        self._store = store
        self._network = network
        self._election = election or Election()
        self._timing = timing or Timing()
        self._placing = placing or Placing()
        self._wrote = wrote
        self.elector = Elector(me, self._election, clock, store, self._changed)
        self.members = Members(me.id, self._election, clock, store, self.elector, self._heard)
        self._term: LeaderTerm | None = None
        self._poker: Poker | None = None
        self._duties: list[asyncio.Task[None]] = []
        self.events: list[MembershipEvent] = []

    async def run(self) -> None:
        """Live until cancelled, or until a part of it fails. An orderly end then calls `elector.resign`, so that nobody waits for the lease to end."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._spawn(self.members.run())
                self._spawn(self.elector.run())
        finally:
            self._changed(None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.create_task(work)

    @property
    def term(self) -> LeaderTerm | None:
        """The term, where this manager leads."""
        return self._term if self.elector.held is not None else None

    def _changed(self, term: Term | None) -> None:
        for task in self._duties:
            task.cancel()
        if self._term is not None:
            self._term.close()
        if self._poker is not None:
            self._poker.close()
        self._duties, self._term, self._poker = [], None, None
        if term is not None:
            self._lead(term)

    def _lead(self, term: Term) -> None:
        self._poker = Poker(self._network, self._me.address, term.token, self._spawn)
        self._term = LeaderTerm(
            term, self._me, self.elector, self._clock, self._store, self._poker, self._election.group, self._timing, self._placing, self._wrote
        )  # fmt: skip
        self._duties = [self._spawn(self._term.run()), self._spawn(self._term.note())]

    def _heard(self, event: MembershipEvent) -> None:
        self.events.append(event)
        del self.events[:-100]

    async def answer(self, request: Message) -> Message:
        """Serve a request of a worker, of a user, or of another manager."""
        if isinstance(request, Heartbeat):
            return self._heartbeat(request)
        if isinstance(request, Stranger):
            return self._elsewhere() if self.term is None else Rejected("", NO_WORKER)
        if isinstance(request, Write):
            return await self._write(request)
        raise TypeError(f"a manager does not serve {type(request).__name__}")

    def _heartbeat(self, beat: Heartbeat) -> Message:
        self.elector.saw(beat.seen, beat.holder)
        term = self.term
        if term is not None:
            term.managers = self.members.addresses
            return term.heartbeat(beat)
        return self._elsewhere()

    def _elsewhere(self) -> Message:
        """Who does not lead says who does."""
        leader = self.elector.leader
        if leader is None or leader.address == self._me.address:
            return Nobody()
        return Elsewhere(leader.address)

    async def _write(self, write: Write) -> Message:
        """Make a write, or pass it on to the leader: once, so that managers that disagree do not pass it round."""
        term, leader, alarm = self.term, self.elector.leader, self.elector.alarm
        if alarm is not None:
            return Unknown(alarm.message)
        if term is not None:
            return await term.submit(write)
        if leader is None or leader.address == self._me.address or write.forwarded:
            return Unknown("no manager leads now")
        try:
            return await self._network.ask(leader.address, forwarded(write), FORWARD_WITHIN)
        except NoAnswer:
            return Unknown("the leader did not answer")


def forwarded(write: Write) -> Write:
    """A write as one manager passes it on to another."""
    match write:
        case Deploy() | Delete() | Drain() | Move() | Restart() | Record() | Restore() | Forget() | Cleaned():
            return replace(write, forwarded=True)
