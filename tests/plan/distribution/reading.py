"""Short forms of what a topology says, for tests."""

from __future__ import annotations

from nadi.plan.distribution import Group, Topology


def inputs(group: Group) -> dict[str, str]:
    """Streams that come by channels, each with its strategy and where its events are: `ROUND_ROBIN W1_Temp/2`."""
    found: dict[str, str] = {}
    for i in group.inputs:
        if i.channel is not None:
            told = f"{i.strategy.value} {i.channel.name}/{i.offered}"
            found[i.name] = f"{found[i.name]}, {told}" if i.name in found else told
    return found


def publishing(group: Group, stream: str) -> list[str]:
    """`["ROUND_ROBIN 2", "FIELD_GROUPING id 7"]`."""
    return [
        " ".join([p.strategy.value, *([p.key.label] if p.key else []), str(p.parallel)])
        for p in group.output(stream).publishing
    ]


def outputs(group: Group) -> dict[str, list[str]]:
    """The subjects or topics that a group fills, by stream."""
    return {o.name: [place for c in o.channels for place in c.places] for o in group.outputs if o.channels}


def shape(topology: Topology) -> list[tuple[str, int]]:
    """Groups without the app's name, and how wide they are."""
    return [(g.name.removeprefix(topology.app).lstrip("-_"), g.parallel) for g in topology.groups]


def annotations(text: str, name: str) -> list[dict[str, str]]:
    """The elements of all annotations of a name on the definitions of an app."""
    from nadi.lang import parse

    return [
        {e.key: e.value for e in a.elements}
        for d in parse(text).definitions
        for a in d.annotations
        if a.name.lower() == name
    ]


def assigned(topology: Topology, group: str, channel: str) -> list[str]:
    """The partitions of a channel that each instance of a group reads."""
    found = []
    for instance in topology.group(group).instances:
        (source,) = (
            s
            for s in annotations(instance.text, "source")
            if channel in (s.get("name"), s.get("destination"), s.get("topic.list"))
        )
        found.append(source.get("assigned", "all"))
    return found
