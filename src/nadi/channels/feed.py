"""The progress of all producers that a reader follows, as far as it has heard of it; it asks the transport for what it does not know."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.channels.tracks import Stretch, Track
from nadi.channels.transport import Transport
from nadi.errors import error

SLACK = 50_000
"""Places for which records are kept behind the last one that was read: other parts may be behind."""


class Feed:
    """Records are heard in the order of the channel, from one place on. Not for several threads at a time.

    Which place that is depends on the first question: whoever asks for old chunks has all records from these on.
    """

    def __init__(self, transport: Transport, producers: Sequence[str], parts: int, wanted: Sequence[int]) -> None:
        self._transport = transport
        self._producers = tuple(producers)
        self._parts = parts
        self._wanted = frozenset(wanted)
        self._tracks: dict[str, Track] = {}
        self._known: dict[tuple[str, int], int] = {}  # before the first word: where readers stand
        self._whole = True  # from the beginning, and nothing is forgotten
        self.place = 0
        self._clear(0)

    def _clear(self, place: int) -> None:
        self.place = place
        self._whole = place == 0
        self._tracks = {producer: Track(self._parts, self._wanted) for producer in self._producers}

    def catch_up(self) -> None:
        """Hear all there is. Errors: those of the transport."""
        if self._known:
            stand: dict[str, dict[int, int]] = {}
            for (producer, part), at in self._known.items():
                stand.setdefault(producer, {})[part] = at
            begin = min(self._transport.before(producer, positions) for producer, positions in stand.items())
            self._clear(begin)
            self._known.clear()
        while found := self._transport.news(self.place):
            for told in found:
                track = self._tracks.get(told.progress.producer)
                if track is not None:
                    track.take(told.place, told.progress)
                self.place = told.place

    def reached(self, producer: str) -> int | None:
        """As `Track.reached`."""
        return self._tracks[producer].reached

    def said(self, producer: str) -> int:
        """How far a producer has come by its last word, also where it has closed (ms)."""
        return self._tracks[producer].clock

    def end(self, producer: str, part: int) -> int:
        """The chunk after the last known one."""
        track = self._tracks[producer]
        return track.ends[part] if track.begun else 0

    def oldest(self, producer: str, part: int) -> int:
        """The first chunk that the channel still has. Errors: those of the transport."""
        if not self._whole:
            self._clear(0)
        self.catch_up()
        track = self._tracks[producer]
        return track.starts[part] if track.begun else 0

    def among(self, producer: str, part: int, start: int, end: int) -> list[Stretch]:
        """Those that are known, of [start, end)."""
        return self._tracks[producer].among(part, start, end)

    def stretches(self, producer: str, part: int, start: int, end: int) -> list[Stretch]:
        """What lies in [start, end). Errors: LOG_TRUNCATED, those of the transport."""
        if not self._tracks[producer].holds(part, start):
            self._clear(self._transport.before(producer, {part: start}))
            self.catch_up()
        track = self._tracks[producer]
        if not track.begun or track.ends[part] < end:
            self.catch_up()
        if track.begun and track.starts[part] > start:
            raise error("LOG_TRUNCATED", log=self._transport.name, position=start, first=track.starts[part])
        return track.among(part, start, end)

    def forget(self, producer: str, part: int, position: int) -> None:
        """Chunks before a position are not asked for any more; records that lie far before them neither."""
        track = self._tracks[producer]
        if not track.begun and self.place == 0:
            self._known[producer, part] = position
            return
        self._whole = False
        track.forget(part, position)
        left = track.among(part, position, track.ends[part]) if track.begun else []
        if left:
            for other in self._tracks.values():
                for each in self._wanted:
                    other.forget(each, -1, left[0].place - SLACK)
