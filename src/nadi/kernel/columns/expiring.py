"""The windows `time`, `length` and `externalTime` before a query that puts out expired events (semantics/windows.md#sliding-windows).

A stage: it gives on what comes into the window and what leaves it, in the chunks and in the order in which rows would. What leaves before an event is in its
chunk, and before it; what a timer lets go is a chunk of its own. It is stamped with the clock at which it leaves. Where aggregators are behind, one more
column tells which events have left (`Retracting` takes them off); else only those go on that are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.delaying import Delaying
from nadi.kernel.columns.looping import LoopText
from nadi.kernel.columns.stretch import Array, Column, Longs, Stretch
from nadi.lang.tree import Events
from nadi.plan.nodes import Attr, Query, SingleInput


class Expiring(Delaying):
    """See the module's text. Timers are those of `delay`: on rows both set them by one rule."""

    _marked: Mapping[str, str] = {"ots": "int64[]", "oleft": "bool[]"}

    def __init__(self, query: Query, given: Input) -> None:
        assert isinstance(query.input, SingleInput)
        window = query.input.window
        assert window is not None  # as operators says
        self._window = window.name
        self._timed = window.name == "time"
        first = window.args[0]
        self._clock = first if isinstance(first, Attr) else None
        self._told = bool(query.selection.aggregates)
        self._passes = self._told or query.output.events is not Events.EXPIRED
        super().__init__(query, given)

    # ---- the loop

    def _make_way(self, text: LoopText) -> None:
        oldest = self._queue.oldest
        if self._window == "length":
            self._let_go(text, f"{self._queue.held} >= {text.writer.number(self._time)}", "now[i]")
        elif self._clock is not None:  # all are longs: what would be beyond them is never due
            clock = text.writer.term(self._clock).text
            text.writer.line(f"ripe = {clock} >= {text.writer.number(LONG_MIN + self._time)}")
            text.writer.line(f"before = {clock} - {text.writer.number(self._time)}")
            test = f"ripe and h_c{self._clock.position}[{oldest}] <= before"
            self._let_go(text, test, "now[i]", clock)
        else:
            super()._make_way(text)

    def _pass_on(self, text: LoopText) -> None:
        if self._passes:
            self._put_out(text, "now[i]", "ts[i]", "False")

    def _mark(self, write: Writer, ts: str, left: str) -> None:
        write.line(f"ots[k] = {ts}")
        write.line(f"oleft[k] = {left}")

    # ---- a batch

    def _room(self, held: int, more: int) -> int:
        return held + 2 * more

    def _marks(self, room: int) -> dict[str, Array | int]:
        return {"ots": np.empty(room, np.int64), "oleft": np.empty(room, np.bool_)}

    def _stretch(self, own: Mapping[str, Array | int], rows: Longs | slice, now: Longs, chunk: Longs) -> Stretch:
        found = super()._stretch(own, rows, now, chunk)
        ts, left = np.asarray(own["ots"])[: len(now)], np.asarray(own["oleft"])[: len(now)]
        columns = (*found.columns, Column(None, left[rows])) if self._told else found.columns
        return Stretch(columns, ts[rows], now, chunk, found.group)
