"""The in-sync set: pure functions over its row and over that of the lease.

The active node numbers the changes of the set that it asks for, one after the other, and each is made only where the row has a lower number. So a change whose
answer was lost, and which the database makes late, does not undo one that was asked for after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from nadi.cluster import leases
from nadi.cluster.contract import Change, Seen
from nadi.cluster.leases import Candidate, Refused
from nadi.cluster.rows import InSync, Key, Lease


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A node by its id and the random text on its disk: one that has lost its disk is another member."""

    id: str
    store: str


def members_of(row: InSync | None) -> tuple[Member, ...]:
    """Whose copy is complete.

    >>> members_of(InSync("sp", 1, 1, written([Member("n1", "4f")]), 0, "", False))
    (Member(id='n1', store='4f'),)
    """
    pairs = [] if row is None else msgspec.json.decode(row.members, type=list[tuple[str, str]])
    return tuple(Member(*pair) for pair in pairs)


def written(members: Iterable[Member]) -> str:
    """Members as the row has them."""
    return msgspec.json.encode([(m.id, m.store) for m in sorted(members)]).decode()


def keys_of(group: str) -> list[Key]:
    """The rows that decide."""
    return [(Lease, (group,)), (InSync, (group,))]


@dataclass(frozen=True, slots=True)
class Sign:
    """What the database has had, by numbers that never go back."""

    token: int = 0
    renewed: int = 0
    number: int = 0

    def behind(self, other: Sign) -> bool:
        """Whether this is a state from before the other one."""
        if self.token != other.token:
            return self.token < other.token
        return self.renewed < other.renewed or self.number < other.number

    def __or__(self, other: Sign) -> Sign:
        """The later of both."""
        if self.token != other.token:
            return max(self, other, key=lambda sign: sign.token)
        return Sign(self.token, max(self.renewed, other.renewed), max(self.number, other.number))

    def __str__(self) -> str:
        return f"token {self.token}, renewed at {self.renewed}, change {self.number} of the in-sync set"


def sign_of(seen: Seen, group: str) -> Sign:
    """The sign of the rows as they are."""
    lease, sync = seen.get(Lease, group), seen.get(InSync, group)
    token, renewed = leases.sign_of(lease)
    if sync is None:
        return Sign(token, renewed)
    if sync.token > token:  # only where somebody deleted the row of the lease
        return Sign(sync.token, 0, sync.number)
    return Sign(token, renewed, sync.number)


@dataclass(frozen=True, slots=True)
class Found:
    """What a beat found, or has made."""

    now: int
    lease: Lease | None
    sync: InSync | None
    taken: bool = False

    @property
    def members(self) -> tuple[Member, ...]:
        return members_of(self.sync)


def found(seen: Seen, group: str) -> Found:
    return Found(seen.now, seen.get(Lease, group), seen.get(InSync, group))


@dataclass(frozen=True, slots=True)
class Wish:
    """How a node would take over. `floor`: its token is higher than that, as it has seen that one. `forced`: with what it has, in the set or not."""

    who: Candidate
    store: str
    length: int
    floor: int = 0
    forced: bool = False


def renewed(seen: Seen, group: str, who: Candidate, token: int, length: int) -> Found:
    """The rows with the lease renewed, where `who` has it under this token; otherwise as they are."""
    there = found(seen, group)
    row = there.lease
    if row is None or row.token != token or row.holder != who.incarnation:
        return there
    fresh = replace(row, renewed=max(seen.now, row.renewed), expires=seen.now + length)
    return replace(there, lease=fresh)


def taken_over(seen: Seen, group: str, wish: Wish) -> Found:
    """The rows after a take-over, where it is allowed: nobody else has the lease, and the copy of `who` is complete. Otherwise as they are."""
    there = found(seen, group)
    row, sync = there.lease, there.sync
    if is_held(row, wish.who, seen.now):
        return there
    if not (wish.forced or may_lead(sync, Member(wish.who.id, wish.store))):
        return there
    token = next_token(row, sync, wish.floor, there.now)
    who = wish.who
    lease = Lease(group, who.id, who.incarnation, who.address, token, seen.now, seen.now + wish.length)
    alone = (Member(who.id, wish.store),)
    same = sync is not None and members_of(sync) == alone
    since, reason = (sync.since, sync.reason) if sync is not None and same else (seen.now, f"{who.id} took over")
    number = 1 if sync is None else sync.number + 1
    paired = sync is not None and sync.paired
    return Found(seen.now, lease, InSync(group, token, number, written(alone), since, reason, paired), taken=True)


def is_held(row: Lease | None, who: Candidate, now: int) -> bool:
    """Whether somebody else has the lease, and it is not over."""
    return row is not None and row.holder != who.incarnation and now < row.expires


def may_lead(sync: InSync | None, me: Member) -> bool:
    """Whether a node has all that was ever acknowledged: it is in the set, or there has never been one."""
    return sync is None or me in members_of(sync)


EPOCH = 1_600_000_000_000
"""ms from which tokens count the database's time, in seconds: so they fit into 31 bits for long."""


def next_token(row: Lease | None, sync: InSync | None, floor: int, now: int) -> int:
    """Higher than all before, also than those that the database has forgotten because an old copy was restored: its clock has gone on.

    >>> next_token(None, None, 0, 1_764_000_000_000)
    164000000
    >>> next_token(None, None, 164000007, 1_764_000_000_000)
    164000008
    """
    return max(max(row.token if row else 0, sync.token if sync else 0, floor) + 1, (now - EPOCH) // 1_000)


@dataclass(frozen=True, slots=True)
class Late:
    """A change of the set that came after a later one."""


def changed(seen: Seen, group: str, token: int, number: int, members: Sequence[Member], reason: str) -> Change:
    """Write the set as the active node of this token wants it. `said`: the row; Refused, where the token is not the database's; Late."""
    refused = leases.fenced(seen, group, token)
    row = seen.get(InSync, group)
    if refused is not None or row is None or row.token != token:
        return Change(said=refused or Refused(0 if row is None else row.token))
    if row.number >= number:
        return Change(said=Late())
    text = written(members)
    since, why = (row.since, row.reason) if text == row.members else (seen.now, reason)
    fresh = InSync(group, token, number, text, since, why, row.paired or len(members) > 1)
    return Change(put=(fresh,), said=fresh)


def given_back(seen: Seen, group: str, token: int) -> Change:
    """End the lease at once. The token and the set stay. `said`: whether it was this token's."""
    change = leases.renounced(seen, group, token)
    return Change(put=change.put, said=bool(change.put))


def stopped(seen: Seen, group: str, highest: Sign, why: str) -> Change:
    """The database has forgotten what was seen: nobody of the pair takes over by itself any more. The token is higher than any that was given."""
    row, sync = seen.get(Lease, group), seen.get(InSync, group)
    token = next_token(row, sync, highest.token, seen.now)
    lease = Lease(group, "", "", "", token, max(seen.now, highest.renewed), seen.now)
    number = max(highest.number, sync.number if sync else 0) + 1
    since = seen.now if sync is None else sync.since
    return Change(put=(lease, InSync(group, token, number, written(()), since, why, paired=True)))
