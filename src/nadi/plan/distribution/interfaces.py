"""What each group reads and writes: by which channels, under which names, and what else it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nadi.plan.annotations import found
from nadi.plan.context import Context
from nadi.plan.distribution.channels import Split, Wishes, brought_by, outside_channel, outside_channels, publishing
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import STRAIGHT, Flow, Origin
from nadi.plan.distribution.model import Channel, Holder, Input, Output, Strategy
from nadi.plan.distribution.names import free, identifier
from nadi.plan.distribution.subscriptions import Subscription, subscriptions
from nadi.plan.nodes import App


@dataclass(frozen=True, slots=True)
class Interface:
    """The inputs and outputs of a group. `readers` says under which name a part reads a stream; `joined` names streams whose own events of the group and
    those of others come together under another name, so that sinks get the own ones only."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    readers: Mapping[tuple[str, str], str]
    joined: Mapping[str, str]


def wishes_of(context: Context, plan: App, drafts: tuple[Draft, ...], flows: Mapping[str, Flow]) -> Wishes:
    """How each group reads the streams that other groups fill, by stream and group."""
    known = {d.name: d for d in drafts}
    found_ways: dict[str, dict[str, tuple[Subscription, ...]]] = {}
    for stream, flow in flows.items():
        for consumer in flow.consumers:
            ways = subscriptions(context, known[consumer], stream)  # also where nothing comes: it may be impossible
            if flow.others(consumer):
                found_ways.setdefault(stream, {})[consumer] = ways
    return found_ways


def interface(
    context: Context,
    plan: App,
    draft: Draft,
    drafts: Mapping[str, Draft],
    flows: Mapping[str, Flow],
    wishes: Wishes,
    channels: Mapping[Split, Channel],
    transport: str,
    created: bool = True,
) -> Interface:
    """What one group reads and writes. `created`: whether whoever deploys the app makes its channels."""
    outputs = _outputs(plan, draft, drafts, flows, wishes, channels)
    loud = {o.name for o in outputs if o.channels or o.user_given}
    taken = {*plan.streams, *plan.tables, *plan.windows, *plan.aggregations}
    inputs: list[Input] = []
    readers: dict[tuple[str, str], str] = {}
    joined: dict[str, str] = {}
    for stream in sorted(draft.reads(plan)):
        flow = flows.get(stream)
        ways = wishes.get(stream, {}).get(draft.name, ())
        if flow is not None and flow.origin in STRAIGHT:
            inputs.append(_straight(context, plan, draft, drafts, flow, transport))
        for place, way in enumerate(ways):
            name = stream
            if place:
                name = free(f"{stream}_by_{identifier(way.key.label if way.key else '')}", taken)
            elif stream in draft.writes(plan) and stream in loud:
                name = joined[stream] = free(f"{stream}_all", taken)
            readers.update({(part, stream): name for part in way.parts if name != stream})
            channel = channels[brought_by(way, wishes[stream], transport)]
            inputs.append(
                Input(stream, _holder(plan, stream), False, way.strategy, way.key, channel, name, _others(flow, draft))
            )
    if draft.receives and draft.source is not None:
        inputs.append(Input(draft.receives, user_given=True, read_as=draft.receives))
    elif draft.receives:
        brought = outside_channels(plan, draft.receives, transport, draft.name, wishes, channels, created)
        inputs += [Input(draft.receives, channel=channel, read_as=draft.receives) for channel in brought]
    inputs += [Input(name, _holder(plan, name)) for name in _stored(plan, draft)]
    return Interface(tuple(inputs), tuple(outputs), readers, joined)


def _others(flow: Flow | None, draft: Draft) -> tuple[str, ...]:
    return () if flow is None else flow.others(draft.name)


def _straight(
    context: Context, plan: App, draft: Draft, drafts: Mapping[str, Draft], flow: Flow, transport: str
) -> Input:
    """What comes from outside straight into this group."""
    stream = flow.stream
    if flow.origin is Origin.SOURCE:
        return Input(stream, user_given=True, read_as=stream)
    (way,) = subscriptions(context, draft, stream)
    turns = [d.parallel for d in map(drafts.__getitem__, flow.consumers) if _by_turns(context, d, stream)]
    channel = outside_channel(plan, stream, transport, flow.consumers, max(turns, default=1))
    return Input(stream, strategy=way.strategy, channel=channel, read_as=stream)


def _by_turns(context: Context, draft: Draft, stream: str) -> bool:
    return any(w.strategy is Strategy.ROUND_ROBIN for w in subscriptions(context, draft, stream))


def _outputs(
    plan: App,
    draft: Draft,
    drafts: Mapping[str, Draft],
    flows: Mapping[str, Flow],
    wishes: Wishes,
    channels: Mapping[Split, Channel],
) -> list[Output]:
    made: list[Output] = []
    for stream in sorted(draft.writes(plan)):
        flow = flows.get(stream)
        mine = tuple(c for split, c in channels.items() if split.stream == stream and _fills(draft, c))
        given = bool(found(plan.streams[stream].annotations, "sink"))
        told = () if flow is None else publishing(flow, draft.name, wishes, drafts)
        if mine or given:
            made.append(Output(stream, _holder(plan, stream), given, told, mine))
    changed = {w for p in draft.parts for w in p.written if w not in plan.streams}
    made += [Output(name, _holder(plan, name)) for name in sorted(changed)]
    return made


def _fills(draft: Draft, channel: Channel) -> bool:
    """Whether a group makes what a channel brings to others."""
    return draft.name in channel.producers and any(c != draft.name for c in channel.consumers)


def _stored(plan: App, draft: Draft) -> list[str]:
    return sorted({*draft.fed, *(s for p in draft.parts for s in p.stored)})


def _holder(plan: App, name: str) -> Holder:
    if name in plan.triggers:
        return Holder.TRIGGER
    if name in plan.tables:
        return Holder.IN_MEMORY_TABLE if plan.tables[name].storage is None else Holder.TABLE
    if name in plan.windows:
        return Holder.WINDOW
    return Holder.AGGREGATION if name in plan.aggregations else Holder.STREAM
