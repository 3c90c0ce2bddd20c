"""The in-memory broker: topics that connect inMemory sinks and sources of apps in one process (semantics/events.md#in-memory-topics)."""

from __future__ import annotations

from collections.abc import Callable

from nadi.lang.tree import Type

Subscriber = Callable[[object], None]
Types = tuple[Type, ...]
"""Those of the values of an event."""
TypedSubscriber = Callable[[object, "Types | None"], None]
"""Gets the types of a message, too; None where whoever published it said none."""


class Broker:
    """Topics by name. Messages are passed as they are, to all subscribers in the order of subscription, before `publish` returns.

    >>> heard = []
    >>> broker = Broker()
    >>> broker.subscribe("prices", heard.append)
    >>> broker.publish("prices", ("IBM", 75.5))
    >>> heard
    [('IBM', 75.5)]
    """

    def __init__(self) -> None:
        self._topics: dict[str, list[tuple[Subscriber | TypedSubscriber, TypedSubscriber]]] = {}

    def subscribe(self, topic: str, subscriber: Subscriber) -> None:
        self._topics.setdefault(topic, []).append((subscriber, lambda message, _types: subscriber(message)))

    def subscribe_typed(self, topic: str, subscriber: TypedSubscriber) -> None:
        """Have a subscriber that is told the types of each message."""
        self._topics.setdefault(topic, []).append((subscriber, subscriber))

    def unsubscribe(self, topic: str, subscriber: Subscriber | TypedSubscriber) -> None:
        """Take a subscriber off a topic; nothing happens where it is not on it."""
        subscribers = self._topics.get(topic, [])
        place = next((n for n, (known, _take) in enumerate(subscribers) if known == subscriber), None)
        if place is not None:
            del subscribers[place]

    def publish(self, topic: str, message: object, types: Types | None = None) -> None:
        """Give a message to all subscribers of a topic; `types` are those of the values of its events."""
        for _known, take in tuple(self._topics.get(topic, ())):
            take(message, types)
