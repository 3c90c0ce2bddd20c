"""Which manager leads: each writes its heartbeat at every interval, and takes the lease when nobody has it.

One transaction a beat does both, by the database's clock. A manager that cannot reach the database leads until its lease ends by its own clock, no longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from nadi.cluster import leases
from nadi.cluster.contract import Change, Clock, Seen, Store, StoreAway
from nadi.cluster.leases import Candidate, Held, Sign
from nadi.cluster.rows import Lease, ManagerRow
from nadi.cluster.settings import Election, at_least
from nadi.cluster.signals import Bell
from nadi.errors import Diagnostic, diagnostic

_LOG = logging.getLogger(__name__)

RENEWALS = 2
"""So many renewals fit into a lease at least, also where `heartbeatMaxRetry` is 1."""


@dataclass(frozen=True, slots=True)
class Term:
    """A time of leading: the token, and when (by this manager's clock) it is sure to have begun."""

    token: int
    began: int


@dataclass(frozen=True, slots=True)
class Leader:
    """Whom this manager takes for the leader, until when by its own clock."""

    id: str
    address: str
    token: int
    until: int


class Elector:
    """One manager's part in the election. `changed` is called when a term begins (with it) and when it is over (None)."""

    def __init__(
        self, me: Candidate, settings: Election, clock: Clock, store: Store, changed: Callable[[Term | None], None]
    ) -> None:
        self._me = me
        self._settings = settings
        self._clock = clock
        self._store = store
        self._changed = changed
        self._bell = Bell(clock)
        self._held: Held | None = None
        self._leader: Leader | None = None
        self._highest: Sign = (0, 0)
        self._ahead: int | None = None  # ms that the database's time is ahead of the clock
        self.alarm: Diagnostic | None = None

    @property
    def held(self) -> Held | None:
        """The lease, where it is this manager's and not over."""
        return self._held if self._held is not None and self._held.valid(self._clock.now()) else None

    @property
    def leader(self) -> Leader | None:
        """Who leads, as far as this manager knows."""
        found = self._leader
        return found if found is not None and self._clock.now() < found.until else None

    def time(self, at: int) -> int:
        """The database's time (ms since 1970) at a time of the clock; 0 where it is not known yet."""
        return 0 if self._ahead is None else at + self._ahead

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            pause = await self._beat()
            await self._bell.heard(pause)

    def saw(self, token: int, holder: str) -> None:
        """Somebody knows a token and who had it: the database must know one that is no lower, and must not have given the same to two."""
        if self._held is not None and token == self._held.token and holder != self._me.incarnation:
            self._raise_alarm(WentBack((token + 1, 0), self._highest))
        if token > self._highest[0]:
            self._highest = (token, 0)
            self._bell.ring()

    async def _beat(self) -> int:
        """One heartbeat. How long to wait for the next one (ms)."""
        sent = self._clock.now()
        try:
            change = await self._store.transact(self._keys(), self._decide)
        except StoreAway:
            return self._interval // 4 if self._held is not None else self._interval
        self._heard(sent, change.said)
        row = change.said
        if isinstance(row, _Found) and row.lease.holder != self._me.incarnation:
            return max(1, min(self._interval, at_least(row.lease.expires - row.now)))  # nobody may have it then
        return self._interval

    @property
    def _interval(self) -> int:
        return min(self._settings.interval, self._settings.lease // RENEWALS)

    def _keys(self) -> tuple[tuple[type[Lease], tuple[str]], tuple[type[ManagerRow], tuple[str]]]:
        return (Lease, (self._settings.group,)), (ManagerRow, (self._me.id,))

    def _decide(self, seen: Seen) -> Change:
        group = self._settings.group
        found = leases.sign_of(seen.get(Lease, group))
        if found < self._highest:
            return Change(said=WentBack(self._highest, found))
        beat = self._own_row(seen)
        mine = None if self.alarm else leases.claimed(seen, group, self._me, self._settings.lease)
        if mine is not None:
            return Change(put=(beat, mine), said=_Found(mine, seen.now))
        row = seen.get(Lease, group)
        return Change(put=(beat,), said=None if row is None else _Found(row, seen.now))

    def _own_row(self, seen: Seen) -> ManagerRow:
        before = seen.get(ManagerRow, self._me.id)
        new = before is None or before.new or before.incarnation != self._me.incarnation
        return ManagerRow(self._me.id, self._me.address, self._me.incarnation, new, seen.now)

    def _heard(self, sent: int, said: object) -> None:
        if isinstance(said, WentBack):
            self._raise_alarm(said)
            return
        if not isinstance(said, _Found):
            return
        lease = said.lease
        self._highest = max(self._highest, leases.sign_of(lease))
        now = self._clock.now()
        self._ahead = said.now - (sent + now) // 2
        if lease.holder != self._me.incarnation:
            self._leader = Leader(lease.owner, lease.address, lease.token, now + lease.expires - said.now)
            self._lose()
            return
        until = leases.counted_until(sent, now, self._settings.lease)
        self._leader = Leader(lease.owner, lease.address, lease.token, until)
        begins = self._held is None or self._held.token != lease.token
        if begins:
            self._lose()  # a term that was over unseen
        self._held = Held(lease.name, lease.token, until)
        if begins:
            self._changed(Term(lease.token, now))

    def _raise_alarm(self, said: WentBack) -> None:
        """Lead no more: what is in the database may undo what others rely on. Workers stop when their leases end."""
        if self.alarm is None:
            seen, found = ("token {}, renewed at {}".format(*sign) for sign in (said.seen, said.found))
            self.alarm = diagnostic("COORDINATION_WENT_BACK", group=self._settings.group, seen=seen, found=found)
            _LOG.error("%s", self.alarm.message)
        self._lose()

    def lose(self, token: int) -> None:
        """The database refused a write of this term: another one has begun."""
        if self._held is not None and self._held.token == token:
            self._lose()
            self._bell.ring()

    def _lose(self) -> None:
        if self._held is not None:
            self._held = None
            self._changed(None)

    async def resign(self) -> None:
        """Give the lease back, at an orderly end. Errors: `StoreAway`: it ends by itself."""
        held, self._held = self._held, None
        if held is not None:
            name, token = held.name, held.token
            await self._store.transact([(Lease, (name,))], lambda seen: leases.renounced(seen, name, token))


@dataclass(frozen=True, slots=True)
class _Found:
    lease: Lease
    now: int


@dataclass(frozen=True, slots=True)
class WentBack:
    """The database has forgotten a lease that was seen: it was restored from an old copy, or somebody deleted rows."""

    seen: Sign
    found: Sign
