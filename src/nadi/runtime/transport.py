"""Connects the inMemory sources of an app to the broker; messages are events as they are (`passThrough`). For sinks see `inmemorysinks`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nadi.errors import NadiError, error
from nadi.kernel.rows.events import Event
from nadi.lang.tree import Annotation, Type
from nadi.plan.nodes import App, Stream
from nadi.runtime.broker import TypedSubscriber, Types

Rows = list[tuple[int | None, tuple[object, ...]]]
"""Events: timestamps in ms, or None for that of the arrival, and values."""
Send = Callable[[str, Rows], None]
Refuse = Callable[[str, Rows, NadiError], None]


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


def sources(app: App, send: Send, refuse: Refuse) -> list[tuple[str, TypedSubscriber]]:
    """The topics that an app listens to, each with what takes its messages: an event, a list of events, or a row.

    Values go to attributes by position. What an app publishes as other types, or another number of values, is refused: ROW_OF_OTHER_TYPES.
    """
    found: list[tuple[str, TypedSubscriber]] = []
    for key, stream in app.streams.items():
        for source in connectors(stream, "source"):
            _check_attributes(source, stream)
            found.append((topic_of(source, "source"), _receiver(key, stream, send, refuse)))
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


def _receiver(key: str, stream: Stream, send: Send, refuse: Refuse) -> TypedSubscriber:
    wanted, taken = stream.schema.types, _on_the_way(stream.schema.types)

    def receive(message: object, types: Types | None) -> None:
        if types is None or types == wanted or _on_the_way(types) == taken:
            send(key, events_of(message))
        else:
            came, here = (", ".join(kind.value for kind in kinds) for kinds in (types, wanted))
            refuse(key, events_of(message), error("ROW_OF_OTHER_TYPES", given=came, wanted=here))

    return receive


def _on_the_way(types: Types) -> Types:
    """What types are between two apps on a node: an object goes as its text."""
    return tuple(Type.STRING if kind is Type.OBJECT else kind for kind in types)


def events_of(message: object) -> Rows:
    """A message as events: one Event, a list of them, or the values of one row (which gets the time of its arrival)."""
    if isinstance(message, Event):
        return [(message.ts, message.row)]
    if isinstance(message, list) and message and all(isinstance(e, Event) for e in message):
        return [(e.ts, e.row) for e in message]
    values: Iterable[object] = message if isinstance(message, (list, tuple)) else (message,)
    return [(None, tuple(values))]


def topic_of(annotation: Annotation, what: str) -> str:
    """The topic that an annotation names.

    Raises:
        SiddhiAppCreationException: INVALID_ANNOTATION, it names none.
    """
    topic = annotation.get("topic")
    if topic is None:
        raise error("INVALID_ANNOTATION", name=what, reason="an inMemory one needs a topic, as in topic='prices'")
    return topic
