"""Output snapshots of batch windows: see `snapshots`. What is shown is the batch that ended last; the events of the one that is collected wait behind it.

The end of a batch lets the one before go, clears the aggregators, and adds the events that have waited.
"""

from __future__ import annotations

from nadi.kernel.columns.accumulating import loaded_arguments
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.endings import BOUNDARY, ENDINGS, NEVER, NO_CLOCK, AtTime, Ending, Flush
from nadi.kernel.columns.snapshots import OWN, Lines, Snapshots
from nadi.plan.nodes import WindowCall

SHOWN = OWN
"""How many events at the front are shown. Behind it stands the clock of the window (`endings`)."""


class SnapshotOfBatch(Snapshots):
    """See the module's text."""

    removes = False
    numbers = (0, *NO_CLOCK)
    _ending: Ending

    def write_event(self, write: Writer, window: WindowCall, enter: Lines, add: Lines) -> None:
        """The ends of batches around an event."""
        if window.name == "timeBatch":
            self._ending = EachTime(window, write, lambda now: self._end(write, now))
        else:
            greatest = "greatest" if window.name == "externalTimeBatch" else ""  # stamps what leaves there
            self._ending = ENDINGS[window.name](window, write, lambda now: self._end_of_some(write, greatest or now))
        self._ending.before()
        enter()
        self._ending.after()

    def write_end(self, write: Writer) -> None:
        """The batch that ends with the stretch, or by itself."""
        self._ending.end()

    def around(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The numbers of the window."""
        before = (f"shown = state[{SHOWN}]", "until = limit", *self._ending.opened())
        return before, (*self._ending.closed(), f"state[{SHOWN}] = shown")

    def _end_of_some(self, write: Writer, now: str) -> None:
        """The lines for the end of a batch, if there is one."""
        write.line("if tail - head > shown:")
        with write.indented():
            self._end(write, now)

    def _end(self, write: Writer, now: str) -> None:
        """The lines for the end of a batch, which may be empty."""
        line = write.line
        line(f"x = {now}")
        line("first = head + shown")
        self._release(write, "head < first", lambda: self._clear(write))
        line("shown = tail - head")
        line("for q in range(head, tail):")
        with write.indented():
            line("j = q & mask")
            line("h = h_group[j]" if self._groups.grouped else "h = 0")
            if self._drops:
                line("if not h_kept[j]: continue")
            self._add(write, loaded_arguments(write, self._arguments), "h", "h_ts[j]")

    def _clear(self, write: Writer) -> None:
        """The lines that let group `h` be as if it had seen nothing."""
        for one in self._accumulators:
            for text in one.clear("h"):
                write.line(text)

    def wakes(self) -> int:
        """The end of a batch of a time."""
        return self._numbers.held[SHOWN + 1 + BOUNDARY]

    def shows(self) -> int:
        """The events of the batch that ended last."""
        return self._numbers.held[SHOWN]


class EachTime(AtTime):
    """`timeBatch` where one sees that a batch is empty: it ends at each boundary as long as something is shown."""

    def __init__(self, window: WindowCall, write: Writer, flush: Flush) -> None:
        super().__init__(window, write, flush)
        self._then = f"boundary = boundary + {self._numbers[0]} if shown > 0 else {NEVER}"

    def due(self, limit: str) -> None:
        """The batches that have ended by then."""
        self._line(f"while {limit} >= boundary:")
        with self._write.indented():
            self._flush("boundary")
            self._line(self._then)
