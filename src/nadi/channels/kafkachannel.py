"""A channel on Kafka: a topic whose partitions are the parts, and one of one partition for progress records.

    <channel>             batches; those of several producers lie between each other
    <channel>.progress    progress records; what has the producer's name as its key is from it

A producer announces in transactions of an id of its own: who claims it anew fences who had it before, and ends what that one left open. Batches are no part of
them: one that no progress record names counts for nobody. Kafka drops old records or none, and does not refuse new ones at a bound: so producers look now and
then how much the progress records that are there name, and wait where it is as much as the channel may have.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from nadi.channels import kafkatopics
from nadi.channels.fill import Bound, Fill
from nadi.channels.kafkatape import Tape
from nadi.channels.options import Channel
from nadi.channels.records import Progress, decode_progress, encode_progress
from nadi.channels.transport import Bounds, Size, Told
from nadi.errors import NadiError, error
from nadi.io import kafkawatch
from nadi.io.contract import Connector
from nadi.io.kafkaclient import WITHIN, Setting, admin_of, fenced, settings, translated
from nadi.io.kafkatrust import brokers_of
from nadi.lang.tree import Annotation
from nadi.plan.nodes import Schema

LARGEST = 900_000  # bytes of a record: less than brokers take by default
TRANSACTION_WITHIN = 30.0  # seconds
JOINED = (
    1.1 * kafkawatch.IDLE_FETCH_MS / 1000 + kafkawatch.WAIT
)  # seconds until a topic that is listened to for the first time is sure to be heard
NEWS = 500  # records that are given at a time
BACK = 500  # records that are looked at first when one is sought from the end
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def topic_of(name: str) -> str:
    """A channel's name as that of a topic.

    >>> topic_of("W1.Good.dev"), topic_of("a b")[:4]
    ('W1.Good.dev', 'a_b-')
    """
    safe = _UNSAFE.sub("_", name)
    return safe if safe == name else f"{safe}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


class KafkaChannel:
    """Implements `Transport`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._topic = topic_of(channel.name)
        self._told = f"{self._topic}.progress"
        self.name = f"channel {channel.name} on Kafka {brokers_of(channel.servers).addresses}"
        options = {**channel.options, "bootstrap.servers": channel.servers}
        self._connector = Connector(channel.name, Schema(()), "kafka", options, Annotation("map"), 0)
        self._asking: AdminClient | None = None
        self._producer: Producer | None = None
        self._claimed: dict[str, Producer] = {}
        self._tape: Tape | None = None
        self._tapes: dict[int, Tape] = {}
        self._there = False
        self._nothing: tuple[int, int] | None = None  # behind this place there is nothing up to this end
        self._read = -1  # the place that was read last: one behind it is a mark, or will be told of once more
        self._watcher: kafkawatch.Watcher | None = None
        self._heard: Callable[[], None] | None = None
        self._joined = 0.0
        self._fill = Fill()
        self._bound = Bound(channel.most)
        self._lock = threading.RLock()

    # ---- what a manager does

    def create(self, bounds: Bounds) -> None:
        topics = [
            kafkatopics.wanted(name, parts, bounds.replicas, _KEPT)
            for name, parts in ((self._topic, self._channel.parts), (self._told, 1))
        ]
        with self._translated():
            kafkatopics.create(self._admin(), topics, self.name)
        self._there = True

    def resize(self, bounds: Bounds) -> None:
        """More parts are more partitions; fewer there never are."""
        self._made()
        with self._translated():
            there = len(self._admin().list_topics(timeout=WITHIN).topics[self._topic].partitions)
            if there < self._channel.parts:
                wanted = [NewPartitions(self._topic, self._channel.parts)]
                for made in (
                    self._admin().create_partitions(wanted, request_timeout=WITHIN, operation_timeout=WITHIN).values()
                ):
                    made.result(WITHIN + 5)
        if self._producer is not None:
            self._producer = None  # it does not know of them yet

    def remove(self) -> None:
        self._close_clients()
        with self._translated():
            kafkatopics.remove(self._admin(), (self._topic, self._told), self.name)
        self._there = False

    def trim(self, needed: Sequence[tuple[str, int]]) -> None:
        """All producers share the topics, so what goes is what none of them needs. The records are read once."""
        self._made()
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        batches: list[tuple[int, int, int]] = []  # place of the record, part, place of its first batch there
        for told in self._records(0):
            producer = told.progress.producer
            first.setdefault(producer, told.place)
            last[producer] = told.place
            batches += [(told.place, piece.part, piece.place) for piece in told.progress.pieces if piece.place >= 0]
        asked = dict(needed)
        least = min([min(asked.get(producer, at), last[producer]) - 1 for producer, at in first.items()], default=0)
        if least <= 0:
            return
        kept: dict[int, int] = {}
        for place, part, at in batches:
            if place > least:
                kept[part] = min(at, kept.get(part, at))
        gone = [TopicPartition(self._topic, part, at) for part, at in kept.items()]
        with self._translated():
            for each in (
                self._admin()
                .delete_records([*gone, TopicPartition(self._told, 0, least)], request_timeout=WITHIN)
                .values()
            ):
                each.result(WITHIN + 5)

    def size(self) -> Size:
        self._made()
        with self._translated():
            parts = len(self._admin().list_topics(timeout=WITHIN).topics[self._topic].partitions)
            asked = [TopicPartition(self._topic, part) for part in range(parts)] + [TopicPartition(self._told, 0)]
            firsts = self._offsets(asked, OffsetSpec.earliest())
            ends = self._offsets(asked, OffsetSpec.latest())
        return Size(self._filled(), sum(ends) - sum(firsts))

    def _offsets(self, asked: Sequence[TopicPartition], which: OffsetSpec) -> list[int]:
        found = self._admin().list_offsets(dict.fromkeys(asked, which), request_timeout=WITHIN)
        return [int(one.result(WITHIN + 5).offset) for one in found.values()]

    def _filled(self) -> int:
        """The bytes that the progress records name which are there."""
        self._made()
        with self._translated():
            first = self._first()
        fill = self._fill
        fill.drop(first)
        while found := self.news(max(fill.place, first)):
            for told in found:
                fill.add(told)
        return fill.bytes

    def _admin(self) -> AdminClient:
        if self._asking is None:
            self._asking = admin_of(self._connector)  # it goes with the last one who has it
        return self._asking

    def _made(self) -> None:
        if not self._there:
            self.create(Bounds())

    def _translated(self) -> _Translated:
        return _Translated(self.name)

    def _config(self, **own: Setting) -> dict[str, Setting]:
        return settings(self._connector, {name.replace("_", "."): value for name, value in own.items()})

    # ---- producers

    def largest(self) -> int:
        return LARGEST

    def admit(self, size: int) -> None:
        with self._lock:
            if self._bound.asks(size) and not self._bound.takes(self._filled(), size):
                raise error("CONNECTION_UNAVAILABLE", connector=self.name, reason="it is full")

    def write(self, producer: str, bucket: int, batches: Sequence[tuple[int, bytes]]) -> list[int]:
        self._made()
        places = [-1] * len(batches)
        problems: list[KafkaError] = []
        with self._lock, self._translated():
            if self._producer is None:
                self._producer = Producer(self._config(acks="all", enable_idempotence=True, linger_ms=1))
            writing = self._producer

            def told(at: int) -> Callable[[KafkaError | None, Message], None]:
                def note(problem: KafkaError | None, message: Message) -> None:
                    if problem is not None:
                        problems.append(problem)
                    else:
                        places[at] = message.offset()

                return note

            for at, (part, record) in enumerate(batches):
                writing.produce(self._topic, record, producer.encode(), part, on_delivery=told(at))
                writing.poll(0)
            left = writing.flush(TRANSACTION_WITHIN)
            if left or problems:
                self._producer = None  # what it still holds must not come later, in another order
                writing.purge()
                raise KafkaException(
                    problems[0] if problems else KafkaError(KafkaError._TIMED_OUT, "not written in time")
                )
        return places

    def claim(self, producer: str) -> Progress | None:
        self._made()
        with self._translated():
            made = Producer(
                self._config(
                    transactional_id=f"nadi-channel-{self._topic}-{producer}",
                    acks="all",
                    retry_backoff_ms=5,
                    linger_ms=0,
                )
            )
            made.init_transactions(TRANSACTION_WITHIN)
            self._claimed[producer] = made
        found = self._sought(lambda told: told.progress.producer == producer)
        return None if found is None else found.progress

    def announce(self, producer: str, progress: Progress) -> None:
        made = self._claimed.pop(producer, None)
        if made is None:
            raise error("FENCED", connector=self.name, producer=producer)
        try:
            with self._translated():
                made.begin_transaction()
                made.produce(self._told, encode_progress(progress), producer.encode(), 0)
                made.commit_transaction(TRANSACTION_WITHIN)
        except NadiError as reason:
            cause = reason.__cause__
            if isinstance(cause, KafkaException) and fenced(cause):
                raise error("FENCED", connector=self.name, producer=producer) from reason
            raise
        self._claimed[producer] = made

    def tails(self) -> list[Progress]:
        self._made()
        return [*{told.progress.producer: told.progress for told in self._records(0)}.values()]

    # ---- readers

    def _end(self) -> int:
        asked = {TopicPartition(self._told, 0): OffsetSpec.latest()}
        found = self._admin().list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=WITHIN)
        return int(next(iter(found.values())).result(WITHIN + 5).offset)

    def _first(self) -> int:
        asked = {TopicPartition(self._told, 0): OffsetSpec.earliest()}
        found = self._admin().list_offsets(asked, request_timeout=WITHIN)
        return int(next(iter(found.values())).result(WITHIN + 5).offset)

    def news(self, after: int) -> list[Told]:
        self._made()
        with self._lock, self._translated():
            end = self._end()
            if after >= end or (after, end) in (self._nothing, (self._read, after + 1)):
                return []
            if self._tape is None:
                self._tape = Tape(self._config(**_READ_COMMITTED), self._told, 0)
            begin = after if after == self._read else max(after, self._first())  # what is older may be trimmed
            found = [_told(m) for m in self._tape.between(begin, end, NEWS, marked=True)]
            if found:
                self._read = found[-1].place
            else:
                self._nothing = after, end
            return found

    def _records(self, after: int) -> Iterator[Told]:
        while found := self.news(after):
            yield from found
            after = found[-1].place

    def _sought(self, wanted: Callable[[Told], bool]) -> Told | None:
        """The last record that is wanted; the newest ones are looked at first."""
        with self._translated():
            end, first = self._end(), self._first()
        begin, back = end, BACK
        while begin > first:
            stop, begin = begin, max(first, begin - back)
            back *= 8
            with self._lock, self._translated():
                if self._tape is None:
                    self._tape = Tape(self._config(**_READ_COMMITTED), self._told, 0)
                found = [told for m in self._tape.between(begin, stop) if wanted(told := _told(m))]
            if found:
                return found[-1]
        return None

    def before(self, producer: str, positions: Mapping[int, int]) -> int:
        self._made()

        def wanted(told: Told) -> bool:
            return told.progress.producer == producer and not told.progress.is_beyond(positions)

        found = self._sought(wanted)
        return 0 if found is None else found.place - 1

    def fetch(self, producer: str, part: int, places: Sequence[int]) -> list[bytes]:
        wanted = set(places)
        with self._lock, self._translated():
            if part not in self._tapes:
                self._tapes[part] = Tape(self._config(), self._topic, part)
            try:
                found = {
                    m.offset(): m.value() or b""
                    for m in self._tapes[part].between(places[0], places[-1] + 1)
                    if m.offset() in wanted
                }
            except KafkaException as reason:
                if reason.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE:
                    raise error("LOG_TRUNCATED", log=self.name, position=places[0], first=-1) from reason
                raise
        missing = wanted - found.keys()
        if missing:
            raise error("LOG_TRUNCATED", log=self.name, position=min(missing), first=min(found, default=-1))
        return [found[place] for place in places]

    def listen(self, after: int, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._watcher, joining = kafkawatch.listen(self._config(), {(self._told, 0): after}, heard)
        if joining:
            self._joined = time.monotonic() + JOINED

    def listening(self) -> bool:
        return self._watcher is not None

    @property
    def settles(self) -> float:
        return self._joined

    def close(self) -> None:
        if self._watcher is not None and self._heard is not None:
            self._watcher.leave(self._heard)
            self._watcher = None
        self._close_clients()

    def _close_clients(self) -> None:
        with self._lock:
            for tape in [*self._tapes.values(), *([self._tape] if self._tape else [])]:
                tape.close()
            self._tape, self._producer = None, None
            self._tapes.clear()
            self._claimed.clear()
            self._nothing = None


_READ_COMMITTED: dict[str, Setting] = {"isolation_level": "read_committed"}


def _told(message: Message) -> Told:
    return Told(int(message.offset() or 0) + 1, decode_progress(message.value() or b""))


class _Translated:
    """Errors of the client as nadi's."""

    def __init__(self, who: str) -> None:
        self._who = who

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, reason: BaseException | None, _traceback: object) -> None:
        if isinstance(reason, KafkaException):
            raise translated(reason, self._who) from reason


def open_channel(channel: Channel) -> KafkaChannel:
    """The channel on the brokers that it names."""
    return KafkaChannel(channel)
