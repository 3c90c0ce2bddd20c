"""Messages of a journal of which another node has a copy: each is prepared there before it is published here.

What became of a message is found out before the next one of its subject is prepared: where its connection was lost and it may still come, it is published once
more, behind the same one as before. Then the server takes it, or knows it, or refuses it as another one stands there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nadi.errors import NadiError, error
from nadi.io.jetstream import Outgoing, Stored, get, publish
from nadi.io.natsclient import NatsClient, api
from nadi.replica import client as replicas
from nadi.replica.contract import JournalAppend, JournalTrim

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
WHOLE = -1
"""The position of a trim by which a stream goes."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A message that is prepared, and may be published."""

    message: Outgoing
    ticket: int


def copied_appends(client: NatsClient, config: Mapping[str, Any]) -> CopiedAppends | None:
    """What publishes to a stream with this configuration; None where there is no copy. All who share a client share it, so that messages of a subject are
    prepared one after the other."""
    if client.replica is None:
        return None
    made: CopiedAppends = client.copied.setdefault(str(config["name"]), CopiedAppends(client, config))
    return made


class CopiedAppends:
    """Publishes to one stream, in the loop thread."""

    def __init__(self, client: NatsClient, config: Mapping[str, Any]) -> None:
        """`config` is that of the stream."""
        assert client.replica is not None
        self._client = client
        self._socket = client.replica
        self._stream = str(config["name"])
        self._config = msgspec.json.encode(config)
        self._open: dict[str, _Attempt] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def publish(self, message: Outgoing, first: int) -> int:
        """Publish a message whose first event has the number `first`, and whose headers say which message it follows; -> its sequence.

        Errors: SEQUENCE_TAKEN, where it does not follow that one; REFUSED; those of `Replica.prepare`; CONNECTION_UNAVAILABLE: it may be there all the same.
        """
        async with self._turn(message.subject):
            if await self._settled(message.subject):
                raise error("SEQUENCE_TAKEN", connector=f"the stream of {message.subject}")
            plain = {name: value for name, value in message.headers.items() if name != EXPECTED}
            record = JournalAppend(self._stream, self._config, message.subject, first, plain, message.data)
            ticket = await replicas.replica_in_loop(self._socket).prepare(record)
            self._open[message.subject] = _Attempt(message, ticket)
            return await self._try(message.subject)

    async def settle(self, subject: str) -> None:
        """Find out what became of the last message of a subject. Errors: CONNECTION_UNAVAILABLE."""
        async with self._turn(subject):
            await self._settled(subject)

    async def _settled(self, subject: str) -> bool:
        """Whether there was one."""
        if subject not in self._open:
            return False
        try:
            await self._try(subject)
        except NadiError as reason:
            if reason.condition not in _ABSENT:
                raise
        return True

    async def _try(self, subject: str) -> int:
        attempt = self._open[subject]
        try:
            sequence = await self._client.perform(lambda nc: publish(nc, attempt.message))
        except NadiError as reason:
            if reason.condition not in _ABSENT:
                raise  # nobody knows
            found = await self._behind(attempt.message) if reason.condition == "SEQUENCE_TAKEN" else None
            del self._open[subject]
            if found is None:
                self._told().abandon(attempt.ticket)
                raise
            sequence = found.sequence  # an attempt whose answer was lost
        else:
            del self._open[subject]
        self._told().confirm(attempt.ticket)
        return sequence

    async def _behind(self, message: Outgoing) -> Stored | None:
        """The message itself, if it stands where it was to stand."""
        place = {"seq": int(message.headers[EXPECTED]) + 1, "next_by_subj": message.subject}
        found = await self._client.perform(lambda nc: get(nc, self._stream, place))
        return found if found is not None and is_same(found, message) else None

    def _told(self) -> Any:
        return replicas.replica_in_loop(self._socket)

    def _turn(self, subject: str) -> asyncio.Lock:
        return self._turns.setdefault(subject, asyncio.Lock())


_ABSENT = ("SEQUENCE_TAKEN", "REFUSED")
"""Answers of the server by which it has not taken a message."""


def is_same(found: Stored, message: Outgoing) -> bool:
    """Whether a stored message is this one, wherever it stands."""
    wanted = {name: value for name, value in message.headers.items() if name != EXPECTED}
    return found.data == message.data and all(found.headers.get(name) == value for name, value in wanted.items())


def trim(client: NatsClient, stream: str, subject: str, position: int, remove: Callable[[], object]) -> None:
    """Remove messages of a subject whose events are all before a position (WHOLE: the stream), here and where there is a copy.

    Errors: those of `remove`, and of `Replica.prepare`.
    """
    if client.replica is None:
        remove()
        return
    replica = replicas.blocking_replica(client.replica)
    ticket = replica.prepare(JournalTrim(stream, subject, position))
    try:
        remove()
    except BaseException:
        replica.abandon(ticket)  # where it was done all the same the copy has more, and nobody asks for it
        raise
    replica.confirm(ticket)


def remove_stream(client: NatsClient, stream: str) -> None:
    """Remove a stream, if there is one, here and where there is a copy. Errors: as for `trim`."""
    trim(client, stream, "", WHOLE, lambda: client.call(lambda nc: api(nc, f"STREAM.DELETE.{stream}")))
