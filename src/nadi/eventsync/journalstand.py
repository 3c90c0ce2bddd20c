"""What the journals of a node have, as the other one is told it, and what is sent to a copy that lacks something.

Messages of a subject follow each other by the numbers of their events, and only ever go at the beginning. So two nodes have the same messages of a subject up
to some point and, after a promotion with loss, others from there on. A copy names its last messages and some before them, at distances that double: from the
newest of these that the active node has, too, it is sent everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import msgspec

from nadi.io.jetstream import Outgoing, Stored, Stream, get
from nadi.io.journalmessages import IDENTITY, Group, group_of
from nadi.io.natsclient import NatsClient, api

OWN = "NADI_"
"""What the names of the streams of journals begin with."""
MARKS = 24
_KEPT = ("name", "subjects", "storage", "retention", "discard", "allow_direct", "num_replicas")


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A message of a subject: the number of its first event, and its digest."""

    first: int
    digest: bytes


class Part(msgspec.Struct, frozen=True, array_like=True):
    """What a node has of a subject; `marks` begins with the last message."""

    stream: str
    subject: str
    marks: list[Mark]


class Opens(msgspec.Struct, frozen=True, tag=True):
    """A stream with its configuration; of subjects that are not named there is nothing."""

    stream: str
    config: bytes
    subjects: list[str]


class Goes(msgspec.Struct, frozen=True, tag=True):
    """Messages of a subject follow: those behind the one whose first event is `behind` or, where that is -1, all. Those whose events are all before `first` are
    not needed any more."""

    stream: str
    subject: str
    first: int
    behind: int


class Comes(msgspec.Struct, frozen=True, tag=True):
    """One of them."""

    headers: dict[str, str]
    payload: bytes


class Ends(msgspec.Struct, frozen=True, tag=True):
    """That was all of the subject."""


class Closes(msgspec.Struct, frozen=True, tag=True):
    """There are no other streams."""

    streams: list[str]


Piece = Opens | Goes | Comes | Ends | Closes
_PIECES = msgspec.msgpack.Decoder(Piece)
_PARTS = msgspec.msgpack.Decoder(list[Part])


def packed(piece: Piece) -> bytes:
    return msgspec.msgpack.encode(piece)


def unpacked(data: bytes) -> Piece:
    found: Piece = _PIECES.decode(data)
    return found


def parts_of(standing: bytes) -> dict[str, Part]:
    """By their subjects."""
    return {part.subject: part for part in _PARTS.decode(standing)}


def digest_of(message: Stored | Outgoing) -> bytes:
    """What tells a message from another one in its place, wherever it is stored."""
    found = blake2b(digest_size=16)
    for name, value in sorted(counting(message.headers).items()):
        found.update(f"{name} {len(value)} {value}".encode())
    found.update(message.data)
    return found.digest()


def streams(client: NatsClient) -> list[str]:
    """The names of the journals of a server. Errors: CONNECTION_UNAVAILABLE."""
    names: list[str] = []
    while True:
        asked = {"offset": len(names)}
        found = client.call(lambda nc, asked=asked: api(nc, "STREAM.NAMES", asked))  # type: ignore[misc]
        more = found.get("streams") or []
        names += more
        if not more or len(names) >= found["total"]:
            return sorted(name for name in names if name.startswith(OWN))


def described(client: NatsClient, stream: str) -> tuple[bytes, list[str]]:
    """The configuration of a stream, and the subjects of which it has messages; (b"", []) where there is no such stream."""
    found = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream}", {"subjects_filter": ">"}))
    if not found:
        return b"", []
    config = {name: found["config"][name] for name in _KEPT if name in found["config"]}
    return msgspec.json.encode(config), sorted(found["state"].get("subjects") or {})


class Subject:
    """The messages of one subject of a stream."""

    def __init__(self, client: NatsClient, stream: str, subject: str) -> None:
        self._client = client
        self._stream = stream
        self._subject = subject

    def last(self) -> Stored | None:
        """Errors of this and the other methods: CONNECTION_UNAVAILABLE."""
        return self._get({"last_by_subj": self._subject})

    def after(self, sequence: int) -> Stored | None:
        """The first one behind a sequence of the stream."""
        return self._get({"seq": sequence + 1, "next_by_subj": self._subject})

    def holding(self, position: int) -> Stored | None:
        """The one that has the event of a position, or the first one after it; None where all end before."""
        last = self.last()
        if last is None or not _reaches(group_of(last), position):
            return None
        low, high = 0, last.sequence  # the one that is sought is behind `low` and not behind `high`
        found = last
        while low + 1 < high:
            middle = (low + high) // 2
            here = self.after(middle - 1)
            assert here is not None, "the last one is behind it"
            if _reaches(group_of(here), position):
                found, high = here, min(middle, here.sequence)
            else:
                low = here.sequence
        return found

    def marks(self) -> list[Mark]:
        """The last message, and some before it."""
        last, marks = self.last(), []
        if last is not None:
            marks.append(Mark(group_of(last).first, digest_of(last)))
            for doubled in range(MARKS):
                position = marks[0].first - (1 << doubled)
                found = self.holding(position) if position >= 0 else None
                if found is None:
                    break
                mark = Mark(group_of(found).first, digest_of(found))
                if mark != marks[-1]:
                    marks.append(mark)
        return marks

    def between(self, first: int, last: int) -> Iterator[Stored]:
        """Those from one sequence of the stream to another."""
        for some in Stream(self._client, self._stream, self._subject).read(first, last + 1):
            yield from some

    def _get(self, which: dict[str, object]) -> Stored | None:
        return self._client.call(lambda nc: get(nc, self._stream, which))


def _reaches(group: Group, position: int) -> bool:
    """Whether a message ends behind a position or, if it has no events, stands there or behind."""
    return group.end > position or (group.count == 0 and group.first >= position)


def standing(client: NatsClient) -> list[Part]:
    """What a server has. Errors: CONNECTION_UNAVAILABLE."""
    return [
        Part(stream, subject, Subject(client, stream, subject).marks())
        for stream in streams(client)
        for subject in described(client, stream)[1]
    ]


def missing(client: NatsClient, theirs: dict[str, Part]) -> Iterator[Piece]:
    """What a copy lacks that has so much. Errors: CONNECTION_UNAVAILABLE."""
    names = streams(client)
    for stream in names:
        config, subjects = described(client, stream)
        if not config:
            continue  # it was removed just now
        yield Opens(stream, config, subjects)
        for subject in subjects:
            yield from _of_subject(Subject(client, stream, subject), stream, subject, theirs.get(subject))
    yield Closes(names)


def _of_subject(mine: Subject, stream: str, subject: str, theirs: Part | None) -> Iterator[Piece]:
    first, last = mine.after(0), mine.last()
    if first is None or last is None:
        return
    common = None
    for mark in theirs.marks if theirs is not None else ():
        found = mine.holding(mark.first)
        if found is not None and Mark(group_of(found).first, digest_of(found)) == mark:
            common = found
            break
    yield Goes(stream, subject, group_of(first).first, -1 if common is None else group_of(common).first)
    begins = first.sequence if common is None else common.sequence + 1
    for message in mine.between(begins, last.sequence):
        yield Comes(counting(message.headers), message.data)
    yield Ends()


def counting(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that count on every node: servers add some of their own."""
    return {name: value for name, value in headers.items() if name.startswith("Nadi-") or name == IDENTITY}
