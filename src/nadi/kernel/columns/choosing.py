"""Which kernel runs an app: what the plan and the setting say, unless there is state that only the other one can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from nadi.errors import error
from nadi.kernel.contract import Arrivals, Kernel, Outputs, Row, Segment
from nadi.kernel.segments import is_flat
from nadi.plan.islands import islands
from nadi.plan.nodes import App, OnDemand

Make = Callable[[], Kernel]


class ChosenKernel:
    """A kernel that is one of two. The first one is made at once; `load` changes over to the one that wrote the state, for the life of that state.

    Loading nothing, which begins a new life, goes back to the first.
    """

    def __init__(self, rows: Make, columns: Make, on_columns: bool) -> None:
        self._makes = {False: rows, True: columns}
        self._first = self.on_columns = on_columns
        self.kernel = self._makes[on_columns]()

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state. Errors: STATE_NOT_READABLE."""
        parts = iter(state)
        begin: list[Segment | bytes] = []
        for part in parts:
            begin.append(part)
            if payload := _payload(part):
                self._turn(is_flat(payload))
                break
        else:
            self._turn(self._first)
        self.kernel.load(_checked(chain(begin, parts), self.on_columns))

    def _turn(self, on_columns: bool) -> None:
        if on_columns != self.on_columns:
            self.kernel = self._makes[on_columns]()
            self.on_columns = on_columns

    # ---- as it is

    def start(self, now: int) -> None:
        self.kernel.start(now)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        return self.kernel.process(arrivals, until)

    def next_timer(self) -> int | None:
        return self.kernel.next_timer()

    def delta(self) -> bytes:
        return self.kernel.delta()

    def dump(self) -> Iterable[Segment]:
        return self.kernel.dump()

    def find(self, question: OnDemand) -> list[Row]:
        return self.kernel.find(question)

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        return self.kernel.select(question, rows)

    def size(self) -> dict[str, int]:
        return self.kernel.size()


def chosen(app: App, mode: str, rows: Make, columns: Make) -> Kernel:
    """The kernel of an app that has no state yet.

    Args:
        app: its plan.
        mode: "auto" (columns where all queries can), "rows", or "columns" (an error where they cannot).
        rows: makes a rows kernel.
        columns: makes a columns kernel.

    Raises:
        SiddhiAppCreationException: NOT_SUPPORTED, where columns are asked for and cannot be.
    """
    able = islands(app).columns
    if not able:
        return columns() if mode == "columns" else rows()
    return ChosenKernel(rows, columns, mode != "rows")


def _payload(part: Segment | bytes) -> bytes:
    return part.payload if isinstance(part, Segment) else part


def _checked(parts: Iterable[Segment | bytes], on_columns: bool) -> Iterator[Segment | bytes]:
    for part in parts:
        if (payload := _payload(part)) and is_flat(payload) != on_columns:
            raise error(
                "STATE_NOT_READABLE", reason="some of it was written by the rows kernel, some by the columns kernel"
            )
        yield part
