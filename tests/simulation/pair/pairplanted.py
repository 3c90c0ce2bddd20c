"""Bugs to find: each takes one rule of the pair away from the production modules, as somebody could by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from nadi.cluster.contract import Change, Seen
from nadi.cluster.pair import companions, follower, gate, insync, membership, node, right, term
from nadi.cluster.pair.gate import Companion
from nadi.cluster.pair.membership import Member, members_of
from nadi.cluster.rows import InSync, Lease

Patch = tuple[Any, str, Any]


def _same_id(sync: InSync | None, me: Member) -> bool:
    return sync is None or me.id in {member.id for member in members_of(sync)}


def _token_kept(row: Lease | None, sync: InSync | None, floor: int, now: int) -> int:
    return max(row.token if row else 1, floor)


async def _acknowledged_first(self: companions.Companions, companion: Companion) -> None:
    companion.released.set()
    self._gate.companion = None
    await _apart(self, companion)


async def _left_in(self: companions.Companions, companion: Companion) -> None:
    companion.required = False
    await _apart(self, companion)


_apart = companions.Companions._apart


def _numbers_ignored(seen: Seen, group: str, token: int, number: int, members: Any, reason: str) -> Change:
    row = seen.get(InSync, group)
    if row is None or row.token != token:
        return membership.changed(seen, group, token, number, members, reason)
    fresh = InSync(group, token, max(number, row.number + 1), membership.written(members), row.since, reason, True)
    return Change(put=(fresh,), said=fresh)


async def _at_once(self: Any, *_args: Any) -> None:
    return


async def _never_equal(self: companions.Companions, companion: Companion) -> None:
    companion.required = True


async def _required_late(self: companions.Companions, companion: Companion) -> None:
    await _equal(self, companion)
    companion.required = False


_equal = companions.Companions._equal


PLANTED: dict[str, tuple[Patch, ...]] = {
    "a node does not keep its promise": ((right.Promise, "over", lambda self, now: True),),
    "a node takes over that is not in the set": ((membership, "may_lead", lambda sync, me: True),),
    "a node that has lost its disk counts as the one before": ((membership, "may_lead", _same_id),),
    "a take-over keeps the token": ((membership, "next_token", _token_kept),),
    "the partner is taken out of the set after the acknowledgement": (
        (companions.Companions, "_apart", _acknowledged_first),
    ),
    "the partner is not taken out of the set": ((companions.Companions, "_apart", _left_in),),
    "a late change of the set is made": ((insync, "changed", _numbers_ignored),),
    "a lease that is not over is taken": ((membership, "is_held", lambda row, who, now: False),),
    "a node does not look whether its right has ended": (
        (right.Right, "valid", lambda self, now: True),
        (term.Term, "_watched", _at_once),
    ),
    "the partner is put into the set before it has all": ((companions.Companions, "_equal", _never_equal),),
    "what was under way before a session is not waited for": ((gate.TermGate, "only", _at_once),),
    "a partner in the set is not needed": ((companions.Companions, "_equal", _required_late),),
    "a node that takes over still promises": (
        (node.PairNode, "_busy", lambda self: False),
        (follower.Follower, "promises", lambda self, token: True),
    ),
    "a promise counts from its answer, and for long": (
        (right, "counted_until", lambda sent, answered, length: answered + 3 * length),
    ),
    "a database that has gone back is not noticed": ((membership.Sign, "behind", lambda self, other: False),),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The production modules with one bug."""
    with ExitStack() as stack:
        for where, what, instead in PLANTED[name]:
            stack.enter_context(patch.object(where, what, instead, create=True))
        yield
