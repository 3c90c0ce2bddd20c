"""On a Spark cluster a group that cannot be divided is no error: it has one bucket, as it has on a node by itself. A note says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.plan.binder import bind
from nadi.plan.catalog import Catalog
from nadi.plan.context import Context
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.model import Group
from nadi.plan.distribution.rules import RULES, Cut
from nadi.plan.distribution.subscriptions import subscriptions
from nadi.plan.nodes import App


def undivided(context: Context, plan: App, drafts: tuple[Draft, ...]) -> tuple[tuple[Draft, ...], tuple[str, ...]]:
    """The groups, with parallel 1 those whose parts would have to be instances that see a part of the events each; and sentences about it.

    They then read channels of one part, in the order in which these were filled, as the app in one piece does.
    """
    made: list[Draft] = []
    notes: list[str] = []
    for draft in drafts:
        reason = _obstacle(context, plan, draft) if draft.parallel > 1 else ""
        made.append(replace(draft, parallel=1) if reason else draft)
        if reason:
            notes.append(_told(draft.name, draft.parallel, reason))
    return tuple(made), tuple(notes)


def _obstacle(context: Context, plan: App, draft: Draft) -> str:
    """What the rules say of this group alone."""
    try:
        for rule in RULES:
            rule(Cut(context, plan, (draft,), {}))
        for stream in draft.reads(plan):
            subscriptions(context, draft, stream)
    except NadiError as reason:
        return reason.diagnostic.message
    return ""


def bucketed(
    groups: tuple[Group, ...], catalog: Catalog, connections: Mapping[str, str] | None
) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """The groups with the buckets that a node will give them: one to a partial app that it cannot split; and sentences about those."""
    made: list[Group] = []
    notes: list[str] = []
    for group in groups:
        reasons = _reasons(group, catalog, connections) if group.buckets > 1 else ()
        made.append(replace(group, buckets=1) if reasons else group)
        if reasons and group.parallel > 1:
            notes.append(_told(group.name, group.parallel, reasons[0]))
    return tuple(made), tuple(notes)


def _reasons(group: Group, catalog: Catalog, connections: Mapping[str, str] | None) -> tuple[str, ...]:
    (instance,) = group.instances
    app = parse(instance.text) if connections is None else parse(instance.text, connections=connections)
    sharding = bind(app, catalog, text=instance.text).sharding
    return sharding.reasons if sharding.kind == "single" else ()


def _told(group: str, parallel: int, reason: str) -> str:
    return f"'{group}' has parallel {parallel}, and one bucket: {reason}"
