"""A topology as plain data, for tools."""

from __future__ import annotations

from typing import Any

from nadi.plan.distribution.model import Channel, Group, Input, Instance, Key, Output, Publishing, Topology


def record(topology: Topology) -> dict[str, Any]:
    """The topology as `nadi explain --dist --json` prints it.

    Keys: app, transport, placement, createsChannels, groups (name, parallel, buckets, kind, receiver, elements, inputs, outputs, instances), channels (name,
    stream, key, partitions, places, outside, producers, consumers), notes. The first and last of an instance's key-groups are both its own.
    """
    return {
        "app": topology.app,
        "transport": topology.transport,
        "placement": topology.placement.value,
        "createsChannels": topology.creates_channels,
        "groups": [_group(g) for g in topology.groups],
        "channels": [_channel(c) for c in topology.channels],
        "notes": list(topology.notes),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "parallel": group.parallel,
        "buckets": group.buckets or None,
        "kind": group.kind,
        "receiver": group.receiver,
        "elements": list(group.elements),
        "inputs": [_input(i) for i in group.inputs],
        "outputs": [_output(o) for o in group.outputs],
        "instances": [_instance(i) for i in group.instances],
    }


def _input(given: Input) -> dict[str, Any]:
    return {
        "name": given.name,
        "holder": given.holder.value,
        "userGiven": given.user_given,
        "strategy": given.strategy.value,
        "key": _key(given.key),
        "channel": None if given.channel is None else given.channel.name,
        "readAs": given.read_as or given.name,
        "producers": list(given.producers),
    }


def _output(made: Output) -> dict[str, Any]:
    return {
        "name": made.name,
        "holder": made.holder.value,
        "userGiven": made.user_given,
        "publishing": [_publishing(p) for p in made.publishing],
        "channels": [c.name for c in made.channels],
    }


def _publishing(way: Publishing) -> dict[str, Any]:
    return {"strategy": way.strategy.value, "parallel": way.parallel, "key": _key(way.key)}


def _instance(instance: Instance) -> dict[str, Any]:
    groups = instance.key_groups
    return {"name": instance.name, "keyGroups": [groups.start, groups.stop - 1], "text": instance.text}


def _channel(channel: Channel) -> dict[str, Any]:
    return {
        "name": channel.name,
        "stream": channel.stream,
        "key": _key(channel.key),
        "partitions": channel.partitions,
        "places": list(channel.places),
        "outside": channel.outside,
        "producers": list(channel.producers),
        "consumers": list(channel.consumers),
    }


def _key(key: Key | None) -> str | None:
    return None if key is None else key.text
