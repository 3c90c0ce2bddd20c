"""The operator of batch windows whose selection looks at each event by itself: the rows of a batch wait for its end (semantics/windows.md#batch-windows)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.bounds import values
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.endings import BOUNDARY, ENDINGS, NEVER, NO_CLOCK
from nadi.kernel.columns.filtering import taking_part, write_filters
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.parcel import Parcel, joined
from nadi.kernel.columns.selecting import Rule, Selected, SelectionText
from nadi.kernel.columns.stretch import Array, Longs, Stretch, empty
from nadi.plan.nodes import Query, SingleInput


class Waiting:
    """`from S[…]#window.timeBatch(…) select a, b …`, without aggregators and groups; also `lengthBatch` and `batch`, which alone is here in partitions."""

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        self._window, self._key = window.id, given.key
        self._types = query.selection.schema.types
        text = LoopText(given.types)
        write_filters(text, given)
        ending = ENDINGS[window.name](window, text.writer, lambda now: _flush(text, now))
        self._timed = ending.timed
        ending.before()
        text.writer.line("of[k] = e")
        tests = [text.writer.truth(condition) for condition in given.behind]
        self._selected = Selected(SelectionText(text, query.selection, Rule.EACH, tests).picked, given.types)
        ending.after()
        with text.apart("    ") as behind:
            ending.end()
        text.before += ("e = 0", *ending.opened())
        text.after += (line.removeprefix("    ") for line in behind)
        text.after += (*ending.closed(), "ended[0] = e")
        text.own |= dict.fromkeys(("of", "flushed", "ended", "clock"), "int64[]") | {"until": "int64"}
        self._loop = text.compiled("waiting")
        self._nothing = empty(given.types, given.sharded)
        self._parcel = Parcel(window.id, self._types)
        self.elements = (self._window,)
        self._reset()

    def _reset(self) -> None:
        self._clock = np.array(NO_CLOCK, np.int64)
        self._told = self._clock.copy()

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The rows of the batches that end."""
        stretch = (taking_part(given, self._key) if given else None) or self._nothing
        n = len(stretch)
        of, flushed, ended = np.empty(n + 1, np.int64), np.empty(n + 3, np.int64), np.zeros(1, np.int64)
        own: dict[str, Array | int] = {**self._selected.room(n), "of": of, "flushed": flushed, "ended": ended}
        self._loop(stretch, {**own, "clock": self._clock, "until": until}, self._selected.held)
        return self._sorted_out(self._selected.stretch(stretch), of, flushed, int(ended[0]))

    def _sorted_out(self, rows: Stretch | None, of: Longs, flushed: Longs, ends: int) -> Stretch | None:
        """What comes out; the rest waits."""
        k = 0 if rows is None else len(rows)
        out = int(np.searchsorted(of[:k], ends)) if ends else 0
        found = self._ended(None if rows is None or not out else rows.part(0, out), of[:out], flushed) if ends else None
        if rows is not None and out < k:
            self._parcel.add(rows.part(out, k))
        return found

    def _ended(self, rows: Stretch | None, of: Longs, flushed: Longs) -> Stretch | None:
        before = len(self._parcel)
        if not before:
            return None if rows is None else Stretch(rows.columns, rows.ts, flushed[of], of, rows.group)
        columns, ts = self._parcel.take()
        chunk = np.concatenate([np.zeros(before, np.int64), of])
        if rows is not None:
            columns = tuple(map(joined, columns, rows.columns, self._types))
            ts = np.concatenate([ts, rows.ts])
        return Stretch(columns, ts, flushed[chunk], chunk)

    def next_timer(self) -> int | None:
        """When the batch that is open ends by itself."""
        return int(self._clock[BOUNDARY]) if self._timed and self._clock[BOUNDARY] != NEVER else None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The window's clock, the rows that came."""
        if (self._clock != self._told).any():
            yield self._told_clock()
        yield from self._parcel.changes()

    def contents(self) -> Iterator[Block]:
        """The window's clock, all rows."""
        yield self._told_clock()
        yield from self._parcel.contents()

    def _told_clock(self) -> Block:
        self._told = self._clock.copy()
        return Block(self._window, 0, "w", {"clock": self._told})

    def apply(self, block: Block) -> None:
        """Put back the clock or rows."""
        if block.letter == "w":
            self._clock = values(block.arrays, "clock", np.int64, len(NO_CLOCK)).copy()
            self._told = self._clock.copy()
        else:
            self._parcel.apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._parcel.clear()
        self._reset()

    def size(self) -> dict[str, int]:
        """Rows that wait."""
        return {self._window: len(self._parcel)}


def _flush(text: LoopText, now: str) -> None:
    text.writer.line(f"flushed[e] = {now}")
    text.writer.line("e += 1")
