"""What an app reads that others fill in text: a subject of a JetStream stream, or a topic. Its name is the contract, and an ordinary source reads it.

It is made where it is not there, so that nothing is lost that comes before the app runs. What is there stays as it is, and nothing is ever removed: it
belongs to those who fill it.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException
from nats.aio.client import Client as Connection

from nadi.channels import kafkatopics
from nadi.channels.options import Channel
from nadi.channels.transport import Bounds
from nadi.io.contract import Connector
from nadi.io.jetstream import ensure_stream, find_stream, stream_config, token
from nadi.io.kafkaclient import admin_of, name_of, translated
from nadi.io.natsclient import NatsClient, api, shared
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema


def create(channel: Channel, bounds: Bounds, subjects: Sequence[str] = ()) -> None:
    """Make the topic, or a stream for the subjects that none holds: that of the channel's name, unless others are named.

    Errors: CONNECTION_UNAVAILABLE, REFUSED.
    """
    if channel.transport == "nats":
        _client(channel).call(lambda nc: _hold(nc, channel.name, subjects or (channel.name,), bounds))
    elif not parts(channel):
        _create_topic(channel, bounds)


async def _hold(connection: Connection, name: str, subjects: Sequence[str], bounds: Bounds) -> None:
    missing = [subject for subject in subjects if not await find_stream(connection, subject)]
    if not missing:
        return
    made = {**stream_config(token(name), missing), "max_bytes": bounds.bytes, "num_replicas": bounds.replicas}
    await ensure_stream(connection, made)
    config = (await api(connection, f"STREAM.INFO.{token(name)}"))["config"]
    if more := [subject for subject in missing if subject not in config["subjects"]]:  # the app got wider
        await api(connection, f"STREAM.UPDATE.{token(name)}", {**config, "subjects": [*config["subjects"], *more]})


def parts(channel: Channel) -> int:
    """The partitions of the topic, 1 for a subject that a stream holds; 0 where it is not there. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    if channel.transport == "nats":
        return 1 if _stream_of(channel) else 0
    return topics(channel.servers).get(channel.name, 0)


def topics(servers: str) -> dict[str, int]:
    """The topics of a Kafka cluster, with how many partitions they have. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    asking = _connector("topics", servers)
    try:
        admin = admin_of(asking)
        return kafkatopics.sizes(admin)
    except KafkaException as reason:
        raise translated(reason, name_of(asking)) from reason


def _stream_of(channel: Channel) -> str:
    return _client(channel).call(lambda nc: find_stream(nc, channel.name))


def _client(channel: Channel) -> NatsClient:
    user = channel.options.get("username") or ""
    return shared(channel.servers, user, channel.options.get("password", "") if user else "")


def _create_topic(channel: Channel, bounds: Bounds) -> None:
    asking = _connector(channel.name, channel.servers)
    kept = {"retention.ms": "-1", "retention.bytes": "-1"}  # an app that is away for long reads all that has come
    wanted = kafkatopics.wanted(channel.name, channel.parts, bounds.replicas, kept)
    try:
        admin = admin_of(asking)  # it lives as long as somebody has it
        kafkatopics.create(admin, [wanted], name_of(asking))
    except KafkaException as reason:
        raise translated(reason, name_of(asking)) from reason


def _connector(name: str, servers: str) -> Connector:
    return Connector(name, Schema(()), "kafka", {"bootstrap.servers": servers}, Annotation("map"), 0)
