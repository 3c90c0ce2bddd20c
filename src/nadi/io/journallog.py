"""The journal as a log: a source's events by their numbers. See `nadi.io.journal` for what is stored and how."""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt

from nadi.errors import error
from nadi.io.contract import Messages
from nadi.io.copiedappends import trim
from nadi.io.jetstream import BOUNDS_AGE_MS, Stored, Stream, ensure_stream, get
from nadi.io.journal import hear, processed_here, required, unhear, written_here
from nadi.io.journalholds import removable
from nadi.io.journalmessages import (
    AT,
    NOTHING,
    Event,
    Group,
    Name,
    group_of,
    journal_config,
    seen_name,
    stream_name,
    subject,
)
from nadi.io.natsclient import NatsClient, api, shared
from nadi.io.retention import Retention
from nadi.io.seen import MARK
from nadi.io.streamear import StreamEar
from nadi.io.wakes import Doorbell, Tell

PIECE_EVENTS = 20_000
RETENTION_MS = 24 * 60 * 60 * 1000
KNOWN = 64
FEW = 6  # sequences that are read one by one: a consumer takes four requests

_DECODER = msgspec.msgpack.Decoder(list[tuple[int, bytes, dict[str, str]]])


class _Places:
    """Where some groups are: the way to any other one begins at the nearest known one before it."""

    def __init__(self) -> None:
        self._groups: list[Group] = []  # ascending
        self._lock = threading.Lock()

    def before(self, position: int) -> Group | None:
        """The last known group that begins at or before a position."""
        with self._lock:
            at = bisect.bisect_right(self._groups, position, key=lambda g: g.first)
            return self._groups[at - 1] if at else None

    def learn(self, group: Group) -> None:
        with self._lock:
            at = bisect.bisect_left(self._groups, group.first, key=lambda g: g.first)
            if at == len(self._groups) or self._groups[at].first != group.first:
                self._groups.insert(at, group)
                if len(self._groups) > KNOWN:
                    del self._groups[0]  # reading goes forward


class JournalLog:
    """The events of one source as a log: one partition, an event is a message of its own (and a chunk).

    What is acknowledged is kept for `retention` ms more, so that it can be replayed, and for as long as a revision needs it (`nadi.io.journalholds`), and
    then removed; None: it is kept. `alone`: only the process that has the
    ingresses of the app appends to it. `marked`: what events are known by (`nadi.io.seen`) is among their properties.
    """

    def __init__(
        self,
        client: NatsClient,
        app: str,
        ordinal: Name,
        retention: int | None = RETENTION_MS,
        alone: bool = True,
        marked: bool = False,
    ) -> None:
        self._client = client
        self._subject = subject(app, ordinal)
        self._stream = Stream(client, stream_name(app), self._subject)
        self._config = journal_config(app, client.replicas)
        self._retention = retention
        self._alone = alone
        self._marked = marked
        self._acknowledged: deque[tuple[float, int]] = deque()
        self._places = _Places()
        self._seen, self._end = -1, 0
        self._exists = False
        self._app = app
        self._ordinal = ordinal
        self._bell = Doorbell()
        self._ear = StreamEar(client, self._bell.ring)
        self._appended: Group | None = None  # the last one that this process has appended since the last look

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        """0 where nothing was ever appended: the last message is never removed. What comes while somebody asks is not passed over."""
        self._ensure()
        return self._get({"seq": 1, "next_by_subj": self._subject}).first

    def oldest(self, partition: int) -> int:
        return self.beginning(partition)

    def retention(self) -> Retention | None:
        """None: what is not processed stays, and so does what revisions hold (`nadi.io.journalholds`)."""
        return None

    def end(self, partition: int) -> int:
        """The number after the last event, at most BOUNDS_AGE_MS old.

        Where somebody waits (`wake`), it is what the writer in this process has told, or is asked for when there was a message.
        """
        if not self._bell.watched:
            self._ask(BOUNDS_AGE_MS)
        elif self._bell.due():
            with self._bell.look():
                appended, self._appended = self._appended, None
                if appended is not None:
                    self._end = max(self._end, appended.end)
                else:
                    last = self._ask(0)
                    if not (self._alone and written_here(self._client.url, self._app)):
                        self._ear.listen(self._stream, last)
        return self._end

    def wake(self, tell: Tell) -> None:
        hear(self._client.url, self._subject, self._heard)
        self._client.observe(self._interrupted)
        self._bell.register(tell)

    def next_look(self) -> float | None:
        return None

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        return None

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        if start >= end:
            return
        self._ensure()
        first, last = self._sequence(start), self._sequence(end - 1)
        events: list[Event] = []
        position = start
        for stored in self._stored(first, last):
            for message in stored:
                group = group_of(message)
                events += _events(message)[max(0, start - group.first) : end - group.first]
                self._places.learn(group)
                if len(events) >= PIECE_EVENTS:
                    yield _messages(events, position, self._marked)
                    position += len(events)
                    events = []
        if events:
            yield _messages(events, position, self._marked)

    def _stored(self, first: int, last: int) -> Iterator[list[Stored]]:
        """The messages of two sequences and between them."""
        if last - first >= FEW:
            yield from self._stream.read(first, last + 1)
            return
        while first <= last:
            message = self._message({"seq": first, "next_by_subj": self._subject})
            if message is None or message.sequence > last:
                return
            yield [message]
            first = message.sequence + 1

    def acknowledge(self, partition: int, position: int) -> None:
        processed_here(self._client.url, self._app, self._ordinal, position)
        if self._retention is None:
            return
        now = time.monotonic() * 1000
        if not self._acknowledged or now - self._acknowledged[-1][0] >= self._retention / 60:
            self._acknowledged.append((now, position))
        before = 0
        while self._acknowledged and now - self._acknowledged[0][0] >= self._retention:
            before = self._acknowledged.popleft()[1]
        before = removable(self._client.url, self._app, self._ordinal, before)
        if before:
            before = min(before, self._covered(before))
        if before and before > self.beginning(0):
            # The message with the last event before it stays: the next number is known from the last message.
            request = {"filter": self._subject, "seq": self._sequence(before - 1)}
            purge = f"STREAM.PURGE.{self._stream.name}"
            remove = partial(self._client.call, lambda nc: api(nc, purge, request))
            trim(self._client, self._stream.name, self._subject, before - 1, remove)

    def _covered(self, position: int) -> int:
        """Up to where, at most to `position`, marks of events are noted beside the journal (`nadi.io.journalseen`): the others are needed still."""
        if not isinstance(self._ordinal, int):
            return position
        noted = self._message({"last_by_subj": subject(self._app, seen_name(self._ordinal))})
        return position if noted is None else int(noted.headers[AT])

    def close(self) -> None:
        """The connection stays: it is shared."""
        self._bell.silence()
        self._ear.close()
        self._client.ignore(self._interrupted)
        unhear(self._client.url, self._subject, self._heard)

    def _heard(self, appended: Group | None) -> None:
        self._appended = appended
        self._bell.ring()

    def _interrupted(self, _lost: bool) -> None:
        self._bell.ring()

    def _ask(self, age_ms: int) -> int:
        """Ask for the end; -> the last sequence of the stream, at most `age_ms` old."""
        self._ensure()
        last = self._stream.bounds(age_ms).last
        if last != self._seen:
            self._end = self._get({"last_by_subj": self._subject}).end
            self._seen = last
        return last

    def _ensure(self) -> None:
        if not self._exists:
            self._client.call(lambda nc: ensure_stream(nc, self._config))
            self._exists = True

    def _message(self, which: Mapping[str, object]) -> Stored | None:
        return self._client.call(lambda nc: get(nc, self._stream.name, which))

    def _get(self, which: Mapping[str, object]) -> Group:
        return group_of(self._message(which))

    def _at(self, sequence: int) -> Group:
        """The first group of this source at or after a sequence of the stream."""
        return self._get({"seq": sequence, "next_by_subj": self._subject})

    def _sequence(self, position: int) -> int:
        """The sequence of the message that holds a position: in growing steps from the nearest known one, then by halves."""
        low = self._places.before(position) or self._at(1)
        if low is NOTHING or position < low.first:
            first = self.end(0) if low is NOTHING else low.first
            raise error("LOG_TRUNCATED", log=f"journal {self._subject}", position=position, first=first)
        step = 1
        high: int | None = None  # the last sequence where it may be
        while not low.holds(position):
            if high is not None and high <= low.sequence:
                raise error("REFUSED", connector=f"journal {self._subject}", reason=f"there is no event {position}")
            middle = low.sequence + step if high is None else (low.sequence + high + 1) // 2
            found = self._at(middle)
            if found is NOTHING or found.first > position:
                high = middle - 1
            else:
                low = found
                step *= 2
        self._places.learn(low)
        return low.sequence


def _events(message: Stored) -> Sequence[Event]:
    try:
        return _DECODER.decode(message.data)
    except (msgspec.MsgspecError, UnicodeError) as reason:
        said = f"message {message.sequence}: {reason}"
        raise error("REFUSED", connector=f"journal {message.subject}", reason=said) from reason


def _messages(events: Sequence[Event], position: int, marked: bool) -> Messages:
    count = len(events)
    times = np.fromiter((e[0] for e in events), np.int64, count)
    properties: Sequence[Mapping[str, str]] = ()
    if any(e[2] for e in events):
        properties = [e[2] if marked or MARK not in e[2] else _without_mark(e[2]) for e in events]
        properties = properties if any(properties) else ()
    positions = np.arange(position, position + count, dtype=np.int64)
    return Messages(positions, times, [e[1] for e in events], properties=properties)


def _without_mark(properties: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in properties.items() if name != MARK}


def open_journal_log(url: str, app: str, ordinal: int, retention: int = RETENTION_MS) -> JournalLog:
    """The log of a source whose ingress appends to the journal. Errors: CONNECTION_UNAVAILABLE where the node has none."""
    return JournalLog(shared(required(url)), app, ordinal, retention)
