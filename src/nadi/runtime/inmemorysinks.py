"""Publishes what goes to the inMemory sinks of an app: one message per event or chunk as it is, to one topic, or to several by `@distribution`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nadi.errors import error
from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import Chunk, Event
from nadi.lang.tree import Annotation
from nadi.plan.nodes import App, Stream
from nadi.runtime.broker import Broker
from nadi.runtime.routers import Messages, message_of, position_of, routed
from nadi.runtime.transport import connectors, topic_of


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
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def sinks(app: App, broker: Broker, failed: Failed) -> Iterable[tuple[str, Callable[[Chunk], None]]]:
    """The streams that an app publishes, each with what takes its chunks. What a subscriber raises is told to `failed`, message by message.

    Raises:
        SiddhiAppCreationException: INVALID_ANNOTATION, ATTRIBUTE_NOT_FOUND: a topic, `on.error` or `@distribution` that cannot be.
    """
    for key, stream in app.streams.items():
        for sink in connectors(stream, "sink"):
            yield key, _publisher(key, stream, _messages(sink, stream), _action(sink), broker, failed)


def _publisher(
    key: str, stream: Stream, messages: Messages, action: str, broker: Broker, failed: Failed
) -> Callable[[Chunk], None]:
    types = stream.schema.types

    def send(topic: str, message: Event | Chunk) -> None:
        try:
            broker.publish(topic, message, types)
        except Exception as problem:
            events = message if isinstance(message, list) else [message]
            failed(Unpublished(key, events, problem, action, lambda chunk: send(topic, message_of(chunk))))

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
        return routed(distribution, stream)
    topic = topic_of(sink, "sink")
    if not _PLACEHOLDER.search(topic):
        return lambda chunk: iter([(topic, message_of(chunk))])
    fill = _filling(topic, stream)
    return lambda chunk: ((fill(event), event) for event in chunk)


def _filling(template: str, stream: Stream) -> Callable[[Event], str]:
    """What puts the values of an event into a topic with `{{attribute}}`."""
    schema = stream.schema
    positions = {name: position_of(schema, name, stream.name) for name in _PLACEHOLDER.findall(template)}
    types = {name: schema.columns[i].type for name, i in positions.items()}

    def fill(event: Event) -> str:
        return _PLACEHOLDER.sub(lambda m: java_text(event.row[positions[m[1]]], types[m[1]]), template)

    return fill
