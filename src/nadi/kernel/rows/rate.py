"""Rate limiting (semantics/selection.md#output-rates): between the selector and the callbacks of a query. C and X are counted, not chunks.

A limiter takes the chunk and, for queries with `group by`, the group key of each of its events. What it holds is state per flow key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from nadi.kernel.rows.events import RESET, Chunk, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.snapshots import Snapshot
from nadi.kernel.rows.state import Map, Value
from nadi.plan.nodes import Query, Rate

Emit = Callable[[Chunk], None]
Keys = Sequence[str] | None


class Limiter(Protocol):
    """`process` takes what the selector gave, with the group keys of the events (None without `group by`); `begin` is called once per flow key."""

    def process(self, chunk: Chunk, keys: Keys = None) -> None: ...
    def begin(self) -> None: ...


class Unlimited:
    """No `output …` clause."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        self._emit(chunk)

    def begin(self) -> None:
        """Nothing to start."""


def make_limiter(query: Query, flow: Flow, emit: Emit) -> Limiter:
    """The limiter of a query."""
    rate = query.rate
    if rate is None:
        return Unlimited(emit)
    if rate.kind == "snapshot":
        return Snapshot(query, rate, flow, emit)
    grouped = bool(query.selection.group_by)
    if rate.events is not None:
        if rate.kind == "first":
            return FirstOfCount(rate, rate.events, flow, emit)
        if rate.kind == "last":
            return LastOfCount(rate, rate.events, flow, emit)
        return AllOfCount(rate, rate.events, flow, emit)
    if rate.kind == "first":
        return FirstOfTime(rate, grouped, flow, emit)
    return EveryTime(rate, flow, emit)


class AllOfCount:
    """`all every n events`: n are collected and go on together. What one arrival completes is one chunk, also where that is several times n.

    In 4.x each n are a chunk.
    """

    def __init__(self, rate: Rate, count: int, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit, self._count = flow, emit, count
        self._state = flow.store.element(rate.id, {"held": Map})

    def begin(self) -> None:
        """Counting needs no start."""

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        held: Map = self._state.at(self._flow.key)["held"]
        full: Chunk = []
        for event in chunk:
            if event.kind >= RESET:
                continue
            held.set(len(held), tuple(event))
            if len(held) == self._count:
                full += [Event(*e) for e in held.values()]
                held.clear()
                if self._flow.compat == 4:
                    self._emit(full)
                    full = []
        if full:
            self._emit(full)


class FirstOfCount:
    """`first every n events`: the first of each n, with `group by` of each n of its key.

    With n = 1 only the very first event (of a key) ever passes, and without `group by` an R counts as an event, as in Siddhi.
    """

    def __init__(self, rate: Rate, count: int, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit, self._count = flow, emit, count
        self._state = flow.store.element(rate.id, {"seen": Map})

    def begin(self) -> None:
        """Counting needs no start."""

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        seen: Map = self._state.at(self._flow.key)["seen"]
        passed: Chunk = []
        for i, event in enumerate(chunk):
            if event.kind >= RESET and keys is not None:
                continue
            key = keys[i] if keys is not None else ""
            count = seen.get(key, 0) + 1
            if count == 1:
                passed.append(event)
            seen.set(key, 0 if count == self._count and count > 1 else count)
        if passed:
            self._emit(passed)


class LastOfCount:
    """`last every n events`: the n-th, with `group by` the last one of each key after every n events; those of one arrival as one chunk."""

    def __init__(self, rate: Rate, count: int, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit, self._count = flow, emit, count
        self._state = flow.store.element(rate.id, {"seen": Value, "last": Map})

    def begin(self) -> None:
        """Counting needs no start."""

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        cells = self._state.at(self._flow.key)
        seen: Value = cells["seen"]
        last: Map = cells["last"]
        passed: Chunk = []
        for i, event in enumerate(chunk):
            if event.kind >= RESET:
                continue
            last.set(keys[i] if keys is not None else "", tuple(event))
            count = (seen.get() or 0) + 1
            seen.set(count if count < self._count else 0)
            if count == self._count:
                passed += [Event(*e) for e in last.values()]
                last.clear()
                if self._flow.compat == 4:
                    self._emit(passed)
                    passed = []
        if passed:
            self._emit(passed)


class FirstOfTime:
    """`first every t`: no timer; an event passes if none did in the last t. Of a chunk only the first event is considered (of each key)."""

    def __init__(self, rate: Rate, grouped: bool, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit, self._grouped = flow, emit, grouped
        self._every = rate.every or 0
        self._state = flow.store.element(rate.id, {"passed": Map})

    def begin(self) -> None:
        """It starts with the first event."""

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        passed: Map = self._state.at(self._flow.key)["passed"]
        now = self._flow.now
        kept: Chunk = []
        for i, event in enumerate(chunk):
            if event.kind >= RESET and self._grouped:
                continue
            key = keys[i] if keys is not None else ""
            before = passed.get(key)
            if before is None or before + self._every <= now:
                passed.set(key, now)
                kept.append(event)
            if not self._grouped:
                break
        if kept:
            self._emit(kept)


class EveryTime:
    """`every t` and `last every t`: a timer of period t, started with the app or the key; nothing is emitted where nothing came."""

    def __init__(self, rate: Rate, flow: Flow, emit: Emit) -> None:
        self._flow, self._emit = flow, emit
        self._last = rate.kind == "last"
        self._every = rate.every or 1
        self._state = flow.store.element(rate.id, {"held": Map})
        self._timer = flow.timers.timer(rate.id, self._tick)

    def begin(self) -> None:
        self._timer.at(self._flow.now + self._every)

    def process(self, chunk: Chunk, keys: Keys = None) -> None:
        held: Map = self._state.at(self._flow.key)["held"]
        for i, event in enumerate(chunk):
            if event.kind < RESET:
                name: object = len(held)
                if self._last:
                    name = keys[i] if keys is not None else ""
                held.set(name, tuple(event))

    def _tick(self, due: int) -> None:
        held: Map = self._state.at(self._flow.key)["held"]
        # ticks that a jump of the clock skipped find nothing to emit: they are not played one by one
        missed = max(0, (self._flow.now - due) // self._every)
        self._timer.at(due + (missed + 1) * self._every)
        if len(held):
            passed = [Event(*e) for e in held.values()]
            held.clear()
            self._emit(passed)
