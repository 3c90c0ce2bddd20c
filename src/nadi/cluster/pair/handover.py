"""An active node ends in order, and its partner goes on without waiting for anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nadi.cluster.contract import Change, Seen, StoreAway
from nadi.cluster.pair.gate import Companion
from nadi.cluster.pair.membership import given_back, keys_of
from nadi.cluster.pair.patience import within
from nadi.cluster.pair.right import Promise
from nadi.cluster.rows import ManagerRow
from nadi.errors import NadiError, error
from nadi.eventsync.contract import PartnerRefuses, SessionOver

if TYPE_CHECKING:
    from nadi.cluster.pair.node import PairNode
    from nadi.cluster.pair.term import Term


def refused(node: PairNode, reason: str) -> NadiError:
    return error("PAIR_NOT_SWITCHED", group=node.settings.group, reason=reason)


async def switched(node: PairNode) -> None:
    """Errors: PAIR_NOT_SWITCHED."""
    term = node.term
    if term is None or term.companions is None:
        raise refused(node, "this node is not active")
    if term.leaving is not None:
        raise refused(node, "a switch is under way")
    if not term.companions.in_sync:
        raise refused(node, f"the partner is not in sync: {term.companions.reason}")
    if term.companions.unready:
        raise refused(node, f"the partner could not go on at once: {term.companions.unready}; try again in a moment")
    term.leaving = asyncio.get_running_loop().create_future()
    node.wake_roles()
    await term.leaving


async def left(node: PairNode) -> None:
    """End what this node does, and drop its row."""
    node.departing = True
    term = node.term
    if term is not None and term.leaving is None:
        term.goes = True
        term.leaving = asyncio.get_running_loop().create_future()
        node.hurry(term)
        node.wake_roles()
    if term is not None and term.leaving is not None:
        try:
            await term.leaving
        except NadiError:
            if not term.ended:
                raise
    group, me = node.settings.group, node.me

    def dropped(seen: Seen) -> Change:
        row = seen.get(ManagerRow, me.id)
        mine = row is not None and row.incarnation == me.incarnation
        return Change(drop=((ManagerRow, (me.id,)),) if mine else ())

    try:
        await node.store.transact([*keys_of(group), (ManagerRow, (me.id,))], dropped)
    except StoreAway:
        return  # the row grows old by itself


async def handed_over(node: PairNode, term: Term, promise: Promise) -> None:
    """What ran has ended: give the lease back, and have the partner take it. Without a partner in sync the term ends all the same."""
    companion = await _quiet(node, term)
    if companion is None and not term.goes:
        term.end("the partner was lost during the switch")
        return
    leaving = term.leaving
    promise.give(node.clock.now())  # the partner is to have it
    term.end("it has handed over")
    group, token = node.settings.group, term.token
    try:
        await node.store.transact(keys_of(group), lambda seen: given_back(seen, group, token))
    except StoreAway:
        node.changed()  # the lease ends by itself; the partner waits for that
    if companion is not None:
        try:
            await within(node.clock, node.settings.patience, companion.session.hand_over())
        except (SessionOver, PartnerRefuses):
            node.changed()  # it takes over when its promise is over
        await companion.closed(node.clock, node.settings.beat)
    if leaving is not None and not leaving.done():
        leaving.set_result(None)


async def _quiet(node: PairNode, term: Term) -> Companion | None:
    """The partner, where it has all and every record has been confirmed to it."""
    companions = term.companions
    if companions is None or not companions.in_sync:
        return None
    term.gate.close()
    try:
        await within(node.clock, node.settings.patience, term.gate.quiet())
    except SessionOver:
        node.changed()  # what is not confirmed the partner writes, too
    companion = term.gate.companion
    if term.ended or companion is None or not companions.in_sync or companion.broken.is_set():
        return None
    term.release()
    return companion
