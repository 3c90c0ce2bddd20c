"""What a reader knows of one producer of a channel: how far it has come, and where the chunks of its parts lie. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nadi.channels.records import CLOSE, CUT, Piece, Progress
from nadi.errors import error


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a cut of a producer has for one part: the chunks [start, end), and the batches that have them. `floor`: no order time is earlier."""

    place: int
    start: int
    end: int
    floor: int
    pieces: tuple[Piece, ...]

    @property
    def first(self) -> int:
        """The least order time."""
        return max(self.floor, min(p.first for p in self.pieces))

    @property
    def last(self) -> int:
        """The greatest order time."""
        return max(self.floor, *(p.last for p in self.pieces))


@dataclass(slots=True)
class Track:
    """The progress records of one producer, taken in the order in which they stand. `parts` is how many the reader knows of, `wanted` those that it reads.

    `clock` is how far it has come (ms), -1 before its first word. `starts` are the oldest chunks that are known of, `ends` those after the last ones.
    """

    parts: int
    wanted: frozenset[int]
    epoch: int = -1
    cut: int = -1
    clock: int = -1
    closed: bool = False
    begun: bool = False
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    stretches: list[deque[Stretch]] = field(default_factory=list)

    def take(self, place: int, told: Progress) -> bool:
        """Hear a record; False where it counts for nothing: of an older run, or of a known cut. Errors: CHANNEL_RECORD where one is missing before it."""
        if told.epoch < self.epoch or (told.kind == CUT and told.cut <= self.cut):
            return False
        counts = [0] * self.parts
        for piece in told.pieces:
            if piece.part < self.parts:
                counts[piece.part] += piece.chunks
        ends = [*told.ends[: self.parts], *(0,) * (self.parts - len(told.ends))]
        if not self.begun:
            self.begun = True
            self.starts = [end - count for end, count in zip(ends, counts, strict=True)]
            self.ends = list(self.starts)
            self.stretches = [deque() for _ in range(self.parts)]
        if [end + count for end, count in zip(self.ends, counts, strict=True)] != ends:
            raise error("CHANNEL_RECORD", reason=f"a record of {told.producer} is missing before cut {told.cut} of it")
        for part, count in enumerate(counts):
            if count and part in self.wanted:
                pieces = tuple(p for p in told.pieces if p.part == part)
                self.stretches[part].append(Stretch(place, self.ends[part], ends[part], told.before, pieces))
        self.ends = ends
        self.epoch, self.cut, self.clock = told.epoch, told.cut, max(self.clock, told.clock)
        self.closed = told.kind == CLOSE
        return True

    @property
    def reached(self) -> int | None:
        """What comes later has at least this order time (ms); None where nothing will come any more."""
        return None if self.closed else self.clock

    def holds(self, part: int, position: int) -> bool:
        """Whether it is known where the chunks from a position on lie, as far as there are any."""
        return self.begun and position >= self.starts[part]

    def among(self, part: int, start: int, end: int) -> list[Stretch]:
        """What lies in [start, end)."""
        return [s for s in self.stretches[part] if s.end > start and s.start < end] if self.begun else []

    def forget(self, part: int, position: int, place: int = -1) -> None:
        """Chunks before a position are not asked for any more, nor those of records before a place."""
        if not self.begun:
            return
        known = self.stretches[part]
        while known and (known[0].end <= position or known[0].place < place):
            known.popleft()
        self.starts[part] = known[0].start if known else self.ends[part]
