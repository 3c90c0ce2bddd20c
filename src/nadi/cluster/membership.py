"""Managers as members: who is there, who is new, who fell silent, and the events that tell the others.

The leader announces and removes, at each poll; every manager reads its own events and deletes what it has read. Nothing here decides who leads or where
something runs: it is for people, tools and listeners, and for workers to know all managers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nadi.cluster import leases
from nadi.cluster.contract import Change, Clock, Seen, Store, StoreAway
from nadi.cluster.election import Elector
from nadi.cluster.rows import Key, Lease, ManagerRow, Membership, Removed, Row, key_of
from nadi.cluster.settings import Election, at_least

COORDINATOR_CHANGED = "COORDINATOR_CHANGED"
MEMBER_ADDED = "MEMBER_ADDED"
MEMBER_REMOVED = "MEMBER_REMOVED"


@dataclass(frozen=True, slots=True)
class MembershipEvent:
    """What a manager hears. `address` is there where a member was removed."""

    change: str
    member: str
    address: str = ""


class Members:
    """One manager's view of the others. `heard` is called with each event that is new to it."""

    def __init__(
        self, me: str, settings: Election, clock: Clock, store: Store, elector: Elector, heard: Callable[[MembershipEvent], None]
    ) -> None:  # fmt: skip
        self._me = me
        self._settings = settings
        self._clock = clock
        self._store = store
        self._elector = elector
        self._heard = heard
        self._announced = 0  # the token of the term that this manager has announced
        self.addresses: tuple[str, ...] = ()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._poll()
            await self._clock.sleep(self._settings.polling)

    async def _poll(self) -> None:
        try:
            seen = await self._store.read(ManagerRow, Membership, Removed)
            self.addresses = tuple(row.address for row in seen.all(ManagerRow))
            await self._read_own(seen)
            held = self._elector.held
            if held is not None:
                await self._announce(seen, held.token)
        except StoreAway:
            return  # the next poll finds the same, or more

    async def _read_own(self, seen: Seen) -> None:
        removed = {row.member: row for row in seen.all(Removed) if row.reader == self._me}
        events = [row for row in seen.all(Membership) if row.reader == self._me]
        if not events and not removed:
            return
        keys = [key_of(row) for row in (*events, *removed.values())]
        await self._store.transact([], lambda _seen: Change(drop=tuple(keys)))
        for event in events:
            gone = removed.get(event.member)
            self._heard(MembershipEvent(event.change, event.member, gone.address if gone else ""))

    async def _announce(self, seen: Seen, token: int) -> None:
        rows, dropped = announced(seen, self._settings, self._me, self._announced != token)
        if rows or dropped:
            group = self._settings.group
            done = await self._store.transact(
                [(Lease, (group,))], lambda now: Change() if leases.fenced(now, group, token) else Change(rows, dropped, True)
            )  # fmt: skip
            if done.said is None:
                return
        self._announced = token


def announced(seen: Seen, settings: Election, leader: str, begins: bool) -> tuple[tuple[Row, ...], tuple[Key, ...]]:
    """What a leader writes about members: rows and keys to drop. `begins`: its term was not announced yet."""
    silent = at_least(settings.interval * settings.retries)
    managers = seen.all(ManagerRow)
    gone = [row for row in managers if seen.now - row.heartbeat > silent and row.id != leader]
    there = [row for row in managers if row not in gone]
    new = [row for row in there if row.new]
    changes = [(COORDINATOR_CHANGED, leader)] if begins else []
    changes += [(MEMBER_ADDED, row.id) for row in new] + [(MEMBER_REMOVED, row.id) for row in gone]
    rows: list[Row] = [replace(row, new=False) for row in new]
    rows += _events(changes, there, seen)
    rows += [Removed(reader.id, row.id, row.address) for row in gone for reader in there]
    unread: list[Membership | Removed] = [*seen.all(Membership), *seen.all(Removed)]
    left = [key_of(row) for row in unread if row.reader in {g.id for g in gone}]
    return tuple(rows), (*(key_of(row) for row in gone), *left)


def _events(changes: list[tuple[str, str]], readers: list[ManagerRow], seen: Seen) -> Iterator[Membership]:
    """An event for each manager that is there, numbered after those that it has not read."""
    for reader in readers:
        last = max((row.number for row in seen.all(Membership) if row.reader == reader.id), default=0)
        for n, (change, member) in enumerate(changes, max(last, seen.now) + 1):
            yield Membership(reader.id, n, change, member)
