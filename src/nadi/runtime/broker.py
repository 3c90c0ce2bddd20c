"""The in-memory broker: topics that connect inMemory sinks and sources of apps in one process (semantics/events.md#in-memory-topics)."""

from __future__ import annotations

from collections.abc import Callable

Subscriber = Callable[[object], None]


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
        self._topics: dict[str, list[Subscriber]] = {}

    def subscribe(self, topic: str, subscriber: Subscriber) -> None:
        self._topics.setdefault(topic, []).append(subscriber)

    def unsubscribe(self, topic: str, subscriber: Subscriber) -> None:
        """Take a subscriber off a topic; nothing happens where it is not on it."""
        subscribers = self._topics.get(topic, [])
        if subscriber in subscribers:
            subscribers.remove(subscriber)

    def publish(self, topic: str, message: object) -> None:
        for subscriber in tuple(self._topics.get(topic, ())):
            subscriber(message)
