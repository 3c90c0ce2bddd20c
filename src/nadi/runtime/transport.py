"""Connects the inMemory sources and sinks of an app to the broker; messages are events as they are (`passThrough`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from nadi.errors import error
from nadi.kernel.rows.events import Chunk, Event
from nadi.lang.tree import Annotation
from nadi.plan.nodes import App, Schema, Stream
from nadi.runtime.broker import Broker, Subscriber

Send = Callable[[str, list[tuple[int | None, tuple[object, ...]]]], None]


def connectors(stream: Stream, name: str) -> Iterable[Annotation]:
    """The inMemory @source or @sink annotations of a stream.

    Raises:
        OperationNotSupportedException: NOT_SUPPORTED, it maps otherwise than passThrough.
    """
    for found in stream.annotations:
        if found.name.lower() == name and (found.get("type") or "").lower() == "inmemory":
            kind = next((m.get("type") or "" for m in found.all("map")), "passThrough")
            if kind.lower() != "passthrough":
                raise error(
                    "NOT_SUPPORTED",
                    what=f"@map(type='{kind}') on an inMemory {name} of an app that runs in this process",
                    alternative="use @map(type='passThrough'), or run the app with 'nadi run'",
                )
            yield found


def sources(app: App, send: Send) -> list[tuple[str, Subscriber]]:
    """The topics that an app listens to, each with what takes its messages: an event, a list of events, or a row."""
    found: list[tuple[str, Subscriber]] = []
    for key, stream in app.streams.items():
        for source in connectors(stream, "source"):
            _check_attributes(source, stream)
            found.append((topic_of(source, "source"), _receiver(key, send)))
    return found


def _check_attributes(source: Annotation, stream: Stream) -> None:
    """`@attributes` of a source must say where each attribute comes from; passThrough takes them as they are.

    Raises:
        SiddhiAppCreationException: MAPPING_INVALID.
    """
    for mapping in (a for m in source.all("map") for a in m.all("attributes")):
        given = {e.key: e.value for e in mapping.elements if e.key}
        wrong = given.keys() ^ set(stream.schema.names) if given else ()
        if wrong or len(mapping.elements) != len(stream.schema):
            reason = f"@attributes has {len(mapping.elements)} mappings for {len(stream.schema)} attributes"
            raise error("MAPPING_INVALID", stream=stream.name, reason=reason)


def _receiver(key: str, send: Send) -> Subscriber:
    def receive(message: object) -> None:
        send(key, events_of(message))

    return receive


def events_of(message: object) -> list[tuple[int | None, tuple[object, ...]]]:
    """A message as events: one Event, a list of them, or the values of one row (which gets the time of its arrival)."""
    if isinstance(message, Event):
        return [(message.ts, message.row)]
    if isinstance(message, list) and message and all(isinstance(e, Event) for e in message):
        return [(e.ts, e.row) for e in message]
    values: Iterable[object] = message if isinstance(message, (list, tuple)) else (message,)
    return [(None, tuple(values))]


def sinks(app: App, broker: Broker) -> list[tuple[str, Callable[[Chunk], None]]]:
    """The streams that an app publishes, each with what takes its chunks: one message per chunk, an event or a list of events."""
    found: list[tuple[str, Callable[[Chunk], None]]] = []
    for key, stream in app.streams.items():
        for sink in connectors(stream, "sink"):
            found.append((key, _publisher(sink, stream.schema, broker)))
    return found


def _publisher(sink: Annotation, schema: Schema, broker: Broker) -> Callable[[Chunk], None]:
    distribution = next(iter(sink.all("distribution")), None)
    if distribution is not None:
        return _distributor(distribution, schema, broker)
    topic = topic_of(sink, "sink")
    if "{{" not in topic:
        return lambda chunk: broker.publish(topic, message_of(chunk))

    def publish_each(chunk: Chunk) -> None:
        for event in chunk:
            broker.publish(_filled(topic, schema, event), event)

    return publish_each


def _distributor(distribution: Annotation, schema: Schema, broker: Broker) -> Callable[[Chunk], None]:
    topics = [topic_of(d, "destination") for d in distribution.all("destination")]
    strategy = (distribution.get("strategy") or "").lower()
    turn = 0

    def publish(chunk: Chunk) -> None:
        nonlocal turn
        if strategy == "broadcast":
            for topic in topics:
                broker.publish(topic, message_of(chunk))
            return
        for event in chunk:
            if strategy == "roundrobin":
                place, turn = turn % len(topics), turn + 1
            else:
                column = schema.position(distribution.get("partitionKey") or "")
                place = _java_hash(str(event.row[column or 0])) % len(topics)
            broker.publish(topics[place], event)

    return publish


def _java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


def message_of(chunk: Chunk) -> Event | Chunk:
    """One event as it is, several as a list."""
    return chunk[0] if len(chunk) == 1 else list(chunk)


def topic_of(annotation: Annotation, what: str) -> str:
    topic = annotation.get("topic")
    if topic is None:
        raise error("INVALID_ANNOTATION", name=what, reason="an inMemory one needs a topic, as in topic='prices'")
    return topic


def _filled(topic: str, schema: Schema, event: Event) -> str:
    def value(match: re.Match[str]) -> str:
        position = schema.position(match[1])
        if position is None:
            raise error("ATTRIBUTE_NOT_FOUND", name=match[1], of="the stream of the sink", hint="topic='{{attribute}}'")
        return str(event.row[position])

    return re.sub(r"\{\{(\w+)\}\}", value, topic)
