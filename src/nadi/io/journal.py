"""The journal: where everything goes that is not a log by itself, before its sender is told that it arrived.

One JetStream stream per app, one subject per source. **Group commit**: what arrives while an append is under way goes into the next one;
a message of the stream is one append and holds many events, as MessagePack `[[time in ms, body, {property: text}], …]`.

Events of a source are numbered from 0 without gaps; an event's position in the log is its number. The headers of a message tell the number of its first event
and how many there are. Two things keep the numbers right whatever happens between the ingress and the server:

- every append names the last message of its source (`Nats-Expected-Last-Subject-Sequence`); if that is no longer the last one, the server refuses
  and the writer looks up where it stands. The last message is never removed, so that the next number is always known.
- an append that was cut off by a lost connection is repeated with the same `Nats-Msg-Id`, and recognised if it had been stored (the duplicate window is two
  minutes, an append gives up after seconds), so that an event is in the journal once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import msgspec
from nats.aio.client import Client as Connection

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.jetstream import Outgoing, Stored, ensure_stream, get, publish, stream_config, token
from nadi.io.natsclient import NatsClient, event_loop, shared
from nadi.io.retry import Policy

GROUP_BYTES = 4 * 1024 * 1024
EVENT_BYTES = 7 * 1024 * 1024  # the largest body; the server takes messages of 8 MB
GROUP_EVENTS = 50_000
WAITING_BYTES = 64 * 1024 * 1024
APPEND_WITHIN = 10.0  # seconds

Event = tuple[int, bytes, Mapping[str, str]]
"""(time in ms, body, properties)"""


FIRST, COUNT = "Nadi-First", "Nadi-Count"
IDENTITY = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"


@dataclass(frozen=True, slots=True)
class Group:
    """What the headers of a message tell: its sequence, the number of its first event, how many it has."""

    sequence: int
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count

    def holds(self, position: int) -> bool:
        return self.first <= position < self.end


NOTHING = Group(0, 0, 0)


def group_of(message: Stored | None) -> Group:
    """The group that a message of the journal is; NOTHING for none."""
    if message is None:
        return NOTHING
    return Group(message.sequence, int(message.headers[FIRST]), int(message.headers[COUNT]))


def stream_name(app: str) -> str:
    return f"NADI_{token(app)}"


def subject(app: str, ordinal: int) -> str:
    return f"nadi.{token(app)}.in.{ordinal}"


def journal_config(app: str) -> dict[str, Any]:
    return stream_config(stream_name(app), [f"nadi.{token(app)}.in.*"])


@dataclass(slots=True)
class _Append:
    """Events of one caller, and whom to tell their positions."""

    events: Sequence[Event]
    size: int
    told: Future[int]


class _Writer:
    """Appends of one source, one message at a time."""

    def __init__(self, journal: Journal, ordinal: int) -> None:
        self._journal = journal
        self._subject = subject(journal.app, ordinal)
        self._lock = threading.Lock()
        self._waiting: deque[_Append] = deque()
        self._size = 0
        self._running = False
        self._last: Group | None = None  # the last message, where it is known; touched in the loop thread only

    def add(self, append: _Append) -> None:
        with self._lock:
            if self._size + append.size > WAITING_BYTES and self._waiting:
                raise error(
                    "CONNECTION_UNAVAILABLE", connector="the journal", reason="too much is waiting to be written"
                )
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
            try:
                stored = self._last = await self._journal.store(self._subject, events, self._last)
            except Exception as reason:
                self._last = None  # the events may have been stored all the same
                self._journal.tell(self._subject, None)
                for append in taken:
                    append.told.set_exception(reason)
                continue
            number = stored.first
            self._journal.tell(self._subject, stored)
            for append in taken:
                append.told.set_result(number)
                number += len(append.events)


class Journal:
    """The writing side; one per app and process."""

    def __init__(self, client: NatsClient, app: str, within: float = APPEND_WITHIN) -> None:
        self.app = app
        self._client = client
        self._within = within
        self._policy = Policy(20, 500)
        self._writers: dict[int, _Writer] = {}
        self._lock = threading.Lock()
        self._run = os.urandom(8).hex()
        self._count = 0
        self._ready = False
        _WRITERS[client.url, app].add(self)

    def tell(self, name: str, stored: Group | None) -> None:
        """Tell those in this process who listen to a subject (`hear`): what was appended, None where that is not known."""
        for told in tuple(_HEARERS.get((self._client.url, name), ())):
            told(stored)

    def append(self, ordinal: int, events: Sequence[Event]) -> int:
        """Append events of one source and wait until they are on the disk; the position of the first one.

        Errors: CONNECTION_UNAVAILABLE (they may have been stored all the same), MESSAGE_TOO_LARGE.
        """
        return self.submit(ordinal, events).result(self._within + 20)

    def submit(self, ordinal: int, events: Sequence[Event]) -> Future[int]:
        """As `append`, without waiting. More than GROUP_BYTES or GROUP_EVENTS are split into several appends."""
        writer = self._writers.get(ordinal)
        if writer is None:
            with self._lock:
                writer = self._writers.setdefault(ordinal, _Writer(self, ordinal))
        told: list[Future[int]] = []
        for part, size in _parts(events):
            told.append(Future())
            writer.add(_Append(part, size, told[-1]))
        return told[0] if len(told) == 1 else _all(told)

    async def store(self, name: str, events: Sequence[Event], last: Group | None) -> Group:
        """Store events as one message after `last` (None: look it up), tried again with back-off until `within` is over."""
        payload = msgspec.msgpack.encode(events)
        self._count += 1
        identity = f"{self._run}-{self._count}"
        until = time.monotonic() + self._within
        attempt = 0
        while True:
            try:
                await self._ensure()
                if last is None:
                    message = await self._client.perform(lambda nc: self._last(nc, name))
                    last = group_of(message)
                    if message is not None and message.headers.get(IDENTITY) == identity:
                        return last  # stored by an attempt whose answer was lost
                return await self._stored(name, payload, len(events), identity, last)
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
        numbers = {FIRST: str(last.end), COUNT: str(count), EXPECTED: str(last.sequence), IDENTITY: identity}
        sequence = await self._client.perform(lambda nc: publish(nc, Outgoing(name, payload, numbers)))
        return Group(sequence, last.end, count)

    async def _last(self, connection: Connection, name: str) -> Stored | None:
        return await get(connection, stream_name(self.app), {"last_by_subj": name})

    async def _ensure(self) -> None:
        if not self._ready:
            await self._client.perform(lambda nc: ensure_stream(nc, journal_config(self.app)))
            self._ready = True


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


def open_journal(url: str, app: str) -> Journal:
    """The journal of an app for its ingresses. Errors: CONNECTION_UNAVAILABLE where the node has none."""
    return Journal(shared(required(url)), app)


def required(url: str) -> str:
    """The URL of a journal. Errors: CONNECTION_UNAVAILABLE where it is empty."""
    if not url:
        raise no_journal()
    return url


def no_journal() -> NadiError:
    return error("CONNECTION_UNAVAILABLE", connector="the journal", reason="this node has none")
