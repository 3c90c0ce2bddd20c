"""JetStream streams, synchronously: finding and making them, reading ranges, publishing many messages with their acknowledgements.

Ranges are read with an ephemeral pull consumer that acknowledges nothing (measured: 265,000 small messages a second; batched direct gets
gave 90,000, because each message comes with five headers, and need a stream that allows them).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import takewhile
from typing import Any

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.natsclient import CALL_WITHIN, NatsClient, api, check
from nadi.io.retention import Retention

PIECE_MESSAGES = 10_000
PIECE_BYTES = 16 * 1024 * 1024  # larger than the largest message: a pull that one message exceeds is refused
BOUNDS_AGE_MS = 10
IN_FLIGHT = 512
MADE_WITHIN = 5.0
MESSAGE_ID = "Nats-Msg-Id"
EXPECTED_LAST, EXPECTED_ID = "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Msg-Id"
EXPECTED_OF_SUBJECT = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
TELLING = 100  # messages in a stream from which on their times tell how many come
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def token(name: str) -> str:
    """A name as a part of a subject or a stream's name: itself where it is plain, else with a hash that keeps it apart from others.

    >>> token("Orders"), token("a.b")[:4]
    ('Orders', 'a_b-')
    """
    safe = _UNSAFE.sub("_", name)
    return safe if safe == name and name else f"{safe}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of a stream; `time` in ms."""

    sequence: int
    time: int
    subject: str
    data: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be published."""

    subject: str
    data: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first and last sequence of a stream (an empty stream has first = last + 1)."""

    first: int
    last: int


async def find_stream(connection: Connection, subject: str) -> str:
    """The name of the stream that holds a subject, "" where there is none."""
    found = await api(connection, "STREAM.NAMES", {"subject": subject})
    names = found.get("streams") or []
    return str(names[0]) if names else ""


async def ensure_stream(connection: Connection, config: Mapping[str, Any]) -> None:
    """Make a stream with this configuration unless one of its name exists; that one gets as many replicas, where it has fewer.

    The server answers before the files of a deleted stream are gone and may then refuse a new one of that name for a moment.

    Errors: CONNECTION_UNAVAILABLE (not within MADE_WITHIN seconds), REFUSED, also where there are not enough servers for the replicas.
    """
    name, until = config["name"], time.monotonic() + MADE_WITHIN
    while not (there := await api(connection, f"STREAM.INFO.{name}")):
        try:
            await api(connection, f"STREAM.CREATE.{name}", config)
        except ConnectionUnavailableException:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)
        else:
            return
    wanted = config.get("num_replicas", 1)
    if there["config"].get("num_replicas", 1) < wanted:
        await api(connection, f"STREAM.UPDATE.{name}", {**there["config"], "num_replicas": wanted})


def stream_config(name: str, subjects: Sequence[str]) -> dict[str, Any]:
    """A stream on disk that keeps everything and says so when it is full."""
    return {
        "name": name,
        "subjects": list(subjects),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "allow_direct": True,
    }


def kept_for(told: Mapping[str, Any]) -> Retention | None:
    """How far back a stream goes, from what STREAM.INFO tells of it; None: for ever, or it cannot be told.

    What `max_msgs` and `max_bytes` come to in time is estimated from what the stream holds: at that rate it will be full after so long.
    """
    config, state = told.get("config", {}), told.get("state", {})
    log = f"stream {config.get('name')}"
    if config.get("retention", "limits") != "limits":
        return Retention(log, f"the retention policy of {config.get('name')} (limits, not {config['retention']})", 0)
    found = []
    if (age := config.get("max_age", 0) // 1_000_000) > 0:
        found.append(Retention(log, f"max_age of {config.get('name')}", age))
    if config.get("discard") == "old" and state.get("messages", 0) >= TELLING:
        held = _ms(state["last_ts"]) - _ms(state["first_ts"])
        for name, now in (("max_msgs", state["messages"]), ("max_bytes", state["bytes"])):
            if (limit := config.get(name, -1)) > 0 and now > 0:
                found.append(Retention(log, f"{name} of {config.get('name')}", held * limit // now, estimated=True))
    return min(found, key=lambda r: r.age, default=None)


def _ms(text: str) -> int:
    """A time as JetStream writes it, in nanoseconds, as ms."""
    return int(datetime.fromisoformat(text[:19] + "+00:00").timestamp() * 1000)


class Stream:
    """The messages of one stream, or of those with one subject (which may hold wildcards; "" for all)."""

    def __init__(self, client: NatsClient, name: str, subject: str = "") -> None:
        self.client = client
        self.name = name
        self.subject = subject
        self._bounds = Bounds(1, 0)
        self._looked = float("-inf")

    def bounds(self, age_ms: int = 0) -> Bounds:
        """First and last sequence, of all subjects of the stream, at most `age_ms` old. Errors: CONNECTION_UNAVAILABLE."""
        now = time.monotonic()
        if (now - self._looked) * 1000 > age_ms:
            found = self.client.call(lambda nc: api(nc, f"STREAM.INFO.{self.name}"))
            if not found:
                raise error(
                    "CONNECTION_UNAVAILABLE", connector=self.client.name, reason=f"there is no stream {self.name}"
                )
            self._bounds = Bounds(found["state"]["first_seq"] or 1, found["state"]["last_seq"])
            self._looked = now
        return self._bounds

    def retention(self) -> Retention | None:
        """How far back the stream goes by its limits (see `kept_for`). Errors: CONNECTION_UNAVAILABLE."""
        return kept_for(self.client.call(lambda nc: api(nc, f"STREAM.INFO.{self.name}")))

    def sequence_at(self, when_ms: int) -> int:
        """The sequence of the first message at or after a time (ms), the next one to come where there is none; never one after such a message."""
        next_one = self.bounds().last + 1  # before the look, which does not find what comes after it
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when_ms // 1000)) + f".{when_ms % 1000:03d}Z"

        async def look(connection: Connection) -> int:
            start = {"deliver_policy": "by_start_time", "opt_start_time": text}
            name, pending = await self._consumer(connection, start)
            try:
                found = await _pull(connection, self.name, name, 1) if pending else []
            finally:
                await api(connection, f"CONSUMER.DELETE.{self.name}.{name}")
            return found[0].sequence if found else 0

        return self.client.call(look) or next_one

    def read(self, start: int, end: int) -> Iterator[list[Stored]]:
        """The messages with start ≤ sequence < end in lists as the server hands them over (never empty ones).

        Errors: LOG_TRUNCATED where `start` is no longer held, CONNECTION_UNAVAILABLE.
        """
        first = self.bounds().first
        if start < first and start < end:
            raise error("LOG_TRUNCATED", log=f"stream {self.name}", position=start, first=first)
        if start >= end:
            return
        begin = {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
        name, pending = self.client.call(lambda nc: self._consumer(nc, begin))
        try:
            while pending:
                found = self.client.call(lambda nc: _pull(nc, self.name, name, PIECE_MESSAGES))
                if not found:
                    break
                kept = [m for m in found if m.sequence < end]
                if kept:
                    yield kept
                pending = 0 if len(kept) < len(found) or kept[-1].sequence == end - 1 else _pending(found)
        finally:
            self.client.call(lambda nc: api(nc, f"CONSUMER.DELETE.{self.name}.{name}"))

    def latest(self) -> list[Stored]:
        """The last message of each subject. Errors: CONNECTION_UNAVAILABLE."""

        async def look(connection: Connection) -> list[Stored]:
            start = {"deliver_policy": "last_per_subject", "filter_subject": self.subject or ">"}
            name, pending = await self._consumer(connection, start)
            found: list[Stored] = []
            try:
                while len(found) < pending and (more := await _pull(connection, self.name, name, PIECE_MESSAGES)):
                    found += more
            finally:
                await api(connection, f"CONSUMER.DELETE.{self.name}.{name}")
            return found

        return self.client.call(look)

    async def _consumer(self, connection: Connection, start: Mapping[str, object]) -> tuple[str, int]:
        """The name of a new consumer and how many messages it has before it."""
        config = {
            **start,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 60_000_000_000,
        }
        if self.subject:
            config["filter_subject"] = self.subject
        found = await api(connection, f"CONSUMER.CREATE.{self.name}", {"stream_name": self.name, "config": config})
        if not found:
            raise error("CONNECTION_UNAVAILABLE", connector=self.client.name, reason=f"there is no stream {self.name}")
        return found["name"], found["num_pending"]


class _Batch(list[Stored]):
    """Messages of one pull and how many are left in the stream after them."""

    pending = 0


def _pending(found: list[Stored]) -> int:
    return found.pending if isinstance(found, _Batch) else 0


async def _pull(connection: Connection, stream: str, consumer: str, most: int) -> list[Stored]:
    """The next messages of a consumer, at most `most`; fewer at the end, or where they are large."""
    received: list[Msg] = []
    done = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        received.append(message)
        if not done.done() and (len(received) == most or not message.reply or message.reply.endswith(".0")):
            done.set_result(None)  # a status message has no reply subject; a data message's tells how many are left

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, cb=take)
    try:
        request = {"batch": most, "max_bytes": PIECE_BYTES, "no_wait": True}
        await connection.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", json.dumps(request).encode(), reply=inbox
        )
        await done
    finally:
        if not connection.is_closed:
            await subscription.unsubscribe()
    batch = _Batch()
    for message in received:
        if message.reply:
            fields = message.reply.split(".")
            at = 5 if len(fields) < 11 else 7  # newer servers put a domain and an account in front
            headers = message.headers or {}
            batch.append(
                Stored(int(fields[at]), int(fields[at + 2]) // 1_000_000, message.subject, message.data, headers)
            )
            batch.pending = int(fields[at + 3])
        elif (status := (message.headers or {}).get("Status")) not in ("404", "408", "409"):
            raise error("REFUSED", connector=f"stream {stream}", reason=f"status {status}")
    return batch


async def get(connection: Connection, stream: str, which: Mapping[str, object]) -> Stored | None:
    """One message of a stream that allows direct gets: `{"last_by_subj": s}`, `{"seq": n, "next_by_subj": s}`; None where there is none.

    Errors: CONNECTION_UNAVAILABLE, REFUSED.
    """
    answer = await connection.request(f"$JS.API.DIRECT.GET.{stream}", json.dumps(which).encode(), timeout=CALL_WITHIN)
    headers = answer.headers or {}
    status = headers.get("Status")
    if status == "404":
        return None
    if status is not None:
        raise error("REFUSED", connector=f"stream {stream}", reason=f"status {status}")
    when = datetime.fromisoformat(headers["Nats-Time-Stamp"][:23].rstrip("Z") + "+00:00")
    sequence, subject = int(headers["Nats-Sequence"]), headers["Nats-Subject"]
    return Stored(sequence, int(when.timestamp() * 1000), subject, answer.data, headers)


async def publish(connection: Connection, message: Outgoing, seconds: float = CALL_WITHIN) -> int:
    """Publish one message and wait until the stream has it; its sequence. Errors: REFUSED, CONNECTION_UNAVAILABLE."""
    headers = message.headers or None
    answer = await connection.request(message.subject, message.data, timeout=seconds, headers=headers)
    return _acknowledged(answer, message.subject)


async def publish_all(connection: Connection, messages: Sequence[Outgoing]) -> list[int]:
    """Publish messages in order, up to IN_FLIGHT unacknowledged at a time; their sequences when the stream has all of them.

    Errors: as for `publish`; some of the messages may be stored then.
    """
    sequences = [0] * len(messages)
    room = asyncio.Semaphore(IN_FLIGHT)
    left = len(messages)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(answer: Msg) -> None:
        nonlocal left
        at = int(answer.subject.rpartition(".")[2])
        try:
            sequences[at] = _heard(answer, messages[at].subject)
        except Exception as reason:
            if not done.done():
                done.set_exception(reason)
        left -= 1
        room.release()
        if left == 0 and not done.done():
            done.set_result(None)

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(f"{inbox}.*", cb=take)
    try:
        for i, message in enumerate(messages):
            await room.acquire()
            if done.done():
                break
            await connection.publish(
                message.subject, message.data, reply=f"{inbox}.{i}", headers=message.headers or None
            )
        if messages:
            await done
    finally:
        if not connection.is_closed:
            await subscription.unsubscribe()
    return sequences


async def publish_after(connection: Connection, messages: Sequence[Outgoing], last: int) -> list[int]:
    """Publish messages, which have ids, so that each directly follows the one before in the stream, and the first one the sequence `last`; none is on its way
    on return.

    -> the sequences of those that the stream has: all or, where something else has come between, the first ones. Errors: as for `publish_all`.
    """

    def behind(i: int) -> dict[str, str]:
        # not the sequence that it would have: what others write meanwhile may bring the stream there, though the message before was refused
        return {EXPECTED_ID: messages[i - 1].headers[MESSAGE_ID]} if i else {EXPECTED_LAST: str(last)}

    return await _publish_where(connection, messages, behind, IN_FLIGHT)


async def publish_while(
    connection: Connection, messages: Sequence[Outgoing], subject: str, last: int, in_flight: int
) -> list[int]:
    """Publish messages, each only while the last message of another subject of the stream is the one with the sequence `last`; none is on its way on return.

    -> the sequences of those that the stream has: all, or the first ones. Errors: as for `publish_all`. A stream with replicas compares it for one message at a
    time, and refuses others that come meanwhile: there no more than one may be in flight.
    """
    condition = {EXPECTED_OF_SUBJECT: str(last), EXPECTED_SUBJECT: subject}
    return await _publish_where(connection, messages, lambda _: condition, in_flight)


async def _publish_where(
    connection: Connection, messages: Sequence[Outgoing], condition: Callable[[int], Mapping[str, str]], in_flight: int
) -> list[int]:
    """Publish messages with headers that say where the server is to refuse them; the first one that it refuses ends it."""
    sequences: list[int | None] = [None] * len(messages)
    room = asyncio.Semaphore(in_flight)
    refused = asyncio.Event()
    failures: list[BaseException] = []
    sent = answered = 0
    settled = asyncio.Condition()

    async def take(answer: Msg) -> None:
        nonlocal answered
        at = int(answer.subject.rpartition(".")[2])
        try:
            sequences[at] = _heard(answer, messages[at].subject)
        except NadiError as reason:
            refused.set()
            if reason.condition != "SEQUENCE_TAKEN":
                failures.append(reason)
        async with settled:
            answered += 1
            settled.notify_all()
        room.release()

    inbox = connection.new_inbox()
    subscription = await connection.subscribe(f"{inbox}.*", cb=take)
    try:
        for i, message in enumerate(messages):
            await room.acquire()
            if refused.is_set():
                break
            headers = {**message.headers, **condition(i)}
            await connection.publish(message.subject, message.data, reply=f"{inbox}.{i}", headers=headers)
            sent += 1
        async with settled:
            await settled.wait_for(lambda: answered == sent)
    finally:
        if not connection.is_closed:
            await subscription.unsubscribe()
    if failures:
        raise failures[0]
    return [sequence for sequence in takewhile(lambda sequence: sequence is not None, sequences) if sequence]


async def last_of(connection: Connection, stream: str, subject: str) -> int:
    """The sequence of the last message of a subject, 0 where there is none, as the leader of the stream has it. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    return (await last_message(connection, stream, subject))[0]


async def last_message(connection: Connection, stream: str, subject: str) -> tuple[int, bytes]:
    """The same with what the message says."""
    found = await api(connection, f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
    return (int(found["message"]["seq"]), b64decode(found["message"].get("data", ""))) if found else (0, b"")


def _heard(answer: Msg, subject: str) -> int:
    """As `_acknowledged`, of an answer that nobody else has looked at: the server says itself where no stream holds a subject."""
    if (answer.headers or {}).get("Status") == "503":
        raise error("CONNECTION_UNAVAILABLE", connector=subject, reason="no stream holds this subject")
    return _acknowledged(answer, subject)


def _acknowledged(answer: Msg, subject: str) -> int:
    found = check(json.loads(answer.data), f"the stream of {subject}")
    if not found:
        raise error("REFUSED", connector=f"the stream of {subject}", reason="not found")
    return int(found["seq"])
