"""`@source(type='nats', destination='subject', bootstrap.servers='nats://host:4222')`: the messages of a JetStream stream with one subject.

A position is the sequence in the stream. The stream is the one that holds the subject; where there is none it is made (on disk, keeping everything). The app
reads every message itself and keeps its own positions, so `queue.group.name` and `durable.name`, which Siddhi needs for that, are accepted and without effect.

With `share='i/n'` it has the messages of every n-th sequence or so (`nadi.io.share`): the server sends all of them, and the others are dropped here.

`start.position`: `beginning` (default), `end`, a sequence (Siddhi's `subscription.sequence` as well), or a time as `time:<ms>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress

import numpy as np
import numpy.typing as npt
from nats.aio.client import Client as Connection

from nadi.errors import Span, error
from nadi.io.addresses import check_servers, invalid_subject, wrong_filter
from nadi.io.contract import Connector, Log, Messages, Place
from nadi.io.jetstream import BOUNDS_AGE_MS, Stored, Stream, ensure_stream, find_stream, stream_config, token
from nadi.io.natsclient import NatsClient, shared
from nadi.io.natsreach import DEFAULT_URL, reaches, read
from nadi.io.registry import SourceKind
from nadi.io.retention import Retention
from nadi.io.share import OPTION as SHARE
from nadi.io.share import WHOLE, Share, share_of
from nadi.io.sources.properties import transport_names
from nadi.io.streamear import StreamEar
from nadi.io.wakes import TRUSTED, Doorbell, Tell
from nadi.plan.connectortraits import Divided, SourceTraits
from nadi.plan.options import Option

PIECE_MESSAGES = 20_000
PIECE_BYTES = 16 * 1024 * 1024
BUSY_LOOK = 0.25  # seconds between looks after as much has come as an ear hears
BUSY_LOOKS = 40

CONNECTION_OPTIONS = (
    Option("destination", doc="the subject; required", other="subject"),
    Option("subject", doc="another name of `destination`", other="destination"),
    Option(
        "bootstrap.servers",
        doc="`nats://localhost:4222`; several with commas between them",
        default=DEFAULT_URL,
        other="url",
    ),
    Option("url", doc="another name of `bootstrap.servers`"),
    Option("username", doc="for the connection", secret=True),
    Option("password", doc="for the connection", secret=True),
    Option("client.id", doc="Siddhi's, without effect"),
    Option("cluster.id", doc="Siddhi's, without effect"),
    Option("server.id", doc="Siddhi's, without effect"),
)


class StreamLog:
    """The messages of one subject as a log of one partition."""

    def __init__(
        self,
        client: NatsClient,
        subject: str,
        start: str = "beginning",
        names: tuple[str, ...] = (),
        share: Share = WHOLE,
    ) -> None:
        self._client = client
        self._subject = subject
        self._start = start
        self._names = names
        self._share = share
        self._stream: Stream | None = None
        self._bell = Doorbell()
        self._ear = StreamEar(client, self._bell.ring)
        self._end = 0
        self._busy = 0  # looks that follow without being told

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        bounds = self._found().bounds()
        if self._start == "end":
            return bounds.last + 1
        if self._start.startswith("time:"):
            return self._found().sequence_at(int(self._start[5:]))
        return bounds.first if self._start == "beginning" else int(self._start)

    def end(self, partition: int) -> int:
        """The sequence after the last message of the stream (of any subject), at most BOUNDS_AGE_MS old.

        Where somebody waits (`wake`), it is asked for when there was a message of the subject.
        """
        if not self._bell.watched:
            return self._found().bounds(BOUNDS_AGE_MS).last + 1
        if self._bell.due(BUSY_LOOK if self._busy else TRUSTED):
            with self._bell.look() as rung:
                if rung or self._busy or not self._ear.listening():
                    end = self._found().bounds().last + 1
                    rest = self._busy - 1 if end > self._end else 0
                    self._busy = BUSY_LOOKS if self._ear.spent else max(0, rest)
                    self._ear.listen(self._found(), end - 1)
                    self._end = end
        return self._end

    def wake(self, tell: Tell) -> None:
        self._bell.register(tell)

    def next_look(self) -> float | None:
        """Soon after much has come: a server that is sent more than its disk takes delivers only when it has stored all of it."""
        return self._bell.looked + BUSY_LOOK if self._busy else None

    def oldest(self, partition: int) -> int:
        return self._found().bounds().first

    def retention(self) -> Retention | None:
        return self._found().retention()

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        return None

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        # Pieces are cut by what is in them, not by what the server happened to send together: they must be the same at every call.
        piece: list[Stored] = []
        size = 0
        for part in self._found().read(start, end):
            for message in self._mine(part):
                piece.append(message)
                size += len(message.data)
                if len(piece) == PIECE_MESSAGES or size >= PIECE_BYTES:
                    yield self._messages(piece)
                    piece, size = [], 0
        if piece:
            yield self._messages(piece)

    def _mine(self, part: list[Stored]) -> list[Stored]:
        if self._share == WHOLE:
            return part
        mine = self._share.has_messages(np.fromiter((m.sequence for m in part), np.int64, len(part)))
        return list(compress(part, mine.tolist()))

    def acknowledge(self, partition: int, position: int) -> None:
        """Nothing: the stream keeps what its own limits say."""

    def close(self) -> None:
        """The connection stays: it is shared."""
        self._bell.silence()
        self._ear.close()

    def _found(self) -> Stream:
        if self._stream is None:
            name = self._client.call(lambda nc: stream_for(nc, self._subject))
            self._stream = Stream(self._client, name, self._subject)
        return self._stream

    def _messages(self, piece: list[Stored]) -> Messages:
        count = len(piece)
        positions = np.fromiter((m.sequence for m in piece), np.int64, count)
        times = np.fromiter((m.time for m in piece), np.int64, count)
        properties = [self._properties(m) for m in piece] if self._names else ()
        return Messages(positions, times, [m.data for m in piece], properties=properties)

    def _properties(self, message: Stored) -> Mapping[str, str]:
        own = {"subject": message.subject, "sequence": str(message.sequence)}
        found = {**own, **message.headers}
        return {n: found[n] for n in self._names if n in found}


async def stream_for(connection: Connection, subject: str) -> str:
    """The name of the stream that holds a subject; it is made where there is none."""
    name = await find_stream(connection, subject)
    if not name:
        name = token(subject)
        await ensure_stream(connection, stream_config(name, [subject]))
    return name


def destination(where: str, options: Mapping[str, str]) -> str:
    """The subject of a source or sink. Errors: OPTION_MISSING."""
    found = options.get("destination") or options.get("subject")
    if not found:
        raise error("OPTION_MISSING", where=where, name="destination")
    return found


def client_of(options: Mapping[str, str]) -> NatsClient:
    """The connection that the options name; it is shared by the process."""
    url = options.get("bootstrap.servers") or options.get("url") or DEFAULT_URL
    user = options.get("username") or ""
    return shared(url, user, options.get("password", "") if user else "")


def start_position(where: str, options: Mapping[str, str]) -> str:
    """The checked start option. Errors: OPTION_INVALID."""
    value = options.get("start.position") or options.get("subscription.sequence") or "beginning"
    plain = value.strip().lower()
    if plain in ("beginning", "end") or plain.removeprefix("time:").isdecimal():
        return plain
    wanted = "beginning, end, a sequence, or time:<ms>"
    raise error("OPTION_INVALID", where=where, name="start.position", value=value, wanted=wanted)


def _begins(connector: Connector) -> str:
    start = start_position(f"@source of {connector.stream} (nats)", connector.options)
    where = {"beginning": "with the oldest message", "end": "with what comes after the start"}
    return where.get(start, f"with messages from {start} on")


def _open(connector: Connector, place: Place) -> Log:
    where = f"@source of {connector.stream} (nats)"
    subject, start = destination(where, connector.options), start_position(where, connector.options)
    share = share_of(where, connector.options)
    return StreamLog(client_of(connector.options), subject, start, transport_names(connector), share)


def check_filter(connector: Connector, span: Span) -> None:
    """Whether a source can read its subject. Errors: OPTION_MISSING, OPTION_INVALID."""
    where = f"@source of {connector.stream} ({connector.type})"
    subject = destination(where, connector.options)
    if wrong := wrong_filter(subject):
        raise invalid_subject(where, subject, wrong, span)


def check_start(connector: Connector, _span: Span) -> None:
    """Errors: OPTION_INVALID, where `start.position` is none."""
    start_position(f"@source of {connector.stream} ({connector.type})", connector.options)


def _check_share(connector: Connector, span: Span) -> None:
    share_of(f"@source of {connector.stream} (nats)", connector.options, span)


KIND = SourceKind(
    (
        *CONNECTION_OPTIONS,
        Option("queue.group.name", doc="Siddhi's, without effect"),
        Option("durable.name", doc="Siddhi's, without effect: the app keeps its own position"),
        Option("subscription.sequence", doc="Siddhi's: `start.position` with a sequence"),
        Option(
            "start.position",
            doc="where a new app begins: `beginning` (default), `end`, a sequence, `time:<ms>`",
            default="beginning",
            other="subscription.sequence",
        ),
        SHARE,
    ),
    _open,
    identity=("destination", "subject"),
    begins=_begins,
    checks=(check_servers, check_filter, check_start, _check_share),
    reaches=reaches,
    reads=read,
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
        topics=None,
        moved="",
    ),
    loops=(),
)
