"""Somebody has a node go on that is not in the in-sync set, and accepts what that loses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nadi.cluster.contract import Seen, StoreAway
from nadi.cluster.pair import membership
from nadi.cluster.pair.patience import within
from nadi.cluster.pair.status import Loss
from nadi.cluster.rows import InSync, Lease
from nadi.errors import NadiError, error
from nadi.eventsync.contract import SessionOver

if TYPE_CHECKING:
    from nadi.cluster.pair.node import PairNode

TRIES = 4
"""So many leases a promotion may take: those of another node, and this one's promise, must end first."""


async def promoted(node: PairNode, accept_loss: bool) -> Loss:
    """Errors: PAIR_NOT_PROMOTED."""
    group = node.settings.group
    try:
        seen = await node.store.read(Lease, InSync)
    except StoreAway as reason:
        raise _refused(node, f"the coordination database does not answer: {reason}") from reason
    loss = loss_of(node, seen)
    if not accept_loss:
        return loss
    if node.term is not None:
        raise _refused(node, "it is active")
    lease = seen.get(Lease, group)
    if lease is not None and membership.is_held(lease, node.me, seen.now):
        raise _refused(node, f"'{lease.owner}' is active; `nadi ha switch` moves the work without loss")
    if not node.memory.whole:
        raise _refused(node, "its copy was being made and is not whole: remove `pair` from its home to begin anew")
    if node.beats.skewed is not None:
        raise _refused(node, node.beats.skewed.message)
    if node.forced is not None:
        raise _refused(node, "a promotion is under way")
    await _forced(node)
    return loss


def loss_of(node: PairNode, seen: Seen) -> Loss:
    """What this node does not have."""
    sync = seen.get(InSync, node.settings.group)
    if sync is None or (membership.may_lead(sync, node.member) and node.beats.alarm is None):
        return Loss(None, (), "")
    others = tuple(m.id for m in membership.members_of(sync) if m != node.member)
    return Loss(sync.since, others, sync.reason)


async def _forced(node: PairNode) -> None:
    node.forced = asyncio.get_running_loop().create_future()
    node.wake_beats()
    try:
        await within(node.clock, TRIES * node.settings.lease, _waited(node.forced))
    except SessionOver:
        if not node.memory.whole:
            raise _refused(node, "another node took over, and has begun to make this one's copy anew") from None
        raise _refused(node, "another node took over, or the database did not answer") from None
    finally:
        node.forced = None


async def _waited(forced: asyncio.Future[None]) -> None:
    await forced


def _refused(node: PairNode, reason: str) -> NadiError:
    return error("PAIR_NOT_PROMOTED", id=node.me.id, group=node.settings.group, reason=reason)
