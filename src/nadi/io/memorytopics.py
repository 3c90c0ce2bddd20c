"""Topics of `inMemory` where another node has a copy of all that this one writes: a topic is a part of a journal, and a position the number of an event.

(Elsewhere a topic is a subject of a stream, and a position a sequence of the server. Those of two servers differ.)

A delivery of a sink is one message of the journal or, where it is large, some. Its header `Nadi-From` says whose it is, `Nadi-Cut` which cut and which part of
it. A cut that is written again leaves out what the topic has. Where somebody else has appended something the server refuses a message, and who appends looks at
what has come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nadi.errors import NadiError
from nadi.io.contract import Connector, Delivery, Place, Receipt
from nadi.io.copiedappends import trim
from nadi.io.jetstream import Bounds, Stored, Stream, token
from nadi.io.journal import GROUP_BYTES, GROUP_EVENTS, Journal
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import Event, group_of, stream_name
from nadi.io.journalrecords import CUT
from nadi.io.natsclient import NatsClient, api
from nadi.io.sinks import ledger
from nadi.io.sinks.nats import Ledger
from nadi.io.sinks.numbers import TextOption, headers, numbers, producer

TOPICS = ".topics"  # no app has this name
FROM = "Nadi-From"
MAX_BYTES = 1024 * 1024 * 1024
GROWN = 64 * 1024 * 1024  # bytes that a sink has appended before it looks how much there is


class TopicLog(JournalLog):
    """The events of a topic. An app begins with what comes after its first start."""

    def __init__(self, client: NatsClient, topic: str) -> None:
        super().__init__(client, TOPICS, token(topic), retention=None, alone=False)

    def beginning(self, partition: int) -> int:
        return self.end(partition)

    def oldest(self, partition: int) -> int:
        return super().beginning(partition)

    def messages_from(self, position: int) -> Iterator[Stored]:
        """The messages of the journal from the one on that holds an event. Errors: CONNECTION_UNAVAILABLE."""
        last = self._message({"last_by_subj": self._subject})
        begin = max(position, self.oldest(0))
        if last is not None and begin < group_of(last).end:
            for some in self._stream.read(self._sequence(begin), last.sequence + 1):
                yield from some


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as `Ledger` asks a stream: `last` is the number of the last event."""

    name: str
    log: TopicLog

    def bounds(self) -> Bounds:
        return Bounds(0, self.log.end(0) - 1)


class TopicSink:
    """Payloads to topics. Errors: CONNECTION_UNAVAILABLE, REFUSED."""

    def __init__(self, client: NatsClient, topic: TextOption, connector: Connector, place: Place) -> None:
        self._client = client
        self._topic = topic
        self._connector = connector
        self._place = place
        self._journal = Journal(client, TOPICS)
        self._ledger = Ledger(ledger.kept(connector, place))
        self._run = ""
        self._topics: dict[str, _Topic] = {}
        self._grown = 0

    def write(self, delivery: Delivery) -> Receipt:
        """Append what the topics do not have; all of it is there on return."""
        made: dict[str, list[Event]] = {}
        made_by, now = producer(self._connector, self._place, delivery.bucket), time.time_ns() // 1_000_000
        for payload, topic, of in zip(delivery.payloads, self._topic.values(delivery), numbers(delivery)):
            made.setdefault(token(topic), []).append((now, payload, headers(made_by, of)))
        sequences: dict[str, str | int | bytes] = {}
        for name, events in made.items():
            sequences[name] = self._append(
                self._known(name), f"{self._prefix()}/{delivery.bucket}", delivery.cut, events
            )
        return Receipt(delivery.bucket, delivery.cut, sequences)

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        last: dict[str, int] = {}
        for receipt in receipts:
            for name, position in receipt.content.items():
                last[name] = max(int(position), last.get(name, 0))
        self._ledger.commit(cut, last)

    def close(self) -> None:
        """The connection stays: it is shared."""
        for topic in self._topics.values():
            topic.log.close()

    def _append(self, topic: _Topic, who: str, cut: int, events: Sequence[Event]) -> int:
        """Append the parts of a cut that are not there; -> the number of the last event of it."""
        looked = self._ledger.start(topic, cut) + 1  # type: ignore[arg-type]  # it asks for a name and bounds only
        there: dict[str, int] = {}
        end = 0
        for number, part in enumerate(_parts(events)):
            mark = f"{cut}-{number}"
            while True:
                last = self._journal.last(topic.name)
                end_of_all = group_of(last).end
                if end_of_all > looked:
                    for message in topic.log.messages_from(looked):
                        if message.headers.get(FROM) == who:
                            there[message.headers[CUT]] = group_of(message).end
                    looked = end_of_all
                if mark in there:
                    break
                try:
                    stored = self._journal.append_behind(topic.name, part, last, {FROM: who, CUT: mark})
                except NadiError as reason:
                    if reason.condition != "SEQUENCE_TAKEN":
                        raise
                    continue  # somebody was faster: look at what has come
                there[mark] = looked = stored.end
                self._bound(sum(len(body) for _, body, _ in part))
            end = there[mark]
        return end - 1

    def _bound(self, appended: int) -> None:
        """Remove the oldest messages where there are too many."""
        self._grown += appended
        if self._grown < GROWN:
            return
        self._grown = 0
        name = stream_name(TOPICS)
        state = self._client.call(lambda nc: api(nc, f"STREAM.INFO.{name}"))["state"]
        kept, first = state["bytes"], state["first_seq"]
        for some in Stream(self._client, name).read(first, state["last_seq"] + 1):
            for message in some:
                if kept <= MAX_BYTES:
                    return
                kept -= len(message.data)
                request = {"filter": message.subject, "seq": message.sequence + 1}
                last = JournalLog(self._client, TOPICS, message.subject.rpartition(".")[2], None, alone=False)
                if group_of(message).end < last.end(0):  # the last one of a topic stays
                    end = group_of(message).end
                    trim(self._client, name, message.subject, end, lambda r=request: self._purge(name, r))  # type: ignore[misc]

    def _purge(self, name: str, request: dict[str, object]) -> None:
        self._client.call(lambda nc: api(nc, f"STREAM.PURGE.{name}", request))

    def _known(self, name: str) -> _Topic:
        if name not in self._topics:
            log = TopicLog(self._client, name)
            self._topics[name] = _Topic(name, log)
        return self._topics[name]

    def _prefix(self) -> str:
        """What this run is known by."""
        if not self._run:
            self._run = ledger.run(ledger.shared(self._connector, self._place))
        return self._run


def _parts(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Events in messages, the same ones whenever it is called with the same ones.

    >>> [len(part) for part in _parts([(0, b"x", {})] * 20_000)], [len(part) for part in _parts([(0, b"x" * GROUP_BYTES, {})] * 2)]
    ([16320, 3680], [1, 1])
    """
    part: list[Event] = []
    size = 0
    for event in events:
        weight = len(event[1]) + 256
        if part and (len(part) == GROUP_EVENTS or size + weight > GROUP_BYTES):
            yield part
            part, size = [], 0
        part.append(event)
        size += weight
    if part:
        yield part
