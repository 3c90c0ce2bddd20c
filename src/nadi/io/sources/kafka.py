"""`@source(type='kafka', topic.list='a,b', bootstrap.servers='host:9092')`: topics as a log, read with positions of the app's own.

A partition of the log is a partition of a topic: number = (place of the Kafka partition) × (number of topics) + (place of the topic), so
that numbers stay the same when a topic gets more partitions; where a topic has fewer partitions than another one, the number is empty.
A position is an offset. Only committed transactions are read. The consumer never joins its group (`assign`, not `subscribe`): which host
reads what is decided by the cut. What is processed is committed to `group.id` all the same, so that lag is seen by the usual tools
(`enable.offsets.commit='false'` switches it off).

With `share='i/n'` it has every n-th of these numbers, and the others stand for nothing.

`topic.offsets.map='a=10,b=0'` or `start.position` (`beginning`, `end`, `time:<ms>`) say where an app begins. `threading.option` is accepted and
without effect: partitions are read in parallel, their order is kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from nadi.errors import NOWHERE, Span, error
from nadi.io import kafkaclient, kafkaproperties, kafkawatch
from nadi.io.addresses import check_topics
from nadi.io.contract import Connector, Log, Messages, Place
from nadi.io.kafkaclient import (
    KAFKA_LOOPS,
    OPTIONS,
    WITHIN,
    Setting,
    admin_of,
    check_settings,
    name_of,
    settings,
    translated,
)
from nadi.io.kafkalibrary import wanted
from nadi.io.registry import SourceKind
from nadi.io.retention import Retention
from nadi.io.retry import failed, succeeded
from nadi.io.share import OPTION as SHARE
from nadi.io.share import share_of
from nadi.io.sources.kafka_readers import Came, Event, MessageReader, Reader
from nadi.io.sources.properties import transport_names
from nadi.io.wakes import TRUSTED, Doorbell, Tell
from nadi.plan.connectortraits import Divided, SourceTraits, Topics
from nadi.plan.options import LARGEST, Option, described, flag

END_AGE_MS = 10
PARTITIONS_AGE_MS = 5_000
PARTITIONS_WATCHED_MS = 15_000
JOINED = (
    1.1 * kafkawatch.IDLE_FETCH_MS / 1000 + kafkawatch.WAIT
)  # seconds after which a partition is part of what brokers are asked for
JOINING_LOOK = 0.05  # seconds between looks until then
LOOK = 0.5  # seconds between two looks at the time that a message may take
_ONE_BY_ONE: dict[str, Setting] = {
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 10_000,
    "fetch.queue.backoff.ms": 1,
}
COMMITTED = IsolationLevel.READ_COMMITTED


class KafkaLog:
    """Topics of one cluster. Clients are made on first use; the log may be used by several threads."""

    def __init__(self, connector: Connector, place: Place, names: tuple[str, ...] = ()) -> None:
        """`names` are transport properties that somebody wants besides those that the mapping reads."""
        options = connector.options
        self._connector = connector
        self._who = name_of(connector)
        self._topics = tuple(t.strip() for t in options["topic.list"].split(",") if t.strip())
        self._fixed = tuple(int(p) for p in options.get("partition.no.list", "").split(",") if p.strip())
        self._start = options.get("start.position", "beginning").strip().lower()
        self._starts = _offsets(connector)
        self._group = options.get("group.id") or f"nadi-{place.app}-{connector.stream}"
        self._commits = flag(options, "enable.offsets.commit", True)
        self._names = (*transport_names(connector), *names)
        self._share = share_of(f"@source of {connector.stream} (kafka)", options)
        self._counts: dict[str, int] = {}
        self._counted = self._ended = float("-inf")
        self._ends: dict[int, int] = {}
        self._readers: dict[int, Reader] = {}
        self._admin: AdminClient | None = None
        self._committer: Consumer | None = None
        self._looker: Consumer | None = None
        self._lock = threading.Lock()
        self._bell = Doorbell()
        self._watcher: kafkawatch.Watcher | None = None
        self._joined = float("-inf")

    def partitions(self) -> int:
        """How many numbers there are; the topics are looked at every PARTITIONS_AGE_MS, where somebody waits every PARTITIONS_WATCHED_MS.

        Errors: CONNECTION_UNAVAILABLE.
        """
        if self._fixed:
            return len(self._fixed) * len(self._topics)
        with self._lock:
            age = PARTITIONS_WATCHED_MS if self._bell.watched else PARTITIONS_AGE_MS
            if (time.monotonic() - self._counted) * 1000 > age:
                self._counts = self._counted_partitions()
                self._counted = time.monotonic()
            return max(self._counts.values()) * len(self._topics)

    def beginning(self, partition: int) -> int:
        where = self._place(partition)
        if where is None:
            return 0
        topic, number = where
        if topic in self._starts:
            return self._starts[topic]
        if self._start == "end":
            return self._offset(topic, number, OffsetSpec.latest())
        if self._start.startswith("time:"):
            # Before the look, which does not find what comes after it.
            next_one = self._offset(topic, number, OffsetSpec.latest())
            found = self._offset(topic, number, OffsetSpec.for_timestamp(int(self._start[5:])))
            return found if found >= 0 else next_one
        return self._offset(topic, number, OffsetSpec.earliest())

    def end(self, partition: int) -> int:
        """The last stable offset, at most END_AGE_MS old; one request asks for all partitions.

        Where somebody waits (`wake`), it is asked for when there was a message.
        """
        count = self.partitions()
        with self._lock:
            if self._bell.watched:
                joining = time.monotonic() < self._joined
                if self._bell.due(END_AGE_MS / 1000 if joining else TRUSTED) or partition not in self._ends:
                    with self._bell.look():
                        self._ends = self._latest(count)
                        self._listen()
            elif (time.monotonic() - self._ended) * 1000 > END_AGE_MS or partition not in self._ends:
                self._ends = self._latest(count)
                self._ended = time.monotonic()
            return self._ends[partition]

    def wake(self, tell: Tell) -> None:
        self._bell.register(tell)

    def next_look(self) -> float | None:
        """A partition that has just joined the watched ones is looked at until it is sure to be heard."""
        now = time.monotonic()
        return now + JOINING_LOOK if now < self._joined else None

    def _listen(self) -> None:
        places = {p: self._place(p) for p in self._ends}
        ends = {where: self._ends[p] for p, where in places.items() if where is not None}
        self._watcher, joining = kafkawatch.listen(settings(self._connector, {}), ends, self._bell.ring)
        if joining:
            self._joined = time.monotonic() + JOINED

    def oldest(self, partition: int) -> int:
        where = self._place(partition)
        return 0 if where is None else self._offset(*where, OffsetSpec.earliest())

    def retention(self) -> Retention | None:
        """The least `retention.ms` of the topics that have one and are not only compacted."""
        found = [(age, topic) for topic in self._topics if (age := self._kept_for(topic)) is not None]
        if not found:
            return None
        age, topic = min(found)
        return Retention(f"topic {topic}", f"retention.ms of {topic}", age)

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        return None

    def time_at(self, partition: int, position: int, end: int) -> int | None:
        """See `TimedLog`: one message is fetched, by a consumer that fetches no more."""
        where = self._place(partition)
        if where is None or position >= end:
            return None
        with self._lock:
            if self._looker is None:
                self._looker = Consumer(self._consumer_settings() | _ONE_BY_ONE)
            looker = self._looker
            try:
                looker.assign([TopicPartition(*where, position)])
                until = time.monotonic() + WITHIN
                while True:
                    found = looker.poll(LOOK)
                    if found is None:
                        self._awaited(until)
                    elif (problem := found.error()) is None:
                        return int(found.timestamp()[1]) if found.offset() < end else None
                    elif self._ends_here(Event(problem, found.offset()), *where, position, end):
                        return None
            except KafkaException as reason:
                raise translated(reason, self._who) from reason

    def later_than(self, partition: int, time: int) -> int | None:
        """See `TimedLog`: brokers keep an index of times."""
        where = self._place(partition)
        found = -1 if where is None else self._offset(*where, OffsetSpec.for_timestamp(time + 1))
        return found if found >= 0 else None

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        where = self._place(partition)
        if where is None or start >= end:
            return
        reader = self._taken(partition, end - start)
        try:
            reader.begin(*where, start)
            until = time.monotonic() + WITHIN
            while reader.next < 0:
                came = reader.step(end)
                if came is Came.NOTHING:
                    self._awaited(until)
                    continue
                if came is Came.FULL and (full := reader.piece()):
                    yield full
                elif came is Came.ALL or (isinstance(came, Event) and self._ends_here(came, *where, start, end)):
                    reader.next = end
                until = time.monotonic() + WITHIN
            if rest := reader.piece():
                yield rest
        except KafkaException as reason:
            raise translated(reason, self._who) from reason
        finally:
            self._given_back(partition, reader)

    def acknowledge(self, partition: int, position: int) -> None:
        """Commit the offset to the group, without waiting."""
        where = self._place(partition)
        if where is None or not self._commits:
            return
        with self._lock:
            if self._committer is None:
                self._committer = Consumer(self._consumer_settings())
        try:
            self._committer.commit(offsets=[TopicPartition(*where, position)], asynchronous=True)
        except KafkaException as reason:
            raise translated(reason, self._who) from reason

    def close(self) -> None:
        self._bell.silence()
        if self._watcher is not None:
            self._watcher.leave(self._bell.ring)
            self._watcher = None
        with self._lock:
            others = [client for client in (self._committer, self._looker) if client is not None]
            opened = [*self._readers.values(), *others]
            self._readers, self._committer, self._looker, self._admin = {}, None, None, None
        for each in opened:
            each.close()

    # -- what there is

    def _place(self, partition: int) -> tuple[str, int] | None:
        """Topic and number of a partition; None for a number that stands for nothing."""
        if not self._share.has_partition(partition):
            return None
        place, topic = divmod(partition, len(self._topics))
        name = self._topics[topic]
        if self._fixed:
            return name, self._fixed[place]
        if not self._counts:
            self.partitions()
        return (name, place) if place < self._counts[name] else None

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = admin_of(self._connector)
        return self._admin

    def _counted_partitions(self) -> dict[str, int]:
        try:
            found = self._client().list_topics(timeout=WITHIN).topics  # asked for by name, a broker may create it
        except KafkaException as reason:
            raise translated(reason, self._who) from reason
        missing = [t for t in self._topics if t not in found or not found[t].partitions]
        if missing:
            said = f"there is no topic '{missing[0]}'"
            failed(self._who, said)
            raise error("CONNECTION_UNAVAILABLE", connector=self._who, reason=said)
        succeeded(self._who)
        return {t: len(found[t].partitions) for t in self._topics}

    def _kept_for(self, topic: str) -> int | None:
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            told = self._client().describe_configs([asked], request_timeout=WITHIN)[asked].result(WITHIN + 5)
        except KafkaException as reason:
            raise translated(reason, self._who) from reason
        age = int(told["retention.ms"].value)
        return age if age >= 0 and "delete" in told["cleanup.policy"].value else None

    def _latest(self, count: int) -> dict[int, int]:
        places = {n: self._place(n) for n in range(count)}
        asked = {TopicPartition(*p): OffsetSpec.latest() for p in places.values() if p}
        found = self._list(asked)
        return {n: found[p] if p else 0 for n, p in places.items()}

    def _offset(self, topic: str, number: int, spec: OffsetSpec) -> int:
        return self._list({TopicPartition(topic, number): spec})[topic, number]

    def _list(self, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[tuple[str, int], int]:
        try:
            told = self._client().list_offsets(dict(asked), isolation_level=COMMITTED, request_timeout=WITHIN)
            found = {(p.topic, p.partition): int(future.result(WITHIN + 5).offset) for p, future in told.items()}
        except KafkaException as reason:
            self._counted = float("-inf")  # asking for the topics again tells the client who leads them now
            raise translated(reason, self._who) from reason
        succeeded(self._who)
        return found

    # -- reading

    def _taken(self, partition: int, positions: int) -> Reader:
        """The partition's reader, or a new one where none is free."""
        with self._lock:
            kept = self._readers.pop(partition, None)
        found = kept or MessageReader(Consumer(self._consumer_settings()), self._names)
        library = wanted(positions)
        return found.in_blocks(library) if library is not None and isinstance(found, MessageReader) else found

    def _given_back(self, partition: int, reader: Reader) -> None:
        with self._lock:
            kept = self._readers.setdefault(partition, reader)
        if kept is not reader:
            reader.close()

    def _consumer_settings(self) -> dict[str, Setting]:
        own: dict[str, Setting] = {
            "group.id": self._group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 50,
            "queued.max.messages.kbytes": 32_768,
            "fetch.queue.backoff.ms": 10,  # by default a full queue is not filled again for a second
        }
        return settings(self._connector, own)

    def _awaited(self, until: float) -> None:
        """Errors: CONNECTION_UNAVAILABLE where it is later than `until`."""
        if time.monotonic() > until:
            said = f"no message within {WITHIN:.0f} s"
            failed(self._who, said)
            raise error("CONNECTION_UNAVAILABLE", connector=self._who, reason=said)

    def _ends_here(self, event: Event, topic: str, number: int, start: int, end: int) -> bool:
        """Whether an event that is no message says that there are none left before `end` (markers, compacted ones)."""
        found = event.error
        if found.code() == KafkaError._PARTITION_EOF:
            return event.offset >= end
        if found.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            first = self._offset(topic, number, OffsetSpec.earliest())
            raise error("LOG_TRUNCATED", log=f"topic {topic}, partition {number},", position=start, first=first)
        if found.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return False  # the client reconnects; the time is bounded
        raise translated(found, self._who)


def _offsets(connector: Connector) -> dict[str, int]:
    """The option topic.offsets.map. Errors: OPTION_INVALID."""
    text = connector.options.get("topic.offsets.map") or connector.options.get("topic.offset.map") or ""
    found: dict[str, int] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        topic, _, offset = pair.partition("=")
        if not offset.strip().isdecimal():
            raise _invalid(connector, "topic.offsets.map", text, "topic=offset,topic=offset")
        found[topic.strip()] = int(offset)
    return found


def _invalid(connector: Connector, name: str, value: str, wanted: str, span: Span = NOWHERE) -> Exception:
    where = f"@source of {connector.stream} ({connector.type})"
    return error("OPTION_INVALID", span, where=where, name=name, value=value, wanted=wanted)


def _check_share(connector: Connector, span: Span) -> None:
    share_of(f"@source of {connector.stream} (kafka)", connector.options, span)


def _check_offsets(connector: Connector, _span: Span) -> None:
    _offsets(connector)


def _check_partitions(connector: Connector, span: Span) -> None:
    numbers = connector.options.get("partition.no.list", "")
    if not all(p.strip().isdecimal() and int(p) <= LARGEST for p in numbers.split(",") if p.strip()):
        raise _invalid(connector, "partition.no.list", numbers, "whole numbers with commas between them", span)


def _check_topics(connector: Connector, span: Span) -> None:
    topics = [topic.strip() for topic in connector.options["topic.list"].split(",") if topic.strip()]
    check_topics(f"@source of {connector.stream} (kafka)", "topic.list", topics, span)


def _begins(connector: Connector) -> str:
    start = connector.options.get("start.position", "beginning").strip().lower()
    where = {"beginning": "with the oldest message", "end": "with what comes after the start"}
    found = where.get(start, f"with messages from {start} on")
    offsets = ", ".join(f"{topic} at {offset}" for topic, offset in _offsets(connector).items())
    return f"{found}; {offsets}" if offsets else found


def check_start(connector: Connector, span: Span = NOWHERE) -> None:
    """Errors: OPTION_INVALID, where `start.position` is none."""
    start = connector.options.get("start.position", "beginning").strip().lower()
    if start not in ("beginning", "end") and not start.removeprefix("time:").isdecimal():
        raise _invalid(connector, "start.position", start, "beginning, end or time:<ms>", span)


def _open(connector: Connector, place: Place) -> Log:
    KIND.check(connector, connector.map.span)
    return KafkaLog(connector, place)


KIND = SourceKind(
    (
        *OPTIONS,
        Option("topic.list", required=True, doc="topics, with commas between them"),
        Option("group.id", doc="`nadi-<app>-<stream>`"),
        Option(
            "threading.option",
            choices=("single.thread", "topic.wise", "partition.wise"),
            doc="Siddhi's, without effect: partitions are read in parallel",
        ),
        Option("partition.no.list", doc="only these partitions"),
        Option("topic.offsets.map", doc="where a new app begins, by topic: `a=10,b=0`", other="topic.offset.map"),
        Option("topic.offset.map", doc="another name of `topic.offsets.map`"),
        Option(
            "start.position",
            doc="where a new app begins: `beginning` (default), `end`, `time:<ms>`",
            default="beginning",
        ),
        Option("seq.enabled", choices=("false",), doc="`false` only"),
        Option("enable.offsets.commit", kind="bool", doc="`false`: commit nothing to the group"),
        Option("enable.async.commit", kind="bool", doc="Siddhi's, without effect"),
        *described(
            (SHARE,),
            {
                "share": "`i/n`: every n-th partition from the i-th on; nadi writes it into partial apps of a "
                "[cluster](distributed.md#how-events-get-in)"
            },
        ),
    ),
    _open,
    identity=("topic.list", "partition.no.list"),
    begins=_begins,
    checks=(
        kafkaproperties.check_brokers,
        check_settings,
        _check_topics,
        _check_partitions,
        _check_offsets,
        _check_share,
        check_start,
    ),
    reaches=kafkaproperties.reaches,
    reads=kafkaclient.read,
    traits=SourceTraits(
        endless=True,
        divided=Divided.SHARES,
        centres=False,
        owned=False,
        listens=None,
        journal=False,
        parted=False,
        local=False,
        header=False,
        topics=Topics(("topic.list", "topic")),
        moved="",
    ),
    loops=(KAFKA_LOOPS,),
)
