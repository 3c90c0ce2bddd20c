"""A node of a pair: takes part in deciding who is active, does its duties in its role, and lets through what its writers prepare."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nadi.cluster.contract import Clock, Store, StoreAway
from nadi.cluster.leases import Candidate
from nadi.cluster.pair import arrival, handover, promotion, report
from nadi.cluster.pair.arrival import Groups
from nadi.cluster.pair.beats import Beats
from nadi.cluster.pair.companions import Companions
from nadi.cluster.pair.follower import Follower
from nadi.cluster.pair.insync import SetWriter
from nadi.cluster.pair.membership import Found, Member, Sign, Wish
from nadi.cluster.pair.memory import Memory
from nadi.cluster.pair.right import Promise, Right
from nadi.cluster.pair.settings import PairSettings
from nadi.cluster.pair.status import Loss, PairStatus, Partner, Role
from nadi.cluster.pair.term import Term
from nadi.cluster.rows import InSync, ManagerRow
from nadi.cluster.settings import at_least
from nadi.cluster.signals import Bell
from nadi.errors import error
from nadi.eventsync.contract import Duties, Hello, Link
from nadi.replica.contract import Record

_LOG = logging.getLogger(__name__)


class PairNode:
    """Implements `nadi.eventsync.contract.Gate` and, as `passive`, `Passive`. `run` is its life.

    `me.address` is the event sync of this node. `wall` is the wall clock in ms of the epoch. `describe` says what the node is at that moment; `id`,
    `incarnation`, `store` and `token` of it are set here. `changed` is called when `status` may be another one; it must return at once.
    """

    def __init__(
        self, me: Candidate, settings: PairSettings, clock: Clock, wall: Callable[[], int], store: Store, memory: Memory, link: Link, duties: Duties,
        describe: Callable[[], Hello], changed: Callable[[], None] = lambda: None, groups: Groups | None = None,
    ) -> None:  # fmt: skip
        self.me, self.settings, self.clock, self.store, self.memory = me, settings, clock, store, memory
        self._link, self.duties, self._describe, self._groups = link, duties, describe, groups
        self.changed = changed
        self.beats = Beats(me, settings, clock, wall, store, memory)
        self._promise = Promise(settings.lease)
        self._promise.give(clock.now())  # this node may have promised it before it was started again
        self._bell, self._role_bell = Bell(clock), Bell(clock)
        self._taking = False
        self.term: Term | None = None  # whose right has not ended
        self._served: Term | None = None  # whose duties have begun, and not ended
        self._begun = False
        self.departing = False  # it is about to end, and takes nothing over
        self.forced: asyncio.Future[None] | None = None
        self.passive = Follower(
            clock, self._promise, memory, self.hello, self._busy, lambda: self.beats.highest.token,
            lambda token: self.beats.saw(Sign(token)), self._freed, changed, duties.waits,
        )  # fmt: skip
        self._partner: Partner | None = None

    # ---- life ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live until cancelled. An orderly end calls `leave` before. Errors: PAIR_ID_TAKEN, PAIR_COMPLETE, PAIR_GROUPS_DIFFER; in groups what duties raise,
        and PAIR_ID_TAKEN where it comes later."""
        self.beats.before = await arrival.admitted(self, self._groups)
        async with asyncio.TaskGroup() as tasks:
            self._spawn = tasks.create_task
            tasks.create_task(self._beating())
            tasks.create_task(self._serving())

    async def _beating(self) -> None:
        while True:
            pause = await self._beat()
            await self._bell.heard(pause)

    async def _beat(self) -> int:
        """One heartbeat. How long to wait for the next one (ms)."""
        term = self.term
        wish = None if term is not None else self._wish()
        sent = self.clock.now()
        self._taking = wish is not None
        try:
            found = await self.beats.beat(None if term is None else term.token, wish)
        finally:
            self._taking = False
        if self.beats.alarm is not None and term is not None:
            term.end(self.beats.alarm.message)
        if found is None:
            self.changed()
            return self.settings.beat // 4
        if term is not None:
            self._renewed(term, found, sent)
        elif found.taken and wish is not None:
            self._take(found, sent, wish.forced)
        self.changed()
        return self._pause(sent)

    def _wish(self) -> Wish | None:
        """How this node would take over, where it may try."""
        beats, forced, now = self.beats, self.forced is not None, self.clock.now()
        if self._served is not None or beats.found is None or beats.skewed is not None or self.departing:
            return None
        if not self._promise.over(now) or now < beats.free_at:
            return None
        # Not forced either: after somebody asked for that, the other node may have taken over and begun to make this copy.
        if not self.memory.whole:
            return None
        if not forced and beats.alarm is not None:
            return None
        return Wish(self.me, self.memory.store, self.settings.lease, beats.highest.token, forced)

    def _renewed(self, term: Term, found: Found, sent: int) -> None:
        lease = found.lease
        if lease is not None and (lease.token, lease.holder) == (term.token, self.me.incarnation):
            term.right.renewed(sent, self.clock.now())
        else:
            term.end(f"{lease.owner if lease and lease.owner else 'another node'} has the lease")

    def _take(self, found: Found, sent: int, forced: bool) -> None:
        """It is this node's turn."""
        if found.lease is None or found.sync is None or not self._promise.over(self.clock.now()):
            return
        if forced:
            self.beats.alarm = None
        right = Right(found.lease.token, self.settings.lease)
        right.renewed(sent, self.clock.now())
        self._say_taken(found.lease.token, sent)
        self.memory.mark(whole=True)
        self.passive.followed = None
        self.term = Term(right, found.sync, self.settings, self.clock, self._over, self.changed)
        self.term.begin(self._spawn)
        if self.forced is not None and not self.forced.done():
            self.forced.set_result(None)
        self._role_bell.ring()

    def _say_taken(self, token: int, sent: int) -> None:
        now, heard = self.clock.now(), self.passive.heard
        since = "" if heard is None else f"{now - heard} ms after the last beat of the other node, "
        _LOG.info("the lease is taken under the token %d: %sthe database took %d ms", token, since, now - sent)

    def _freed(self) -> None:
        """The active node has ended and given the lease back: try to take it without looking for it first. The database decides."""
        self.beats.free_at = 0
        self._bell.ring()

    def _over(self, term: Term, reason: str) -> None:
        """The right has ended."""
        if self.term is term:
            self.term = None
        if term is not self._served and term.leaving is not None and not term.leaving.done():
            term.leaving.set_exception(handover.refused(self, reason))  # it never began: nobody would stop it
        if term.higher:
            self.beats.saw(Sign(term.higher))
        self.hurry(term)
        self._role_bell.ring()
        self._bell.ring()
        self.changed()

    def _pause(self, sent: int) -> int:
        """Until when nothing can be different for this node. The next beat is due an interval after this one was sent, not after it was answered: the right
        counts from then, too."""
        now = self.clock.now()
        waits = [sent + self.settings.beat - now]
        if self.term is None:
            waits += [at_least(at - now) for at in (self.beats.free_at, self._promise.until) if at > now]
        return max(1, min(waits))

    # ---- roles ---------------------------------------------------------------------------------------------------------

    async def _serving(self) -> None:
        """Do the duties of one role after the other."""
        while True:
            if self._served is not None and (self._served.ended or self._served.leaving is not None):
                await self._stop(self._served)
            elif self.term is not None and self._served is None:
                await self._start(self.term)
            else:
                await self._role_bell.heard()

    async def _start(self, term: Term) -> None:
        self._served, self._begun = term, False
        self.changed()
        began = self.clock.now()
        await self.duties.activate(term.token)
        self._begun = True
        _LOG.info("the duties of the active node have begun: %d ms after the lease was taken", self.clock.now() - began)
        writer = SetWriter(
            self.clock,
            self.store,
            term.row,
            self.settings.beat // 4,
            term.waits_for,
            lambda row: self._saw_row(term, row),
        )
        companions = Companions(
            self.member, self.settings, self.clock, self._link, term.right, term.gate, writer, self.hello, self._found_partner, self.changed,
        )  # fmt: skip
        term.care(companions)
        self.changed()

    async def _stop(self, term: Term) -> None:
        self.changed()
        companion = term.gate.companion
        if term.ended and companion is not None:
            self._spawn(companion.closed(self.clock, self.settings.beat))
        await self.duties.deactivate(gentle=not term.ended)
        if not term.ended:
            await handover.handed_over(self, term, self._promise)
        if term.leaving is not None and not term.leaving.done():
            term.leaving.set_exception(handover.refused(self, term.ended))
        self._served = None
        self._bell.ring()
        self.changed()

    def _saw_row(self, term: Term, row: InSync) -> None:
        self.beats.saw(Sign(term.token, 0, row.number))

    async def _found_partner(self) -> Partner | None:
        """The other node that wrote its heartbeat last; the one before, where the database does not answer."""
        try:
            seen = await self.store.read(ManagerRow)
        except StoreAway:
            return self._partner
        others = [row for row in seen.all(ManagerRow) if row.id != self.me.id]
        if others:
            last = max(others, key=lambda row: row.heartbeat)
            self._partner = Partner(last.id, last.address)
        return self._partner

    def hurry(self, term: Term) -> None:
        """A term is about to end: if its duties are just beginning, nobody needs them any more."""
        if term is self._served and not self._begun:
            self.duties.hurry()

    def wake_roles(self) -> None:
        self._role_bell.ring()

    def wake_beats(self) -> None:
        self._bell.ring()

    # ---- what others ask -----------------------------------------------------------------------------------------------

    @property
    def member(self) -> Member:
        return Member(self.me.id, self.memory.store)

    def hello(self) -> Hello:
        """What this node says of itself in a session."""
        found = self._describe()
        token = self.beats.highest.token if self.term is None else self.term.token
        return Hello(
            self.me.id, self.me.incarnation, self.memory.store, token, found.version, found.semantics, found.settings, found.apps, found.rest
        )  # fmt: skip

    def _busy(self) -> bool:
        """Whether this node is active, or may be in a moment."""
        return self.term is not None or self._served is not None or self._taking or self.beats.alarm is not None

    async def prepare(self, record: Record) -> int:
        """See `Gate`. Errors: NOT_ACTIVE, CONNECTION_UNAVAILABLE."""
        term = self.term
        if term is None:
            raise error(
                "NOT_ACTIVE", reason="it is passive" if self._served is None else "its right to be active has ended"
            )
        return await term.gate.prepare(record)

    def confirm(self, ticket: int) -> None:
        if self._served is not None:
            self._served.gate.confirm(ticket)

    def abandon(self, ticket: int) -> None:
        if self._served is not None:
            self._served.gate.abandon(ticket)

    @property
    def is_leader(self) -> bool:
        """What `coordination:isLeader()` answers."""
        return self.role in (Role.STARTING, Role.ACTIVE, Role.SUSPENDED)

    @property
    def role(self) -> Role:
        served = self._served
        if served is None:
            return Role.PASSIVE if self.term is None else Role.STARTING
        if served.ended or served.leaving is not None:
            return Role.STOPPING
        if not self._begun:
            return Role.STARTING
        return Role.SUSPENDED if served.gate.suspended else Role.ACTIVE

    @property
    def status(self) -> PairStatus:
        return report.status_of(self)

    @property
    def partner(self) -> Partner | None:
        followed = self.passive.followed
        return Partner(followed.hello.id, "") if followed is not None and self.term is None else self._partner

    @property
    def ahead(self) -> tuple[int, int] | None:
        """ms to add to this node's wall clock to have the time of the database, by which cuts are dated on both nodes; give or take so many. None: not known
        yet."""
        return None if self.beats.offset is None else (self.beats.offset, self.beats.unsure)

    async def switch(self) -> None:
        """Have the partner go on. Returns when this node has ended, and the partner was asked. Errors: PAIR_NOT_SWITCHED."""
        await handover.switched(self)

    async def leave(self) -> None:
        """End in order: what this node does, its lease, its place in the group. A partner in sync goes on at once. `run` is to be cancelled then."""
        await handover.left(self)

    async def promote(self, accept_loss: bool) -> Loss:
        """Have this node go on with what it has, though it is not in the in-sync set. Without `accept_loss`, or where nothing is lost: only what would be lost.
        Errors: PAIR_NOT_PROMOTED."""
        return await promotion.promoted(self, accept_loss)
