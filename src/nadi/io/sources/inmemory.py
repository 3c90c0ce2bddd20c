"""`@source(type='inMemory', topic='t')`: what apps of this node published to the topic.

On a node a topic is a JetStream subject of the embedded server, so that it is a log like every other input: apps may start and stop independently, and
a message is there until the topic's limit (1 GB over all topics, oldest first) removes it. An app begins with what comes after its first start.
"""

from __future__ import annotations

from typing import Any

from nadi.io.contract import Connector, Log, Place
from nadi.io.jetstream import ensure_stream, stream_config, token
from nadi.io.journal import no_journal
from nadi.io.natsclient import NatsClient, shared
from nadi.io.registry import SourceKind
from nadi.io.sources.nats import StreamLog
from nadi.io.sources.properties import transport_names
from nadi.plan.connectortraits import Divided, SourceTraits
from nadi.plan.options import Option

STREAM = "NADI_MEMORY"
MAX_BYTES = 1024 * 1024 * 1024


def subject(topic: str) -> str:
    return f"nadi.memory.{token(topic)}"


def memory(place: Place) -> NatsClient:
    """The node's server, with the stream that holds all topics. Errors: CONNECTION_UNAVAILABLE."""
    if not place.journal:
        raise no_journal()
    client = shared(place.journal)
    config: dict[str, Any] = {**stream_config(STREAM, ["nadi.memory.*"]), "discard": "old", "max_bytes": MAX_BYTES}
    client.call(lambda nc: ensure_stream(nc, config))
    return client


def copied(place: Place) -> NatsClient | None:
    """The node's server, where another node has a copy of it: there topics are kept by the numbers of their events (`nadi.io.memorytopics`)."""
    client = shared(place.journal) if place.journal else None
    return None if client is None or client.replica is None else client


def _open(connector: Connector, place: Place) -> Log:
    client = copied(place)
    if client is not None:
        from nadi.io.memorytopics import TopicLog

        return TopicLog(client, connector.options["topic"])
    return StreamLog(memory(place), subject(connector.options["topic"]), "end", transport_names(connector))


KIND = SourceKind(
    (Option("topic", required=True, doc="the topic"),),
    _open,
    identity=("topic",),
    begins=lambda _source: "with what comes after the start",
    traits=SourceTraits(
        endless=True,
        divided=Divided.WHOLE,
        centres=False,
        owned=False,
        listens=None,
        journal=True,
        parted=False,
        local=False,
        header=False,
        topics=None,
        moved="",
    ),
    loops=(),
)
