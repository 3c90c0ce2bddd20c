"""Which messages a source has taken, by what their senders say they are: a key, or a publisher with its numbers. Nothing here reads or writes.

What is remembered is a function of the messages that were taken, in the order of the journal (`nadi.io.journalseen`): so it is the same in whatever process
goes on, and after whatever crash.

    seen = Seen(Bounds())
    seen.take(KeyMark("order-17"), time=1_000, body=b"…")     Outcome.TAKEN
    seen.take(KeyMark("order-17"), time=2_000, body=b"…")     Outcome.REPEATED

A `NumberMark` says who has published a message, in which incarnation, and which numbers its rows have. The centre is the broker that it came through, where a
source reads several: the same message comes through each of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec

from nadi.io.numberranges import NumberRanges

MARK = "nadi.mark"
"""The property of an event of the journal that says what it is known by."""
KEY_BYTES, TIME_BYTES, BODY_BYTES = 16, 6, 4
ENTRY_BYTES = KEY_BYTES + TIME_BYTES + BODY_BYTES
SEGMENT_KEYS = 50_000
"""Keys of a segment."""
LONGEST = 255
"""Characters of a name or an incarnation."""
PUBLISHER_BYTES, GAP_BYTES = 64, 24
"""What an incarnation takes beside its names, and a gap."""
LARGEST = 2**53
"""Numbers are before this one: every client has them exactly."""
FIRST = 1
"""Publishers without incarnations count from 0 or from this number: who goes back to it has begun anew."""


class KeyMark(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """A key that the sender has chosen for the message, and sends again with it."""

    key: str


class NumberMark(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """The numbers [first, first + count) of a publisher. `incarnation` is None where the publisher has none: then who goes back to the beginning has a new one.

    `centre` is the broker, -1 where there is only one; `partition` and `position` are where the message stood there.
    """

    publisher: str
    incarnation: str | None
    first: int
    count: int = 1
    centre: int = -1
    partition: int = 0
    position: int = -1


class GapMark(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """What says that the numbers [first, end) of a publisher are missing."""

    publisher: str
    incarnation: str
    first: int
    end: int


class PlaceMark(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A message of a broker that says nothing of its publisher: only its place tells it from others."""

    centre: int
    partition: int
    position: int


class BeginMark(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """What says that a partition of a broker is read from a position on. It is no message, and not in the journal."""

    centre: int
    partition: int
    position: int


Mark = KeyMark | NumberMark | GapMark | PlaceMark | BeginMark

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Mark).decode


def to_text(mark: Mark) -> str:
    """A mark as a property has it.

    >>> from_text(to_text(NumberMark("shop", "a7", 12))) == NumberMark("shop", "a7", 12)
    True
    """
    return _ENCODE(mark).decode()


def from_text(text: str) -> Mark:
    """The inverse of `to_text`. Raises msgspec.MsgspecError."""
    found: Mark = _DECODE(text)
    return found


class Outcome(Enum):
    """What becomes of a message. REUSED: its key was given to another message before."""

    TAKEN = "taken"
    REPEATED = "repeated"
    REUSED = "reused"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is remembered: keys for `window` ms, `keys` of them at most; `size` bytes of publishers and their numbers, about, of those heard of last. All
    publishers and SEGMENT_KEYS keys fit into a message of the journal."""

    window: int = 24 * 60 * 60 * 1000
    keys: int = 1_000_000
    size: int = 4_000_000


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A part of what is remembered, as the journal keeps it: all of it is in the segments together. `at` is the position of the source up to which it goes.

    `keys` are those since the segment before, the oldest first; everything else is whole.
    """

    at: int
    keys: bytes = b""
    publishers: list[tuple[str, str, list[Any]]] = []
    restarts: list[tuple[str, int, int, int]] = []
    positions: list[tuple[int, int, int]] = []


class Seen:
    """See the module's text. Used by one thread at a time."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._keys: dict[bytes, int] = {}  # hash → time and a hash of the body, in one number
        self._order: deque[bytes] = deque()  # hashes, the oldest first
        self._added: list[bytes] = []  # entries since the last segment
        self._publishers: OrderedDict[tuple[str, str], NumberRanges] = OrderedDict()  # those heard of last come last
        self._size = 0  # of these, in bytes
        self._restarts: dict[
            tuple[str, int], tuple[int, int]
        ] = {}  # (publisher, centre) → incarnation, end of its numbers there
        self._positions: dict[tuple[int, int], int] = {}
        self._open: set[tuple[str, str]] = set()  # publishers with gaps

    # ---- what comes

    def take(self, mark: Mark, time: int, body: bytes) -> tuple[Outcome, Mark]:
        """What becomes of a message, which counts as taken from now on; and its mark, with the incarnation if it had none."""
        if isinstance(mark, KeyMark):
            return self._key(mark.key, time, body), mark
        if isinstance(mark, PlaceMark):
            known = self.position(mark.centre, mark.partition)
            self._stand(mark.centre, mark.partition, mark.position)
            return Outcome.REPEATED if known is not None and mark.position < known else Outcome.TAKEN, mark
        if isinstance(mark, BeginMark):
            self._positions.setdefault((mark.centre, mark.partition), mark.position)
            return Outcome.REPEATED, mark
        if isinstance(mark, GapMark):
            numbers = self._publishers.get((mark.publisher, mark.incarnation))
            news = numbers is not None and numbers.told(mark.first, mark.end)
            return Outcome.TAKEN if news else Outcome.REPEATED, mark
        return self._number(mark, time)

    def _key(self, key: str, time: int, body: bytes) -> Outcome:
        self._forget(time)
        name = blake2b(key.encode(), digest_size=KEY_BYTES).digest()
        of_body = blake2b(body, digest_size=BODY_BYTES).digest()
        known = self._keys.get(name)
        if known is not None:
            same = known & 0xFFFF_FFFF == int.from_bytes(of_body)
            return Outcome.REPEATED if same else Outcome.REUSED
        entry = name + time.to_bytes(TIME_BYTES) + of_body
        self._added.append(entry)
        self._remember(entry)
        return Outcome.TAKEN

    def _remember(self, entry: bytes) -> None:
        name = entry[:KEY_BYTES]
        while name in self._keys:  # it was forgotten before it came again, and all that were older were, too
            del self._keys[self._order.popleft()]
        self._order.append(name)
        self._keys[name] = int.from_bytes(entry[KEY_BYTES:])

    def _forget(self, now: int) -> None:
        """Forget keys that are too old, or too many."""
        while self._order:
            oldest = self._order[0]
            if len(self._keys) <= self._bounds.keys and self._keys[oldest] >> 32 > now - self._bounds.window:
                return
            del self._keys[self._order.popleft()]

    def _number(self, mark: NumberMark, time: int) -> tuple[Outcome, Mark]:
        if mark.centre >= 0:
            known = self.position(mark.centre, mark.partition)
            if known is not None and mark.position < known:
                return Outcome.REPEATED, mark
            self._stand(mark.centre, mark.partition, mark.position)
        end = mark.first + mark.count
        if mark.incarnation is None:
            mark = msgspec.structs.replace(mark, incarnation=self._incarnation(mark))
        assert mark.incarnation is not None
        self._note_restart(mark, end)
        numbers = self._numbers(mark.publisher, mark.incarnation)
        if mark.centre >= 0:
            numbers.passed(mark.centre, end)
        gaps = numbers.gaps
        taken = numbers.take(mark.first, end, time)
        self._size += GAP_BYTES * (numbers.gaps - gaps)
        if numbers.open_since() is not None:
            self._open.add((mark.publisher, mark.incarnation))
        self._forget_publishers()
        return Outcome.TAKEN if taken else Outcome.REPEATED, mark

    def _incarnation(self, mark: NumberMark) -> str:
        """Which incarnation a publisher that names none is in, as this centre has seen it: how often it has gone back to the beginning."""
        count, last = self._restarts.get((mark.publisher, mark.centre), (0, 0))
        begins = mark.first <= FIRST and mark.first + mark.count < last
        return f"#{count + begins}"

    def _note_restart(self, mark: NumberMark, end: int) -> None:
        if mark.incarnation is None or not mark.incarnation.startswith("#"):
            return
        count, last = self._restarts.get((mark.publisher, mark.centre), (0, 0))
        now = int(mark.incarnation[1:])
        self._restarts[mark.publisher, mark.centre] = (now, max(last, end) if now == count else end)

    def _numbers(self, name: str, incarnation: str) -> NumberRanges:
        known = (name, incarnation)
        found = self._publishers.get(known)
        if found is None:
            found = self._publishers[known] = NumberRanges()
            self._size += _size(known, found)
        else:
            self._publishers.move_to_end(known)
        return found

    def _forget_publishers(self) -> None:
        """Forget those that were silent for the longest time, where there are too many."""
        while self._size > self._bounds.size and len(self._publishers) > 1:
            silent, numbers = self._publishers.popitem(last=False)
            self._size -= _size(silent, numbers)
            self._open.discard(silent)
            if not silent[1].startswith("#"):
                continue
            for key in [
                key for key in self._restarts if key[0] == silent[0] and f"#{self._restarts[key][0]}" == silent[1]
            ]:
                del self._restarts[key]

    def _stand(self, centre: int, partition: int, position: int) -> None:
        known = self._positions.get((centre, partition), 0)
        self._positions[centre, partition] = max(known, position + 1)

    # ---- what is asked

    def position(self, centre: int, partition: int) -> int | None:
        """From where on a partition of a centre is to be read, None where nobody knows."""
        return self._positions.get((centre, partition))

    def gaps(self, now: int, patience: int, centres: int = 0) -> Iterator[GapMark]:
        """The numbers that are missing and of which nobody was told: because all of so many centres have gone past them (0: nobody can tell so), or because
        they were missing `patience` ms ago. `take` notes that it was told."""
        for name, incarnation in sorted(self._open):
            for first, end in self._publishers[name, incarnation].lost(now, patience, centres):
                yield GapMark(name, incarnation, first, end)

    def next_gap(self, patience: int) -> int | None:
        """When (ms) a gap that is open now will have been so for `patience`, None where there is none."""
        since = {each: self._publishers[each].open_since() for each in self._open}
        self._open = {each for each, at in since.items() if at is not None}
        return min((at for at in since.values() if at is not None), default=0) + patience if self._open else None

    # ---- what the journal keeps

    def segments(self, at: int, since: int) -> list[Segment]:
        """What no segment has yet; from now on these have it. They are one, which goes up to the position `at`; only where one message of the journal cannot
        hold all keys are there others before it, from which on one goes on at `since`."""
        added, self._added = self._added, []
        chunks = [added[i : i + SEGMENT_KEYS] for i in range(0, len(added), SEGMENT_KEYS)] or [[]]
        rest = (
            [(name, of, numbers.plain()) for (name, of), numbers in self._publishers.items()],
            [(name, centre, count, last) for (name, centre), (count, last) in self._restarts.items()],
            [(centre, partition, position) for (centre, partition), position in self._positions.items()],
        )
        places = [since] * (len(chunks) - 1) + [at]
        return [Segment(place, b"".join(chunk), *rest) for place, chunk in zip(places, chunks, strict=True)]

    def load(self, segment: Segment) -> None:
        """Take what a segment has; they come in their order."""
        for at in range(0, len(segment.keys), ENTRY_BYTES):
            self._remember(segment.keys[at : at + ENTRY_BYTES])
        found = [((name, of), NumberRanges.of(plain)) for name, of, plain in segment.publishers]
        self._publishers = OrderedDict(found)
        self._size = sum(_size(known, numbers) for known, numbers in found)
        self._open = {known for known, numbers in found if numbers.open_since() is not None}
        self._restarts = {(name, centre): (count, last) for name, centre, count, last in segment.restarts}
        self._positions = {(centre, partition): position for centre, partition, position in segment.positions}


def newest_of(keys: bytes) -> tuple[int, int]:
    """How many keys a segment has, and the time of the newest one (ms; 0 where there is none)."""
    last = keys[-ENTRY_BYTES:]
    return len(keys) // ENTRY_BYTES, int.from_bytes(last[KEY_BYTES : KEY_BYTES + TIME_BYTES]) if last else 0


def _size(known: tuple[str, str], numbers: NumberRanges) -> int:
    """Bytes that an incarnation of a publisher takes in a segment, at most about; twice its name, as it may be among the restarts."""
    return 2 * len(known[0].encode()) + len(known[1].encode()) + PUBLISHER_BYTES + GAP_BYTES * numbers.gaps
