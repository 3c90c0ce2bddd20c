"""Leases with fencing tokens: pure functions over the row, and what a holder knows of its own lease.

A lease ends by the database's clock. Its holder counts by its own clock from *before* it sent the request that took or renewed it, so that a slow answer makes
the lease shorter for it, never longer. Tokens only grow: every write that needs the lease carries the token and is refused when the row has another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.cluster.contract import Change, Seen
from nadi.cluster.rows import Lease
from nadi.cluster.settings import at_most


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may hold a lease."""

    id: str
    incarnation: str
    address: str


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as its holder counts it."""

    name: str
    token: int
    until: int  # by the holder's clock

    def valid(self, now: int) -> bool:
        return now < self.until


def counted_until(sent: int, _answered: int, length: int) -> int:
    """When a lease of this length ends for its holder: it counts from when it *asked*.

    >>> counted_until(1_000, 1_900, 2_000)
    2960
    """
    return sent + at_most(length)


def claimed(seen: Seen, name: str, who: Candidate, length: int) -> Lease | None:
    """The row of the lease as `who` may write it: renewed, or taken because nobody has it. None where somebody has it."""
    row = seen.get(Lease, name)
    if row is None:
        return _lease(name, who, 1, seen.now, length)
    if row.holder == who.incarnation:
        return _lease(name, who, row.token, seen.now, length, row.renewed)
    if seen.now < row.expires:
        return None
    return _lease(name, who, row.token + 1, seen.now, length)


def _lease(name: str, who: Candidate, token: int, now: int, length: int, before: int = 0) -> Lease:
    """A row. The database's clock may be set back; `renewed` never goes back within a token."""
    return Lease(name, who.id, who.incarnation, who.address, token, max(now, before), now + length)


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that was not made: the lease has another token."""

    token: int  # that the row has; 0 where there is none


def fenced(seen: Seen, name: str, token: int) -> Refused | None:
    """Whether a write with this token is to be refused."""
    row = seen.get(Lease, name)
    if row is not None and row.token == token:
        return None
    return Refused(0 if row is None else row.token)


Sign = tuple[int, int]
"""The token of a lease and when it was renewed: what never goes back."""


def sign_of(row: Lease | None) -> Sign:
    return (0, 0) if row is None else (row.token, row.renewed)


def renounced(seen: Seen, name: str, token: int) -> Change:
    """Give a lease back at once, as an orderly end does. The token stays."""
    row = seen.get(Lease, name)
    if row is None or row.token != token:
        return Change()
    return Change(put=(Lease(row.name, row.owner, row.holder, row.address, row.token, row.renewed, seen.now),))
