"""The turn (`nadi.io.turn`) of a Kafka broker: a topic beside the topic of the sink, `<topic>.turn`.

| key | value, JSON |
|---|---|
| `turn` | `{"token": 3, "centre": "east", "life": "a7…"}`: which cluster publishes. The greatest token counts; `life` is the publisher's incarnation |
| `<publisher>/<bucket>` | `{"group": next number, …}`: up to where its rows are in the topic; written in the transaction that has them |

It is compacted, and has one partition. Each broker has one: who takes over there reads what was delivered there. `nadi centre switch` writes the turn.
"""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from nadi.errors import NadiError
from nadi.io.contract import Connector
from nadi.io.kafkaclient import WITHIN, Setting, name_of, settings, translated
from nadi.io.turn import Standing, Turn

TURN = "turn"
OFFSET_BEGINNING = -2
AT_ONCE = 1_000
LOOK = 1.0  # seconds between looks for the topic


_TURN = msgspec.json.Decoder(Turn).decode
_NUMBERS = msgspec.json.Decoder(dict[int, int]).decode


def turn_topic(topic: str) -> str:
    """The topic that says whose turn it is.

    >>> turn_topic("alerts")
    'alerts.turn'
    """
    return f"{topic}.turn"


class TurnTopic:
    """Follows the topic at one broker. Used by one thread at a time."""

    def __init__(self, connector: Connector) -> None:
        self._who = name_of(connector)
        self._topic = turn_topic(connector.options["topic"])
        self._connector = connector
        self._consumer: Consumer | None = None
        self._assigned = False
        self._look_at = 0.0
        self.standing = Standing(Turn(), {})

    def follow(self) -> Standing:
        """What is known by now. It waits only where the topic was not there yet, and then not often."""
        if not self._assigned and time.monotonic() >= self._look_at:
            with suppress(NadiError):  # it is looked for again
                self.read()
        for message in self._opened().consume(AT_ONCE, 0) if self._assigned else ():
            if message.error() is None:
                self._take(message.key(), message.value())
        return self.standing

    def read(self) -> Standing:
        """All that is there now. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        until = time.monotonic() + WITHIN
        self._look_at = until
        consumer = self._opened()
        try:
            if self._topic not in consumer.list_topics(timeout=WITHIN).topics:
                self._look_at = time.monotonic() + LOOK
                return self.standing  # nobody has ever had a turn
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            self._assigned = True
            while True:
                message = consumer.poll(0.2)
                problem = None if message is None else message.error()
                if problem is not None and problem.code() == KafkaError._PARTITION_EOF:
                    return self.standing
                if problem is not None and problem.code() == KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(problem)
                if message is not None and problem is None:
                    self._take(message.key(), message.value())
                elif time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{self._topic} cannot be read"))
        except KafkaException as reason:
            raise translated(reason, self._who) from reason

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _opened(self) -> Consumer:
        if self._consumer is None:
            own: dict[str, Setting] = {
                "group.id": "nadi-turn",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
            self._consumer = Consumer(settings(self._connector, own))
            self._assigned = False
        return self._consumer

    def _take(self, key: bytes | str | None, value: bytes | str | None) -> None:
        name = key.decode() if isinstance(key, bytes) else key or ""
        if value is None:
            return
        if name != TURN:
            self.standing.delivered[name] = _NUMBERS(value)
        elif (turn := _TURN(value)) > self.standing.turn:
            self.standing.turn = turn


class TopicSwitch:
    """Gives the turn at one broker. Two at the same time: the later one fences the other."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._who = name_of(connector)
        self._topic = turn_topic(connector.options["topic"])
        self._producer: Producer | None = None

    def begin(self) -> Turn:
        """Keep others from switching, and say whose turn it is. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        try:
            self._make()
            own: dict[str, Setting] = {"transactional.id": f"nadi-switch-{self._topic}", "acks": "all"}
            self._producer = Producer(settings(self._connector, own))
            self._producer.init_transactions(WITHIN)
        except KafkaException as reason:
            raise translated(reason, self._who) from reason
        reading = TurnTopic(self._connector)
        try:
            return reading.read().turn
        finally:
            reading.close()

    def give(self, turn: Turn) -> None:
        """Errors: CONNECTION_UNAVAILABLE, REFUSED (somebody else is switching)."""
        assert self._producer is not None
        try:
            self._producer.begin_transaction()
            self._producer.produce(self._topic, msgspec.json.encode(turn), TURN, 0)
            self._producer.commit_transaction(WITHIN)
        except KafkaException as reason:
            raise translated(reason, self._who) from reason

    def _make(self) -> None:
        admin = AdminClient(settings(self._connector, {}))
        if self._topic in admin.list_topics(timeout=WITHIN).topics:
            return
        (made,) = admin.create_topics([NewTopic(self._topic, 1, config={"cleanup.policy": "compact"})]).values()
        try:
            made.result(WITHIN)
        except KafkaException as reason:
            if reason.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
