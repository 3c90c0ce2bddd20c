"""Somebody outside of an app who fills a stream of it: XML by the public name of its channel."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer

from nadi.io.jetstream import Outgoing, publish
from nadi.io.natsclient import shared


class Outsider:
    """On NATS or on Kafka."""

    def __init__(self, transport: str, servers: str) -> None:
        self._servers = servers
        self._producer = Producer({"bootstrap.servers": servers}) if transport == "kafka" else None

    def publish(self, name: str, partition: int, text: str, time: int) -> None:
        """A message; on Kafka it says when it was sent (ms)."""
        if self._producer is None:
            shared(self._servers, "", "").call(lambda nc: publish(nc, Outgoing(name, text.encode(), {})))
            return
        self._producer.produce(name, text, partition=partition, timestamp=time)
        assert self._producer.flush(30) == 0


def xml(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Events as Siddhi's mapper writes them.

    >>> xml(("dev", "v"), [("a", 1)])
    '<events><event><dev>a</dev><v>1</v></event></events>'
    """
    events = ("".join(f"<{name}>{value}</{name}>" for name, value in zip(names, row, strict=True)) for row in rows)
    return f"<events>{''.join(f'<event>{each}</event>' for each in events)}</events>"
