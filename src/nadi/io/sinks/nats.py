"""`@sink(type='nats', destination='subject', bootstrap.servers='nats://host:4222')`: exactly once into a JetStream stream.

Every payload has a `Nats-Msg-Id` made of the sink's run (a random name in the state folder: a new state folder counts from 0 again) and the
numbers of its rows. A retried cut publishes only what the stream does not have:

1. Before a run first publishes to a stream, the stream's last sequence is written to the ledger; `commit` adds the last sequence of the cut.
2. The first write after the sink was opened, after a failed write, or of a cut that is not the next one, reads the stream after the last
   sequence of the cuts before it and leaves out the ids it finds there.

JetStream's own check of `Nats-Msg-Id` is not enough: it forgets an id after the stream's duplicate window (two minutes by default), and a
node may be away for longer between writing half a cut and writing it again. It does close the other gap: two attempts at the same cut at the
same time (a zombie) publish the same ids within the window. Where another node may go on with the app, this one may sleep for longer than any window and wake
up in the middle of a cut: there messages are published in turn (`nadi.io.sinks.streamturn`), and the server refuses what comes too late.

The ledger is in `<state>/sinks/<ordinal>`, which the hosts and the driver share, or in the database of the cuts, which all nodes do.

A message that is larger than the server's `max_payload`, and one whose attributes make no subject, or one that no stream holds, is refused for good: what
follows is said by `on.error` (see `nadi.io.sinks.refusals`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nats.aio.client import Client as Connection

from nadi.errors import NOWHERE, NadiError, Span, error
from nadi.io.addresses import check_servers, invalid_subject, wrong_subject
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.jetstream import MESSAGE_ID, Outgoing, Stream, find_stream, publish_all
from nadi.io.natsclient import NatsClient
from nadi.io.natsreach import reaches, read
from nadi.io.registry import SinkKind
from nadi.io.retry import failed, succeeded
from nadi.io.sinks import ledger
from nadi.io.sinks.ledger import Kept
from nadi.io.sinks.numbers import Numbers, TextOption, headers, numbers, producer, text_option
from nadi.io.sinks.refusals import Refusals
from nadi.io.sinks.streamturn import StreamTurn, present_after
from nadi.io.sources.nats import CONNECTION_OPTIONS, client_of, destination, stream_for
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits
from nadi.plan.options import described

CHUNK = 2_000  # messages published in one call
CHUNK_WITHIN = 60.0  # seconds
SUBJECTS = 10_000  # of which the streams are kept in mind
SMALL = 4_096  # bytes: what every server takes, so that it is not asked


class Ledger:
    """Up to where the streams hold nothing but committed cuts of this run: (cut, last sequence) of the last two cuts of each stream.

    Two, because a cut may be written again after it was committed here: Spark notes a batch as done only after the sinks have committed it.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def start(self, stream: Stream, cut: int) -> int:
        """The sequence after which messages of this cut may stand."""
        first = self._kept.once(f"start-{stream.name}", lambda: stream.bounds().last)
        assert isinstance(first, int)
        return max([first, *(last for done, last in self._committed().get(stream.name, ()) if done < cut)])

    def commit(self, cut: int, sequences: Mapping[str, int]) -> None:
        """Note the last sequence of a cut in each stream; a second call has no effect."""
        before = self._committed()
        after = {**before, **{stream: _noted(before.get(stream, []), cut, last) for stream, last in sequences.items()}}
        if after != before:
            self._kept.replace("committed", after)

    def _committed(self) -> dict[str, list[list[int]]]:
        found = self._kept.read("committed") or {}
        assert isinstance(found, dict)
        return found


def _noted(entries: list[list[int]], cut: int, last: int) -> list[list[int]]:
    """The two newest of the entries with one more; an entry never goes back.

    >>> _noted([[1, 40], [2, 80]], 3, 120), _noted([[1, 40], [2, 80]], 2, 80)
    ([[2, 80], [3, 120]], [[1, 40], [2, 80]])
    """
    of = {entry[0]: entry[1] for entry in entries}
    of[cut] = max(last, of.get(cut, 0))
    return [list(entry) for entry in sorted(of.items())[-2:]]


class NatsSink:
    """Payloads to subjects of a server."""

    def __init__(
        self,
        client: NatsClient,
        destination: TextOption,
        connector: Connector,
        place: Place,
        subject: Callable[[str], str] = str,
        kept: Kept | None = None,
    ) -> None:
        """`kept` is where it notes what it has done, where that is not the sink's own place."""
        self._client = client
        self._destination = destination
        self._subject = subject
        self._connector = connector
        self._place = place
        self._run = ""
        self._ledger = Ledger(kept or ledger.kept(connector, place))
        self._refusals = Refusals(connector, place)
        self._who = f"{client.name} (sink of {connector.stream})"
        self._streams: dict[str, Stream | None] = {}  # by subject; None: none holds it
        self._turns: dict[tuple[int, str], StreamTurn] = {}  # by bucket and stream
        self._written: dict[int, int] = {}  # bucket → the last cut that was written whole

    def write(self, delivery: Delivery) -> Receipt:
        """Publish what the streams do not have; all of it is stored on return. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        refused = self._refusals.known(delivery)
        follows = self._written.pop(delivery.bucket, None) == delivery.cut - 1
        if not follows or len(self._streams) > SUBJECTS or None in self._streams.values():
            self._streams.clear()
        self._before(delivery)
        messages = self._taken(self._messages(delivery), refused)
        sequences = self._published(delivery, messages, follows)
        self._written[delivery.bucket] = delivery.cut
        succeeded(self._who)
        return Receipt(delivery.bucket, delivery.cut, dict(sequences), self._refusals.keep(delivery, refused))

    def _before(self, delivery: Delivery) -> None:
        """A cut is about to be written."""

    def _published(self, delivery: Delivery, messages: list[Outgoing], follows: bool) -> dict[str, int]:
        """Publish what the streams do not have; -> the last sequences."""
        publish = self._in_turn if self._place.shared else self._at_once
        return publish(delivery, messages, follows)

    def _at_once(self, delivery: Delivery, messages: list[Outgoing], follows: bool) -> dict[str, int]:
        """Where nobody else publishes the same but a run of this node that came to its end."""
        sequences: dict[str, int] = {}
        for stream in self._streams_of(messages):
            start = self._ledger.start(stream, delivery.cut)  # before the first publish
            if not follows:
                present, last, _end = present_after(stream, self._prefix(), start)
                messages = [m for m in messages if m.headers[MESSAGE_ID] not in present]
                sequences[stream.name] = last
        for i in range(0, len(messages), CHUNK):
            chunk = messages[i : i + CHUNK]
            for message, sequence in zip(chunk, self._publish(chunk)):
                name = self._stream(message.subject).name
                sequences[name] = max(sequence, sequences.get(name, 0))
        return sequences

    def _in_turn(self, delivery: Delivery, messages: list[Outgoing], follows: bool) -> dict[str, int]:
        """Where another run of the app may be publishing the same."""
        sequences: dict[str, int] = {}
        for stream in self._streams_of(messages):
            mine = [m for m in messages if self._stream(m.subject) is stream]
            turn, last = self._turns.get((delivery.bucket, stream.name)) if follows else None, 0
            if turn is None:
                start = self._ledger.start(stream, delivery.cut)
                present, last, end = present_after(stream, self._prefix(), start)
                mine = [m for m in mine if m.headers[MESSAGE_ID] not in present]
                turn = self._turns[delivery.bucket, stream.name] = StreamTurn(stream, self._prefix(), end)
            sequences[stream.name] = max(last, turn.append(mine))
        return sequences

    def _streams_of(self, messages: Sequence[Outgoing]) -> list[Stream]:
        return list(dict.fromkeys(self._stream(m.subject) for m in messages))

    def _taken(self, messages: Sequence[Outgoing], refused: dict[int, str]) -> list[Outgoing]:
        """The messages that the server will take; the others get into `refused`. Errors: REFUSED, CONNECTION_UNAVAILABLE (where `on.error` says to wait)."""
        if self._destination.template.attributes:
            for i, m in enumerate(messages):
                if i not in refused and (reason := wrong_subject(m.subject) or self._unheld(m.subject)):
                    refused[i] = reason
        large = {i: size for i, m in enumerate(messages) if (size := size_of(m)) > SMALL}
        bound = self._client.call(_bound) if large else 0
        for i, size in large.items():
            if size > bound:
                refused.setdefault(i, f"the message of {size} bytes is larger than the {bound} that the server takes")
        if refused and not self._refusals.goes_on:
            raise self._refusal(next(iter(refused.values())))
        return [m for i, m in enumerate(messages) if i not in refused]

    def _refusal(self, reason: str) -> NadiError:
        if not self._refusals.waits:
            return error("REFUSED", connector=self._who, reason=reason)
        failed(self._who, reason)
        return error("CONNECTION_UNAVAILABLE", connector=self._who, reason=reason)

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        sequences: dict[str, int] = {}
        for receipt in receipts:
            for stream, sequence in receipt.content.items():
                sequences[stream] = max(int(sequence), sequences.get(stream, 0))
        self._ledger.commit(cut, sequences)

    def close(self) -> None:
        """Nothing: the connection is shared."""

    def _messages(self, delivery: Delivery) -> list[Outgoing]:
        made_by = self._made_by(delivery.bucket)
        messages = []
        for payload, subject, of in zip(delivery.payloads, self._destination.values(delivery), numbers(delivery)):
            identity = self._identity(delivery.bucket, of)
            messages.append(Outgoing(self._subject(subject), payload, {MESSAGE_ID: identity, **headers(made_by, of)}))
        return messages

    def _made_by(self, bucket: int) -> str:
        """What receivers know the rows of a bucket by."""
        return producer(self._connector, self._place, bucket)

    def _identity(self, bucket: int, of: Numbers) -> str:
        """The id of a message."""
        return f"{self._prefix()}{of.group}/{of.number}"

    def _publish(self, messages: Sequence[Outgoing]) -> list[int]:
        return self._client.call(lambda nc: publish_all(nc, messages), CHUNK_WITHIN)

    def _stream(self, subject: str) -> Stream:
        found = self._held(subject)
        assert found is not None, "else its messages were refused"
        return found

    def _unheld(self, subject: str) -> str:
        """Why a subject that a row chose is not to be had, "" where a stream holds it. None is made for it: whoever sends events could fill the server."""
        return "" if self._held(subject) else f"no stream of the server holds the subject '{subject}'"

    def _held(self, subject: str) -> Stream | None:
        if subject not in self._streams:
            look = find_stream if self._destination.template.attributes else stream_for
            name = self._client.call(lambda nc: look(nc, subject))
            known = next((s for s in self._streams.values() if s is not None and s.name == name), None)
            self._streams[subject] = (known or Stream(self._client, name)) if name else None
        return self._streams[subject]

    def _prefix(self) -> str:
        """What the ids of this run begin with."""
        if not self._run:
            self._run = ledger.run(ledger.shared(self._connector, self._place))
        return self._run + "/"


def size_of(message: Outgoing) -> int:
    """The bytes that count for the server's `max_payload`: headers and data."""
    about = sum(len(name) + len(value.encode()) + 4 for name, value in message.headers.items())
    return len(message.data) + about + len("NATS/1.0\r\n\r\n")


async def _bound(connection: Connection) -> int:
    return connection.max_payload


def _open(connector: Connector, place: Place) -> Sink:
    return NatsSink(client_of(connector.options), checked_subject(connector), connector, place)


def checked_subject(connector: Connector, span: Span = NOWHERE) -> TextOption:
    """The checked destination. Errors: OPTION_MISSING, OPTION_INVALID."""
    where = f"@sink of {connector.stream} ({connector.type})"
    subject = destination(where, connector.options)
    option = text_option(connector, "destination", subject, span)
    wrong = "" if option.template.attributes else wrong_subject(subject)
    if wrong:
        raise invalid_subject(where, subject, wrong, span)
    return option


def check_subject(connector: Connector, span: Span) -> None:
    """Whether a sink can publish to its subject. Errors: OPTION_MISSING, OPTION_INVALID."""
    checked_subject(connector, span)


KIND = SinkKind(
    described(CONNECTION_OPTIONS, {"destination": "the subject; required; may have `{{attribute}}` in it"}),
    _open,
    checks=(check_servers, check_subject),
    reaches=reaches,
    reads=read,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="messages carry their numbers, and after a failure the tail of the stream is read for those that are there",
        refuses="a message that is larger than the server takes",
        announces=False,
        journal=False,
        local=True,
        header=False,
        topics=None,
        moved="",
        alone=(),
    ),
    loops=(),
)
