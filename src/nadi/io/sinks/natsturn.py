"""The turn (`nadi.io.turn`) of a NATS server: a stream beside that of the rows, `nadi-turn-<destination>`. It keeps the last message of a subject.

| subject, behind `nadi.turn.<destination>.` | value, JSON |
|---|---|
| `turn` | `{"token": 3, "centre": "east", "life": "a7…"}`: which cluster publishes |
| `of.<publisher>.<bucket>` | `{"key": "alerts/0", "upto": 812, "numbers": {"0": 40}}`: which rows are there, see `Note` |

It is apart from the rows as their stream may forget: whose turn it is must not go with old messages. Each message is written where the one before is the one
that the writer has read. What keeps others from publishing is in the stream of the rows (`nadi.io.sinks.natsfence`).
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
from nats.aio.client import Client as Connection

from nadi.errors import NadiError, error
from nadi.io.contract import Connector
from nadi.io.jetstream import (
    EXPECTED_OF_SUBJECT,
    Outgoing,
    Stream,
    ensure_stream,
    last_message,
    publish,
    stream_config,
    token,
)
from nadi.io.natsclient import NatsClient, api
from nadi.io.sources.nats import client_of, destination, stream_for
from nadi.io.turn import Standing, Turn

LOOK = 0.25  # seconds between looks while somebody follows
LEAST_SERVER = (2, 11)  # since when a message can name the subject that is compared


class Note(msgspec.Struct, frozen=True):
    """Which rows of a bucket (`key`) a stream has: all before `numbers`, by key-group, as far as they have a sequence up to `upto`."""

    key: str = ""
    upto: int = 0
    numbers: dict[int, int] = {}


_TURN = msgspec.json.Decoder(Turn).decode
_NOTE = msgspec.json.Decoder(Note).decode


class Register:
    """What one server keeps of turns for a destination."""

    def __init__(self, client: NatsClient, place: str) -> None:
        self.client = client
        self.place = place
        self.stream = f"nadi-turn-{token(place)}"
        self._prefix = f"nadi.turn.{token(place)}"

    def make(self) -> str:
        """Make what turns need where it is missing; -> the stream of the rows, which is made as well. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        return self.client.call(self._make)

    def turn(self) -> tuple[Turn, int]:
        """Whose turn it is, as the leader of the stream has it, and the sequence of that message (0: nobody ever had one). Errors: CONNECTION_UNAVAILABLE."""
        sequence, data = self._last("turn")
        return (_TURN(data) if sequence else Turn()), sequence

    def give(self, turn: Turn, last: int) -> None:
        """Errors: SEQUENCE_TAKEN, where the last turn is another one; CONNECTION_UNAVAILABLE."""
        self._put("turn", msgspec.json.encode(turn), last)

    def note(self, subject: str) -> tuple[Note, int]:
        """What is noted of a bucket, and the sequence of that message. Errors: CONNECTION_UNAVAILABLE."""
        sequence, data = self._last(f"of.{subject}")
        return (_NOTE(data) if sequence else Note()), sequence

    def keep(self, subject: str, note: Note, last: int) -> int:
        """-> the sequence of the note. Errors: SEQUENCE_TAKEN, where somebody else has noted something; CONNECTION_UNAVAILABLE."""
        return self._put(f"of.{subject}", msgspec.json.encode(note), last)

    def standing(self) -> tuple[Standing, int]:
        """All that is there, and the last sequence. Errors: CONNECTION_UNAVAILABLE."""
        found = Standing(Turn(), {})
        last = self.end()
        for message in Stream(self.client, self.stream).latest() if last else ():
            if message.subject == f"{self._prefix}.turn":
                found.turn = _TURN(message.data)
            else:
                note = _NOTE(message.data)
                found.delivered[note.key] = note.numbers
        return found, last

    def end(self) -> int:
        """The last sequence, 0 where nobody ever had a turn. Errors: CONNECTION_UNAVAILABLE."""
        told = self.client.call(lambda nc: api(nc, f"STREAM.INFO.{self.stream}"))
        return int(told["state"]["last_seq"]) if told else 0

    def _last(self, name: str) -> tuple[int, bytes]:
        return self.client.call(lambda nc: last_message(nc, self.stream, f"{self._prefix}.{name}"))

    def _put(self, name: str, data: bytes, last: int) -> int:
        message = Outgoing(f"{self._prefix}.{name}", data, {EXPECTED_OF_SUBJECT: str(last)})
        return self.client.call(lambda nc: publish(nc, message))

    async def _make(self, connection: Connection) -> str:
        version = connection.connected_server_version
        if (version.major, version.minor) < LEAST_SERVER:
            wanted = ".".join(map(str, LEAST_SERVER))
            raise self._refused(f"it is {version}, and turns need a server from {wanted} on")
        rows = await stream_for(connection, self.place)
        told = await api(connection, f"STREAM.INFO.{rows}")
        config: dict[str, Any] = told.get("config", {})
        if config.get("retention", "limits") != "limits":
            raise self._refused(
                f"the stream {rows} has the retention policy {config['retention']}, and turns need limits"
            )
        if not any(covers(subject, f"{self.place}.turn.of.0") for subject in config.get("subjects", ())):
            config["subjects"] = [*config.get("subjects", ()), f"{self.place}.turn.>"]
            await api(connection, f"STREAM.UPDATE.{rows}", config)
        own = {**stream_config(self.stream, [f"{self._prefix}.>"]), "max_msgs_per_subject": 1}
        await ensure_stream(connection, {**own, "num_replicas": config.get("num_replicas", 1)})
        return rows

    def _refused(self, reason: str) -> NadiError:
        return error("REFUSED", connector=f"{self.client.name}, turns of {self.place}", reason=reason)


def covers(pattern: str, subject: str) -> bool:
    """Whether a subject with wildcards has another one in it.

    >>> covers("plant.>", "plant.hot.turn.of.0"), covers("plant.*", "plant.hot.turn"), covers("plant.*", "plant.hot")
    (True, False, True)
    """
    wanted, parts = pattern.split("."), subject.split(".")
    for i, part in enumerate(wanted):
        if part == ">":
            return len(parts) > i
        if i >= len(parts) or part not in ("*", parts[i]):
            return False
    return len(wanted) == len(parts)


def register_of(connector: Connector) -> Register:
    """That of a centre's connector."""
    where = f"@sink of {connector.stream} ({connector.type})"
    return Register(client_of(connector.options), destination(where, connector.options))


class NatsFollower:
    """Looks at the register of one server from time to time, beside whoever asks."""

    def __init__(self, connector: Connector) -> None:
        self._register = register_of(connector)
        self._standing = Standing(Turn(), {})
        self._end = 0
        self._looked = float("-inf")
        self._looking: Future[None] | None = None
        self._worker: ThreadPoolExecutor | None = None

    def follow(self) -> Standing:
        """What the last look has shown; a new one is begun where that was long ago."""
        idle = self._looking is None or self._looking.done()
        if idle and time.monotonic() >= self._looked + LOOK:
            self._worker = self._worker or ThreadPoolExecutor(1, "nats-turn")
            self._looked = time.monotonic()
            self._looking = self._worker.submit(self._look)
        return self._standing

    def read(self) -> Standing:
        self._refresh()
        self._looked = time.monotonic()
        return self._standing

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> None:
        with contextlib.suppress(NadiError):  # it is away; the next look may find it
            self._refresh()

    def _refresh(self) -> None:
        if self._register.end() == self._end:
            return
        self._standing, self._end = self._register.standing()


class NatsSwitch:
    """Gives the turn at one server: only where no other turn has come since it was begun."""

    def __init__(self, connector: Connector) -> None:
        self._register = register_of(connector)
        self._last = 0

    def begin(self) -> Turn:
        self._register.make()
        turn, self._last = self._register.turn()
        return turn

    def give(self, turn: Turn) -> None:
        try:
            self._register.give(turn, self._last)
        except NadiError as reason:
            if reason.condition != "SEQUENCE_TAKEN":
                raise
            who = f"{self._register.client.name}, turns of {self._register.place}"
            raise error("REFUSED", connector=who, reason="somebody else is switching") from reason
