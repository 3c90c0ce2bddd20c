"""Output snapshots of the sliding windows `time`, `length` and `externalTime`: see `snapshots`.

Between two events the timers of `time` let go of what is late: an event that is later than all before sets one (`wake`). `w` is the first event whose timer may
still fire, `late` the clock of one that was due already when its event came, and fires behind the arrival. A tick comes before a timer of the same time.
"""

from __future__ import annotations

from nadi.functions.arithmetic import LONG_MIN
from nadi.kernel.columns.accumulating import taken
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.snapshots import OWN, Lines, Snapshots
from nadi.plan.nodes import Const, WindowCall

LATEST, SEEN = OWN, OWN + 1
"""The latest time of an event, whether there was one."""


class SnapshotOfWindow(Snapshots):
    """See the module's text."""

    removes = True
    numbers = (0, 0)
    _time = ""  # the text of that of `time`

    def kept(self, window: WindowCall) -> dict[str, str]:
        """Whether an event has set a timer, or its own time."""
        return {"time": {"wake": "bool"}, "externalTime": {"time": "int64"}}.get(window.name, {})

    def write_event(self, write: Writer, window: WindowCall, enter: Lines, add: Lines) -> None:
        """What leaves before an event, by time or by length."""
        (number,) = (a.value for a in window.args if isinstance(a, Const) and isinstance(a.value, int))
        queue, clock, length = self._queue, "now[i]", write.number(number)
        if window.name == "externalTime":
            clock = write.term(window.args[0]).text
            test = f"{clock} >= {write.number(LONG_MIN + number)} and h_time[{queue.oldest}] <= {clock} - {length}"
        elif window.name == "length":
            test = f"{queue.held} >= {length}"
        else:
            self._time = length
            write.line("if origin[i] != opened:")
            with write.indented():
                self._fire(write, "now[i]")
                write.line("opened = origin[i]")
            test = f"h_ts[{queue.oldest}] <= now[i] - {length}"
        write.line(f"x = {clock}")
        self._release(write, test, lambda: self._leave(write))
        enter()
        if window.name == "externalTime":
            write.line(f"h_time[j] = {clock}")
        if self._time:
            self._wake(write)
        add()

    def write_end(self, write: Writer) -> None:
        """The timers up to the end."""
        if self._time:
            self._fire(write, "limit")

    def around(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The numbers of the window."""
        before = (f"latest = state[{LATEST}]", f"seen = state[{SEEN}]", "late = -1", "opened = -1", "w = head")
        return before, (f"state[{LATEST}] = latest", f"state[{SEEN}] = seen")

    def _leave(self, write: Writer) -> None:
        taken(write, self._accumulators, self._arguments)

    def _fire(self, write: Writer, limit: str) -> None:
        """The lines for the timers up to a time."""
        line, queue = write.line, self._queue
        line("while True:")
        with write.indented():
            line("if late >= 0:")
            line("    x = late")
            line("    late = -1")
            line("else:")
            with write.indented():
                line("if w < head: w = head")
                line("while w < tail and not h_wake[w & mask]: w += 1  # one whose timer has fired has left")
                line(f"if w == tail or h_ts[w & mask] + {self._time} > {limit}: break")
                line(f"x = h_ts[w & mask] + {self._time}")
                line("w += 1")
            self._release(write, f"h_ts[{queue.oldest}] <= x - {self._time}", lambda: self._leave(write))

    def _wake(self, write: Writer) -> None:
        """The lines for the timer that an event sets, if it does."""
        line = write.line
        line("h_wake[j] = False")
        line("if seen == 0 or ts[i] > latest:")
        line("    seen = 1")
        line("    latest = ts[i]")
        line(f"    if ts[i] + {self._time} > now[i]: h_wake[j] = True")
        line("    else: late = now[i]")
