"""One node's heartbeats in the coordination database: each is one transaction, which writes its row, renews or takes the lease, and says what is there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from nadi.cluster.contract import Change, Clock, Decide, Seen, Store, StoreAway
from nadi.cluster.leases import Candidate
from nadi.cluster.pair import membership
from nadi.cluster.pair.membership import Found, Sign, Wish
from nadi.cluster.pair.memory import Memory
from nadi.cluster.pair.refusals import id_taken
from nadi.cluster.pair.settings import PairSettings
from nadi.cluster.rows import Key, ManagerRow
from nadi.errors import Diagnostic, diagnostic, raised

_LOG = logging.getLogger(__name__)
WENT_BACK = "the database has forgotten what was in it"


@dataclass(frozen=True, slots=True)
class _WentBack:
    found: Sign


@dataclass(frozen=True, slots=True)
class _IdTaken:
    row: ManagerRow


class Beats:
    """What one node knows of the database. `wall` is the node's wall clock, in ms of the epoch."""

    def __init__(
        self, me: Candidate, settings: PairSettings, clock: Clock, wall: Callable[[], int], store: Store, memory: Memory
    ) -> None:
        self._me, self._settings, self._clock, self._wall = me, settings, clock, wall
        self._store, self._memory = store, memory
        self.highest = Sign(memory.token)
        self.before = ""  # an incarnation of this id that is known to be gone
        self.found: Found | None = None
        self.free_at = 0  # when the lease that another node has ends, by this node's clock
        self.away = ""  # why the database did not answer the last beat
        self.alarm: Diagnostic | None = None
        self.offset: int | None = None  # ms that the database's time is ahead of the wall clock
        self.unsure = 0  # give or take so many ms
        self._base: int | None = None  # ms that it is ahead of the node's clock

    async def beat(self, token: int | None, wish: Wish | None) -> Found | None:
        """Renew the lease of a token, or take it as wished, or only look. None: the database did not answer. Errors: PAIR_ID_TAKEN."""
        wall = self._wall()
        keys: list[Key] = [*membership.keys_of(self._settings.group), (ManagerRow, (self._me.id,))]
        try:
            said = (await self._store.transact(keys, self._decide(token, wish))).said
        except StoreAway as reason:
            self.away = str(reason) or "no answer"
            return None
        self.away = ""
        if isinstance(said, _IdTaken):
            raise raised(id_taken(said.row, self._settings.group))
        if isinstance(said, _WentBack):
            self._raise_alarm(said.found)
            return None
        if not isinstance(said, Found):
            raise TypeError(f"a beat says {said!r}")
        self._take_in(said, wall)
        return said

    def _decide(self, token: int | None, wish: Wish | None) -> Decide:
        group, me, highest, length = self._settings.group, self._me, self.highest, self._settings.lease
        before = self.before

        def decide(seen: Seen) -> Change:
            own = seen.get(ManagerRow, me.id)
            if own is not None and own.incarnation > me.incarnation and own.incarnation != before:
                return Change(said=_IdTaken(own))
            sign = membership.sign_of(seen, group)
            if sign.behind(highest) and not (wish is not None and wish.forced):
                return Change(membership.stopped(seen, group, highest, WENT_BACK).put, said=_WentBack(sign))
            beat = ManagerRow(
                me.id, me.address, me.incarnation, own is None or own.incarnation != me.incarnation, seen.now
            )
            if token is not None:
                there = membership.renewed(seen, group, me, token, length)
            elif wish is not None:
                there = membership.taken_over(seen, group, wish)
            else:
                return Change((beat,), said=membership.found(seen, group))
            rows = (there.lease, there.sync if there.taken else None)
            return Change((beat, *(row for row in rows if row is not None)), said=there)

        return decide

    def _take_in(self, there: Found, wall: int) -> None:
        now = self._clock.now()
        self.found = there
        self._base = there.now - now
        took = self._wall() - wall
        self.offset, self.unsure = there.now - wall - took // 2, abs(took) // 2
        self.saw(Sign(there.lease.token, there.lease.renewed) if there.lease else Sign())
        if there.sync is not None and there.lease is not None:
            self.saw(Sign(there.lease.token, 0, there.sync.number))
        held = membership.is_held(there.lease, self._me, there.now)
        self.free_at = now + there.lease.expires - there.now if held and there.lease else 0
        if held and there.sync is not None and membership.members_of(there.sync):
            self.alarm = None  # who raised it has emptied the set: somebody has promoted the other node since

    def saw(self, sign: Sign) -> None:
        """The database must not fall behind this."""
        self.highest |= sign
        self._memory.note(self.highest.token)

    def _raise_alarm(self, found: Sign) -> None:
        if self.alarm is None:
            seen = str(self.highest)
            self.alarm = diagnostic("COORDINATION_WENT_BACK", group=self._settings.group, seen=seen, found=str(found))
            _LOG.error("%s", self.alarm.message)

    @property
    def skewed(self) -> Diagnostic | None:
        """The alarm where the wall clock is wrong by more than is allowed."""
        if self.offset is None or abs(self.offset) <= self._settings.skew:
            return None
        return diagnostic("PAIR_CLOCK_WRONG", id=self._me.id, skew=-self.offset, bound=self._settings.skew)

    def epoch(self, at: int | None) -> int | None:
        """The database's time at a time of the node's clock."""
        return None if at is None or self._base is None else at + self._base
