"""`@source(type='channel', …)` and `@sink(type='channel', …)`: how a partial app says which channel it reads or fills. The only place that knows their options.

A channel is a log with `partitions` parts. On Kafka they are the partitions of the topic `name`. On NATS a keyed channel has the subjects `<name>_<part>`; one
without a key has the subject `name`, and the part of a chunk travels with it. Of a keyed channel an event belongs to the part `g * partitions // 128`,
where g is the key-group of `key`, an expression over the stream's attributes; where it is null, g is 0. Of another one a chunk belongs to a part that
follows from its number.

What comes from outside is no channel of this kind: its messages are XML, by a subject or topic of which the name alone is agreed. An ordinary source reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nadi.lang.tree import Annotation, Element
from nadi.plan.connectortraits import ConnectorCatalog, Divided
from nadi.plan.distribution.model import Channel, Input, Strategy
from nadi.plan.distribution.shares import assigned

TYPE = "channel"
OUTSIDE_FORMAT = "xml"
"""The mapper by which messages from outside are read."""

SOURCE_OPTIONS: Mapping[str, str] = {
    "transport": "nats or kafka",
    "name": "the topic, or the subject without the part",
    "partitions": "of how many parts the channel consists",
    "bootstrap.servers": "where the servers of the transport are; what the node says where it is left out",
    "assigned": "the parts that this instance reads, as numbers with commas; all where it is left out",
    "strategy": f"one of {', '.join(s.value for s in Strategy)}: why it reads these",
    "key": "the expression that a keyed channel is split by",
    "group": "the execution group that reads",
    "producers": "the partial apps that fill the channel, with commas: a cut goes no further than the least progress of these; "
    "what others write there is not read",
}
"""Options of the source, with their meanings; `transport`, `name`, `partitions`, `strategy`, `group` and `producers` always stand there."""

SINK_OPTIONS: Mapping[str, str] = {
    "transport": "nats or kafka",
    "name": "the topic, or the subject without the part",
    "partitions": "of how many parts the channel consists",
    "bootstrap.servers": "where the servers of the transport are; what the node says where it is left out",
    "key": "the expression that the channel is split by; its chunks go round where it is left out",
    "group": "the execution group that writes",
}
"""Options of the sink, with their meanings; `transport`, `name`, `partitions` and `group` always stand there."""

SHARE = "share"
"""Option of a source of which several instances read one log: `i/n` reads the i-th of every n partitions, or messages where there is one partition only."""


def sources_of(
    given: Input, group: str, parallel: int, number: int, producers: tuple[str, ...], servers: str = ""
) -> tuple[Annotation, ...]:
    """The sources of an instance (`number` of `parallel`) for an input that a channel brings; `servers` where the text is to name them.

    There is one, unless it is several subjects that others fill.
    """
    channel = given.channel
    assert channel is not None  # the caller asks for inputs that have one
    if channel.outside:
        return tuple(_outside(channel, p, given.strategy, group, parallel, number, servers) for p in channel.places)
    options = _common(channel, servers)
    if given.strategy is not Strategy.ALL:
        options["assigned"] = ",".join(map(str, assigned(channel.partitions, parallel, number)))
    options |= {"strategy": given.strategy.value, "group": group, "producers": ",".join(producers)}
    return (_annotation("source", TYPE, options),)


def _outside(
    channel: Channel, place: str, strategy: Strategy, group: str, parallel: int, number: int, servers: str
) -> Annotation:
    """An ordinary source, with the names of groups that Siddhi's partial apps have."""
    turns = strategy is Strategy.ROUND_ROBIN
    if channel.transport == "kafka":
        reader = group if turns else f"{group}-{number - 1}"
        servers = servers or "localhost:9092"
        options = {"topic.list": place, "bootstrap.servers": servers, "group.id": reader}
    else:
        options = {"destination": place} | ({"bootstrap.servers": servers} if servers else {})
        options |= {"queue.group.name": group} if turns else {}
    source = _annotation("source", channel.transport, options, Annotation("map", (Element("type", OUTSIDE_FORMAT),)))
    return shared(source, Divided.SHARES, parallel, number) if turns else source


def channel_sink(channel: Channel, group: str, servers: str = "") -> Annotation:
    """The sink that fills a channel."""
    return _annotation("sink", TYPE, {**_common(channel, servers), "group": group})


def addressed(source: Annotation, types: ConnectorCatalog, app: str, stream: str) -> Annotation:
    """A source of the app with the address that it has by default: that of the app and stream as the user calls them, not of a partial app's."""
    traits = types.source_traits((source.get("type") or "").lower())
    listens = None if traits is None else traits.listens
    if listens is None or source.get(listens.option) is not None:
        return source
    url = Element(listens.option, listens.at(app, stream))
    return Annotation(source.name, (*source.elements, url), source.nested, span=source.span)


def divided(source: Annotation, types: ConnectorCatalog) -> Divided:
    """How several instances may have a source. One of a type that is not known is read whole by whoever has it."""
    traits = types.source_traits((source.get("type") or "").lower())
    return Divided.WHOLE if traits is None else traits.divided


def shared(source: Annotation, by: Divided, parallel: int, number: int) -> Annotation:
    """A source as one of several instances has it."""
    if parallel == 1 or by is not Divided.SHARES:
        return source
    share = Element(SHARE, f"{number}/{parallel}")
    return Annotation(source.name, (*source.elements, share), source.nested, span=source.span)


def _common(channel: Channel, servers: str) -> dict[str, str]:
    options = {"transport": channel.transport, "name": channel.name, "partitions": str(channel.partitions)}
    if servers:
        options["bootstrap.servers"] = servers
    return options if channel.key is None else {**options, "key": channel.key.text}


def _annotation(name: str, kind: str, options: Mapping[str, str], *nested: Annotation) -> Annotation:
    return Annotation(name, (Element("type", kind), *(Element(k, v) for k, v in options.items())), nested)
