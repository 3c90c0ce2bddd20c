"""Publishes what goes to the inMemory sinks of an app: one message per event or chunk as it is, to one topic, or to several by `@distribution`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nadi.errors import did_you_mean, error
from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import Chunk, Event
from nadi.kernel.rows.hashing import java_hash
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import App, Schema, Stream
from nadi.runtime.broker import Broker
from nadi.runtime.transport import connectors, topic_of

Message = tuple[str, Event | Chunk]
"""A topic, and one event as it is or several as a list."""
Messages = Callable[[Chunk], Iterator[Message]]


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A message that could not be published: its stream and events, why, `on.error` of the sink, and what publishes such a message to the same topic."""

    stream: str
    events: Chunk
    problem: Exception
    action: str
    publish: Callable[[Chunk], None]


Failed = Callable[[Unpublished], None]

_ON_ERROR = ("LOG", "WAIT", "STREAM", "STORE")
_STRATEGIES = ("roundRobin", "broadcast", "partitioned")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def sinks(app: App, broker: Broker, failed: Failed) -> Iterable[tuple[str, Callable[[Chunk], None]]]:
    """The streams that an app publishes, each with what takes its chunks. What a subscriber raises is told to `failed`, message by message.

    Raises:
        SiddhiAppCreationException: INVALID_ANNOTATION, ATTRIBUTE_NOT_FOUND: a topic, `on.error` or `@distribution` that cannot be.
    """
    for key, stream in app.streams.items():
        for sink in connectors(stream, "sink"):
            yield key, _publisher(key, _messages(sink, stream), _action(sink), broker, failed)


def _publisher(key: str, messages: Messages, action: str, broker: Broker, failed: Failed) -> Callable[[Chunk], None]:
    def send(topic: str, message: Event | Chunk) -> None:
        try:
            broker.publish(topic, message)
        except Exception as problem:
            events = message if isinstance(message, list) else [message]
            failed(Unpublished(key, events, problem, action, lambda chunk: send(topic, _message(chunk))))

    def publish(chunk: Chunk) -> None:
        for topic, message in messages(chunk):
            send(topic, message)

    return publish


def _action(sink: Annotation) -> str:
    """`on.error`. With STREAM what fails goes where @OnError of the stream says.

    LOG, STORE and WAIT keep it with the failures: a topic in this process is never away, so that there is nothing to wait for.
    """
    action = (sink.get("on.error") or "LOG").upper()
    if action not in _ON_ERROR:
        reason = f"on.error is {', '.join(_ON_ERROR)}, not '{action}'"
        raise error("INVALID_ANNOTATION", sink.span, name=sink.name, reason=reason)
    return action


def _messages(sink: Annotation, stream: Stream) -> Messages:
    """The messages of a chunk: one, or one per event where events may go to different topics."""
    distribution = next(iter(sink.all("distribution")), None)
    if distribution is not None:
        return _distributed(distribution, stream)
    topic = topic_of(sink, "sink")
    if not _PLACEHOLDER.search(topic):
        return lambda chunk: iter([(topic, _message(chunk))])
    fill = _filling(topic, stream)
    return lambda chunk: ((fill(event), event) for event in chunk)


def _message(chunk: Chunk) -> Event | Chunk:
    return chunk[0] if len(chunk) == 1 else list(chunk)


def _filling(template: str, stream: Stream) -> Callable[[Event], str]:
    """What puts the values of an event into a topic with `{{attribute}}`."""
    schema = stream.schema
    positions = {name: _position(schema, name, stream.name) for name in _PLACEHOLDER.findall(template)}
    types = {name: schema.columns[i].type for name, i in positions.items()}

    def fill(event: Event) -> str:
        return _PLACEHOLDER.sub(lambda m: java_text(event.row[positions[m[1]]], types[m[1]]), template)

    return fill


def _position(schema: Schema, name: str, stream: str) -> int:
    position = schema.position(name)
    if position is None:
        raise error("ATTRIBUTE_NOT_FOUND", name=name, of=f"'{stream}'", hint=did_you_mean(name, schema.names))
    return position


# ---- distribution --------------------------------------------------------------------------------------------------


def _distributed(distribution: Annotation, stream: Stream) -> Messages:
    """`@distribution(strategy='…', @destination(…), …)`: each event to the next destination, to all, or to that of its key (language text §2)."""
    topics = [topic_of(d, "destination") for d in distribution.all("destination")]
    strategy = distribution.get("strategy") or ""
    known = {name.lower(): name for name in _STRATEGIES}.get(strategy.lower())
    if known is None or not topics:
        reason = f"its strategy is {', '.join(_STRATEGIES)}, not '{strategy}'" if topics else "it has no @destination"
        raise error("INVALID_ANNOTATION", distribution.span, name=distribution.name, reason=reason)
    if known == "broadcast":
        return lambda chunk: ((topic, _message(chunk)) for topic in topics)
    if known == "partitioned":
        return _by_key(distribution, stream, topics)
    turn = 0

    def in_turn(chunk: Chunk) -> Iterator[Message]:
        nonlocal turn
        for event in chunk:
            place, turn = turn % len(topics), turn + 1
            yield topics[place], event

    return in_turn


def _by_key(distribution: Annotation, stream: Stream, topics: list[str]) -> Messages:
    key = distribution.get("partitionKey")
    if key is None:
        reason = "the strategy partitioned needs a partitionKey, as in partitionKey='symbol'"
        raise error("INVALID_ANNOTATION", distribution.span, name=distribution.name, reason=reason)
    position = _position(stream.schema, key, stream.name)
    kind = stream.schema.columns[position].type

    def place(event: Event) -> int:
        """By the hash code of the value's text, without its sign, as in Java."""
        spread = java_hash(java_text(event.row[position], kind), Type.STRING)
        return (spread if spread < 1 << 31 else (1 << 32) - spread) % len(topics)

    return lambda chunk: ((topics[place(event)], event) for event in chunk)
