"""Groups that feed each other become one: a channel could not wait for the other one's progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.names import free
from nadi.plan.nodes import App


def fused(plan: App, drafts: tuple[Draft, ...]) -> tuple[tuple[Draft, ...], tuple[str, ...]]:
    """The groups, those of each cycle made one; and sentences about it.

    The one group is called by the names of all of them, and has the least parallelism of them: that is right for each.
    """
    after = successors(plan, drafts)
    rounds = {d.name: reached(d.name, after) for d in drafts}
    taken = {d.name for d in drafts}
    made: list[Draft] = []
    notes: list[str] = []
    seen: set[str] = set()
    for draft in drafts:
        if draft.name in seen:
            continue
        cycle = [d for d in drafts if d is draft or (d.name in rounds[draft.name] and draft.name in rounds[d.name])]
        seen.update(d.name for d in cycle)
        if len(cycle) == 1:
            made.append(draft)
            continue
        one = _one(plan, cycle, taken)
        names = ", ".join(sorted(f"'{d.name}'" for d in cycle))
        notes.append(f"{names} feed each other: they are one group, '{one.name}', with parallel {one.parallel}")
        made.append(one)
    return tuple(made), tuple(notes)


def _one(plan: App, cycle: list[Draft], taken: set[str]) -> Draft:
    ordered = sorted(cycle, key=lambda d: d.name)
    short = [d.name.removeprefix(f"{plan.name}-").removeprefix(f"{plan.name}_") for d in ordered]
    aggregating = any(d.fed for d in cycle)
    name = free(f"{plan.name}{'_' if aggregating else '-'}{'_'.join(short)}", taken)
    place = {e.id: n for n, e in enumerate(plan.elements)}
    parts = sorted((p for d in cycle for p in d.parts), key=lambda p: place.get(p.id, 0))
    fed = tuple(a for a in plan.aggregations if any(a in d.fed for d in cycle))
    kind = "aggregation" if aggregating else "user"
    looked = frozenset().union(*(d.looked for d in cycle))
    return Draft(name, kind, min(d.parallel for d in cycle), tuple(parts), fed, looked=looked)


def successors(plan: App, drafts: Iterable[Draft]) -> dict[str, set[str]]:
    """The groups that read what a group makes, by its name; itself left out."""
    known = [(d.name, d.reads(plan), d.writes(plan)) for d in drafts]
    return {name: {other for other, reads, _ in known if other != name and made & reads} for name, _, made in known}


def reached(start: str, after: Mapping[str, set[str]]) -> set[str]:
    """All groups that are one or more steps behind a group."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        found = after.get(waiting.pop(), set()) - seen
        seen |= found
        waiting.extend(found)
    return seen
