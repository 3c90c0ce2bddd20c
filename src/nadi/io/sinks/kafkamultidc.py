"""`@sink(type='kafkaMultiDC', topic='t', bootstrap.servers='west:9092,east:9092')`: every row to one topic of two Kafka clusters.

In each of them exactly once, as `nadi.io.sinks.kafka` does it; what happens where one is away says `nadi.io.sinks.centres`. `Nadi-Producer` of a message
ends in the incarnation: so readers know it again that comes through the other centre (`nadi.io.sources.centre_marks`).

With `publish='active'` only the cluster publishes whose turn it is (`nadi.io.sinks.turns`). Its producers have the same transactional ids in both clusters,
so that a broker refuses whoever had the turn before; the publisher has the same name and incarnation, too. The transaction of a cut has the numbers up to
which its rows are there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import msgspec
from confluent_kafka import Producer

from nadi.errors import error
from nadi.io import kafkaclient, kafkaproperties
from nadi.io.centreoptions import addresses, at_centre, check_centres
from nadi.io.contract import Connector, Delivery, Place, Sink
from nadi.io.kafkaclient import KAFKA_LOOPS, OPTIONS, check_settings
from nadi.io.registry import SinkKind
from nadi.io.sinks import centres
from nadi.io.sinks.kafka import KafkaSink, check_key, check_partition, check_topic
from nadi.io.sinks.kafkaturn import TopicSwitch, TurnTopic, turn_topic
from nadi.io.sinks.numbers import numbers
from nadi.io.sinks.turns import TurnSink
from nadi.io.sources.centre_marks import LIFE
from nadi.io.turn import OPTIONS as OPTIONS_OF_TURNS
from nadi.io.turn import Known, Standing, Turn, TurnCentre, check_turns, takes_turns, turn_key
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits, Topics
from nadi.plan.options import Option, described

PASSED_ON = ("optional.configuration", "topic", "partition.no", "key", "on.error", "sequence.id", "centre")


class CentreKafkaSink(KafkaSink):
    """The sink of one centre."""

    def _made_by(self, bucket: int) -> str:
        return centres.publisher(self._connector, self._place, bucket)


class TurnKafkaSink(KafkaSink):
    """The sink of one centre for the cluster whose turn it is."""

    def __init__(self, connector: Connector, place: Place, known: Known) -> None:
        super().__init__(connector, place)
        self._known = known
        self._topic_of_turns = TurnTopic(connector)
        self._delivered: dict[int, dict[int, int]] = {}  # by bucket: the next number of each key-group

    def close(self) -> None:
        super().close()
        self._topic_of_turns.close()

    def _identity(self, bucket: int) -> str:
        return f"nadi-turn-{self._topic}-{turn_key(self._connector, bucket)}"

    def _made_by(self, bucket: int) -> str:
        return f"{turn_key(self._connector, bucket)}{LIFE}{self._topic_of_turns.standing.turn.life}"

    def _before(self, number: int) -> None:
        """Nobody else can write there any more: what is delivered is known for sure. Errors: FENCED, where it is somebody else's turn."""
        standing = self._topic_of_turns.read()
        if standing.turn < self._known.turn:  # the broker was away when the turn was given
            standing = self._carry(self._known.turn)
        if standing.turn.centre != self._connector.options["centre"]:
            raise error("FENCED", connector=self._who, producer=self._identity(number))
        self._delivered[number] = dict(standing.delivered.get(turn_key(self._connector, number), {}))

    def _carry(self, turn: Turn) -> Standing:
        """Tell the broker of a turn that another one knows of."""
        switch = TopicSwitch(self._connector)
        if switch.begin() < turn:
            switch.give(turn)
        return self._topic_of_turns.read()

    def _passed(self, delivery: Delivery) -> Collection[int]:
        done = self._delivered[delivery.bucket]
        return [i for i, of in enumerate(numbers(delivery)) if of.number + of.count <= done.get(of.group, 0)]

    def _beside(self, producer: Producer, delivery: Delivery) -> None:
        done = self._delivered[delivery.bucket]
        for of in numbers(delivery):
            done[of.group] = max(done.get(of.group, 0), of.number + of.count)
        told = msgspec.json.encode({str(group): number for group, number in done.items()})
        producer.produce(turn_topic(self._topic), told, turn_key(self._connector, delivery.bucket), 0)


def turns(connector: Connector) -> list[TurnCentre]:
    """The brokers of a sink that takes turns, none where it always publishes."""
    if not takes_turns(connector):
        return []
    return [_turn_centre(at_centre(connector, connector.type, a, _passed_on(connector))) for a in addresses(connector)]


def _turn_centre(centre: Connector) -> TurnCentre:
    address = centre.options["bootstrap.servers"]
    return TurnCentre(centre.stream, address, lambda: TurnTopic(centre), lambda: TopicSwitch(centre))


def _passed_on(connector: Connector) -> dict[str, str]:
    return {name: connector.options[name] for name in PASSED_ON if name in connector.options}


def _open(connector: Connector, place: Place) -> Sink:
    names = addresses(connector)
    known = Known()

    def opened(address: str) -> Sink:
        at = at_centre(connector, connector.type, address, _passed_on(connector))
        return TurnKafkaSink(at, place, known) if takes_turns(connector) else CentreKafkaSink(at, place)

    def sinks() -> Sequence[Sink]:
        return [opened(address) for address in names]

    inner = centres.CentresSink(connector, place, names, sinks)
    if not takes_turns(connector):
        return inner
    return TurnSink(connector, inner, lambda: [centre.follower() for centre in turns(connector)], known)


KIND = SinkKind(
    (
        *described(OPTIONS, {"bootstrap.servers": "one address per centre, as of the source"}),
        *centres.OPTIONS,
        Option("topic", required=True, doc="one topic, the same in all centres"),
        Option("partition.no", doc="as of `kafka`; the source reads one partition"),
        Option("key", doc="as of `kafka`"),
        *OPTIONS_OF_TURNS,
    ),
    _open,
    checks=(
        check_centres,
        kafkaproperties.check_brokers,
        check_settings,
        check_topic,
        check_partition,
        check_key,
        partial(check_turns, "kafkaMultiDC"),
    ),
    turns=turns,
    reaches=kafkaproperties.reaches,
    reads=kafkaclient.read,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="in each centre that is there: the rows of a batch and its number are written in one transaction",
        refuses="a message that is larger than the topic takes",
        announces=False,
        journal=False,
        local=False,
        header=False,
        topics=Topics(("topic",)),
        moved="",
        alone=(),
    ),
    loops=(KAFKA_LOOPS,),
)
