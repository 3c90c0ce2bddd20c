"""`output …`: which rows of a query come out, and when (semantics/selection.md#output-rates). Rows are counted, whatever chunks they stand in.

A limiter takes the rows that the selection made of a batch and gives those that go on. Those here look at no group; the others are in `grouplimits`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from nadi.kernel.columns.bounds import values
from nadi.kernel.columns.contract import State
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.parcel import Parcel, joined
from nadi.kernel.columns.stretch import Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Rate


class Limiter(State, Protocol):
    """Rows in, rows out; `begin` is called when the app starts at a clock (ms)."""

    def begin(self, now: int) -> None: ...
    def process(self, rows: Stretch | None, until: int) -> Stretch | None: ...
    def next_timer(self) -> int | None: ...
    def size(self) -> int: ...


class Numbers:
    """A few numbers that are state."""

    held: list[int]

    def __init__(self, element: str, *first: int) -> None:
        self._element, self._first = element, first
        self.clear()

    def clear(self) -> None:
        self.held = list(self._first)
        self._told = list(self._first)

    def changes(self) -> Iterator[Block]:
        if self.held != self._told:
            yield from self.contents()

    def contents(self) -> Iterator[Block]:
        self._told = list(self.held)
        yield Block(self._element, 0, "n", {"held": np.array(self.held, np.int64)})

    def apply(self, block: Block) -> None:
        self.held = values(block.arrays, "held", np.int64, len(self._first)).tolist()
        self._told = list(self.held)


class OneOfCount:
    """`first every n events`, `last every n events`: the first or the last of each n. With n = 1 only the very first one ever is a first one, as in Siddhi."""

    def __init__(self, rate: Rate, count: int) -> None:
        self._count = count
        self._place = 0 if rate.kind == "first" else count - 1
        self._once = rate.kind == "first" and count == 1
        self._seen = Numbers(rate.id, 0)
        self.changes, self.contents = self._seen.changes, self._seen.contents
        self.apply, self.clear = self._seen.apply, self._seen.clear

    def begin(self, now: int) -> None:
        """Counting needs no start."""

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows whose turn it is."""
        if rows is None:
            return None
        seen = self._seen.held[0]
        self._seen.held[0] = min(1, seen + len(rows)) if self._once else (seen + len(rows)) % self._count
        first = (self._place - seen) % self._count
        turns = np.arange(first, len(rows), self._count)
        chosen = np.zeros(0 if seen else 1, np.int64) if self._once else turns
        return rows.take(chosen) if len(chosen) else None

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    def size(self) -> int:
        """One number."""
        return 1


class AllOfCount:
    """`all every n events`: n are collected and go on together. What one chunk completes is one chunk, also where that is several times n."""

    def __init__(self, element: str, count: int, types: tuple[Type, ...]) -> None:
        self._count, self._types = count, types
        self._parcel = Parcel(element, types)
        self.changes, self.contents = self._parcel.changes, self._parcel.contents
        self.clear = self._parcel.clear

    def begin(self, now: int) -> None:
        """Counting needs no start."""

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that are complete."""
        if rows is None:
            return None
        held, count = len(self._parcel), self._count
        whole = (held + len(rows)) // count * count
        if not whole:
            self._parcel.add(rows)
            return None
        completing = np.arange(whole) // count * count + (count - 1 - held)
        out = whole - held
        found = _behind(self._parcel, rows.part(0, out), self._types)
        if out < len(rows):
            self._parcel.add(rows.part(out, len(rows)))
        origin = None if rows.origin is None else rows.origin[completing]
        return Stretch(found.columns, found.ts, rows.now[completing], rows.chunk[completing], None, origin)

    def apply(self, block: Block) -> None:
        """Put back rows. Raises ValueError where so many wait that they would have gone on."""
        self._parcel.apply(block)
        if len(self._parcel) >= self._count:
            raise ValueError(f"{len(self._parcel)} rows wait where {self._count} go on")

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    def size(self) -> int:
        """Rows that wait."""
        return len(self._parcel)


class FirstOfTime:
    """`first every t`: a row passes if none did in the last t. Of a chunk only the first one is considered."""

    def __init__(self, element: str, every: int) -> None:
        self._every = every
        self._passed = Numbers(element, 0, 0)  # whether one has passed, and when
        self.changes, self.contents = self._passed.changes, self._passed.contents
        self.apply, self.clear = self._passed.apply, self._passed.clear

    def begin(self, now: int) -> None:
        """It starts with the first row."""

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows that pass."""
        if rows is None:
            return None
        passed, chosen = np.array(self._passed.held, np.int64), np.empty(len(rows), np.int64)
        count = _first_of_time(rows.now, rows.chunk, self._every, passed, chosen)
        self._passed.held = passed.tolist()
        return rows.take(chosen[:count]) if count else None

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    def size(self) -> int:
        """One number."""
        return 1


class EveryTime:
    """`all every t`, `last every t`: what came between two ticks goes on as one chunk at the second one. Ticks begin with the app."""

    def __init__(self, rate: Rate, every: int, types: tuple[Type, ...]) -> None:
        self._every, self._types = every, types
        self._last = rate.kind == "last"
        self._clock = Numbers(rate.id, 0, 0)  # when the app began, when the rows that wait go on
        self._parcel = Parcel(rate.id, types)

    def begin(self, now: int) -> None:
        """Ticks count from here on."""
        self._clock.held[0] = now

    def process(self, rows: Stretch | None, until: int) -> Stretch | None:
        """The rows whose tick has come."""
        held, every = len(self._parcel), self._every
        if rows is None:
            if not held or self._clock.held[1] > until:
                return None
            columns, ts = self._parcel.take()
            due = np.full(len(ts), self._clock.held[1], np.int64)
            return Stretch(columns, ts, due, np.zeros(len(ts), np.int64))
        start = self._clock.held[0]
        dues = start + ((rows.now - start) // every + 1) * every
        if held:
            dues = np.concatenate([np.full(held, self._clock.held[1], np.int64), dues])
        whole = _behind(self._parcel, rows, self._types)
        chunk = np.concatenate([[0], np.cumsum(np.diff(dues) != 0)])
        whole = Stretch(whole.columns, whole.ts, dues, chunk)
        if self._last:
            whole = whole.take(np.flatnonzero(np.append(np.diff(chunk) != 0, True)))
        out = int(np.searchsorted(whole.now, until, side="right"))
        if out < len(whole):
            self._parcel.add(whole.part(out, len(whole)))
            self._clock.held[1] = int(whole.now[-1])
        return whole.part(0, out) if out else None

    def next_timer(self) -> int | None:
        """The tick at which what waits goes on."""
        return self._clock.held[1] if len(self._parcel) else None

    def changes(self) -> Iterator[Block]:
        """The clock, the rows that came."""
        yield from self._clock.changes()
        yield from self._parcel.changes()

    def contents(self) -> Iterator[Block]:
        """The clock, all rows."""
        yield from self._clock.contents()
        yield from self._parcel.contents()

    def apply(self, block: Block) -> None:
        """Put back the clock or rows."""
        (self._clock if block.letter == "n" else self._parcel).apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._clock.clear()
        self._parcel.clear()

    def size(self) -> int:
        """Rows that wait."""
        return len(self._parcel)


def _behind(parcel: Parcel, rows: Stretch, types: tuple[Type, ...]) -> Stretch:
    """What waits, taken, and rows behind it; clocks and chunks are those of the rows alone."""
    if not len(parcel):
        return rows
    columns, ts = parcel.take()
    columns = tuple(map(joined, columns, rows.columns, types))
    return Stretch(columns, np.concatenate([ts, rows.ts]), rows.now, rows.chunk)


@loop
def _first_of_time(now: Longs, chunk: Longs, every: int, passed: Longs, chosen: Longs) -> int:
    count = 0
    for i in range(len(now)):
        if i > 0 and chunk[i] == chunk[i - 1]:
            continue
        if passed[0] == 0 or passed[1] + every <= now[i]:
            passed[0] = 1
            passed[1] = now[i]
            chosen[count] = i
            count += 1
    return count
