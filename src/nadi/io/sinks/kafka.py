"""`@sink(type='kafka', topic='t', bootstrap.servers='host:9092')`: exactly once, one transaction per bucket and cut.

Every bucket has a producer with a transactional id of its own. The rows of a cut are written in one transaction, together with the offset `cut + 1`, committed
on behalf of a consumer group that nobody else uses. The group's offset therefore says which cut was written last, and changes with the rows or not at all:
a cut that is written again finds its offset there and has no effect. A producer that another one has replaced (a zombie, a second node) is fenced by
`init_transactions`, which also ends what it left open, before the offset is read.

The name of the group holds the run (a random name in the state folder): a new state folder counts its cuts from 0 again. Kafka forgets the offset of a group
that was silent for `offsets.retention.minutes` (a week by default): a cut whose transaction was committed is written twice if the node was killed before it
noted that, and then stayed away for longer. Readers must read with `isolation.level=read_committed`.

A message that is larger than the topic's `max.message.bytes` (or the client's `message.max.bytes`) is refused for good: what follows is said by `on.error` (see
`nadi.io.sinks.refusals`). The client knows the topic's bound, so that such a message never gets into a transaction: the broker would fail all of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from nadi.errors import NadiError, Span, error
from nadi.io import kafkaclient, kafkaproperties
from nadi.io.addresses import check_topics
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.kafkaclient import (
    KAFKA_LOOPS,
    OPTIONS,
    WITHIN,
    Setting,
    check_settings,
    fenced,
    name_of,
    settings,
    translated,
)
from nadi.io.kafkalibrary import wanted
from nadi.io.registry import SinkKind
from nadi.io.retry import failed, succeeded
from nadi.io.sinks import ledger
from nadi.io.sinks.kafka_writers import (
    ANY,
    LAST_PARTITION,
    WRONG,
    ObjectWriter,
    Rows,
    Writer,
    loop_writer,
    partition_of,
    partitions,
)
from nadi.io.sinks.numbers import producer, text_option
from nadi.io.sinks.refusals import Refusals, named
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits, Topics
from nadi.plan.options import Option, described

TRANSACTION_WITHIN = 30.0  # seconds
OFFSETS_WITHIN = 10.0  # a call that never returns when the broker was restarted inside the transaction: see `_in_time`
GRACE = 2.0
NOTHING = -1
# Rows and their headers repeat themselves: compressed, they take client and broker a third less time.
_USUAL: Mapping[str, Setting] = {"compression.codec": "lz4"}
ROOM = 128  # bytes that a batch of one message has beside key, value and headers, at most
LEAST_BOUND, USUAL_BOUND = 1_000, 1_000_000  # librdkafka's, for message.max.bytes


_CONNECTING = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "reconnect.", "broker.", "client.", "log_level")


@dataclass(slots=True)
class _Bucket:
    """The clients of one bucket and the last cut that its group has."""

    producer: Producer
    group: Consumer
    done: int
    lock: threading.Lock
    writer: Writer
    partitions: int = 0  # of the topic, as far as was asked


class KafkaSink:
    """Payloads to one topic."""

    def __init__(self, connector: Connector, place: Place) -> None:
        options = connector.options
        self._connector = connector
        self._place = place
        self._who = name_of(connector)
        self._topic = options["topic"]
        self._key = text_option(connector, "key", options["key"]) if "key" in options else None
        number = options.get("partition.no")
        self._partition = None if number is None else text_option(connector, "partition.no", number)
        self._refusals = Refusals(connector, place)
        self._buckets: dict[int, _Bucket] = {}
        self._lock = threading.Lock()

    def write(self, delivery: Delivery) -> Receipt:
        """Write a cut that the topic does not have. Errors: CONNECTION_UNAVAILABLE, FENCED, REFUSED."""
        refused = self._refusals.known(delivery)
        try:
            bucket = self._opened(delivery.bucket)
            with bucket.lock:
                if delivery.cut > bucket.done and delivery.payloads:
                    self._transaction(bucket, delivery, refused)
                    bucket.done = delivery.cut
        except KafkaException as reason:
            self._drop(delivery.bucket)
            if fenced(reason):
                who = self._identity(delivery.bucket)
                raise error("FENCED", connector=self._who, producer=who) from reason
            raise self._named(reason) from reason
        succeeded(self._who)
        return Receipt(delivery.bucket, delivery.cut, {}, named(refused))

    def _named(self, reason: KafkaException) -> NadiError:
        found = translated(reason, self._who)
        if found.condition != "REFUSED" or not self._refusals.waits:
            return found
        failed(self._who, reason.args[0].str())
        return error("CONNECTION_UNAVAILABLE", connector=self._who, reason=reason.args[0].str())

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: each transaction committed its own part."""

    def close(self) -> None:
        for number in tuple(self._buckets):
            self._drop(number)

    def _made_by(self, bucket: int) -> str:
        """What receivers know the rows of a bucket by."""
        return producer(self._connector, self._place, bucket)

    def _identity(self, bucket: int) -> str:
        return f"nadi-{self._place.identity}-{self._connector.stream}-{self._connector.ordinal}-{bucket}"

    def _opened(self, number: int) -> _Bucket:
        with self._lock:
            if number not in self._buckets:
                self._buckets[number] = self._open(number)
            return self._buckets[number]

    def _open(self, number: int) -> _Bucket:
        identity = self._identity(number)
        run = ledger.run(ledger.shared(self._connector, self._place))
        # A transaction asks the brokers again and again until the one before is closed: with the default of 100 ms between
        # two tries a small cut took 110 ms, with this one 25 ms.
        own: dict[str, Setting] = {"transactional.id": identity, "acks": "all", "linger.ms": 5, "retry.backoff.ms": 5}
        made = Producer(self._bounded(settings(self._connector, own, _USUAL)))
        made.init_transactions(TRANSACTION_WITHIN)
        self._before(number)
        own = {
            "group.id": f"{identity}-{run}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        group = Consumer(settings(self._connector, own))
        try:
            (found,) = group.committed([TopicPartition(self._topic, 0)], WITHIN)
            if found.error is not None:
                raise KafkaException(found.error)
        except KafkaException:
            group.close()
            raise
        last = found.offset - 1 if found.offset > 0 else NOTHING
        return _Bucket(made, group, last, threading.Lock(), ObjectWriter(made, self._topic))

    def _bounded(self, config: dict[str, Setting]) -> dict[str, Setting]:
        """The configuration of a producer that sends nothing which the topic does not take."""
        common = {name: config[name] for name in config if name.startswith(_CONNECTING)}
        topic = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        asking = AdminClient(common)  # has to live until it has the answer
        try:
            (found,) = asking.describe_configs([topic], request_timeout=WITHIN).values()
            bound = max(LEAST_BOUND, int(found.result(WITHIN)["max.message.bytes"].value) - ROOM)
        except (KafkaException, KeyError, TimeoutError):
            return config  # not told, as to a user without the right to ask: the broker will refuse
        return {**config, "message.max.bytes": min(bound, int(config.get("message.max.bytes", USUAL_BOUND)))}

    def _transaction(self, bucket: _Bucket, delivery: Delivery, refused: dict[int, str]) -> None:
        """Write all but what is refused, which is noted first: a cut that its group has is not written again."""
        keys = self._key.texts(delivery) if self._key else None
        made_by = self._made_by(delivery.bucket)
        rows = Rows(delivery, made_by, keys, self._placed(bucket, delivery, refused))
        bucket.producer.begin_transaction()
        self._produce(self._writer(bucket, len(delivery.payloads)), rows, refused)
        self._beside(bucket.producer, delivery)
        self._refusals.keep(delivery, refused)
        done = [TopicPartition(self._topic, 0, delivery.cut + 1)]
        group = bucket.group.consumer_group_metadata()
        _in_time(lambda: bucket.producer.send_offsets_to_transaction(done, group, OFFSETS_WITHIN), OFFSETS_WITHIN)
        bucket.producer.commit_transaction(TRANSACTION_WITHIN)

    def _placed(self, bucket: _Bucket, delivery: Delivery, refused: dict[int, str]) -> npt.NDArray[np.int32]:
        """The partition of each payload; those that the topic does not have are refused: the client would wait for them to be made, and all others with it."""
        placed = partitions(self._partition, delivery)
        if self._partition is None or not self._partition.template.attributes:
            return placed
        if placed.max(initial=ANY) >= bucket.partitions:
            found = bucket.producer.list_topics(self._topic, WITHIN).topics.get(self._topic)
            bucket.partitions = len(found.partitions) if found is not None else 0
        bound = bucket.partitions or LAST_PARTITION + 1  # 0: the client did not learn it
        for i in np.flatnonzero((placed == WRONG) | (placed >= bound)).tolist():
            refused.setdefault(i, f"partition.no is no partition of the topic: it has {bucket.partitions}")
            if not self._refusals.goes_on:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, refused[i]))
        return placed

    def _writer(self, bucket: _Bucket, payloads: int) -> Writer:
        """The bucket's writer, from now on the one that works in a loop, if that is worth it for so many payloads."""
        library = wanted(payloads)
        if library is not None and isinstance(bucket.writer, ObjectWriter):
            bucket.writer = loop_writer(bucket.producer, self._topic, library) or bucket.writer
        return bucket.writer

    def _before(self, number: int) -> None:
        """A bucket is opened: whoever wrote it before cannot do so any more."""

    def _passed(self, delivery: Delivery) -> Collection[int]:
        """The payloads that the topic has already, from somebody else."""
        return ()

    def _beside(self, producer: Producer, delivery: Delivery) -> None:
        """Put into the transaction what belongs to its rows."""

    def _produce(self, writer: Writer, rows: Rows, refused: dict[int, str]) -> None:
        """Hand on all payloads but those refused, and add to these what the topic does not take, where `on.error` says to go on then."""
        passed = self._passed(rows.delivery)
        stop = writer.write(rows, {*refused, *passed}, 0)
        while stop is not None:
            if stop.error.code() != KafkaError.MSG_SIZE_TOO_LARGE or not self._refusals.goes_on:
                raise KafkaException(stop.error)
            size = len(rows.delivery.payloads[stop.index])
            refused[stop.index] = f"the message of {size} bytes is larger than topic or client allow"
            stop = writer.write(rows, {*refused, *passed}, stop.index + 1)

    def _drop(self, number: int) -> None:
        """Forget the clients of a bucket; the next ones end what these left open."""
        with self._lock:
            bucket = self._buckets.pop(number, None)
        if bucket is None:
            return
        with contextlib.suppress(KafkaException):  # nothing open, fenced, or not reachable
            bucket.producer.abort_transaction(1.0)
        bucket.writer.close()
        bucket.group.close()


def _in_time(call: Callable[[], object], within: float) -> None:
    """Make a call that should take so many seconds at most, and may wait for ever. Errors: KafkaException, _TIMED_OUT where it still waits after its time.

    librdkafka ignores the timeout of `send_offsets_to_transaction` while the group's coordinator is away (its issue 5456, seen with 2.16.0 when
    a broker was killed). The producer is given up then: the next one with its transactional id fences it and ends what it left open.
    """
    done: Future[object] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as reason:
            done.set_exception(reason)

    threading.Thread(target=work, name="kafka-transaction", daemon=True).start()
    try:
        done.result(within + GRACE)
    except TimeoutError:
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, "the coordinator of the group does not answer")
        ) from None


def _open(connector: Connector, place: Place) -> Sink:
    KIND.check(connector, connector.map.span)
    return KafkaSink(connector, place)


def check_topic(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID, where `topic` is none of Kafka's."""
    where = f"@sink of {connector.stream} ({connector.type})"
    check_topics(where, "topic", [connector.options["topic"]], span)


def check_key(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID, where `key` names what is no attribute."""
    text_option(connector, "key", connector.options.get("key", ""), span)


def check_partition(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID, where `partition.no` can be none."""
    number = connector.options.get("partition.no", "0")
    if not text_option(connector, "partition.no", number, span).template.attributes and partition_of(number) == WRONG:
        where = f"@sink of {connector.stream} ({connector.type})"
        raise error("OPTION_INVALID", span, where=where, name="partition.no", value=number, wanted="a whole number")


KIND = SinkKind(
    (
        *described(
            OPTIONS,
            {
                "optional.configuration": "[settings of the client](#settings-of-the-kafka-client): `name:value,name:value`; batches are "
                "compressed with `lz4` unless there is a `compression.codec` in it",
            },
        ),
        Option("topic", required=True, doc="the topic"),
        Option(
            "partition.no",
            doc=(
                "the partition; may have `{{attribute}}` in it, and a row whose number the topic does not "
                "have is [refused](faults.md#a-target-refuses); else Kafka chooses by key"
            ),
        ),
        Option("key", doc="the key of the message; may have `{{attribute}}` in it"),
        Option("sequence.id", doc="Siddhi's, without effect: the headers have numbers"),
        Option(
            "is.synchronous", kind="bool", doc="Siddhi's, without effect: a batch always waits until the broker has it"
        ),
    ),
    _open,
    checks=(kafkaproperties.check_brokers, check_settings, check_topic, check_partition, check_key),
    reaches=kafkaproperties.reaches,
    reads=kafkaclient.read,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="the rows of a batch and its number are written in one transaction",
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
