"""Who may publish the rows of a bucket to a stream: whoever has written the last message of a subject that only stands for this, there.

It is `<destination>.turn.<publisher>.<bucket>`. Every row says which message it knows as the last one of that subject, and the server compares it
(`Nats-Expected-Last-Subject-Sequence-Subject`): as soon as somebody else has begun it refuses the row, whoever slept for however long, and whatever others
write to the stream meanwhile. A later turn begins behind an earlier one, never the other way round: who has lost the turn and wakes up cannot begin again.

Who has begun reads which rows are there, when nobody else can write any more: what the register has noted (`nadi.io.sinks.natsturn`) and, behind that, the
numbers in the headers of the rows. Rows are left out by these; JetStream's own memory of ids plays no part.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from nadi.errors import NadiError, error
from nadi.io.jetstream import (
    EXPECTED_OF_SUBJECT,
    IN_FLIGHT,
    MESSAGE_ID,
    Outgoing,
    Stream,
    last_message,
    publish,
    publish_while,
    token,
)
from nadi.io.natsclient import api
from nadi.io.sinks.natsturn import Note, Register
from nadi.io.sinks.numbers import COUNT, GROUP, NUMBER, PRODUCER, Numbers
from nadi.io.turn import Turn

AT_ONCE = 2_000  # messages published in one call
WITHIN = 60.0  # seconds for them
ATTEMPTS = 20  # at beginning, while others of the same cluster do, too; at a message that a stream with replicas is not ready for


class Begin(msgspec.Struct, frozen=True):
    """The message by which somebody begins."""

    token: int
    centre: str


_BEGIN = msgspec.json.Decoder(Begin).decode


@dataclass(slots=True)
class Delivered:
    """Rows that a stream has: by key-group all before `numbers`, and single ones behind them."""

    numbers: dict[int, int] = field(default_factory=dict)
    single: set[tuple[int, int]] = field(default_factory=set)

    def has(self, of: Numbers) -> bool:
        """Whether all rows of a payload are there.

        >>> delivered = Delivered({0: 3}, {(0, 5)})
        >>> [delivered.has(Numbers(0, n, 1)) for n in range(2, 7)], delivered.has(Numbers(0, 2, 2)), delivered.has(Numbers(7, 0, 1))
        ([True, False, False, True, False], False, False)
        """
        floor = self.numbers.get(of.group, 0)
        return all((of.group, n) in self.single for n in range(max(of.number, floor), of.number + of.count))

    def take(self, rows: Sequence[Numbers]) -> None:
        """All of them are there now, or never come."""
        for of in rows:
            self.numbers[of.group] = max(self.numbers.get(of.group, 0), of.number + of.count)
        self.single = {(group, number) for group, number in self.single if number >= self.numbers.get(group, 0)}


class Fence:
    """The right to publish the rows of one bucket to one stream, from `begin` until somebody else begins."""

    def __init__(self, register: Register, rows: str, key: str) -> None:
        """`rows` is the stream, `key` what the rows of the bucket are known by: `<publisher>/<bucket>`."""
        publisher, _, bucket = key.rpartition("/")
        self._register = register
        self._client = register.client
        self._rows = Stream(register.client, rows, register.place)
        self._key = key
        self._name = f"{token(publisher)}.{bucket}"
        self._subject = f"{register.place}.turn.{self._name}"
        self._at = 0  # the sequence of the message by which it has begun
        self._in_flight = IN_FLIGHT
        self._note = Note()
        self._noted = 0
        self.delivered = Delivered()

    def begin(self, turn: Turn, producer: str) -> None:
        """Keep everybody else from publishing, and learn what is there of `producer`. Errors: FENCED, where a later turn has begun; CONNECTION_UNAVAILABLE."""
        self._at = self._begun(turn)
        if self._register.turn()[0] != turn:
            raise self._fenced()
        told = self._client.call(lambda nc: api(nc, f"STREAM.INFO.{self._rows.name}"))
        self._in_flight = IN_FLIGHT if told.get("config", {}).get("num_replicas", 1) == 1 else 1
        self._note, self._noted = self._register.note(self._name)
        self.delivered = Delivered(dict(self._note.numbers), self._behind_note(producer))

    def append(self, messages: Sequence[Outgoing], rows: Sequence[Numbers]) -> None:
        """Publish in order; then `rows`, the whole of a cut, are noted as being there.

        Errors: SEQUENCE_TAKEN, where somebody else has begun; CONNECTION_UNAVAILABLE, REFUSED. Then some may be there, and it has to begin anew.
        """
        left, last, attempts = list(messages), max(self._at, self._note.upto), 0
        while left:
            part = left[:AT_ONCE]
            stored = self._publish(part)
            left = left[len(stored) :]
            last = max([last, *stored])
            attempts = 0 if stored else attempts + 1
            if len(stored) < len(part) and (attempts == ATTEMPTS or self._last()[0] != self._at):
                raise error("SEQUENCE_TAKEN", connector=self._client.name)
        self.delivered.take(rows)
        if self.delivered.numbers != self._note.numbers:
            upto = self._note.upto if self.delivered.single else last  # single ones have to be found again
            self._note = Note(self._key, upto, dict(self.delivered.numbers))
            self._noted = self._register.keep(self._name, self._note, self._noted)

    def _begun(self, turn: Turn) -> int:
        for _ in range(ATTEMPTS):
            last, data = self._last()
            if last and _BEGIN(data).token > turn.token:
                raise self._fenced()
            # the id is of no use to anybody, but that the server takes no two of these messages for the same one
            headers = {EXPECTED_OF_SUBJECT: str(last), MESSAGE_ID: os.urandom(12).hex()}
            message = Outgoing(self._subject, msgspec.json.encode(Begin(turn.token, turn.centre)), headers)
            try:
                return self._client.call(lambda nc, m=message: publish(nc, m))  # type: ignore[misc]
            except NadiError as reason:
                if reason.condition != "SEQUENCE_TAKEN":
                    raise
        said = "others begin to publish the same rows all the time"
        raise error("CONNECTION_UNAVAILABLE", connector=self._client.name, reason=said)

    def _behind_note(self, producer: str) -> set[tuple[int, int]]:
        """The rows that came after what was noted."""
        while True:
            start = max(self._rows.bounds().first, self._note.upto + 1)
            try:
                return self._read(start, producer)
            except NadiError as reason:
                if reason.condition != "LOG_TRUNCATED":  # more was removed in this very moment: once more, without that
                    raise

    def _read(self, start: int, producer: str) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for part in self._rows.read(start, self._at):
            for message in part:
                told = message.headers
                if told.get(PRODUCER) == producer:
                    group, number = int(told[GROUP]), int(told[NUMBER])
                    found.update((group, number + i) for i in range(int(told.get(COUNT, "1"))))
        return found

    def _publish(self, messages: Sequence[Outgoing]) -> list[int]:
        return self._client.call(
            lambda nc: publish_while(nc, messages, self._subject, self._at, self._in_flight), WITHIN
        )

    def _last(self) -> tuple[int, bytes]:
        return self._client.call(lambda nc: last_message(nc, self._rows.name, self._subject))

    def _fenced(self) -> NadiError:
        return error("FENCED", connector=f"{self._client.name} (turns of {self._register.place})", producer=self._key)
