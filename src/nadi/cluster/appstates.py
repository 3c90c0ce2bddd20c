"""Revisions of whole apps, and what of the channels between its instances may go: pure.

A revision of an app is one of each of its instances. These are not of one moment: what an instance has read and written is a function of its own cuts, so each
goes back to a cut of its own, takes the cuts after it again, and comes to where it stood.

A chunk of a channel is needed by a reader that has not committed it, and by each revision of the reader that may be restored and has not taken it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nadi.cluster.messages import PartState
from nadi.cluster.rows import Part, Revision

Chunks = Mapping[tuple[str, str, int], int]
"""(channel, producer, part) → the first chunk that is needed."""

_STATES = msgspec.json.Decoder(tuple[PartState, ...])


def packed(parts: Sequence[PartState]) -> str:
    """As a row has it."""
    return msgspec.json.encode(parts).decode()


def parts_of(row: Revision) -> tuple[PartState, ...]:
    """The revisions of the instances.

    >>> parts_of(Revision("7__A", "A", 1, 7, packed([PartState("A-g-1", "7__A-g-1", "d", 3)])))[0].cut
    3
    """
    return _STATES.decode(row.parts)


def is_of(states: Sequence[PartState], parts: Sequence[Part]) -> bool:
    """Whether revisions are of just these instances, whatever their texts are now. Once the app has drained for a change, instances are others, also those
    that are called the same: neither their cut logs nor their channels have what came before."""
    now, made = {part.instance: part.home for part in parts}, {state.instance: state.home for state in states}
    return bool(now) and now.keys() == made.keys() and all(made[name] in (None, home) for name, home in now.items())


def fits(states: Sequence[PartState], parts: Sequence[Part]) -> bool:
    """Whether revisions are of just these instances, with the texts that they have now: others could not go on with them."""
    digests = {part.instance: part.digest for part in parts}
    return is_of(states, parts) and digests == {state.instance: state.digest for state in states}


def restorable(rows: Iterable[Revision], app: str, parts: Sequence[Part]) -> list[Revision]:
    """The revisions of an app that a restore may choose, oldest first."""
    return [row for row in in_order(rows, app) if fits(parts_of(row), parts)]


def in_order(rows: Iterable[Revision], app: str) -> list[Revision]:
    """All revisions of an app, oldest first."""
    return sorted((row for row in rows if row.app == app), key=lambda row: (time_of(row.name), row.name))


def time_of(name: str) -> int:
    """When a revision was begun, by its name (ms).

    >>> time_of("1700000000000__Orders")
    1700000000000
    """
    return int(name.partition("__")[0])


def next_name(app: str, now: int, rows: Iterable[Revision]) -> str:
    """A name behind those that there are, whatever the clock says (ms).

    >>> next_name("A", 5, [Revision("7__A", "A", 1, 7, "[]")])
    '8__A'
    """
    last = max((time_of(row.name) for row in rows if row.app == app), default=-1)
    return f"{max(now, last + 1)}__{app}"


def needed(standing: Iterable[Chunks], revisions: Iterable[Sequence[PartState]]) -> dict[tuple[str, str, int], int]:
    """The first chunk that somebody still needs, of each part that somebody reads.

    Args:
        standing: what each reader has not committed.
        revisions: the states of those that may be restored.

    >>> state = PartState("A-out-1", "7__A-out-1", "d", 3, (("A_S", "A-in-1", 0, 4),))
    >>> needed([{("A_S", "A-in-1", 0): 9}], [[state]])
    {('A_S', 'A-in-1', 0): 4}
    """
    found: dict[tuple[str, str, int], int] = {}
    for place, chunk in _all(standing, revisions):
        found[place] = min(chunk, found.get(place, chunk))
    return found


def _all(
    standing: Iterable[Chunks], revisions: Iterable[Sequence[PartState]]
) -> Iterable[tuple[tuple[str, str, int], int]]:
    for one in standing:
        yield from one.items()
    for states in revisions:
        for state in states:
            for channel, producer, part, chunk in state.needs:
                yield (channel, producer, part), chunk


def oldest_cut(instance: str, committed: int, revisions: Iterable[Sequence[PartState]]) -> int:
    """The first cut of an instance that may still be begun after: its last commit, or that of the oldest revision."""
    return min([committed, *(state.cut for states in revisions for state in states if state.instance == instance)])


def surplus(rows: Sequence[Revision], keep: int) -> list[Revision]:
    """The oldest ones (`rows` are oldest first) that are more than `keep`; the newest one stays.

    >>> [row.name for row in surplus([Revision(f"{n}__A", "A", 1, n, "[]") for n in range(4)], 3)]
    ['0__A']
    """
    return list(rows[: -max(1, keep)])


def orphans(names: Mapping[str, Sequence[str]], rows: Iterable[Revision]) -> dict[str, list[str]]:
    """Revisions of instances that belong to no revision of an app: their names, by instance, of those that are in the store.

    >>> row = Revision("7__A", "A", 1, 7, packed([PartState("A-g-1", "7__A-g-1", "d", 3)]))
    >>> orphans({"A-g-1": ["7__A-g-1", "9__A-g-1"]}, [row])
    {'A-g-1': ['9__A-g-1']}
    """
    kept = {(state.instance, state.revision) for row in rows for state in parts_of(row)}
    found = {instance: [n for n in given if (instance, n) not in kept] for instance, given in names.items()}
    return {instance: given for instance, given in found.items() if given}
