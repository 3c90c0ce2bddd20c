"""What a node looks at before it takes part in a pair: pure functions over the rows of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nadi.cluster.contract import Seen
from nadi.cluster.leases import Candidate
from nadi.cluster.rows import InSync, ManagerRow
from nadi.cluster.settings import at_least
from nadi.errors import Diagnostic, diagnostic


def is_alive(row: ManagerRow, now: int, lease: int) -> bool:
    """Whether a node has written its heartbeat within a lease."""
    return now - row.heartbeat <= at_least(lease)


def same_id(rows: Iterable[ManagerRow], now: int, me: Candidate, lease: int) -> ManagerRow | None:
    """A node with this id that may be alive: another start of this one, or another one by mistake."""
    for row in rows:
        if row.id == me.id and row.incarnation != me.incarnation and is_alive(row, now, lease):
            return row
    return None


def is_full(rows: Sequence[ManagerRow], now: int, me: Candidate, group: str, lease: int) -> Diagnostic | None:
    """Two others that are alive."""
    others = [row.id for row in rows if row.id != me.id and is_alive(row, now, lease)]
    if len(others) < 2:
        return None
    return diagnostic("PAIR_COMPLETE", group=group, nodes=", ".join(others), id=me.id)


def id_taken(row: ManagerRow, group: str) -> Diagnostic:
    return diagnostic("PAIR_ID_TAKEN", group=group, id=row.id, address=row.address)


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """A pair of the same database."""

    name: str
    rows: tuple[ManagerRow, ...]
    sync: InSync


def other_groups(seen: Mapping[str, Seen], group: str) -> list[OtherGroup]:
    """The pairs among the groups of a database; managers have no in-sync set."""
    found = []
    for name, rows in sorted(seen.items()):
        sync = rows.get(InSync, name)
        if name != group and sync is not None:
            found.append(OtherGroup(name, tuple(rows.all(ManagerRow)), sync))
    return found


def lonely(others: Sequence[OtherGroup], mine: Seen, now: int, me: Candidate, group: str, lease: int) -> Diagnostic | None:  # fmt: skip
    """A new group beside one whose only node has never had a partner: most likely the two were meant to be one pair."""
    if mine.get(InSync, group) is not None or len(mine.all(ManagerRow)) > 1:
        return None
    for other in others:
        alive = [row for row in other.rows if is_alive(row, now, lease)]
        if len(alive) == 1 and len(other.rows) == 1 and not other.sync.paired:
            return diagnostic("PAIR_GROUPS_DIFFER", id=me.id, group=group, other=alive[0].id, other_group=other.name)
    return None
