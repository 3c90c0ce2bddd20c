"""`session(gap [, keyAttr [, allowedLatency]])` (semantics/windows.md#session)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from nadi.kernel.rows.events import CURRENT, EXPIRED, Chunk, Event
from nadi.kernel.rows.javahash import text_buckets
from nadi.kernel.rows.state import Cells, Map, Value
from nadi.kernel.rows.windows.contract import Held, Setup, current


class Session(NamedTuple):
    """A session: `number` is its own in the window; its events are `events[(number, first)]` to `events[(number, last)]`; ends at `end`, ms."""

    number: int
    start: int
    end: int
    first: int
    last: int


Pair = tuple[Session | None, Session | None]
"""The current session of a key and the one before it, which waits for late events."""
End = tuple[int, int, object]
"""When a session is over, its number and its key."""


class SessionWindow:
    """C pass at once; at its end a session's events leave as X with their own timestamps.

    Cells: `sessions` key → pair, `events` (session, position) → event, `next` number. Which session ends next follows from them: a heap that is made
    anew when the cells are others. Sessions that end at the same time leave in Siddhi's order, that of a Java HashMap of their keys, if anybody sees it.
    """

    def __init__(self, setup: Setup) -> None:
        self._flow, self._emit = setup.flow, setup.emit
        self._gap: int = setup.constant(0)
        self._key = setup.position(1)
        self._latency: int = setup.constant(2, 0)
        self._shows = setup.keeps_expired and self._key is not None
        self._state = setup.element(sessions=Map, events=Map, next=Value)
        self._timer = setup.flow.timers.timer(setup.call.id, self._due)
        self._ends: tuple[Cells, list[End]] | None = None

    def begin(self) -> None:
        """Nothing starts by itself."""

    def process(self, chunk: Chunk) -> None:
        cells = self._state.at(self._flow.key)
        out: Chunk = []
        for event in chunk:
            if event.kind == CURRENT:
                self._arrive(cells, event, out)
        if out:
            self._emit(out)

    def _arrive(self, cells: Cells, event: Event, out: Chunk) -> None:
        key = "" if self._key is None else event.row[self._key]
        now, before = self._pair(cells, key)
        ts = event.ts
        if now is None and (before is None or ts > before.end):
            self._put(cells, key, self._open(cells, event), before)
        elif now is not None and ts >= now.start:
            if ts <= now.end:
                self._put(cells, key, self._append(cells, now, event, ts + self._gap), before)
            else:
                before = self._finish(cells, now, before, out)
                self._put(cells, key, self._open(cells, event), before)
        elif not self._late(cells, key, now, before, event):
            return
        out.append(event)

    def _late(self, cells: Cells, key: object, now: Session | None, before: Session | None, event: Event) -> bool:
        """An event before the current session's start: joins a session that is near enough, or is dropped (False)."""
        ts = event.ts
        if now is not None and ts >= now.start - self._gap:
            now = self._prepend(cells, now, event)
        elif before is not None and before.start <= ts <= before.end:
            before = self._append(cells, before, event, max(before.end, ts + self._gap))
        elif before is not None and before.start - self._gap <= ts < before.start:
            before = self._prepend(cells, before, event)
        else:
            return False
        if now is not None and before is not None and before.end >= now.start:
            now, before = self._merge(cells, before, now), None
        self._put(cells, key, now, before)
        return True

    # ---- sessions

    def _pair(self, cells: Cells, key: object) -> Pair:
        now, before = cells["sessions"].get(key, (None, None))
        return (Session(*now) if now else None, Session(*before) if before else None)

    def _put(self, cells: Cells, key: object, now: Session | None, before: Session | None) -> None:
        sessions: Map = cells["sessions"]
        if now is None and before is None:
            sessions.pop(key)
            return
        old_now, old_before = self._pair(cells, key)
        sessions.set(key, (now and tuple(now), before and tuple(before)))
        for session, old, due in (
            (now, old_now, now.end if now else 0),
            (before, old_before, before.end + self._latency if before else 0),
        ):
            if session is not None and (old is None or (old.number, old.end) != (session.number, session.end)):
                self._watch(cells, due, session.number, key)

    def _watch(self, cells: Cells, due: int, number: int, key: object) -> None:
        if self._ends is not None and self._ends[0] is cells:
            heappush(self._ends[1], (due, number, key))
        self._timer.at(due)

    def _open(self, cells: Cells, event: Event) -> Session:
        number = cells["next"].get() or 0
        cells["next"].set(number + 1)
        cells["events"].set((number, 0), (event.ts, event.row))
        return Session(number, event.ts, event.ts + self._gap, 0, 0)

    def _append(self, cells: Cells, session: Session, event: Event, end: int) -> Session:
        cells["events"].set((session.number, session.last + 1), (event.ts, event.row))
        return session._replace(last=session.last + 1, end=end)

    def _prepend(self, cells: Cells, session: Session, event: Event) -> Session:
        cells["events"].set((session.number, session.first - 1), (event.ts, event.row))
        return session._replace(first=session.first - 1, start=event.ts)

    def _merge(self, cells: Cells, before: Session, now: Session) -> Session:
        """Both become the current session."""
        merged = before._replace(end=now.end)
        for held in self._take(cells, now):
            merged = merged._replace(last=merged.last + 1)
            cells["events"].set((merged.number, merged.last), held)
        return merged

    def _take(self, cells: Cells, session: Session) -> Iterator[Held]:
        events: Map = cells["events"]
        for position in range(session.first, session.last + 1):
            yield events.pop((session.number, position))

    def _leave(self, cells: Cells, session: Session, out: Chunk) -> None:
        out += [Event(EXPIRED, ts, row) for ts, row in self._take(cells, session)]

    def _finish(self, cells: Cells, now: Session, before: Session | None, out: Chunk) -> Session | None:
        """The current session is over: it leaves, or becomes the one before where late events are waited for."""
        if self._latency == 0:
            self._leave(cells, now, out)
            return before
        if before is not None:
            self._leave(cells, before, out)
        return now

    # ---- ends

    def _due(self, due: int) -> None:
        """A timer ends what ends by its own time: in playback, after a jump, others are due, too."""
        cells = self._state.at(self._flow.key)
        until = due if self._flow.playback else self._flow.now
        ends = self._heap(cells)
        out: Chunk = []
        while ends and ends[0][0] <= until:
            for at, number, key in self._together(cells, ends):
                # an end that has moved on means nothing any more, as it would not after a load
                session, before = self._pair(cells, key)
                if before is not None and before.number == number and before.end + self._latency == at:
                    self._leave(cells, before, out)
                    self._put(cells, key, session, None)
                elif session is not None and session.number == number and session.end == at:
                    self._put(cells, key, None, self._finish(cells, session, before, out))
        if out:
            self._emit(out)

    def _together(self, cells: Cells, ends: list[End]) -> list[End]:
        """Take the next ends, which are at the same time."""
        found = [heappop(ends)]
        while ends and ends[0][0] == found[0][0]:
            found.append(heappop(ends))
        if self._shows and len(found) > 1:
            keys = [str(key) for _at, _number, key in found]
            places = dict(zip(keys, text_buckets(keys, len(cells["sessions"]))))
            found.sort(key=lambda end: places[str(end[2])])
        return found

    def _heap(self, cells: Cells) -> list[End]:
        if self._ends is None or self._ends[0] is not cells:
            ends: list[End] = []
            for key in cells["sessions"]:
                now, before = self._pair(cells, key)
                if now is not None:
                    ends.append((now.end, now.number, key))
                if before is not None:
                    ends.append((before.end + self._latency, before.number, key))
            heapify(ends)
            self._ends = (cells, ends)
        return self._ends[1]

    def content(self) -> Iterable[Event]:
        cells = self._state.at(self._flow.key)
        events: Map = cells["events"]
        for key in cells["sessions"]:
            now, before = self._pair(cells, key)
            for session in (before, now):
                if session is not None:
                    for position in range(session.first, session.last + 1):
                        yield current(events.get((session.number, position)))
