"""The rows kernel: an app as a state machine that takes one arrival at a time (semantics/events.md#chunks)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import index
from typing import TYPE_CHECKING

from nadi.errors import error
from nadi.functions.scripts import RunnerOf, with_scripts
from nadi.kernel.arrow import OutputBuffer, chunks
from nadi.kernel.contract import KEY_GROUPS, Arrivals, Outputs, Segment
from nadi.kernel.control import CONTROL, CONTROL_SCHEMA
from nadi.kernel.damage import fitting
from nadi.kernel.keys import COUNTER, NUMBERS, flow_key_group
from nadi.kernel.rows.assembly import assemble
from nadi.kernel.rows.events import CURRENT, Chunk, Row
from nadi.kernel.rows.finds import ask, matching, selected
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.meter import Clock, Meter, Part, metered
from nadi.kernel.rows.misfits import named
from nadi.kernel.rows.partitions import PartitionRuntime
from nadi.kernel.rows.playback import Idle
from nadi.kernel.rows.queries import QueryCallback
from nadi.kernel.rows.state import Value
from nadi.kernel.rows.tables import TableRuntime
from nadi.kernel.rows.triggers import TriggerRuntime
from nadi.lang import parse_on_demand
from nadi.plan import bind_on_demand
from nadi.plan.nodes import App, OnDemand

if TYPE_CHECKING:
    from nadi.functions.registry import Registry

_COUNTERS = tuple(f"{COUNTER}{group}" if group else "" for group in range(KEY_GROUPS))


class RowsKernel:
    """Implements `nadi.kernel.contract.Kernel`.

    `outputs` are the streams whose rows `process` returns, numbered per key-group; `bucket` tells the kernels of a sharded app apart; `properties`
    are those of the node ("aggTimeZone"), `scripts` makes what runs script functions. In process, without Arrow: `deliver`, `advance`, `on_stream`, `on_query`.
    """

    def __init__(
        self,
        app: App,
        registry: Registry,
        outputs: Collection[str] = (),
        bucket: int = 0,
        properties: Mapping[str, str] | None = None,
        scripts: RunnerOf | None = None,
    ) -> None:
        self.app = app
        registry = with_scripts(registry, app.scripts, scripts)
        sharded = app.sharding.kind == "key"
        group_of = flow_key_group if sharded else _group_zero
        self.flow = Flow(group_of, app.playback is not None, app.compat, registry, f"{app.name}/{bucket}")
        self._grouped = sharded
        self.flow.properties = properties or {}
        self._assembly = assemble(app, registry, self.flow, properties or {})
        self._schemas = {**self._assembly.schemas, CONTROL: CONTROL_SCHEMA}
        self.delivery = self._assembly.wiring.delivery
        self._junctions = self._assembly.wiring.junctions
        self.flow.on_error = self._timer_failed
        self._idle = Idle(app.playback, self.flow) if app.playback is not None and app.playback.idle else None
        self._buffers = {key: self._collect(key) for key in outputs}

    def _collect(self, key: str) -> OutputBuffer:
        junction = self._assembly.wiring.junctions.get(key)
        if junction is None:
            raise error("STREAM_NOT_DEFINED", name=key, hint="name a stream of the app as output")
        buffer = OutputBuffer(key, self._assembly.schemas[key])
        numbers = self.flow.store.element(f"{key}{NUMBERS}", {"next": Value})

        flow, window = self.flow, key in self.app.windows

        def collect(chunk: Chunk) -> None:
            if window:  # X come out of named windows only, and are no rows of an output
                chunk = [e for e in chunk if e.kind == CURRENT]
            if not chunk:
                return
            group = flow.group
            number: Value = numbers.at(_COUNTERS[group])["next"]
            first = number.get() or 0
            number.set(first + len(chunk))
            buffer.add(chunk, first, group, flow.arrival_now)

        junction.listen(collect)
        return buffer

    def _timer_failed(self, problem: Exception) -> None:
        self.delivery.note_timer(problem)

    # ---- the contract

    def start(self, now: int) -> None:
        """Begin at clock `now` (ms); in playback event time begins at 0."""
        self.flow.arrival_now = now
        for part in self._assembly.begins:
            part.begin()

    def resume(self, now: int) -> None:
        """Go on at clock `now` (ms) with what there is, after a stop: triggers begin anew (semantics/time.md#triggers), and what fell due meanwhile is done."""
        triggers = [part for part in self._assembly.begins if isinstance(part, TriggerRuntime)]
        for trigger in triggers:
            trigger.end()
        self.advance(now)
        for trigger in triggers:
            trigger.begin()

    def begin_keys(self) -> None:
        """Begin the queries of all partition keys that are known, for queries that are put beside keys of a restored state."""
        for part in self._assembly.begins:
            if isinstance(part, PartitionRuntime):
                part.begin_keys()

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        """Take arrivals in order, timers in between at their due times, then the timers due up to `until` (ms)."""
        schemas, flow, grouped = self._schemas, self.flow, self._grouped
        run_until, deliver = flow.arrivals.run_until, self.deliver
        for place, group, key, chunk in merge(*(chunks(a, schemas[a.input]) for a in arrivals), key=_place):
            flow.group = group if grouped else 0
            run_until(place[0])
            deliver(key, chunk)
        flow.group = 0
        run_until(until)
        return self._outputs()

    def _outputs(self) -> Outputs:
        batches, orders = {}, {}
        for key, buffer in self._buffers.items():
            batch, clocks, refused = buffer.take()
            if batch is not None:
                batches[key], orders[key] = batch, clocks
            for ts, row, problem in refused:
                self.delivery.note_row(key, ts, row, problem)
        junctions = self._assembly.wiring.junctions
        counts = {key: junction.take_passed() for key, junction in junctions.items() if junction.passed}
        return Outputs(batches, self.delivery.take_failures(), counts, orders)

    def next_timer(self) -> int | None:
        """When the next timer of the arrival clock is due, ms."""
        return self.flow.arrivals.next_due()

    def delta(self) -> bytes:
        """What changed since the last delta."""
        self._keep_clock()
        return self.flow.store.delta()

    def dump(self) -> Iterable[Segment]:
        """All state, by element and key-group."""
        self._keep_clock()
        return self.flow.store.dump()

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state; the clocks are part of it. Errors: STATE_NOT_READABLE."""
        self.flow.store.load(state)
        with fitting("the clocks"):
            clock = self._assembly.clock.at("")["now"].get()
            if clock is not None:
                self.flow.set_clocks(*map(index, clock))
            self.flow.timers.rebuild()
            if self.flow.arrivals is not self.flow.timers:
                self.flow.arrivals.rebuild()

    def restore(self, state: Iterable[Segment | bytes]) -> None:
        """As `load`, for a snapshot that is put into an app with a clock of its own: in playback that of events, which never goes back, and the silence that
        moves it are no part of a snapshot (semantics/events.md#snapshots). Errors: STATE_NOT_READABLE."""
        now, kept = self.flow.now, None if self._idle is None else self._idle.kept()
        self.load(state)
        if self.flow.playback:
            self.flow.now = now
        if self._idle is not None and kept is not None:
            self._idle.put(kept)

    def _keep_clock(self) -> None:
        cell: Value = self._assembly.clock.at("")["now"]
        now = (self.flow.now, self.flow.arrival_now)
        if cell.get() != now:
            cell.set(now)

    def size(self) -> dict[str, int]:
        """Entries held per element, by element id."""
        return self.flow.store.size()

    def measure(self, clock: Clock, parts: dict[str, Part] | None = None, detail: bool = True) -> Meter:
        """Charge time to queries, windows, aggregations, triggers and tables (without `detail`: to tables) until the meter is stopped, into `parts` where they
        are given; `clock` gives ns. Not to be asked for again before."""
        return metered(self._assembly, self.flow, clock, parts, detail)

    # ---- on-demand queries

    def stand_in(self, tables: Mapping[str, TableRuntime]) -> None:
        """Ask these tables instead of the app's own ones of the same names, which no query here touches."""
        self._assembly.wiring.stand_in(tables)

    def find(self, question: OnDemand) -> list[Row]:
        """The rows of a store that an on-demand find is about, before its selection."""
        with _naming():
            return matching(question, self._assembly.wiring)

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        """What the selection of a find makes of rows."""
        with _naming():
            return [e.row for e in selected(question, rows, self._assembly.wiring)]

    def _control(self, chunk: Chunk) -> None:
        """Do what the records of the control input ask for; what fails is noted, as with any other event."""
        for event in chunk:
            text = str(event.row[1])
            try:
                if text:
                    self.ask(bind_on_demand(parse_on_demand(text), self.app, self.flow.registry, text=text))
            except MemoryError:
                raise
            except Exception as problem:  # whatever a query meets in a value
                self.delivery.note_row(CONTROL, event.ts, event.row, problem)

    # ---- in process

    def deliver(self, key: str, chunk: Chunk) -> None:
        """Hand one arrival to a stream at the present arrival time; in playback its last timestamp moves the clock of events first.

        What arrives at a fault stream has failed elsewhere and moves no clock: it happened at its own time, but no later than now.
        """
        if key == CONTROL:
            self._control(chunk)
            return
        flow = self.flow
        if flow.playback and key[0] == "!":
            chunk = [e._replace(ts=min(e.ts, flow.now)) for e in chunk]
        elif flow.playback and chunk:
            flow.timers.jump_to(chunk[-1].ts)
            if self._idle is not None:
                self._idle.heard()
        self._junctions[key].send(chunk)

    def fail(self, key: str, chunk: Chunk, problem: Exception, routes: bool = True) -> None:
        """Events of a stream failed outside, at a sink: with `routes` they go where `@OnError` of the stream says, else they are only noted."""
        self._assembly.wiring.junctions[key].fail(chunk, problem, routes)

    def advance(self, until: int) -> None:
        """Move the arrival clock: fires the timers due up to `until` (ms) on the way."""
        self.flow.arrivals.run_until(until)

    def on_stream(self, key: str, callback: Callable[[Chunk], None]) -> None:
        """Call back with each chunk that passes a stream (or named window: then X keep their kind).

        Raises:
            SiddhiAppCreationException: STREAM_NOT_DEFINED.
        """
        junction = self._assembly.wiring.junctions.get(key)
        if junction is None:
            raise error("STREAM_NOT_DEFINED", name=key, hint="define it, or insert into it")
        junction.listen(callback)

    def on_query(self, name: str, callback: QueryCallback) -> None:
        """Call back with (timestamp, C events or None, X events or None) of each result of a query outside partitions.

        Raises:
            QueryNotExistException: QUERY_NOT_FOUND.
        """
        query = self._assembly.queries.get(name)
        if query is None:
            raise error("QUERY_NOT_FOUND", name=name, hint="queries inside partitions cannot be listened to")
        query.callbacks.append(callback)

    def ask(self, question: OnDemand) -> Chunk | None:
        """Answer an on-demand query: rows, None where nothing is found, [] after a change."""
        with _naming():
            return ask(question, self._assembly.wiring)


@contextlib.contextmanager
def _naming() -> Iterator[None]:
    """Whatever a question meets in a value is one of nadi's conditions."""
    try:
        yield
    except Exception as problem:
        raise named(problem, "an on-demand query") from problem


def _place(arrival: tuple[tuple[int, int, int, int, int], int, str, Chunk]) -> tuple[int, int, int, int, int]:
    return arrival[0]


def _group_zero(_key: str) -> int:
    return 0
