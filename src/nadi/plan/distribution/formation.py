"""Which parts of an app form which group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nadi.plan.context import Context
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.names import free
from nadi.plan.distribution.parts import Part
from nadi.plan.nodes import App
from nadi.plan.walk import searched

DEFAULT = "default"


def formed(
    context: Context, plan: App, parts: tuple[Part, ...], stored: frozenset[str], strict: bool = True
) -> tuple[Draft, ...]:
    """Groups in the order of their first parts, then those of aggregations. `stored` are the aggregations with a store.

    What joins an aggregation without store runs where the aggregation is; if it is to run in several parts, it is refused where that is `strict`.

    Raises:
        DIST_PARALLEL_NOT_CONSTANT, DIST_AGGREGATION_JOIN.
    """
    kept = [a for a in plan.aggregations if a not in stored]
    moved = {p.id: tuple(a for a in kept if a in p.stored) for p in parts}
    if strict:
        _check_moved(context, parts, moved)
    taken: set[str] = set()
    users = _users(context, plan, [p for p in parts if not moved[p.id]], taken)
    return (*users, *_aggregating(plan, parts, stored, moved, taken))


def _check_moved(context: Context, parts: Iterable[Part], moved: Mapping[str, tuple[str, ...]]) -> None:
    for part in parts:
        if part.parallel > 1 and moved[part.id]:
            named = next((a.get("name") for a in part.node.annotations if a.name.lower() == "info"), None)
            element = named or ("Partition" if part.in_partition else "Query")
            aggregation = moved[part.id][0]
            raise context.fail("DIST_AGGREGATION_JOIN", part.span, element=element, aggregation=aggregation)


def _users(context: Context, plan: App, parts: list[Part], taken: set[str]) -> list[Draft]:
    by_name: dict[str, list[Part]] = {}
    for part in parts:
        by_name.setdefault(part.exec_group, []).append(part)
    taken.update(f"{plan.name}-{name}" for name in by_name if name)
    drafts: list[Draft] = []
    for name, members in by_name.items():
        full = f"{plan.name}-{name}" if name else free(f"{plan.name}-{DEFAULT}", taken)
        for member in members:
            if member.parallel != members[0].parallel:
                raise context.fail("DIST_PARALLEL_NOT_CONSTANT", member.span, group=full)
        drafts.append(Draft(full, "user" if name else DEFAULT, members[0].parallel, tuple(members)))
    return drafts


def _aggregating(
    plan: App,
    parts: tuple[Part, ...],
    stored: frozenset[str],
    moved: Mapping[str, tuple[str, ...]],
    taken: set[str],
) -> list[Draft]:
    """A group for each aggregation; one for those without store that are joined by a common part, directly or over others."""
    clusters = [{a} for a in plan.aggregations]
    for joined in moved.values():
        touched = [c for c in clusters if c & set(joined)]
        if len(touched) > 1:
            clusters = [c for c in clusters if c not in touched] + [set().union(*touched)]
    drafts = []
    for cluster in sorted(clusters, key=sorted):
        fed = tuple(a for a in plan.aggregations if a in cluster)
        mine = tuple(p for p in parts if set(moved[p.id]) & cluster)
        name = free(f"{plan.name}_aggregation-{'_'.join(sorted(cluster))}", taken)
        looked = searched(tuple(plan.aggregations[a] for a in fed))
        drafts.append(Draft(name, "aggregation", 1, mine, fed, looked=frozenset(looked)))
    return drafts
