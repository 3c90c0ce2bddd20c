"""The journal: where everything goes that is not a log by itself, before its sender is told that it arrived.

One JetStream stream per app, one subject per source. **Group commit**: what arrives while an append is under way goes into the next one;
a message of the stream is one append and holds many events, as MessagePack `[[time in ms, body, {property: text}], …]`.

Events of a source are numbered from 0 without gaps; an event's position in the log is its number. The headers of a message tell the number of its first event
and how many there are. Two things keep the numbers right whatever happens between the ingress and the server:

- every append names the last message of its source (`Nats-Expected-Last-Subject-Sequence`); if that is no longer the last one, the server refuses
  and the writer looks up where it stands. The last message is never removed, so that the next number is always known.
- an append that was cut off by a lost connection is repeated with the same `Nats-Msg-Id`, and recognised if it had been stored (the duplicate window is two
  minutes, an append gives up after seconds), so that an event is in the journal once.

Events whose senders say what they are known by (`submit_once`) go past a `Chooser`, which says which of them are new to the journal as it is then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet

import msgspec
from nats.aio.client import Client as Connection

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.backlog import Backlog
from nadi.io.copiedappends import EXPECTED, copied_appends
from nadi.io.jetstream import Outgoing, Stored, ensure_stream, get, publish
from nadi.io.journalmessages import (
    COUNT,
    FIRST,
    IDENTITY,
    Event,
    Group,
    Name,
    group_of,
    is_sealed,
    journal_config,
    stream_name,
    subject,
)
from nadi.io.natsclient import NatsClient, event_loop, shared, submit
from nadi.io.retry import Policy
from nadi.io.seen import Outcome

GROUP_BYTES = 4 * 1024 * 1024
EVENT_BYTES = 7 * 1024 * 1024  # the largest body; the server takes messages of 8 MB
GROUP_EVENTS = 50_000
WAITING_BYTES = 64 * 1024 * 1024
APPEND_WITHIN = 10.0  # seconds
PATIENCE = 20.0  # seconds more for appends that wait for others

_LOG = logging.getLogger(__name__)


class Chooser(Protocol):
    """Says which events are new to a journal. Everything is called in the loop thread, by one writer."""

    async def choose(self, events: Sequence[Event], end: int) -> tuple[list[Event], list[Outcome]]:
        """Those that are to be appended to a journal that ends at `end`, and what becomes of each one given. Errors: CONNECTION_UNAVAILABLE."""
        ...

    def took(self, first: int, end: int, size: int) -> None:
        """Events with `size` bytes, chosen or not, are in the journal from `first` on, which ends at `end` now."""
        ...

    def forget(self) -> None:
        """Nobody knows which of them are in the journal."""
        ...

    async def save(self) -> None:
        """Note what there is to be noted; raises nothing."""
        ...


@dataclass(slots=True)
class _Append:
    """Events of one caller, and whom to tell their positions or, where they were `marked`, what became of them."""

    events: Sequence[Event]
    size: int
    told: Future[int]
    marked: bool = False
    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Written:
    """What came of events: the message with those that were appended, and where there is a chooser what became of each one."""

    group: Group
    outcomes: Sequence[Outcome] = ()


class _Writer:
    """Appends of one source, one message at a time."""

    def __init__(self, journal: Journal, ordinal: Name) -> None:
        self._journal = journal
        self._subject = subject(journal.app, ordinal)
        self._lock = threading.Lock()
        self._waiting: deque[_Append] = deque()
        self._size = 0
        self.backlog = Backlog(journal.most)
        self._running = False
        self._last: Group | None = None  # the last message, where it is known; touched in the loop thread only
        self.chooser: Chooser | None = None

    def add(self, append: _Append) -> None:
        with self._lock:
            if self._size + append.size > WAITING_BYTES and self._waiting:
                raise error(
                    "CONNECTION_UNAVAILABLE", connector="the journal", reason="too much is waiting to be written"
                )
            if not self.backlog.admits(self._size + append.size):
                raise error("CONNECTION_UNAVAILABLE", connector="the journal", reason="the app is too far behind")
            self._waiting.append(append)
            self._size += append.size
            if self._running:
                return
            self._running = True
        asyncio.run_coroutine_threadsafe(self._run(), event_loop())

    def _take(self) -> list[_Append]:
        """What the next message takes, nothing where the writer may rest."""
        taken: list[_Append] = []
        size = count = 0
        with self._lock:
            while self._waiting:
                head = self._waiting[0]
                if taken and (size + head.size > GROUP_BYTES or count + len(head.events) > GROUP_EVENTS):
                    break
                taken.append(self._waiting.popleft())
                size += head.size
                count += len(head.events)
            self._size -= size
            self._running = bool(taken)
        return taken

    async def _run(self) -> None:
        while taken := self._take():
            events = [e for a in taken for e in a.events]
            chooser = self.chooser if any(a.marked for a in taken) else None
            try:
                written = await self._journal.store(self._subject, events, self._last, chooser)
                self._last = written.group
            except Exception as reason:
                self._last = None  # the events may have been stored all the same
                if self.chooser is not None:
                    self.chooser.forget()
                self._journal.tell(self._subject, None)
                for append in taken:
                    append.told.set_exception(reason)
                continue
            self._heard(written.group, sum(append.size for append in taken))
            self._told(taken, written)
            await self._save()

    def _heard(self, stored: Group, size: int) -> None:
        """Tell all whom it concerns what is in the journal now. Whatever one of them does, the writer goes on: senders wait for it."""
        try:
            if stored.count:
                self.backlog.appended(stored.first, stored.count, size)
                self._journal.tell(self._subject, stored)
            if self.chooser is not None:
                self.chooser.took(stored.first, stored.end, size)
        except Exception:
            _LOG.exception("what was appended to %s could not be told", self._subject)
            if self.chooser is not None:
                self.chooser.forget()

    async def _save(self) -> None:
        if self.chooser is None:
            return
        try:
            await self.chooser.save()
        except Exception:
            _LOG.exception("what was taken into %s could not be noted", self._subject)
            self.chooser.forget()

    def _told(self, taken: Sequence[_Append], written: Written) -> None:
        """Tell the callers where their events are."""
        number, at = written.group.first, 0
        for append in taken:
            append.outcomes = list(written.outcomes[at : at + len(append.events)])
            at += len(append.events)
            append.told.set_result(number)
            number += append.outcomes.count(Outcome.TAKEN) if written.outcomes else len(append.events)


class Journal:
    """The writing side; one per app and process."""

    def __init__(self, client: NatsClient, app: str, within: float = APPEND_WITHIN, most: int = 0) -> None:
        """`most` bytes of a source may wait until the app has processed them; 0: no bound."""
        self.app = app
        self.most = most
        self._client = client
        self._within = within
        self._policy = Policy(20, 500)
        self._writers: dict[Name, _Writer] = {}
        self._lock = threading.Lock()
        self._run = os.urandom(8).hex()
        self._count = 0
        self._ready = False
        self._config = journal_config(app, client.replicas)
        self._copied = copied_appends(client, self._config)
        _WRITERS[client.url, app].add(self)

    def tell(self, name: str, stored: Group | None) -> None:
        """Tell those in this process who listen to a subject (`hear`): what was appended, None where that is not known."""
        for told in tuple(_HEARERS.get((self._client.url, name), ())):
            told(stored)

    def processed(self, ordinal: Name, position: int) -> None:
        """The app is done with the events of a source before a position."""
        if self.most > 0:
            self._writer(ordinal).backlog.processed(position)

    def append(self, ordinal: Name, events: Sequence[Event]) -> int:
        """Append events of one source and wait until they are on the disk; the position of the first one.

        Errors: CONNECTION_UNAVAILABLE (they may have been stored all the same; not so where the app is too far behind), MESSAGE_TOO_LARGE.
        """
        told = self.submit(ordinal, events)
        try:
            return told.result(self._within + PATIENCE)
        except TimeoutError as late:  # the partner of a pair may take as long until it counts as away
            reason = f"no answer within {self._within + PATIENCE:g} s"
            raise error("CONNECTION_UNAVAILABLE", connector="the journal", reason=reason) from late

    def submit(self, ordinal: Name, events: Sequence[Event]) -> Future[int]:
        """As `append`, without waiting. More than GROUP_BYTES or GROUP_EVENTS are split into several appends."""
        writer = self._writer(ordinal)
        told: list[Future[int]] = []
        for part, size in _parts(events):
            told.append(Future())
            writer.add(_Append(part, size, told[-1]))
        return told[0] if len(told) == 1 else _all(told)

    def submit_once(self, ordinal: Name, events: Sequence[Event]) -> Future[Sequence[Outcome]]:
        """Append those events that are new, by their marks (`nadi.io.seen`), to a source that has a chooser; what became of each one, when the new ones are on
        the disk."""
        writer = self._writer(ordinal)
        appends = [_Append(part, size, Future(), marked=True) for part, size in _parts(events)]
        for append in appends:
            writer.add(append)
        whole: Future[Sequence[Outcome]] = Future()

        def done(told: Future[int]) -> None:
            if (reason := told.exception()) is not None:
                whole.set_exception(reason)
            else:
                whole.set_result([outcome for append in appends for outcome in append.outcomes])

        _all([append.told for append in appends]).add_done_callback(done)
        return whole

    def choose_with(self, ordinal: Name, chooser: Chooser) -> None:
        """Have a chooser say what of a source is new."""
        self._writer(ordinal).chooser = chooser

    def last(self, ordinal: Name) -> Stored | None:
        """The last message of a source. Errors: CONNECTION_UNAVAILABLE."""
        name = subject(self.app, ordinal)
        self._client.call(lambda nc: ensure_stream(nc, self._config))
        if self._copied is not None:
            submit(self._copied.settle(name)).result()
        return self._client.call(lambda nc: self._last(nc, name))

    def append_behind(
        self, ordinal: Name, events: Sequence[Event], last: Stored | None, headers: Mapping[str, str] | None = None
    ) -> Group:
        """Append events as one message with further headers, if `last` is still the last one of the source.

        Errors: SEQUENCE_TAKEN, where it is not; CONNECTION_UNAVAILABLE (they may have been stored all the same).
        """
        name, payload = subject(self.app, ordinal), msgspec.msgpack.encode(events)
        numbers = _numbers(group_of(last), len(events))
        message = Outgoing(name, payload, {**numbers, **(headers or {})})
        if self._copied is None:
            sequence = self._client.call(lambda nc: publish(nc, message))
        else:
            sequence = submit(self._copied.publish(message, group_of(last).end)).result()
        stored = Group(sequence, group_of(last).end, len(events))
        self.tell(name, stored)
        return stored

    def _writer(self, ordinal: Name) -> _Writer:
        writer = self._writers.get(ordinal)
        if writer is None:
            with self._lock:
                writer = self._writers.setdefault(ordinal, _Writer(self, ordinal))
        return writer

    async def store(
        self, name: str, events: Sequence[Event], last: Group | None, chooser: Chooser | None = None
    ) -> Written:
        """Store events as one message after `last` (None: look it up), tried again with back-off until `within` is over; where there is a chooser, those that
        it says are new to the journal as it is then."""
        kept, outcomes, chosen_at = [*events], [], None  # type: list[Event], list[Outcome], Group | None
        payload = b"" if chooser is not None else msgspec.msgpack.encode(kept)
        self._count += 1
        identity = f"{self._run}-{self._count}"
        until = time.monotonic() + self._within
        attempt = 0
        while True:
            try:
                await self._ensure()
                if last is None:
                    if self._copied is not None:
                        await self._copied.settle(name)
                    message = await self._client.perform(lambda nc: self._last(nc, name))
                    if is_sealed(message):
                        until = 0.0  # it stays so
                        reason = "the app takes nothing more here: it goes on as another one"
                        raise error("CONNECTION_UNAVAILABLE", connector="the journal", reason=reason)
                    last = group_of(message)
                    if message is not None and message.headers.get(IDENTITY) == identity:
                        return Written(last, outcomes)  # stored by an attempt whose answer was lost
                if chooser is not None and chosen_at != last:
                    if chosen_at is not None:
                        chooser.forget()  # what it has chosen is not there, or not where it was to be
                    kept, outcomes = await chooser.choose(events, last.end)
                    payload, chosen_at = msgspec.msgpack.encode(kept), last
                if not kept:
                    return Written(Group(last.sequence, last.end, 0), outcomes)
                return Written(await self._stored(name, payload, len(kept), identity, last), outcomes)
            except ConnectionUnavailableException:
                self._ready = False
                attempt += 1
                delay = self._policy.delay(attempt) / 1000
                if time.monotonic() + delay > until:
                    raise
                await asyncio.sleep(delay)
            except NadiError as reason:
                if reason.condition != "SEQUENCE_TAKEN" or time.monotonic() > until:
                    raise
                last = None

    async def _stored(self, name: str, payload: bytes, count: int, identity: str, last: Group) -> Group:
        numbers = {**_numbers(last, count), IDENTITY: identity}
        sequence = await self._publish(Outgoing(name, payload, numbers), last.end)
        return Group(sequence, last.end, count)

    async def _publish(self, message: Outgoing, first: int) -> int:
        """Have a message in the journal and, where another node has a copy, there before; -> its sequence."""
        if self._copied is not None:
            return await self._copied.publish(message, first)
        return await self._client.perform(lambda nc: publish(nc, message))

    async def _last(self, connection: Connection, name: str) -> Stored | None:
        return await get(connection, stream_name(self.app), {"last_by_subj": name})

    async def _ensure(self) -> None:
        if not self._ready:
            await self._client.perform(lambda nc: ensure_stream(nc, self._config))
            self._ready = True


def _numbers(last: Group, count: int) -> dict[str, str]:
    """The headers of a message that follows another one."""
    return {FIRST: str(last.end), COUNT: str(count), EXPECTED: str(last.sequence)}


def _parts(events: Sequence[Event]) -> list[tuple[Sequence[Event], int]]:
    """Events in stretches that fit into a message, each with its size in bytes (an upper bound)."""
    sizes = [
        32 + len(body) + sum(8 + 2 * (len(k) + len(v)) for k, v in properties.items()) for _, body, properties in events
    ]
    total = sum(sizes)
    if total <= GROUP_BYTES and len(events) <= GROUP_EVENTS:
        return [(events, total)]
    parts: list[tuple[Sequence[Event], int]] = []
    start = size = 0
    for i, one in enumerate(sizes):
        if one > EVENT_BYTES + 65_536:
            raise error("MESSAGE_TOO_LARGE", size=one, limit=EVENT_BYTES, connector="the journal")
        if i > start and (size + one > GROUP_BYTES or i - start == GROUP_EVENTS):
            parts.append((events[start:i], size))
            start, size = i, 0
        size += one
    return [*parts, (events[start:], size)]


def _all(told: Sequence[Future[int]]) -> Future[int]:
    """The first result when all are there, or the first error."""
    whole: Future[int] = Future()
    left = len(told)
    lock = threading.Lock()

    def one(_: Future[int]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        wrong = next((w for w in (t.exception() for t in told) if w), None)
        whole.set_exception(wrong) if wrong else whole.set_result(told[0].result())

    for future in told:
        future.add_done_callback(one)
    return whole


Hear = Callable[[Group | None], None]
_WRITERS: defaultdict[tuple[str, str], WeakSet[Journal]] = defaultdict(WeakSet)
_HEARERS: dict[tuple[str, str], set[Hear]] = {}
_LOCK = threading.Lock()


def hear(url: str, name: str, told: Hear) -> None:
    """Have `told` called, in the loop thread, after each append of this process to a subject."""
    with _LOCK:
        _HEARERS.setdefault((url, name), set()).add(told)


def unhear(url: str, name: str, told: Hear) -> None:
    """The end of `hear`."""
    with _LOCK:
        held = _HEARERS.get((url, name), set())
        held.discard(told)
        if not held:
            _HEARERS.pop((url, name), None)


def written_here(url: str, app: str) -> bool:
    """Whether this process writes the journal of an app: then no other one does."""
    return bool(_WRITERS.get((url, app)))


def processed_here(url: str, app: str, ordinal: Name, position: int) -> None:
    """Tell the writers of an app's journal in this process that the app is done with the events of a source before a position."""
    for journal in tuple(_WRITERS.get((url, app), ())):
        journal.processed(ordinal, position)


def open_journal(url: str, app: str, most: int = 0) -> Journal:
    """The journal of an app for its ingresses, of each of which `most` bytes may wait (0: no bound). Errors: CONNECTION_UNAVAILABLE where the node has none."""
    return Journal(shared(required(url)), app, most=most)


def required(url: str) -> str:
    """The URL of a journal. Errors: CONNECTION_UNAVAILABLE where it is empty."""
    if not url:
        raise no_journal()
    return url


def no_journal() -> NadiError:
    return error("CONNECTION_UNAVAILABLE", connector="the journal", reason="this node has none")
