"""The control log and the fault log of an app that another node may go on with: parts of its journal, which all nodes reach, in place of files of the node.

    control     as `nadi.io.controllog`: a record is an event of the journal
    faults      as `nadi.io.faultlog`: a fault is one; the header `Nadi-Cut` of a message says which cut and which part of it the message is

Records of both stay for as long as the app does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from nadi.errors import NadiError, error
from nadi.io import faultlog
from nadi.io.controllog import Again, Appended, Record, Simulated, again_record, shown_time, wall_time
from nadi.io.jetstream import Stored
from nadi.io.journal import GROUP_BYTES, open_journal, required
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import Event, group_of
from nadi.io.natsclient import shared

CONTROL, FAULTS = "control", "faults"
CUT = "Nadi-Cut"
AT_ONCE = 1_000  # faults in a message

_RECORD = msgspec.json.Decoder(Record)


class ControlJournal:
    """Implements `nadi.io.controllog.ControlLog`. Errors of every method: CONNECTION_UNAVAILABLE; what was to be appended may be there all the same."""

    def __init__(self, url: str, app: str) -> None:
        self._url, self._app = required(url), app
        self._journal = open_journal(url, app)

    def open(self) -> JournalLog:
        return JournalLog(shared(self._url), self._app, CONTROL, retention=None, alone=False)

    def append(self, id_: str, query: str, now: int | None = None) -> int:
        wall = wall_time(now)
        return self._journal.append(CONTROL, [_event(Record(wall, id_, query))])

    def append_simulated(self, events: Sequence[Simulated], now: int | None = None) -> int:
        wall = wall_time(now)
        records = [_event(Record(wall, "simulated", "", simulated=each)) for each in events]
        return self._journal.append(CONTROL, records) + len(records) - 1

    def append_again(
        self, wanted: Iterable[Again], repeat: bool = False, skip: bool = False, now: int | None = None
    ) -> Appended:
        chosen = list(wanted)
        while True:
            last = self._journal.last(CONTROL)
            known = {} if repeat else self._marks(group_of(last).end)
            before = tuple(again.error for again in chosen if again.error in known)
            if before and not skip:
                raise error("ERROR_REPLAYED", id=before[0], time=shown_time(known[before[0]]))
            added = [_event(again_record(again, wall_time(now))) for again in chosen if again.error not in known]
            if not added:
                return Appended(None, before)
            try:
                stored = self._journal.append_behind(CONTROL, added, last)
            except NadiError as reason:
                if reason.condition != "SEQUENCE_TAKEN":
                    raise
                continue  # somebody has added something: it may be the same
            return Appended(stored.end - 1, before)

    def sent_again(self) -> dict[str, int]:
        return self._marks(group_of(self._journal.last(CONTROL)).end)

    def trim(self, before: int) -> None:
        """Nothing: marks are among the records, and these are few."""

    def _marks(self, end: int) -> dict[str, int]:
        """What was sent again before a position: id of the error → when (ms) for the last time."""
        if not end:
            return {}
        log = self.open()
        return {
            record.again.error: record.time
            for messages in log.read(0, log.beginning(0), end)
            for record in map(_RECORD.decode, messages.payloads)
            if record.again is not None
        }


class FaultJournal:
    """Implements `nadi.io.faultlog.FaultLog`; `state` is where hosts stage faults. Errors of every method: CONNECTION_UNAVAILABLE."""

    def __init__(self, state: Path, url: str, app: str) -> None:
        self._state = state
        self._url, self._app = required(url), app
        self._journal = open_journal(url, app)

    def open(self) -> JournalLog:
        return JournalLog(shared(self._url), self._app, FAULTS, retention=None)

    def commit(self, cut: int, buckets: Sequence[int]) -> None:
        if not buckets:
            return
        for number, part in enumerate(_parts(faultlog.staged(self._state, cut, buckets))):
            while self._append((cut, number), part):
                pass  # somebody else has appended something: look at what it is
        faultlog.clear(self._state, cut)

    def trim(self, before: int) -> None:
        """Nothing: it is kept for as long as the app is."""

    def _append(self, place: tuple[int, int], part: Sequence[bytes]) -> bool:
        """Append a part of a cut, unless it is there; whether it is to be tried again."""
        last = self._journal.last(FAULTS)
        if _place(last) >= place:
            return False
        events: list[Event] = [(faultlog.time_of(line), line, {}) for line in part]
        try:
            self._journal.append_behind(FAULTS, events, last, {CUT: f"{place[0]}-{place[1]}"})
        except NadiError as reason:
            if reason.condition != "SEQUENCE_TAKEN":
                raise
            return True
        return False


def _event(record: Record) -> Event:
    return record.time, msgspec.json.encode(record), {}


def _place(message: Stored | None) -> tuple[int, int]:
    """The cut and the part that a message is."""
    if message is None:
        return -1, 0
    cut, _, part = message.headers[CUT].partition("-")
    return int(cut), int(part)


def _parts(lines: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Lines in messages, the same ones whenever it is called with the same lines.

    >>> [len(part) for part in _parts([b"x"] * 1_500)], [len(part) for part in _parts([b"x" * GROUP_BYTES, b"y"])]
    ([1000, 500], [1, 1])
    """
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (len(part) == AT_ONCE or size + len(line) > GROUP_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part
