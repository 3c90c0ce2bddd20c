"""What one should know about an app that is cut: sentences for `nadi explain --dist`."""

from __future__ import annotations

from collections.abc import Mapping

from nadi.lang.tree import Type
from nadi.plan.connectortraits import Divided
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import Flow
from nadi.plan.distribution.ways import meeting
from nadi.plan.elements import called, of_query
from nadi.plan.nodes import App, WindowCall
from nadi.plan.sharding import shares_phase
from nadi.plan.walk import inside


def notes_on(
    plan: App, drafts: tuple[Draft, ...], flows: Mapping[str, Flow], stored: frozenset[str], wide: Mapping[str, int]
) -> tuple[str, ...]:
    """Where results can differ from those of the app in one piece, and what a node cannot run yet. `stored` are the aggregations with a store, `wide` has the
    number of instances of each group."""
    notes = [*_phases(tuple(d for d in drafts if wide[d.name] > 1)), *_objects(plan, flows)]
    notes += [
        f"'{name}' is an aggregation with a @store, which nodes do not run yet: they will refuse the partial apps that have it"
        for name in sorted(stored)
    ]
    notes += [*_moved(drafts), *_undivided(drafts), *_gathered(plan, drafts, flows, wide)]
    notes += dict.fromkeys(meeting(plan, drafts, flows))
    if plan.playback is not None and len(drafts) > 1:
        notes.append("the clock of @app:playback is moved in each group by the events that come to this group")
    return tuple(notes)


def _moved(drafts: tuple[Draft, ...]) -> list[str]:
    return [
        f"'{part.id}' joins what is kept in memory by '{draft.name}': it runs there, and not in the group '{part.exec_group}'"
        for draft in drafts
        if draft.fed
        for part in draft.parts
        if part.exec_group
    ]


def _undivided(drafts: tuple[Draft, ...]) -> list[str]:
    return [
        f"the source of '{draft.receives}' is read by one instance, whatever its @dist says: a source of type {draft.source.get('type')} cannot be divided"
        for draft in drafts
        if draft.source is not None and draft.source.all("dist") and draft.divided is Divided.WHOLE
    ]


def _gathered(plan: App, drafts: tuple[Draft, ...], flows: Mapping[str, Flow], wide: Mapping[str, int]) -> list[str]:
    """Queries over all keys that keep something of what several instances make. Nothing in a channel says which of events of one moment was first."""
    return [
        f"'{part.id}' of '{draft.name}' keeps something of '{stream}', which {wide[maker]} instances of '{maker}' make: of events of the same "
        "millisecond it has those of one instance, then those of the next one"
        for draft in drafts
        for part in draft.parts
        if not part.in_partition and any(any(of_query(plan, query)) for query in part.queries)
        for stream in sorted(part.streams & flows.keys())
        for maker in flows[stream].others(draft.name)
        if wide[maker] > 1
    ]


def _phases(drafts: tuple[Draft, ...]) -> list[str]:
    return [
        f"the window {called(call)} of query '{query.name}' begins in each instance of '{draft.name}' with the first event there; "
        "with a start time it would begin alike in all"
        for draft in drafts
        for part in draft.parts
        for query in part.queries
        for call in inside(query.input)
        if isinstance(call, WindowCall) and shares_phase(call)
    ]


def _objects(plan: App, flows: Mapping[str, Flow]) -> list[str]:
    return [
        f"'{stream}' has attributes of type object, which travel between groups as JSON"
        for stream, flow in flows.items()
        if Type.OBJECT in plan.streams[stream].schema.types and any(flow.others(c) for c in flow.consumers)
    ]
