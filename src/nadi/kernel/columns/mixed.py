"""An app of which some queries run on columns, the rest on rows: two kernels with one clock, one delta and one dump (columns/rows.md#side-by-side)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from nadi.kernel.columns.turns import in_turns, together
from nadi.kernel.contract import Arrivals, Outputs, Row, Segment
from nadi.kernel.control import CONTROL
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.meter import Clock, Meter
from nadi.kernel.rows.meter import Part as Charged
from nadi.kernel.segments import Part, halves, is_flat, joined
from nadi.plan.columns.islands import Islands
from nadi.plan.nodes import App, OnDemand, Partition, Query
from nadi.plan.walk import read

if TYPE_CHECKING:
    from nadi.kernel.columns.engine import ColumnsKernel


class Makes(Protocol):
    """What makes kernels without state."""

    def rows(self, app: App, outputs: Collection[str]) -> RowsKernel: ...
    def columns(self, app: App, outputs: Collection[str], part: Islands) -> ColumnsKernel: ...


@dataclass(frozen=True, slots=True)
class Sides:
    """Which arrivals and outputs are whose. `read` are the inputs of columns, `also` the streams of columns that rows need, too."""

    read: frozenset[str]
    also: frozenset[str]
    columns: tuple[str, ...]
    rows: tuple[str, ...]


class MixedKernel:
    """Implements `nadi.kernel.contract.Kernel`. `part` says which queries run on columns, and which tables are there; all others, named windows, triggers and
    aggregations are on rows. Columns take a batch first, and hand streams on. Rows answer on-demand queries: tables on columns stand among their own."""

    def __init__(self, app: App, outputs: Collection[str], part: Islands, makes: Makes) -> None:
        # imported when it is needed: Numba takes a while
        from nadi.kernel.columns.handing import Handing
        from nadi.kernel.columns.tables.asked import AskedTable

        self.part = part
        self._sides = sides = _sides(app, part, outputs)
        self.rows = makes.rows(without(app, part.order), sides.rows)
        self.columns = makes.columns(app, sides.columns, part)
        self.rows.stand_in({name: AskedTable(held) for name, held in self.columns.tables.items()})
        self._playback = app.playback is not None  # then rows have no queries: they are asked on demand
        self._alone = self.columns.produced | ({CONTROL} if part.tables else frozenset())
        schemas = {key: stream.schema for key, stream in app.streams.items()}
        self._handing = Handing(part.handed, schemas) if part.handed else None

    def start(self, now: int) -> None:
        """Begin at clock `now` (ms)."""
        self.rows.start(now)
        self.columns.start(now)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        """Take arrivals in order, timers in between at their due times, then the timers due up to `until` (ms)."""
        if self.columns.purges:
            return together(self._process(part, end) for part, end in self.columns.parts(arrivals, until))
        return self._process(arrivals, until)

    def _process(self, arrivals: Arrivals, until: int) -> Outputs:
        if any(a.input in self._alone for a in arrivals):
            parts = in_turns(arrivals, self._alone)
            return together(self._take(part, until if clock is None else clock) for part, clock in parts)
        return self._take(arrivals, until)

    def _take(self, arrivals: Arrivals, until: int) -> Outputs:
        sides, produced = self._sides, self.columns.produced
        here = [a for a in arrivals if a.input in sides.read or a.input in produced or self._moved(a.input)]
        there = [a for a in arrivals if a.input not in sides.read | produced or a.input in sides.also]
        made = self.columns.take(here, until)
        if self._playback:
            self.rows.flow.set_clocks(self.columns.clocks.now, self.rows.flow.arrival_now)
        if self._handing is not None:
            there = self._handing.arrivals(here, self.columns.given_on, there)
        more = self.rows.process(there, until)
        return Outputs(
            {**made.batches, **more.batches},
            (*made.failures, *more.failures),
            {**made.counts, **more.counts},
            {**made.orders, **more.orders},
        )

    def _moved(self, stream: str) -> bool:
        """Whether the events of a stream that columns do not read move their clock."""
        return self._playback and stream != CONTROL

    def next_timer(self) -> int | None:
        """When the next timer of either is due."""
        return min(
            (due for kernel in (self.rows, self.columns) if (due := kernel.next_timer()) is not None), default=None
        )

    def delta(self) -> bytes:
        """What changed since the last delta, of both."""
        return joined(self.rows.delta(), self.columns.delta())

    def dump(self) -> Iterator[Segment]:
        """All state; that of columns first, so that a reader knows at once that there is some."""
        return chain(self.columns.dump(), self.rows.dump())

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state: each gets what it has written; `check` is to follow when all of it came. Errors: STATE_NOT_READABLE."""
        self.columns.clear()
        told = {False: False, True: False}

        def of_rows() -> Iterator[Part]:
            for part in state:
                rows, flat = halves_of(part)
                if flat:
                    told[True] = True
                    self.columns.apply(flat)
                if rows:
                    told[False] = True
                    yield part if isinstance(part, Segment) else rows

        self.rows.load(of_rows())
        flow = self.rows.flow
        if told[True] and not told[False]:
            clocks = self.columns.clocks
            flow.set_clocks(clocks.now, clocks.arrivals)
        elif told[False] and not told[True]:
            self.columns.set_clocks(flow.now, flow.arrival_now)

    def check(self) -> None:
        """See whether what was loaded fits together. Errors: STATE_NOT_READABLE."""
        self.columns.check()

    def find(self, question: OnDemand) -> list[Row]:
        """Rows ask the stores."""
        return self.rows.find(question)

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        """As `find`."""
        return self.rows.select(question, rows)

    def measure(self, clock: Clock, parts: dict[str, Charged], detail: bool = True) -> Meter:
        """Charge time to queries and so on, in both."""
        meter = Meter(clock, parts)
        for kernel in (self.rows, self.columns):
            meter.on_stop(kernel.measure(clock, parts, detail).stop)
        return meter

    def size(self) -> dict[str, int]:
        """Entries held per element of both."""
        return {**self.rows.size(), **self.columns.size()}


def halves_of(part: Part) -> tuple[bytes, bytes]:
    """What rows and what columns wrote of a segment or delta."""
    if not isinstance(part, Segment):
        return halves(part)
    return (b"", part.payload) if is_flat(part.payload) else (part.payload, b"")


def without(app: App, queries: Collection[str]) -> App:
    """An app without some queries: nothing else of it changes."""
    gone = frozenset(queries)

    def kept(element: Query | Partition) -> Query | Partition | None:
        if isinstance(element, Query):
            return None if element.id in gone else element
        left = tuple(q for q in element.queries if q.id not in gone)
        return replace(element, queries=left) if left else None

    return replace(app, elements=tuple(made for e in app.elements if (made := kept(e)) is not None))


def _sides(app: App, part: Islands, outputs: Collection[str]) -> Sides:
    here = [query for query in app.queries if query.id in part.order]
    there = [query for query in app.queries if query.id not in part.order]
    made = {query.output.target for query in here}  # type: ignore[union-attr]  # islands lets through what inserts into streams
    inputs = frozenset(source for query in here for source in read(query).values()) - made
    of_rows = {source for query in there for source in read(query).values()}
    of_rows |= {a.input.source for a in app.aggregations.values()}
    own = tuple(key for key in outputs if key in made and key not in part.given_on)
    others = tuple(key for key in outputs if key not in own)
    return Sides(inputs, frozenset((inputs | made) & (of_rows | set(others))), own, others)
