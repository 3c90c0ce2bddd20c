"""A node comes to its group: it takes part unless another node has its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from nadi.cluster.contract import Seen, StoreAway
from nadi.cluster.pair import refusals
from nadi.cluster.rows import InSync, ManagerRow, Row
from nadi.cluster.settings import at_least
from nadi.errors import raised

if TYPE_CHECKING:
    from nadi.cluster.pair.node import PairNode


LOOKS = 3
"""So often a heartbeat must have been written by another node that has this id: a single one may be the last of one that is dead, come late."""


class Groups(Protocol):
    """All groups of the coordination database. Implemented by `nadi.cluster.sqlstore.SqlStore`."""

    async def groups(self, *kinds: type[Row]) -> Mapping[str, Seen]:
        """The rows of these kinds, by group. Errors: StoreAway."""
        ...


async def admitted(node: PairNode, groups: Groups | None) -> str:
    """Wait until it is sure that no other node has this id. -> the incarnation of this id that was there before, "" where none.

    Errors: PAIR_ID_TAKEN, PAIR_COMPLETE, PAIR_GROUPS_DIFFER.
    """
    settings, me = node.settings, node.me
    seen = await _read(node)
    full = refusals.is_full(seen.all(ManagerRow), seen.now, me, settings.group, settings.lease)
    if full is not None:
        raise raised(full)
    if groups is not None and (apart := await _lonely(node, groups, seen)) is not None:
        raise apart
    own, looks = seen.get(ManagerRow, me.id), 0
    while own is not None and refusals.same_id([own], seen.now, me, settings.lease) is not None:
        if looks == LOOKS:
            raise raised(refusals.id_taken(own, settings.group))
        await node.clock.sleep(at_least(settings.lease))  # an earlier start of this node writes no more
        seen = await _read(node)
        before, own, looks = own, seen.get(ManagerRow, me.id), looks + 1
        if own is None or own.heartbeat <= before.heartbeat:
            return before.incarnation
    return "" if own is None else own.incarnation


async def _lonely(node: PairNode, groups: Groups, seen: Seen) -> Exception | None:
    try:
        others = refusals.other_groups(await groups.groups(ManagerRow, InSync), node.settings.group)
    except StoreAway:
        return None  # the beats find out whether it is there; a pair that is there already is none the worse
    found = refusals.lonely(others, seen, seen.now, node.me, node.settings.group, node.settings.lease)
    return None if found is None else raised(found)


async def _read(node: PairNode) -> Seen:
    """The rows, as soon as the database answers."""
    while True:
        try:
            return await node.store.read(ManagerRow, InSync)
        except StoreAway as reason:
            node.beats.away = str(reason) or "no answer"
            node.changed()
            await node.clock.sleep(node.settings.beat)
