"""`@distribution(strategy='…', @destination(…), …)` in a sink: which of its destinations an event goes to (semantics/events.md#distribution)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nadi.errors import did_you_mean, error
from nadi.functions.arithmetic import java_text
from nadi.kernel.rows.events import Chunk, Event
from nadi.kernel.rows.javahash import java_hash
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import Schema, Stream
from nadi.runtime.transport import topic_of

Message = tuple[str, Event | Chunk]
"""A topic, and one event as it is or several as a list."""
Messages = Callable[[Chunk], Iterator[Message]]


def routed(distribution: Annotation, stream: Stream) -> Messages:
    """The messages of a chunk, by the router that the strategy names.

    Raises:
        SiddhiAppCreationException: INVALID_ANNOTATION, ATTRIBUTE_NOT_FOUND: there is no such strategy, no destination, no key.
    """
    topics = [topic_of(d, "destination") for d in distribution.all("destination")]
    strategy = distribution.get("strategy") or ""
    make = {name.lower(): make for name, make in ROUTERS.items()}.get(strategy.lower())
    if make is None or not topics:
        reason = f"its strategy is {', '.join(ROUTERS)}, not '{strategy}'" if topics else "it has no @destination"
        raise error("INVALID_ANNOTATION", distribution.span, name=distribution.name, reason=reason)
    return make(distribution, stream, topics)


def message_of(chunk: Chunk) -> Event | Chunk:
    """A single event is sent as it is, several as a list."""
    return chunk[0] if len(chunk) == 1 else list(chunk)


def position_of(schema: Schema, name: str, stream: str) -> int:
    """Where an attribute stands. Raises ATTRIBUTE_NOT_FOUND."""
    position = schema.position(name)
    if position is None:
        raise error("ATTRIBUTE_NOT_FOUND", name=name, of=f"'{stream}'", hint=did_you_mean(name, schema.names))
    return position


def _in_turn(_distribution: Annotation, _stream: Stream, topics: list[str]) -> Messages:
    turn = 0

    def in_turn(chunk: Chunk) -> Iterator[Message]:
        nonlocal turn
        for event in chunk:
            place, turn = turn % len(topics), turn + 1
            yield topics[place], event

    return in_turn


def _to_all(_distribution: Annotation, _stream: Stream, topics: list[str]) -> Messages:
    return lambda chunk: ((topic, message_of(chunk)) for topic in topics)


def _by_key(distribution: Annotation, stream: Stream, topics: list[str]) -> Messages:
    key = distribution.get("partitionKey")
    if key is None:
        reason = f"the strategy {distribution.get('strategy')} needs a partitionKey, as in partitionKey='symbol'"
        raise error("INVALID_ANNOTATION", distribution.span, name=distribution.name, reason=reason)
    position = position_of(stream.schema, key, stream.name)
    kind = stream.schema.columns[position].type

    def place(event: Event) -> int:
        """By the hash code of the value's text, without its sign, as in Java."""
        spread = java_hash(java_text(event.row[position], kind), Type.STRING)
        return (spread if spread < 1 << 31 else (1 << 32) - spread) % len(topics)

    return lambda chunk: ((topics[place(event)], event) for event in chunk)


ROUTERS: dict[str, Callable[[Annotation, Stream, list[str]], Messages]] = {
    "roundRobin": _in_turn,
    "broadcast": _to_all,
    "partitioned": _by_key,
}
"""What each strategy makes of its annotation, a stream and the topics of the destinations. Capitals do not matter."""
