"""When the batches of a batch window end, as lines of a loop (semantics/windows.md#batch-windows).

`clock` is the window's state: the next boundary (never where nothing waits for one), the phase, whether there is a phase, how many events are in the batch,
and of an external clock the end of the batch and the greatest time.
`flush(now)` writes what happens at an end.
"""

from __future__ import annotations

from collections.abc import Callable

from nadi.kernel.columns.code import Writer
from nadi.lang.tree import Type
from nadi.plan.nodes import Const, WindowCall

NEVER = 2**63 - 1
BOUNDARY, PHASE, PHASED, SIZE, END, GREATEST = range(6)
NO_CLOCK = (NEVER, 0, 0, 0, 0, 0)

Flush = Callable[[str], None]


class Ending:
    """`before` and `after` an event of the window, and at the `end` of a stretch. `timed`: it ends by itself.

    With `own` each key of a partition has batches of its own: `held` has how many events are in that of a key.
    """

    timed = False

    def __init__(self, window: WindowCall, write: Writer, flush: Flush, own: bool = False) -> None:
        self._own, self._size = own, "held[g]" if own else "size"
        self._time = window.args[0] if window.args else Const(0, Type.LONG)
        self._numbers = [
            write.number(a.value) for a in window.args if isinstance(a, Const) and isinstance(a.value, int)
        ]
        self._line, self._write, self._flush = write.line, write, flush

    def opened(self) -> tuple[str, ...]:
        """The lines before the loop."""
        return ("size = clock[3]",)

    def closed(self) -> tuple[str, ...]:
        """The lines at the very end."""
        return ("clock[3] = size",)

    def before(self) -> None:
        """Where an event enters."""

    def after(self) -> None:
        """Where it has entered."""

    def end(self) -> None:
        """After the last event: what is due."""

    def _flushed(self, test: str, now: str, then: str) -> None:
        self._line(f"if {test}:")
        with self._write.indented():
            self._flush(now)
            self._line(then)


class AtLength(Ending):
    """`lengthBatch(n)`: with the n-th event, of the window or of the key."""

    def opened(self) -> tuple[str, ...]:
        return () if self._own else super().opened()

    def closed(self) -> tuple[str, ...]:
        return () if self._own else super().closed()

    def before(self) -> None:
        self._line(f"{self._size} += 1")

    def after(self) -> None:
        self._flushed(f"{self._size} == {self._numbers[0]}", "now[i]", f"{self._size} = 0")


class AtTime(Ending):
    """`timeBatch(t [, start.time])`: at the next boundary after its first event. Boundaries are one for the window, whatever the partition key."""

    timed = True

    def opened(self) -> tuple[str, ...]:
        return ("boundary = clock[0]", "phase = clock[1]")

    def closed(self) -> tuple[str, ...]:
        return ("clock[0] = boundary", "clock[1] = phase")

    def due(self, limit: str) -> None:
        """The lines for the batch that has ended by a time."""
        self._flushed(f"{limit} >= boundary", "boundary", f"boundary = {NEVER}")

    def before(self) -> None:
        time = self._numbers[0]
        self.due("now[i]")
        self._line(f"if boundary == {NEVER}:")
        phase = f"now[i] + {time}"
        if len(self._numbers) > 1:
            phase += f" - remainder(int(now[i]) - {self._numbers[1]}, {time})"
        for text in (
            "if clock[2] == 0:",
            "    clock[2] = 1",
            f"    phase = {phase}",
            f"boundary = phase if now[i] < phase else phase + ((now[i] - phase) // {time} + 1) * {time}",
        ):
            self._line("    " + text)

    def end(self) -> None:
        self.due("until")


class AtChunk(Ending):
    """`batch([n])`: with the chunk, or each n of its events."""

    def opened(self) -> tuple[str, ...]:
        return ("size = 0", "opened = -1", "last = 0")

    def closed(self) -> tuple[str, ...]:
        return ()

    def before(self) -> None:
        full = f" or size == {self._numbers[0]}" if self._numbers else ""
        self._flushed(f"chunk[i] != opened{full}", "last", "size = 0")
        self._line("opened = chunk[i]")
        self._line("last = now[i]")
        self._line("size += 1")

    def end(self) -> None:
        self._flushed("size > 0", "last", "size = 0")


class AtExternal(Ending):
    """`externalTimeBatch(attribute, t [, start])`: before the first event whose time is not before the end; the end moves on by whole periods.

    Of the window, or with `own` of each key, one holds from when on periods are counted, when the batch ends, the greatest time, and whether there has been
    an event.
    """

    def opened(self) -> tuple[str, ...]:
        return () if self._own else ("start = clock[1]", "end = clock[4]", "greatest = clock[5]")

    def closed(self) -> tuple[str, ...]:
        return () if self._own else ("clock[1] = start", "clock[4] = end", "clock[5] = greatest")

    def before(self) -> None:
        line = self._line
        start, end, greatest, begun = (
            ("xstart[g]", "xend[g]", "xgreatest[g]", "xbegun[g]")
            if self._own
            else ("start", "end", "greatest", "clock[2]")
        )
        time, period = self._write.term(self._time).text, self._numbers[0]
        line(f"if {begun} == 0:")
        line(f"    {begun} = 1")
        line(f"    {greatest} = -1")
        if len(self._numbers) > 1:
            line(f"    {start} = {self._numbers[1]}")
            line(f"    {end} = {time} + {period} - remainder({time} - {start}, {period})")
        else:
            line(f"    {start} = {time}")
            line(f"    {end} = {time} + {period}")
        line(f"if {time} > {greatest}: {greatest} = {time}")
        moved = f"{end} = {greatest} + {period} - remainder({greatest} - {start}, {period})"
        self._flushed(f"{time} >= {end}", "now[i]", moved)


KEYED = {
    "lengthBatch": {"held": "int64"},
    "externalTimeBatch": dict.fromkeys(("xstart", "xend", "xgreatest", "xbegun"), "int64"),
}
"""What a key has where each has batches of its own."""

ENDINGS: dict[str, type[Ending]] = {
    "lengthBatch": AtLength,
    "timeBatch": AtTime,
    "batch": AtChunk,
    "externalTimeBatch": AtExternal,
}
