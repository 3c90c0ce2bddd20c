"""Ways from one input to one query over several groups: of events of one moment, the order in which they come together is not that of the app in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import Flow, Origin
from nadi.plan.distribution.parts import Part
from nadi.plan.nodes import App, Query
from nadi.plan.walk import read


def meeting(plan: App, drafts: tuple[Draft, ...], flows: Mapping[str, Flow]) -> Iterator[str]:
    """A sentence for each place where two ways meet, at least one of them by a channel."""
    roots = _roots(plan, flows)
    for draft in drafts:
        for part in draft.parts:
            for one, two in combinations(sorted(part.streams & flows.keys()), 2):
                shared = roots.get(one, set()) & roots.get(two, set())
                if shared and (flows[one].others(draft.name) or flows[two].others(draft.name)):
                    yield _told(shared, f"'{one}' and '{two}', which '{part.id}' of '{draft.name}' reads")
    for stream, flow in flows.items():
        for maker, other in combinations([d for d in drafts if d.name in flow.producers], 2):
            if shared := _made_of(maker, stream, roots) & _made_of(other, stream, roots):
                yield _told(shared, f"'{stream}', by '{maker.name}' and by '{other.name}'")


def _told(shared: set[str], meets: str) -> str:
    names = " and ".join(f"'{root}'" for root in sorted(shared))
    return f"what comes of {names} takes two ways to {meets}: events of one moment may come together in another order than without @dist"


def _roots(plan: App, flows: Mapping[str, Flow]) -> dict[str, set[str]]:
    """The inputs and triggers that each stream comes from."""
    roots = {s: {s} for s, f in flows.items() if f.origin is not Origin.NONE or s in plan.triggers}
    grew = True
    while grew:
        grew = False
        for query in plan.queries:
            known = roots.setdefault(getattr(query.output, "target", ""), set())
            before = len(known)
            known |= _of_query(query, roots)
            grew = grew or len(known) > before
    return roots


def _of_query(query: Query, roots: Mapping[str, set[str]]) -> set[str]:
    return set().union(*(roots.get(s, set()) for s in read(query).values()))


def _made_of(draft: Draft, stream: str, roots: Mapping[str, set[str]]) -> set[str]:
    """The inputs that the queries of a group make a stream of."""
    parts: list[Part] = [p for p in draft.parts if stream in p.written]
    queries = [q for p in parts for q in p.queries if getattr(q.output, "target", "") == stream]
    return set().union(*(_of_query(q, roots) for q in queries))
