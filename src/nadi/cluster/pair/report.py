"""What a node says of the pair: for the status page, `nadi ha status`, metrics and load balancers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nadi.cluster.pair.membership import may_lead, members_of
from nadi.cluster.pair.status import PairStatus, Role
from nadi.errors import Diagnostic, diagnostic

if TYPE_CHECKING:
    from nadi.cluster.pair.node import PairNode


def status_of(node: PairNode) -> PairStatus:
    """The status as it is now."""
    beats, offset = node.beats, node.beats.offset
    return PairStatus(
        node.me.id,
        node.settings.group,
        node.role,
        beats.highest.token,
        _active(node),
        node.partner,
        _in_sync(node),
        beats.epoch(_last_sync(node)),
        None if offset is None else -offset,
        tuple(_alarms(node)),
        _reason(node),
        _unready(node),
    )


def _active(node: PairNode) -> str:
    if node.term is not None:
        return node.me.id
    lease = node.beats.found.lease if node.beats.found is not None else None
    if lease is not None and node.clock.now() < node.beats.free_at:
        return lease.owner
    followed = node.passive.followed
    return followed.hello.id if followed is not None and followed.connected else ""


def _in_sync(node: PairNode) -> bool:
    if node.term is not None:
        companions = node.term.companions
        return companions is not None and companions.in_sync
    followed = node.passive.followed
    return followed is not None and followed.connected and followed.complete


def _unready(node: PairNode) -> str:
    if node.term is None:
        return node.duties.waits() if node.role is Role.PASSIVE else ""
    return node.term.companions.unready if _in_sync(node) and node.term.companions is not None else ""


def _last_sync(node: PairNode) -> int | None:
    if node.term is None:
        return node.passive.heard
    companions = node.term.companions
    return companions.heard if companions is not None and companions.heard else None


def _reason(node: PairNode) -> str:
    term, beats = node.term, node.beats
    if term is not None:
        if term.waits:
            return term.waits
        return term.companions.reason if term.companions is not None else "its apps start"
    if beats.alarm is not None:
        return beats.alarm.message
    if beats.away:
        return f"the coordination database does not answer: {beats.away}"
    if _active(node):
        return "" if _in_sync(node) else "its copy is not complete yet"
    return _waits(node)


def _waits(node: PairNode) -> str:
    """Why a node does not take over while nobody is active."""
    sync = node.beats.found.sync if node.beats.found is not None else None
    if may_lead(sync, node.member):
        return "it takes over when leases and promises are over"
    if sync is None or not members_of(sync):
        return f"nobody is known to have everything: {'' if sync is None else sync.reason}"
    names = ", ".join(member.id for member in members_of(sync))
    if any(member.id == node.me.id for member in members_of(sync)):
        return f"it had everything, and its disk is another one now; the in-sync set is {names}"
    return f"only {names} has everything ({sync.reason})"


def _alarms(node: PairNode) -> list[Diagnostic]:
    found = [alarm for alarm in (node.beats.alarm, node.beats.skewed) if alarm is not None]
    group, partner = node.settings.group, node.partner
    companions = node.term.companions if node.term is not None else None
    misfit = node.passive.misfit if node.term is None else (companions.misfit if companions is not None else "")
    if misfit and partner is not None:
        found.append(diagnostic("PAIR_MISFIT", id=node.me.id, partner=partner.id, group=group, what=misfit))
    if companions is not None and not companions.in_sync and node.role in (Role.ACTIVE, Role.SUSPENDED):
        found.append(diagnostic("PAIR_ALONE", id=node.me.id, group=group, reason=companions.reason))
    seen = node.beats.found
    if node.term is None and seen is not None and not _active(node) and not may_lead(seen.sync, node.member):
        found.append(diagnostic("PAIR_NO_ONE", group=group, reason=_waits(node)))
    return found
