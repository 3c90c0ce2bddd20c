"""Topics of Kafka that are made and removed. Brokers tell each other of them, and nobody of that: it is asked for until it is so."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from nadi.errors import error
from nadi.io.kafkaclient import WITHIN

SETTLED_WITHIN = 30.0  # seconds
LOOK = 0.05  # seconds between two looks


def wanted(name: str, parts: int, replicas: int, kept: Mapping[str, str]) -> NewTopic:
    """A topic that has what was acknowledged on most of its brokers: else what one had that dies a moment later would be lost, however many copies there are.

    >>> wanted("A.S", 2, 3, {"retention.ms": "-1"}).config
    {'retention.ms': '-1', 'min.insync.replicas': '2'}
    """
    return NewTopic(name, parts, replicas, config={**kept, "min.insync.replicas": str(replicas // 2 + 1)})


def create(admin: AdminClient, topics: Sequence[NewTopic], connector: str) -> None:
    """Make topics; those that are there stay as they are. They can be used on return. Errors: KafkaException, CONNECTION_UNAVAILABLE."""
    until = time.monotonic() + SETTLED_WITHIN
    for made in admin.create_topics(list(topics), request_timeout=WITHIN, operation_timeout=WITHIN).values():
        try:
            made.result(WITHIN + 5)
        except KafkaException as reason:
            if reason.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    while not _usable(sizes(admin), topics):
        _wait(until, connector, "its topics are not there yet")


def remove(admin: AdminClient, names: Collection[str], connector: str) -> None:
    """Delete topics, where they are there; they are gone on return. Errors: KafkaException, CONNECTION_UNAVAILABLE."""
    for gone in admin.delete_topics(list(names), request_timeout=WITHIN, operation_timeout=WITHIN).values():
        try:
            gone.result(WITHIN + 5)
        except KafkaException as reason:
            if reason.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    until = time.monotonic() + SETTLED_WITHIN
    while set(names) & sizes(admin).keys():
        _wait(until, connector, "its topics are still there")


def sizes(admin: AdminClient) -> dict[str, int]:
    """The topics, with how many partitions they have: 0 where a broker has only just heard of one. Errors: KafkaException."""
    found = admin.list_topics(timeout=WITHIN).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def _usable(found: Mapping[str, int], topics: Sequence[NewTopic]) -> bool:
    return all(found.get(topic.topic, 0) > 0 for topic in topics)


def _wait(until: float, connector: str, reason: str) -> None:
    if time.monotonic() > until:
        raise error("CONNECTION_UNAVAILABLE", connector=connector, reason=reason)
    time.sleep(LOOK)
