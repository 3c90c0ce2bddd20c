"""A copy of the journal becomes equal: what it is sent comes by subject; what it has itself from the first difference on is kept elsewhere, and goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from nadi.errors import error
from nadi.eventsync.contract import Keep, Surplus, SurplusKind
from nadi.eventsync.journalstand import (
    OWN,
    Closes,
    Comes,
    Ends,
    Goes,
    Opens,
    Piece,
    Subject,
    described,
    digest_of,
    streams,
)
from nadi.io.jetstream import Outgoing, Stored, ensure_stream, publish_all
from nadi.io.journalmessages import Event, group_of, is_seen
from nadi.io.natsclient import NatsClient, api
from nadi.received import read_json

AT_ONCE = 16 * 1024 * 1024  # bytes that are published in one call
WITHIN = 60.0  # seconds for them
_EVENTS = msgspec.msgpack.Decoder(list[tuple[int, bytes, dict[str, str]]])


class Restored:
    """Takes pieces in their order. `keep` gets each event before its message goes. Errors of every method: CONNECTION_UNAVAILABLE, REFUSED, COPY_DIFFERS, those
    of `keep`."""

    def __init__(self, client: NatsClient, keep: Keep) -> None:
        self._client = client
        self._keep = keep
        self._goes: Goes | None = None
        self._own: Stored | None = None  # the next message that the copy has of the subject
        self._waiting: list[Outgoing] = []
        self._size = 0

    def take(self, piece: Piece) -> None:
        match piece:
            case Opens():
                self._open(piece)
            case Goes():
                self._goes = piece
                self._own = self._next()
            case Comes():
                self._come(piece)
            case Ends():
                self._end()
            case Closes():
                for stream in set(streams(self._client)) - set(piece.streams):
                    self._remove(stream, described(self._client, stream)[1])
                    self._client.call(lambda nc, stream=stream: api(nc, f"STREAM.DELETE.{stream}"))  # type: ignore[misc]

    def _open(self, piece: Opens) -> None:
        config: dict[str, Any] = read_json(piece.config, dict[str, Any])
        self._client.call(lambda nc: ensure_stream(nc, config))
        self._remove(piece.stream, set(described(self._client, piece.stream)[1]) - set(piece.subjects))

    def _next(self) -> Stored | None:
        """The first message of the copy that may differ."""
        assert self._goes is not None
        if self._goes.behind < 0:
            return self._subject().holding(self._goes.first)
        common = self._subject().holding(self._goes.behind)
        return None if common is None else self._subject().after(common.sequence)

    def _come(self, piece: Comes) -> None:
        assert self._goes is not None
        message = Outgoing(self._goes.subject, piece.payload, piece.headers)
        if self._own is not None:
            if digest_of(self._own) == digest_of(message):
                self._own = self._subject().after(self._own.sequence)
                return
            self._drop()
        self._waiting.append(message)
        self._size += len(piece.payload)
        if self._size > AT_ONCE:
            self._publish()

    def _end(self) -> None:
        assert self._goes is not None
        if self._own is not None:
            self._drop()
        self._publish()
        trim(self._client, self._goes.stream, self._goes.subject, self._goes.first)

    def _publish(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        before = self._subject().last()
        sequences = self._client.call(lambda nc: publish_all(nc, waiting), WITHIN)
        followed = [0 if before is None else before.sequence, *sequences]
        if any(one >= following for one, following in pairwise(followed)):
            raise error("COPY_DIFFERS", what="the journal", reason="its server knows a message that it does not have")

    def _drop(self) -> None:
        """Remove what the copy has from its next message on."""
        assert self._goes is not None
        self._delete(self._goes.stream, self._goes.subject, self._own, self._goes.first)
        self._own = None

    def _remove(self, stream: str, subjects: Iterable[str]) -> None:
        for subject in sorted(subjects):
            self._delete(stream, subject, self._of(stream, subject).after(0), 0)

    def _delete(self, stream: str, subject: str, message: Stored | None, needed: int) -> None:
        """Delete a message and all of its subject behind it, when they are kept. Those that end before the position `needed` were processed."""
        for some in _together(self._of(stream, subject), message):
            self._keep([each for one in some if group_of(one).end > needed for each in _told(stream, subject, one)])
            for one in some:
                wanted = {"seq": one.sequence, "no_erase": True}
                self._client.call(lambda nc, wanted=wanted: api(nc, f"STREAM.MSG.DELETE.{stream}", wanted))  # type: ignore[misc]

    def _subject(self) -> Subject:
        assert self._goes is not None
        return self._of(self._goes.stream, self._goes.subject)

    def _of(self, stream: str, subject: str) -> Subject:
        return Subject(self._client, stream, subject)


def trim(client: NatsClient, stream: str, subject: str, position: int) -> None:
    """Remove the messages of a subject whose events are all before a position; the last one stays. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    of = Subject(client, stream, subject)
    held = of.holding(position) or of.last()
    if held is not None:
        client.call(lambda nc: api(nc, f"STREAM.PURGE.{stream}", {"filter": subject, "seq": held.sequence}))


def _together(subject: Subject, message: Stored | None) -> Iterator[list[Stored]]:
    """A message and all of its subject behind it, as many at a time as are held in memory without harm."""
    some: list[Stored] = []
    while message is not None:
        some.append(message)
        following = subject.after(message.sequence)
        if following is None or sum(len(each.data) for each in some) > AT_ONCE:
            yield some
            some = []
        message = following


def _told(stream: str, subject: str, message: Stored) -> list[Surplus]:
    """The events of a message that is stored."""
    return events_of(stream, subject, group_of(message).first, message.data)


def events_of(stream: str, subject: str, first: int, data: bytes) -> list[Surplus]:
    """The events of a message; none where it is what a source noted of the keys of its events, which nobody has sent. `first` is the number of the first."""
    app, part = stream.removeprefix(OWN), subject.rpartition(".")[2]
    if is_seen(part):
        return []
    events: Sequence[Event] = _EVENTS.decode(data)
    return [
        Surplus(
            app, part, f"event {first + i} of input {part}", time, body, SurplusKind.EVENT, first + i, dict(properties)
        )
        for i, (time, body, properties) in enumerate(events)
    ]
