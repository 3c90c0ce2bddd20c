"""An app with `@dist` becomes a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nadi.lang import parse, tree
from nadi.plan.annotations import first
from nadi.plan.appnames import unsafe
from nadi.plan.binder import bind
from nadi.plan.catalog import Catalog
from nadi.plan.connectortraits import ConnectorCatalog
from nadi.plan.context import Context
from nadi.plan.distribution.channels import channels_of
from nadi.plan.distribution.cycles import fused
from nadi.plan.distribution.dist import check_options
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import Flow, wired
from nadi.plan.distribution.formation import formed
from nadi.plan.distribution.interfaces import Interface, interface, wishes_of
from nadi.plan.distribution.model import KEY_GROUPS, Channel, Group, Instance, Placement, Topology, instance_name
from nadi.plan.distribution.names import TRANSPORTS
from nadi.plan.distribution.notes import notes_on
from nadi.plan.distribution.partial import Template, template
from nadi.plan.distribution.parts import parts_of
from nadi.plan.distribution.provisions import source_topics
from nadi.plan.distribution.rules import RULES, Cut, app_span
from nadi.plan.distribution.shares import assigned, key_groups
from nadi.plan.distribution.targets import check_targets
from nadi.plan.distribution.undivided import bucketed, undivided
from nadi.plan.nodes import App
from nadi.plan.stores import IN_STATE


def distribute(
    text: str,
    catalog: Catalog,
    types: ConnectorCatalog,
    *,
    transport: str = "nats",
    file: str = "",
    connections: Mapping[str, str] | None = None,
    least_partitions: int = 1,
    existing: Mapping[str, int] | None = None,
    servers: str = "",
    placement: Placement = Placement.INSTANCES,
    least_buckets: int = 1,
    generation: str = "",
) -> Topology:
    """Cut an app into groups that are joined by channels.

    Args:
        text: the app. Partial apps keep the places of connections in it (`nadi.lang.settled`).
        catalog: what functions, windows and stores there are.
        types: what sources and sinks there are (`nadi.io.registry`).
        transport: of the channels, "nats" or "kafka"; names and the number of channels follow it.
        file: the name of the text, for error messages.
        connections: values for `${name}` in strings, with which the app is checked.
        least_partitions: how many partitions a keyed channel has at least, 1 to 128: a group can later have as many instances without a new channel.
        existing: the partitions of channels that are there, by their names: a keyed channel keeps those that it has.
        servers: where the servers of the transport are, if partial apps are to say it; else each node knows.
        placement: what runs the parts of a group: instances, or a Spark cluster. The channels are the same; on Spark a group that cannot be divided has one
            bucket, as on a node, and a note says why.
        least_buckets: on Spark, how many buckets a group has at least that can be divided.
        generation: what ends the names of channels that others do not fill, so that those of two versions of an app are two.

    Raises:
        SiddhiParserException: the text is not SiddhiQL.
        NadiError: it is, and makes no app, or none that can be cut like this.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"the transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
    if not 1 <= least_partitions <= KEY_GROUPS:
        raise ValueError(f"a channel has 1 to {KEY_GROUPS} partitions, not {least_partitions}")
    if not 1 <= least_buckets <= KEY_GROUPS:
        raise ValueError(f"a group has 1 to {KEY_GROUPS} buckets, not {least_buckets}")
    kept = parse(text, file=file)
    whole = kept if connections is None else parse(text, file=file, connections=connections)
    plan = _as_written(bind(_without_aggregation_stores(whole), catalog, text=text, file=file), kept)
    context = Context(catalog, text, file, plan.compat)
    check_options(context, kept)
    parts = parts_of(context, kept, plan)
    stored = _stored(kept)
    spark = placement is Placement.SPARK
    drafts, notes = fused(plan, formed(context, plan, parts, stored, strict=not spark))
    if spark:
        drafts, more = undivided(context, plan, drafts)
        notes = (*notes, *more)
    drafts, flows = wired(context, types, plan, drafts)
    for draft in drafts:
        _check_name(context, plan, draft)
    wishes = wishes_of(context, plan, drafts, flows)
    for rule in RULES:
        rule(Cut(context, plan, drafts, flows))
    have = existing or {}
    channels = channels_of(
        context,
        plan,
        drafts,
        flows,
        wishes,
        transport,
        lambda name: max(least_partitions, have.get(name, 1)),
        generation,
    )
    known = {d.name: d for d in drafts}
    created = _creates_channels(kept)
    made = {d.name: interface(context, plan, d, known, flows, wishes, channels, transport, created) for d in drafts}
    wide = {d.name: 1 if spark else d.parallel for d in drafts}
    least = max(least_buckets, plan.buckets) if spark else 0
    groups = tuple(_group(kept, types, plan, d, made[d.name], flows, wide, servers, least) for d in drafts)
    check_targets(context, types, plan, groups)
    if spark:
        groups, more = bucketed(groups, catalog, connections)
        notes = (*notes, *more)
    return Topology(
        plan.name,
        transport,
        groups,
        _all_channels(groups),
        created,
        source_topics(whole, types, servers),
        (*notes, *notes_on(plan, drafts, flows, stored, wide)),
        placement,
    )


def _as_written(plan: App, app: tree.SiddhiApp) -> App:
    """The plan with the annotations of streams as the text has them, without values of connections."""
    given = {d.source.name: d.annotations for d in app.definitions if isinstance(d, tree.StreamDefinition)}
    given |= {
        d.name: d.annotations for d in app.definitions if isinstance(d, tree.TriggerDefinition) if d.name not in given
    }
    streams = {k: replace(s, annotations=given.get(k, s.annotations)) for k, s in plan.streams.items()}
    return replace(plan, streams=streams)


def _stored(app: tree.SiddhiApp) -> frozenset[str]:
    """The aggregations whose buckets are in a store that several groups can read."""
    return frozenset(d.name for d in app.definitions if isinstance(d, tree.AggregationDefinition) and _store_of(d))


def _store_of(definition: tree.AggregationDefinition) -> str:
    store = first(definition.annotations, "store")
    kind = "" if store is None else (store.get("type") or "").strip().lower()
    return "" if kind in IN_STATE else kind


def _without_aggregation_stores(app: tree.SiddhiApp) -> tree.SiddhiApp:
    """The app as it is checked: that nodes keep no aggregation in a store yet is for them to say."""
    definitions = tuple(
        replace(d, annotations=tuple(a for a in d.annotations if a.name.lower() != "store"))
        if isinstance(d, tree.AggregationDefinition)
        else d
        for d in app.definitions
    )
    return replace(app, definitions=definitions)


def _creates_channels(app: tree.SiddhiApp) -> bool:
    given = first(app.annotations, "app:transportChannelCreationEnabled")
    return given is None or (given.get() or "true").strip().lower() != "false"


def _check_name(context: Context, plan: App, draft: Draft) -> None:
    """Names of groups become names of folders.

    Raises:
        APP_NAME_UNSAFE: a group could have none.
    """
    name = instance_name(draft.name, draft.parallel)
    if reason := unsafe(name):
        span = draft.parts[0].span if draft.parts else app_span(plan)
        raise context.fail("APP_NAME_UNSAFE", span, name=ascii(name)[1:-1], reason=reason)


def _group(
    app: tree.SiddhiApp,
    types: ConnectorCatalog,
    plan: App,
    draft: Draft,
    made: Interface,
    flows: Mapping[str, Flow],
    wide: Mapping[str, int],
    servers: str,
    least_buckets: int,
) -> Group:
    buckets = max(draft.parallel, least_buckets) if least_buckets else 0
    texts = template(app, types, plan, draft, made, flows, wide, servers, buckets)
    return Group(
        draft.name,
        draft.parallel,
        draft.kind,
        (*(p.id for p in draft.parts), *draft.fed),
        made.inputs,
        made.outputs,
        tuple(_instance(texts, made, draft, wide[draft.name], number) for number in range(1, wide[draft.name] + 1)),
        buckets,
    )


def _instance(texts: Template, made: Interface, draft: Draft, of: int, number: int) -> Instance:
    keyed = [i.channel.partitions for i in made.inputs if i.key is not None and i.channel is not None]
    partitions = keyed[0] if keyed and of > 1 else of
    mine = key_groups(assigned(partitions, of, number), partitions)
    return Instance(instance_name(draft.name, number), number, mine, texts.text(number))


def _all_channels(groups: tuple[Group, ...]) -> tuple[Channel, ...]:
    found = {i.channel: None for g in groups for i in g.inputs if i.channel is not None}
    return tuple(sorted(found, key=lambda c: (c.stream, c.name)))
