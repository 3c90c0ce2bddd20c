"""The channels of an app: which there are, how many partitions they have, what a group gets from which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nadi.plan.context import Context
from nadi.plan.distribution.drafts import Draft
from nadi.plan.distribution.flows import Flow, Origin
from nadi.plan.distribution.model import Channel, Key, Publishing, Strategy
from nadi.plan.distribution.names import channel_name, of_generation
from nadi.plan.distribution.rules import app_span
from nadi.plan.distribution.subscriptions import Subscription
from nadi.plan.nodes import App

TURNS = "by-turns"
"""Ends the name of a channel that is shared by turns beside one that brings the whole stream; no attribute is called so."""


class Split(NamedTuple):
    """A stream and what it is split by: names a channel. `apart`: it is shared by turns, and not by those who need all of it."""

    stream: str
    key: Key | None = None
    apart: bool = False


Wishes = Mapping[str, Mapping[str, tuple[Subscription, ...]]]
"""Subscriptions by stream and group."""


@dataclass(slots=True)
class _Demand:
    """What is asked of a channel: by which groups, and in how many parts."""

    consumers: list[str] = field(default_factory=list)
    partitions: int = 1


def channels_of(
    context: Context,
    plan: App,
    drafts: tuple[Draft, ...],
    flows: Mapping[str, Flow],
    wishes: Wishes,
    transport: str,
    least: Callable[[str], int],
    generation: str = "",
) -> dict[Split, Channel]:
    """The channels of an app, in the order of its streams. `least`: how many partitions a keyed one has at least, by its name; `generation` ends their names.

    Raises:
        DIST_CHANNEL_NAMES: two of them would have one name.
    """
    wide = {d.name: d.parallel for d in drafts}
    demands: dict[Split, _Demand] = {}
    for stream, groups in wishes.items():
        for group, ways in groups.items():
            for way in ways:
                split = brought_by(way, wishes[stream], transport)
                name = channel_name(transport, plan.name, stream, split.key)
                demand = demands.setdefault(split, _Demand(partitions=1 if split.key is None else least(name)))
                demand.consumers.append(group)
                shared = wide[group] if way.strategy is not Strategy.ALL else 1
                demand.partitions = max(demand.partitions, shared)
    _even_out(demands, wishes, wide)
    made = {
        s: _channel(plan, flows[s.stream], s, d, transport, generation) for s, d in sorted(demands.items(), key=_order)
    }
    _check_names(context, plan, tuple(made.values()))
    return made


def brought_by(way: Subscription, all_ways: Mapping[str, tuple[Subscription, ...]], transport: str) -> Split:
    """The channel that brings a subscription its events.

    On Kafka a stream that is published by key is not published again without one: who needs it whole reads all partitions of the topic by the last key. Else
    who needs it whole has a channel of one partition, where the events of one moment are in their order.
    """
    unkeyed = {w.strategy for ways in all_ways.values() for w in ways if w.key is None}
    keys = sorted({w.key.label: w.key for ways in all_ways.values() for w in ways if w.key is not None}.items())
    if way.key is not None or (keys and transport == "kafka"):
        return Split(way.stream, way.key or keys[-1][1])
    return Split(way.stream, apart=way.strategy is Strategy.ROUND_ROBIN and Strategy.ALL in unkeyed)


def publishing(flow: Flow, producer: str, wishes: Wishes, drafts: Mapping[str, Draft]) -> tuple[Publishing, ...]:
    """For whom a group publishes a stream: groups that take it whole or by turns, by their names, then keys with the most instances that want it so."""
    ways = [(g, w) for g in sorted(flow.consumers) if g != producer for w in wishes.get(flow.stream, {}).get(g, ())]
    made = [Publishing(w.strategy, drafts[g].parallel) for g, w in ways if w.key is None]
    keys = sorted({w.key.label: w.key for _, w in ways if w.key is not None}.items())
    for _, key in keys:
        wide = max(drafts[g].parallel for g, w in ways if w.key == key)
        made.append(Publishing(Strategy.FIELD_GROUPING, wide, key))
    return tuple(made)


def _even_out(demands: dict[Split, _Demand], wishes: Wishes, wide: Mapping[str, int]) -> None:
    """The keyed channels that one group of several instances reads have equally many partitions: a key must come to one instance by all of them."""
    together: list[set[Split]] = [{split} for split in demands]
    for group, parallel in wide.items():
        mine = {
            Split(stream, w.key)
            for stream, groups in wishes.items()
            for w in groups.get(group, ())
            if parallel > 1 and w.key is not None
        }
        touched = [t for t in together if t & mine]
        if len(touched) > 1:
            together = [t for t in together if t not in touched] + [set().union(*touched)]
    for splits in together:
        most = max(demands[s].partitions for s in splits)
        for split in splits:
            demands[split].partitions = most


def _order(found: tuple[Split, _Demand]) -> tuple[str, str, bool]:
    split, _ = found
    return split.stream, "" if split.key is None else split.key.label, split.apart


def _channel(plan: App, flow: Flow, split: Split, demand: _Demand, transport: str, generation: str) -> Channel:
    stream, key, apart = split
    beside = flow.origin is Origin.RECEIVED_CHANNEL  # the stream's own name is that of what comes from outside
    label = f"passthrough{stream}" if beside else stream
    name = of_generation(channel_name(transport, plan.name, label, Key(TURNS, "") if apart else key), generation)
    return Channel(
        stream,
        name,
        transport,
        key,
        demand.partitions,
        False,
        tuple(p for p in flow.producers if any(c != p for c in demand.consumers)),
        tuple(sorted(demand.consumers)),
    )


def outside_channel(plan: App, stream: str, transport: str, consumers: tuple[str, ...], partitions: int = 1) -> Channel:
    """The channel that brings a stream into the app."""
    name = channel_name(transport, plan.name, stream)
    return Channel(stream, name, transport, partitions=partitions, outside=True, consumers=consumers)


def outside_channels(
    plan: App,
    stream: str,
    transport: str,
    receiver: str,
    wishes: Wishes,
    channels: Mapping[Split, Channel],
    created: bool,
) -> tuple[Channel, ...]:
    """What brings a stream to its receiver group: the channel of its name and, where all readers are of the kind that Siddhi has read by one key only, that of
    stream and key, for those who divide events by themselves. They send each event to the one or to the other. On Kafka an app whose channels are not `created`
    has one of them: the keyed one, if there may be one."""
    base = outside_channel(plan, stream, transport, (receiver,))
    ways = [way for asked in wishes.get(stream, {}).values() for way in asked]
    keys = {way.key for way in ways}
    by = {key.label: key for key in keys if key is not None}
    if len(by) != 1 or (None in keys and transport != "kafka"):
        return (base,)
    ((_, key),) = by.items()
    partitions = channels[Split(stream, key)].partitions
    name = channel_name(transport, plan.name, stream, key)
    keyed = Channel(stream, name, transport, key, partitions, outside=True, consumers=(receiver,))
    return (base, keyed) if created or transport != "kafka" else (keyed,)


def _check_names(context: Context, plan: App, channels: tuple[Channel, ...]) -> None:
    """Kafka holds '.' and '_' for the same."""
    known: dict[str, Channel] = {}
    for channel in channels:
        for place in channel.places:
            other = known.setdefault(place.replace(".", "_"), channel)
            if other is not channel:
                raise context.fail(
                    "DIST_CHANNEL_NAMES", app_span(plan), name=place, one=other.stream, two=channel.stream
                )
