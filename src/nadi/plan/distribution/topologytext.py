"""A topology as text: `nadi explain --dist app.siddhi`."""

from __future__ import annotations

from collections.abc import Iterator

from nadi.plan.distribution.model import (
    KEY_GROUPS,
    Channel,
    Group,
    Holder,
    Input,
    Instance,
    Output,
    Placement,
    Topology,
)

_KINDS = {
    "user": "",
    "default": ", of what names no group",
    "passthrough": ", takes in what comes from outside",
    "aggregation": ", of aggregations",
    "trigger": ", fires a trigger",
}


def drawn(topology: Topology) -> str:
    """Groups with what they read and write and their instances, then channels, then notes."""
    lines = [f"app {topology.app}: {_counts(topology)}{_where(topology)}"]
    for group in topology.groups:
        lines += ["", *_group(group)]
    lines += ["", "channels" if topology.channels else "channels: none"]
    lines += [line for channel in topology.channels for line in _channel(channel)]
    lines += ["", "notes"] if topology.notes else []
    lines += [f"  {note}" for note in topology.notes]
    return "\n".join(lines) + "\n"


def _counts(topology: Topology) -> str:
    counts = (
        (len(topology.groups), "group"),
        (len(topology.instances), "instance"),
        (len(topology.channels), f"channel on {topology.transport}"),
    )
    return ", ".join(_counted(n, what) for n, what in counts)


def _where(topology: Topology) -> str:
    return ", run by a Spark cluster" if topology.placement is Placement.SPARK else ""


def _counted(n: int, what: str) -> str:
    """`2 channels on nats`."""
    noun, _, rest = what.partition(" ")
    return f"{n} {noun}{'' if n == 1 else 's'}{' ' if rest else ''}{rest}"


def _group(group: Group) -> Iterator[str]:
    yield f"group {group.name}: {_counted(len(group.instances), 'instance')}{_bucketed(group)}{_KINDS[group.kind]}"
    if group.elements:
        yield f"  runs {', '.join(group.elements)}"
    for each in group.inputs:
        yield f"  reads {each.name}{_read(each, group)}"
    for made in group.outputs:
        yield f"  writes {made.name}{_written(made)}"
    for instance in group.instances:
        yield f"  {_instance(instance, group)}"


def _bucketed(group: Group) -> str:
    return f" of {_counted(group.buckets, 'bucket')}" if group.buckets else ""


def _read(given: Input, group: Group) -> str:
    if given.channel is None:
        return (
            " from its source" if given.user_given else "" if given.holder is Holder.STREAM else f": {_stored(given)}"
        )
    told = f" from {given.channel.name}"
    if given.channel.outside:
        told += ", which is filled from outside"
    if given.read_as != given.name:
        told += f", as {given.read_as}"
    if len(group.instances) == 1:
        return told
    return f"{told}: {given.strategy.told}{'' if given.key is None else f' {given.key.text}'}"


def _stored(given: Input) -> str:
    return {
        Holder.TABLE: "a table in a store",
        Holder.IN_MEMORY_TABLE: "a table of its own",
        Holder.WINDOW: "a window of its own",
        Holder.AGGREGATION: "an aggregation",
        Holder.TRIGGER: "a trigger of its own",
        Holder.STREAM: "a stream",
    }[given.holder]


def _written(made: Output) -> str:
    ways = [f"to {c.name}" for c in made.channels] + (["to its sinks"] if made.user_given else [])
    return "" if not ways else " " + " and ".join(ways)


def _instance(instance: Instance, group: Group) -> str:
    if len(group.instances) == 1 or not any(i.key for i in group.inputs):
        return instance.name
    first, last = instance.key_groups.start, instance.key_groups.stop - 1
    return f"{instance.name}: key-groups {first} to {last}"


def _channel(channel: Channel) -> Iterator[str]:
    key = f" by {channel.key.text}" if channel.key is not None else ""
    most = (
        f", for at most {_counted(channel.partitions, 'instance')} of a group; {KEY_GROUPS} after a change"
        if key
        else ""
    )
    yield f"  {channel.name}: {channel.stream}{key}, {_counted(channel.partitions, 'partition')}{most}"
    begin = "outside" if channel.outside else ", ".join(channel.producers)
    yield f"    {begin} → {', '.join(channel.consumers)}"
