"""`session(gap, key, allowed latency)`: a session that is over waits for late events until it leaves (semantics/windows.md#session).

A unit has two sessions at most: the one that goes on (`active`, `start`, `end`, `session`) and the one before (`late`, `from`, `to`, `before`), whose events
are the first `parted` of its chain. They become one where late events close the gap between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.stretch import Array
from nadi.kernel.columns.windows.contract import Holding
from nadi.kernel.columns.windows.keyedsessions import KeyedSessions
from nadi.kernel.columns.windows.sessions import SESSION
from nadi.kernel.columns.windows.splitchains import SplitChains
from nadi.plan.nodes import Const, WindowCall

_BEFORE = {"late": "bool", "since": "int64", "till": "int64", "before": "int64", "parted": "int64"}


class LateSessions(KeyedSessions):
    """See the module's text; in partitions and outside."""

    _held: Mapping[str, str] = {**SESSION, **_BEFORE}
    _flags = ("active", "late")
    _events: SplitChains

    def __init__(self, window: WindowCall, given: Input, holding: Holding) -> None:
        latency = window.args[-1]
        assert isinstance(latency, Const)  # as windows says
        assert isinstance(latency.value, int)
        self._latency = latency.value
        super().__init__(window, given, holding)

    def _made_events(self, holding: Holding) -> SplitChains:
        return SplitChains(self._element, holding.columns, self._keys, holding.groups, holding.named)

    # ---- in a loop

    def write(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines for an event that comes."""
        gap = self._gap_name = write.number(self._gap)
        self._latency_name = write.number(self._latency)
        self._enter(write, taken)
        line = write.line
        line("w_ts = int(ts[i])")
        # where it goes: 0 to the end of the session that goes on or to a new one, 1 before it, 2 to the end of the one before, 3 before that
        line("w_where = 0")
        line("if (w_ts < start[p]) if active[p] else (late[p] and w_ts <= till[p]):")
        line(f"    if active[p] and w_ts >= start[p] - {gap}: w_where = 1")
        line("    elif late[p] and since[p] <= w_ts <= till[p]: w_where = 2")
        line(f"    elif late[p] and since[p] - {gap} <= w_ts < since[p]: w_where = 3")
        line("    else: continue")
        line("w_touched[p] = True")
        line("w_over = w_where == 0 and active[p] and w_ts > end[p]")
        line("w_leaving = parted[p] if w_over and late[p] else 0")
        self._leave_some(write, taken)
        line("w_told, w_told_end = (session[p] if active[p] and not w_over else -1), end[p]")
        line("w_before, w_before_end = (before[p] if late[p] else -1), till[p]")
        line("if w_over:")
        with write.indented():
            self._becomes_late(write)
            line("w_before = -1")
        for where, lines in enumerate((self._at_end(), self._before_it(), self._late_end(), self._before_late())):
            line(f"{'if' if where == 0 else 'elif'} w_where == {where}:")
            for text in lines:
                line(f"    {text}")
        line("if w_where != 0 and active[p] and late[p] and till[p] >= start[p]:")
        for text in ("start[p] = since[p]", "session[p] = before[p]", "late[p] = False", "parted[p] = 0"):
            line(f"    {text}")
        line("if active[p] and (w_told != session[p] or w_told_end != end[p]):")
        for text in self._watch("end[p]", "session[p]"):
            line(f"    {text}")
        line("if late[p] and (w_before != before[p] or w_before_end != till[p]):")
        for text in self._watch(f"(till[p] + {self._latency_name})", "before[p]"):
            line(f"    {text}")

    def _at_end(self) -> Iterator[str]:
        """The lines for an event at the end of the session that goes on, or of a new one."""
        yield "if not active[p]:"
        for text in ("active[p] = True", "start[p] = w_ts", "session[p] = w_next[0]", "w_next[0] += 1"):
            yield f"    {text}"
        yield f"end[p] = w_ts + {self._gap_name}"
        yield from self._events.append

    def _before_it(self) -> Iterator[str]:
        """The same in front of the session that goes on."""
        yield "start[p] = w_ts"
        yield "if late[p]:"
        for text in self._events.insert:
            yield f"    {text}"
        yield "else:"
        for text in self._events.prepend:
            yield f"    {text}"

    def _late_end(self) -> Iterator[str]:
        """The same at the end of the session before."""
        yield f"if till[p] < w_ts + {self._gap_name}: till[p] = w_ts + {self._gap_name}"
        yield "if active[p]:"
        for text in self._events.insert:
            yield f"    {text}"
        yield "else:"
        for text in self._events.append:
            yield f"    {text}"
        yield "split[p] = j"
        yield "parted[p] += 1"

    def _before_late(self) -> Iterator[str]:
        """The same in front of it."""
        yield "since[p] = w_ts"
        yield from self._events.prepend
        yield "parted[p] += 1"

    def _becomes_late(self, write: Writer) -> None:
        """The lines for a session that is over: it is the one before from now on."""
        for text in (
            "late[p] = True",
            "since[p] = start[p]",
            "till[p] = end[p]",
            "before[p] = session[p]",
            "parted[p] = count[p]",
            "split[p] = last[p]",
            "active[p] = False",
        ):
            write.line(text)

    def _leave_some(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines that let the first `w_leaving` events of the unit leave."""
        write.line("while w_leaving > 0:")
        with write.indented():
            for text in ("w_leaving -= 1", "parted[p] -= 1", *self._events.take):
                write.line(text)
            taken()

    def _fire(self, write: Writer, limit: str, taken: Callable[[], None]) -> None:
        """The lines for the timers that are due up to a time."""
        line = write.line
        line(f"while watch_size[0] > 0 and watch[0] <= {limit}:")
        with write.indented():
            self._look(write)
            line(f"w_gone = p >= 0 and late[p] and till[p] + {self._latency_name} == w_end and before[p] == w_session")
            line("w_over = p >= 0 and not w_gone and active[p] and end[p] == w_end and session[p] == w_session")
            self._wait(write, "w_gone", "w_over")
            line("w_leaving = parted[p] if w_gone or (w_over and late[p]) else 0")
            self._leave_some(write, taken)
            line("if w_gone:")
            line("    late[p] = False")
            line("    w_touched[p] = True")
            line("if w_over:")
            with write.indented():
                self._becomes_late(write)
                line("w_touched[p] = True")
                for text in self._watch(f"(till[p] + {self._latency_name})", "before[p]"):
                    line(text)

    # ---- a batch

    def _room(self, more: int) -> tuple[int, int]:
        """An event sets two timers at most, a session that is over one."""
        sets = 3 * more + int(np.count_nonzero(self._keys.arrays["active"]))
        return sets, sets

    def _put_together(self) -> None:
        super()._put_together()
        arrays = self._keys.arrays
        self._next[0] = max(int(self._next[0]), int(arrays["before"].max()) + 1)
        held = np.flatnonzero(arrays["late"])
        self._events.find_splits(held, arrays["parted"])

    def _active(self) -> Array:
        return self._keys.arrays["active"] | self._keys.arrays["late"]

    def check(self) -> None:
        """Of the events of a unit those of the session before come first, and the rest are those of the one that goes on. Raises ValueError where that is not
        so."""
        super().check()
        self._check_numbers("before")
        arrays = self._keys.arrays
        parted, late, active = arrays["parted"], arrays["late"], arrays["active"]
        held = self._events.counts(self._keys.room)
        fits = (parted >= late) & np.where(active, parted < np.maximum(held, 1), parted == held)
        if not (fits & (late | (parted == 0))).all():
            raise ValueError("a session before another one has other events than there are")

    def _ends(self) -> Iterator[tuple[Array, Array, Array]]:
        yield from super()._ends()
        arrays = self._keys.arrays
        held = np.flatnonzero(arrays["late"])
        yield arrays["till"][held] + self._latency, arrays["before"][held], held
