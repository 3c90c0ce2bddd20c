"""Which kernel runs which part of an app: what the plan and the setting say, unless there is state that only the other one can read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from nadi.errors import error
from nadi.kernel.columns.mixed import Makes, MixedKernel, halves_of
from nadi.kernel.contract import Arrivals, Kernel, Outputs, Row, Segment
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.meter import Clock, Meter
from nadi.kernel.rows.meter import Part as Charged
from nadi.kernel.rows.payloads import elements_of
from nadi.kernel.segments import Part, is_flat
from nadi.plan.columns.islands import Islands, islands
from nadi.plan.nodes import App, OnDemand
from nadi.plan.owners import Owners

if TYPE_CHECKING:
    from nadi.kernel.columns.engine import ColumnsKernel


class ChosenKernel:
    """A kernel of which each query is on rows or on columns. `load` leaves each with the kernel that wrote its state, for the life of that state; where rows
    wrote all of it, all goes there.

    Loading nothing, which begins a new life, goes back to what the setting says.
    """

    def __init__(self, app: App, outputs: Collection[str], makes: Makes, able: Islands, on_columns: bool) -> None:
        self._app, self._outputs, self._makes = app, outputs, makes
        self._able = able
        self._first = able if on_columns else self._none
        self._owners = Owners(app)
        self._meter: Meter | None = None
        self._inner: Meter | None = None
        self._clock: Clock | None = None
        self._detail = True
        self.part = self._first
        self.kernel = _made(app, outputs, self._first, makes)

    @cached_property
    def _none(self) -> Islands:
        """All queries on rows; seldom asked for."""
        return islands(self._app, self._able.order)

    @property
    def on_columns(self) -> bool:
        """Whether any query is on columns."""
        return bool(self.part.order)

    def load(self, state: Iterable[Part]) -> None:
        """Replace all state. Errors: STATE_NOT_READABLE."""
        parts = iter(state)
        first = next((part for part in parts if _payload(part)), None)
        if first is None:
            self._turn(self._first)
            self.kernel.load(())
            return
        seen = _Seen(set(), set())
        self._turn(self._able if halves_of(first)[1] else self._none)
        parts = chain([first], parts)
        while True:
            stopped: list[Part] = []
            self.kernel.load(self._fitting(parts, seen, stopped))
            if not stopped:
                if not isinstance(self.kernel, RowsKernel):
                    self.kernel.check()
                return
            before = self.kernel.dump()
            self._turn(self._part_of(seen))
            parts = chain(self._met(before, seen), stopped, parts)

    def _met(self, dump: Iterable[Segment], seen: _Seen) -> Iterator[Segment]:
        """What was loaded so far: a dump has what queries begin with, too."""
        movable = self._able.owners
        for segment in dump:
            owner = self._owners.of(segment.element)
            if owner not in movable or owner in (seen.flat if is_flat(segment.payload) else seen.rows):
                yield segment

    def _fitting(self, parts: Iterator[Part], seen: _Seen, stopped: list[Part]) -> Iterator[Part]:
        """Parts as long as each query runs where its state was written."""
        here, alone, movable = self.part.owners, not self.part.mixed, self._able.owners
        for part in parts:
            rows, flat = halves_of(part)
            if rows:
                seen.rows |= self._owned({part.element} if isinstance(part, Segment) else elements_of(rows)) & movable
            if flat:
                seen.flat |= self._owned({part.element} if isinstance(part, Segment) else _flat_elements(flat))
            if not seen.flat <= here or seen.rows & here:
                stopped.append(part)
                return
            if alone and not isinstance(part, Segment):
                part = flat if here else rows
            if not alone or (flat if here else rows):
                yield part

    def _owned(self, elements: Iterable[str]) -> set[str]:
        """The queries of some elements; what belongs to none is of no interest."""
        return {owner for element in elements if (owner := self._owners.of(element)) is not None}

    def _part_of(self, seen: _Seen) -> Islands:
        """The parts in which each query is where its state was written. Errors: STATE_NOT_READABLE."""
        part = islands(self._app, seen.rows)
        if lost := seen.flat - part.owners:
            raise error(
                "STATE_NOT_READABLE",
                reason=f"the columns kernel wrote that of {', '.join(sorted(lost))}, and rows have to run it now: {part.why}; go back to the text that made it,"
                " ask for a revision, and restore that into this one",
            )
        return part

    def _turn(self, part: Islands) -> None:
        if part is not self.part:
            self.part = part
            self.kernel = _made(self._app, self._outputs, part, self._makes)
            self._measure()

    def measure(self, clock: Clock, parts: dict[str, Charged] | None = None, detail: bool = True) -> Meter:
        """Charge time to queries, windows, aggregations, triggers and tables (without `detail`: to tables) until the meter is stopped; `clock` gives ns. Not to
        be asked for again before."""
        self._clock, self._meter, self._detail = clock, Meter(clock, parts), detail
        self._meter.on_stop(self._forget)
        self._measure()
        return self._meter

    def _measure(self) -> None:
        if self._clock is not None and self._meter is not None:
            self._inner = self.kernel.measure(self._clock, self._meter.parts, self._detail)

    def _forget(self) -> None:
        if self._inner is not None:
            self._inner.stop()
        self._clock = self._meter = self._inner = None

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


class _Seen:
    """The queries whose state was met, by who wrote it."""

    def __init__(self, rows: set[str], flat: set[str]) -> None:
        self.rows, self.flat = rows, flat


def _flat_elements(payload: bytes) -> set[str]:
    from nadi.kernel.columns.flat import elements_of as of_flat

    return of_flat(payload)


def _made(app: App, outputs: Collection[str], part: Islands, makes: Makes) -> RowsKernel | ColumnsKernel | MixedKernel:
    if part.mixed:
        return MixedKernel(app, outputs, part, makes)
    return makes.columns(app, outputs, part) if part.columns else makes.rows(app, outputs)


def check_mode(app: App, mode: str) -> None:
    """Whether an app can run as the setting says.

    Raises:
        SiddhiAppCreationException: NOT_SUPPORTED, where columns are asked for and cannot be.
    """
    if mode == "columns":
        _check(app, islands(app))


def _check(app: App, able: Islands) -> None:
    if not able.columns:
        raise error("NOT_SUPPORTED", what=f"the columns kernel for '{app.name}'", alternative=f"rows: {able.why}")


def chosen(app: App, mode: str, outputs: Collection[str], makes: Makes) -> Kernel:
    """The kernel of an app that has no state yet.

    Args:
        app: its plan.
        mode: "auto" (columns for the queries that can), "rows", or "columns" (an error where not all can).
        outputs: the streams whose rows are wanted.
        makes: makes the kernels.

    Raises:
        SiddhiAppCreationException: NOT_SUPPORTED, where columns are asked for and cannot be.
    """
    able = islands(app)
    if mode == "columns":
        _check(app, able)
    if not able.order:
        return makes.rows(app, outputs)
    return ChosenKernel(app, outputs, makes, able, mode != "rows")


def _payload(part: Part) -> bytes:
    return part.payload if isinstance(part, Segment) else part
