"""How the instances of a group share the streams that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.plan.context import Context
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.model import Key, Strategy
from nadi.plan.distribution.parts import Part


@dataclass(frozen=True, slots=True)
class Subscription:
    """One way in which a group reads a stream, and the ids of the parts that get it so."""

    stream: str
    strategy: Strategy
    key: Key | None = None
    parts: frozenset[str] = frozenset()


def subscriptions(context: Context, draft: Draft, stream: str) -> tuple[Subscription, ...]:
    """How a group reads a stream that others fill: several ways where its partitions split it by several keys, in the order of the keys' names.

    Raises:
        DIST_STRATEGIES_CONFLICT: it would have to be divided and given to all instances at once.
    """
    readers = [p for p in draft.parts if stream in p.streams or stream in p.keys]
    everyone = frozenset(p.id for p in readers)
    if draft.parallel == 1:
        return (Subscription(stream, Strategy.ALL, None, everyone),)
    keyed = [(p, key) for p in readers if (key := p.keys.get(stream)) is not None]
    unkeyed = [p for p in readers if p.in_partition and stream not in p.keys]
    plain = [p for p in readers if not p.in_partition]
    if unkeyed and (keyed or plain):
        raise _conflict(context, draft, stream, unkeyed[0])
    if unkeyed:
        return (Subscription(stream, Strategy.ALL, None, everyone),)
    if not keyed:
        return (Subscription(stream, Strategy.ROUND_ROBIN, None, everyone),)
    by_key: dict[Key, set[str]] = {}
    for part, key in sorted(keyed, key=lambda found: found[1].label):
        by_key.setdefault(key, set()).add(part.id)
    next(iter(by_key.values())).update(p.id for p in plain)  # each event once, by whichever key
    return tuple(Subscription(stream, Strategy.FIELD_GROUPING, k, frozenset(ids)) for k, ids in by_key.items())


def _conflict(context: Context, draft: Draft, stream: str, at: Part) -> Exception:
    return context.fail("DIST_STRATEGIES_CONFLICT", at.span, stream=stream, group=draft.name)
