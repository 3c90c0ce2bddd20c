"""What a source has taken, kept in its journal: so that a message that is sent again, or comes through two brokers, is appended once.

Who appends decides. It knows the journal up to a position (`nadi.io.seen`), decides what of a group is new there, and appends that only if the journal
still ends there (`nadi.io.journal`): so what is in the journal depends on the journal alone, and not on what a process remembers. Everything behind it
(cuts, replay, revisions) has each message once and needs to know nothing of this.

What is remembered is read from the journal again when a process begins, when another one has appended, and when nobody knows whether an append has come to
pass. That does not take all of the journal: from time to time a *segment* (`nadi.io.seen.Segment`) is put beside it, as an event of another part of the
journal, `seen-<ordinal>`; the header `Nadi-At` says up to which position of the source the segments go. A source whose messages have no marks has no
segment, and nothing of this costs it anything. What no segment covers is not removed from the journal (`JournalLog.acknowledge`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from nadi.errors import NadiError, error
from nadi.errors.readable import readable
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import AT, Event, Name, group_of, seen_name
from nadi.io.mappers.unreadable import UNREADABLE
from nadi.io.natsclient import NatsClient, event_loop
from nadi.io.seen import MARK, BeginMark, Bounds, GapMark, Outcome, Seen, Segment, from_text, newest_of, to_text

CHANGES = 20_000  # messages with marks after which a segment is due …
BYTES = 64 * 1024 * 1024  # … or bytes of the journal …
AGE = 600.0  # … or seconds
AGAIN = 60_000  # ms after which it is told once more that numbers are missing, where the journal did not take it

_LOG = logging.getLogger("nadi.io.seen")
_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(Segment).decode


@dataclass(frozen=True, slots=True)
class Rules:
    """What a source remembers, and when it is told that numbers are missing: `patience` ms after a later one came, or when `centres` brokers have gone past
    them (0: there is one, which may bring them in any order). `who` is how messages call the source."""

    who: str
    bounds: Bounds = field(default_factory=Bounds)
    patience: int = 60_000
    centres: int = 0


@dataclass(slots=True)
class _Held:
    """A segment in the journal: its position, how many keys it has, and the time of the newest one (ms)."""

    position: int
    keys: int
    newest: int


@dataclass(slots=True)
class _Loaded:
    """What is remembered, up to the position `at` of the journal; and the segments that there are."""

    seen: Seen
    at: int
    held: deque[_Held] = field(default_factory=deque)
    saved_at: int = 0

    @property
    def end(self) -> int:
        """The position behind the last segment."""
        return self.held[-1].position + 1 if self.held else 0


class JournalSeen:
    """Of one source. Implements `nadi.io.journal.Chooser`: everything happens in the loop thread, one group after the other; reading in a thread beside it."""

    def __init__(self, journal: Journal, client: NatsClient, ordinal: int, rules: Rules) -> None:
        self._journal = journal
        self._client = client
        self._ordinal = ordinal
        self._rules = rules
        self._loaded: _Loaded | None = None
        self._changes = self._bytes = 0
        self._saved = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: Seen | None = None  # what was looked at last for numbers that are missing
        self._over = False

    def end(self) -> None:
        """The source has stopped: look for missing numbers no more. From any thread."""
        event_loop().call_soon_threadsafe(self._end)

    # ---- what the writer of the journal asks

    async def choose(self, events: Sequence[Event], end: int) -> tuple[list[Event], list[Outcome]]:
        """What of some events is new to a journal that ends at `end`, and what becomes of each of them."""
        seen = await self._at(end)
        marks = [from_text(text) if (text := properties.get(MARK)) is not None else None for _, _, properties in events]
        if begins := [mark for mark in marks if isinstance(mark, BeginMark)]:
            await self._begin(begins)
        kept: list[Event] = []
        outcomes: list[Outcome] = []
        for event, mark in zip(events, marks, strict=True):
            time_, body, properties = event
            if mark is None:
                kept.append(event)
                outcomes.append(Outcome.TAKEN)
                continue
            self._changes += 1
            outcome, known = seen.take(mark, time_, body)
            outcomes.append(outcome)
            if outcome is Outcome.TAKEN:
                kept.append(event if known is mark else (time_, body, {**properties, MARK: to_text(known)}))
        return kept, outcomes

    def took(self, first: int, end: int, size: int) -> None:
        """Events are in the journal from `first` to `end`; they have `size` bytes. Where something else came before them, it is read when there is need."""
        loaded = self._loaded
        if loaded is not None and loaded.at == first:
            loaded.at = end
            self._bytes += size
            self._watch(loaded.seen)

    def forget(self) -> None:
        """Nobody knows what of the chosen ones is in the journal."""
        self._loaded = None

    async def save(self) -> None:
        """Write a segment where one is due. What goes wrong is told, and made good by reading the journal again."""
        loaded = self._loaded
        if loaded is None or not self._due():
            return
        try:
            await self._note(loaded)
            await asyncio.to_thread(self._trim, loaded)
        except NadiError as reason:
            _LOG.warning("%s: what it has taken could not be noted beside the journal: %s", self._rules.who, reason)
            self.forget()
        self._changes = self._bytes = 0
        self._saved = time.monotonic()

    async def position(self, centre: int, partition: int) -> int | None:
        """From where on a partition of a centre is to be read, None where nobody knows; asked while nothing of it is on its way.

        Errors: CONNECTION_UNAVAILABLE."""
        loaded = self._loaded
        if loaded is None:  # not for the writer, which may be reading the journal itself
            loaded = await asyncio.to_thread(self._load, begins=False)
            await asyncio.to_thread(self._follow, loaded, await asyncio.to_thread(self._log(self._ordinal).end, 0))
            if self._watched is None:  # what is missing already is told also where nothing more comes
                self._watch(loaded.seen)
        return loaded.seen.position(centre, partition)

    # ---- reading it again

    async def _at(self, end: int) -> Seen:
        loaded = self._loaded
        if loaded is None or loaded.at > end:  # the journal has begun anew
            loaded = await asyncio.to_thread(self._load)
        if loaded.at < end:
            await asyncio.to_thread(self._follow, loaded, end)
        self._loaded = loaded
        return loaded.seen

    def _load(self, begins: bool = True) -> _Loaded:
        """What the segments have; where there is none, one is made if it `begins`."""
        while (loaded := self._read_segments()) is None:
            pass
        if not loaded.held and begins:
            loaded.at = loaded.saved_at = self._log(self._ordinal).end(0)
            self._write(loaded, [Segment(loaded.at)])
        return loaded

    def _read_segments(self) -> _Loaded | None:
        """What the segments have; None where somebody removed some of them meanwhile, whose keys are forgotten."""
        loaded = _Loaded(Seen(self._rules.bounds), 0)
        log = self._log(seen_name(self._ordinal))
        try:
            for messages in log.read(0, log.beginning(0), log.end(0)):
                for position, payload in zip(messages.positions.tolist(), messages.payloads):
                    segment = _UNPACK(payload)
                    loaded.seen.load(segment)
                    loaded.held.append(_held(position, segment))
                    loaded.at = loaded.saved_at = segment.at
        except NadiError as reason:
            if reason.condition == "LOG_TRUNCATED":
                return None
            raise
        return loaded

    def _follow(self, loaded: _Loaded, end: int) -> None:
        """Take what the journal has from where it was known on."""
        log = self._log(self._ordinal)
        start = max(loaded.at, log.beginning(0))
        if start > loaded.at:
            _LOG.warning("%s: the journal begins at %d, its marks are known to %d", self._rules.who, start, loaded.at)
        for messages in log.read(0, start, end):
            for i, properties in enumerate(messages.properties):
                if MARK in properties:
                    loaded.seen.take(from_text(properties[MARK]), int(messages.times[i]), bytes(messages.payloads[i]))
                    self._changes += 1
        loaded.at = max(loaded.at, end)

    def _log(self, part: Name, retention: int | None = None) -> JournalLog:
        return JournalLog(self._client, self._journal.app, part, retention, marked=True)

    # ---- segments

    async def _begin(self, begins: Sequence[BeginMark]) -> None:
        """Note from where on partitions are read, before anything of them is: all that is remembered is in the journal now. Errors: those of the journal."""
        loaded = self._loaded
        assert loaded is not None
        try:
            for mark in begins:
                loaded.seen.take(mark, 0, b"")
            await self._note(loaded)
        except NadiError:
            self.forget()
            raise

    async def _note(self, loaded: _Loaded) -> None:
        segments = loaded.seen.segments(loaded.at, loaded.saved_at)
        await asyncio.to_thread(self._write, loaded, segments)
        loaded.saved_at = segments[-1].at

    def _due(self) -> bool:
        aged = time.monotonic() - self._saved >= AGE
        return self._changes >= CHANGES or self._bytes >= BYTES or (aged and self._changes > 0)

    def _write(self, loaded: _Loaded, segments: Sequence[Segment]) -> None:
        """Errors: SEQUENCE_TAKEN, where somebody else has written one."""
        for segment in segments:
            last = self._journal.last(seen_name(self._ordinal))
            if group_of(last).end != loaded.end:
                raise error("SEQUENCE_TAKEN", connector=f"the marks of {self._rules.who}")
            event: Event = (int(time.time() * 1000), _PACK(segment), {})
            self._journal.append_behind(seen_name(self._ordinal), [event], last, {AT: str(segment.at)})
            loaded.held.append(_held(loaded.end, segment))

    def _trim(self, loaded: _Loaded) -> None:
        """Remove the segments whose keys are forgotten."""
        oldest = int(time.time() * 1000) - self._rules.bounds.window
        keys = sum(held.keys for held in loaded.held)
        before = len(loaded.held)
        while len(loaded.held) > 1 and (
            loaded.held[0].newest <= oldest or keys - loaded.held[0].keys >= self._rules.bounds.keys
        ):
            keys -= loaded.held.popleft().keys
        if len(loaded.held) < before:
            self._log(seen_name(self._ordinal), retention=0).acknowledge(0, loaded.held[0].position)

    # ---- numbers that are missing

    def _watch(self, seen: Seen) -> None:
        """Tell of what is missing, and look again when the next gap has been open for long enough."""
        if self._over:
            return
        self._watched, now = seen, int(time.time() * 1000)
        gaps = list(seen.gaps(now, self._rules.patience, self._rules.centres))
        if gaps:
            with suppress(NadiError):  # too much waits, or the journal is away: it is tried again
                self._journal.submit_once(self._ordinal, [self._missing(gap, now) for gap in gaps])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = now + AGAIN if gaps else seen.next_gap(self._rules.patience)
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0, due - now) / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        seen = self._watched if self._loaded is None else self._loaded.seen
        if seen is not None:
            self._watch(seen)

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _missing(self, gap: GapMark, now: int) -> Event:
        """What says so: an event of the journal that is known to be no message."""
        last = gap.end - 1
        numbers = f"number {last} is" if gap.first == last else f"numbers {gap.first} to {last} are"
        reason = readable(
            f"{numbers} missing of what '{gap.publisher}' has published (incarnation '{gap.incarnation}')"
        )
        _LOG.warning("%s: %s", self._rules.who, reason)
        body = {"publisher": gap.publisher, "incarnation": gap.incarnation, "first": gap.first, "last": last}
        return now, msgspec.json.encode({"missing": body}), {UNREADABLE: reason, MARK: to_text(gap)}


def _held(position: int, segment: Segment) -> _Held:
    count, newest = newest_of(segment.keys)
    return _Held(position, count, newest)


def remember(journal: Journal, client: NatsClient, ordinal: int, rules: Rules) -> JournalSeen:
    """Have the writer of a source append what is marked once."""
    made = JournalSeen(journal, client, ordinal, rules)
    journal.choose_with(ordinal, made)
    return made
