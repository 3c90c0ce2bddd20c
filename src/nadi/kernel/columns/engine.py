"""The columns kernel: an app whose queries each have an operator over whole batches (columns/index.md#what-holds).

Every stream is made by one query at most, and no state is shared: so each query can take its whole batch after those that feed it, and yet every stream has
the order in which single events would have filled it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from nadi.errors import NadiError, error
from nadi.kernel.columns.arrivals import Clocks, Gatherer
from nadi.kernel.columns.asking import Asking
from nadi.kernel.columns.bounds import FARTHEST, check_numbers, values
from nadi.kernel.columns.contract import Begins, Operator, Stateful, check
from nadi.kernel.columns.flat import Block, decode, encode, put_back
from nadi.kernel.columns.inserted import Inserted, part_of, shared
from nadi.kernel.columns.keying import keying
from nadi.kernel.columns.layouts import LAYOUTS, Layouts
from nadi.kernel.columns.operators import operator
from nadi.kernel.columns.outputs import Numbering
from nadi.kernel.columns.purging import Purges, Purging
from nadi.kernel.columns.stretch import Stretch
from nadi.kernel.columns.tables import HeldTable, Looking, Written, held_table, target_of, written
from nadi.kernel.columns.turns import in_turns, together
from nadi.kernel.contract import Arrivals, Failure, Outputs, Row, Segment
from nadi.kernel.control import CONTROL
from nadi.kernel.damage import fitting
from nadi.kernel.rows.meter import Clock, Meter, Part
from nadi.lang import parse_on_demand
from nadi.plan import bind_on_demand
from nadi.plan.columns.islands import Islands, islands
from nadi.plan.columns.tableuse import changes, reads
from nadi.plan.nodes import App, OnDemand, Partition, Query
from nadi.plan.walk import read

_CLOCK = "app/clock"


class ColumnsKernel:
    """Implements `nadi.kernel.contract.Kernel` for apps that `nadi.plan.columns.islands` puts on columns, and for the part of others that it puts there.

    `outputs` are the streams whose rows `process` returns, numbered per key-group. `part` says which queries run here, where it is not all.

    Raises:
        SiddhiAppCreationException: NOT_SUPPORTED, with the reason, for an app that cannot run here as a whole, unless a part is asked for.
    """

    def __init__(self, app: App, registry: Any, outputs: Collection[str] = (), part: Islands | None = None) -> None:
        plan = part or islands(app)
        if part is None and not plan.columns:
            raise error("NOT_SUPPORTED", what=f"the columns kernel for '{app.name}'", alternative=f"rows: {plan.why}")
        self.app = app
        self._registry = registry
        schemas = {key: stream.schema for key, stream in app.streams.items()}
        self._gatherer = Gatherer(schemas, app.sharding.kind == "key", app.playback is not None)
        self._playback = app.playback is not None
        queries = {query.id: query for query in app.queries}
        self.tables = {name: held_table(app.tables[name], app) for name in plan.tables}
        """The tables that are held here, by name."""
        self._written = {name: written(held, app) for name, held in self.tables.items()}
        self._shared = shared(app, plan.order)
        self._running = tuple(self._in_order([queries[id] for id in plan.order]))  # noqa: A001
        self._purging = [self._purging_of(partition) for partition in plan.purged]
        self.purges = Purges(self._purging)
        for key in outputs:
            if key not in schemas:
                raise error("STREAM_NOT_DEFINED", name=key, hint="name a stream of the app as output")
        self._numberings = {key: Numbering(key, schemas[key]) for key in outputs}
        operators = [r.operator for r in self._running if isinstance(r, _Running)]
        keeping = (*operators, *self.tables.values(), *self._purging)
        self._stateful = [o for o in keeping if isinstance(o, Stateful)]
        self._asking = [o for o in operators if isinstance(o, Asking)]
        self._layouts = Layouts([queries[id] for id in plan.order], app, self.tables)  # noqa: A001
        self._appliers = self._by_element()
        self._clocks = self._told = Clocks(0, 0)
        made = {r.target for r in self._running if isinstance(r, _Running)}
        self.produced = frozenset((made & schemas.keys()) | self._shared.keys())
        self._turning = self.produced | {CONTROL}
        """What does not come with other arrivals."""
        self._given_on = plan.given_on
        self.given_on: dict[str, Stretch] = {}
        """What the last `process` made of the streams that rows read."""

    def _in_order(self, queries: Sequence[Query]) -> Iterator[_Running | Written | Inserted]:
        """The queries, and each table and each shared stream behind those that write it; nobody reads the latter."""
        waiting = dict(self._written)
        for query in queries:
            for name in sorted(reads(query, self.app) & waiting.keys()):
                yield waiting.pop(name)
            if not changes(query, self.app):  # that one is a part of its table's place
                yield _Running(query, self.app, self.tables, self._shared)
        yield from waiting.values()
        yield from self._shared.values()

    def _purging_of(self, partition: Partition) -> Purging:
        mine = {query.id for query in partition.queries}
        running = [one.operator for one in self._running if isinstance(one, _Running) and one.query in mine]
        return Purging(partition, self.app, running)

    def _by_element(self) -> dict[str, Callable[[Block], None]]:
        found: dict[str, Callable[[Block], None]] = {_CLOCK: self._set_clocks, LAYOUTS: self._layouts.apply}
        found.update({n.element: n.apply for n in self._numberings.values()})
        for one in self._stateful:
            found.update(dict.fromkeys(one.elements, one.apply))
        return found

    # ---- the contract

    def start(self, now: int) -> None:
        """Begin at clock `now` (ms); in playback event time begins at 0."""
        self._clocks = Clocks(0 if self._playback else now, now)
        for one in self._running:
            if isinstance(one, _Running) and isinstance(one.operator, Begins):
                one.operator.begin(self._clocks.now)
        for purging in self._purging:
            purging.begin(now)

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        """Take arrivals in order, timers in between at their due times, then the timers due up to `until` (ms)."""
        if self._purging:
            return together(self._process(part, end) for part, end in self.parts(arrivals, until))
        for arrival in arrivals:
            if arrival.input in self._turning:
                return self._process(arrivals, until)
        return self._take(arrivals, until)

    def parts(self, arrivals: Arrivals, until: int) -> Iterator[tuple[Arrivals, int]]:
        """A batch in parts, each with the clock up to which it goes, between which idle keys are forgotten."""
        return self.purges.around(arrivals, until, self._clocks.arrivals)

    def _process(self, arrivals: Arrivals, until: int) -> Outputs:
        for arrival in arrivals:
            if arrival.input in self.produced:
                parts = in_turns(arrivals, self.produced)
                return together(self.take(part, until if clock is None else clock) for part, clock in parts)
        return self.take(arrivals, until)

    def take(self, arrivals: Arrivals, until: int) -> Outputs:
        """As `process`; events of a stream that a query makes must be the only ones, and one chunk."""
        failures: tuple[Failure, ...] = ()
        for arrival in arrivals:
            if arrival.input == CONTROL:
                failures = tuple(chain.from_iterable(self._asked(a.batch) for a in arrivals if a.input == CONTROL))
                arrivals = [a for a in arrivals if a.input != CONTROL]
                break
        return self._take(arrivals, until, failures)

    def _take(self, arrivals: Arrivals, until: int, failures: tuple[Failure, ...] = ()) -> Outputs:
        streams, clocks = self._gatherer.gather(arrivals, self._clocks)
        arrived = max(until, clocks.arrivals)
        now = clocks.now if self._playback else arrived
        self._clocks = Clocks(now, arrived)
        for one in self._running:
            one.run(streams, now)
        for purging in self._purging:
            purging.run(streams, now)
        if self._written:
            refused = chain.from_iterable(one.take_refused() for one in self._written.values())
            failures += tuple(failure for _turn, failure in sorted(refused, key=itemgetter(0)))
        if self._given_on:
            self.given_on = {key: streams[key] for key in self._given_on if key in streams}
        counts = {key: stretch.size for key, stretch in streams.items()}
        if self._asking:
            failures += self._failed(streams)
        batches, orders = {}, {}
        for key, numbering in self._numberings.items():
            if (made := streams.get(key)) is not None:
                batches[key] = numbering.batch(made)
                orders[key] = made.now if not self._playback else np.full(made.size, arrived, np.int64)
        return Outputs(batches, failures, counts, orders)

    def _failed(self, streams: dict[str, Stretch]) -> tuple[Failure, ...]:
        """What failed in this batch, in the order of chunks; who listens at the stream, behind the queries, does not hear of it."""
        noted: list[tuple[int, Failure]] = []
        for one in self._asking:
            failures, chunks = one.take_failures()
            if chunks:
                noted += failures
                given = streams[one.source]
                streams[one.source] = given.take(np.flatnonzero(~np.isin(given.chunk, chunks)))
        return tuple(failure for _chunk, failure in sorted(noted, key=itemgetter(0)))

    def next_timer(self) -> int | None:
        """When something comes out by itself, ms of the arrival clock."""
        if self._playback:
            return None
        timers = (*(one.next_timer() for one in self._stateful), self.purges.due(self._clocks.arrivals))
        return min((due for due in timers if due is not None), default=None)

    def delta(self) -> bytes:
        """What changed since the last delta."""
        numbers = (n.changes() for n in self._numberings.values())
        blocks = [*chain.from_iterable(numbers), *chain.from_iterable(one.changes() for one in self._stateful)]
        if self._clocks != self._told:
            blocks.append(self._clock())
        return encode([*self._layouts.changes(), *blocks])

    def dump(self) -> Iterator[Segment]:
        """All state, by element and key-group; each segment is made when it is asked for."""
        numbers = (n.contents() for n in self._numberings.values())
        states = (one.contents() for one in self._stateful)
        for block in chain([self._clock()], self._layouts.contents(), *numbers, *states):
            yield Segment(block.element, block.group, encode([block]))

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state; `check` is to follow when all has come. Elements that the app does not have (any more) are let go. Errors: STATE_NOT_READABLE."""
        self.clear()
        for part in state:
            self.apply(part.payload if isinstance(part, Segment) else part)

    def clear(self) -> None:
        """Forget all state but the clocks."""
        self._layouts.clear()
        for numbering in self._numberings.values():
            numbering.clear()
        for one in self._stateful:
            one.clear()

    def apply(self, payload: bytes) -> None:
        """Put back a segment or delta. Errors: STATE_NOT_READABLE."""
        for block in decode(payload) if payload else ():
            if (apply := self._appliers.get(block.element)) is not None:
                put_back(apply, block)

    def check(self) -> None:
        """See whether what was loaded fits together. Errors: STATE_NOT_READABLE."""
        for one in self._stateful:
            with fitting(", ".join(f"'{element}'" for element in one.elements)):
                check(one)

    @property
    def clocks(self) -> Clocks:
        """Its clocks."""
        return self._clocks

    def set_clocks(self, now: int, arrivals: int) -> None:
        """Go on at these times, ms."""
        self._clocks = Clocks(now, arrivals)

    def find(self, question: OnDemand) -> list[Row]:
        """There is no store to look into. Errors: NOT_SUPPORTED."""
        raise error("NOT_SUPPORTED", what="an on-demand query", alternative="an app with a table or window")

    def select(self, question: OnDemand, rows: Sequence[Row]) -> list[Row]:
        """As `find`."""
        return self.find(question)

    def size(self) -> dict[str, int]:
        """Entries held per element, by element id."""
        told = {n.element: n.size() for n in self._numberings.values()}
        for one in self._stateful:
            told.update(one.size())
        return {**told, _CLOCK: 1}

    def measure(self, clock: Clock, parts: dict[str, Part] | None = None, detail: bool = True) -> Meter:
        """Charge time to queries and tables (without `detail`: to tables) until the meter is stopped, into `parts` where they are given; `clock` gives ns."""
        meter = Meter(clock, parts)
        for one in self._running:
            if isinstance(one, _Running):
                one.measure(clock, meter.parts, detail)
            elif detail or isinstance(one, Written):
                one.measure(clock, meter.parts)
            meter.on_stop(one.forget)
        return meter

    # ---- clocks, control

    def _clock(self) -> Block:
        self._told = self._clocks
        return Block(_CLOCK, 0, "c", {"now": np.array([self._clocks.now, self._clocks.arrivals], np.int64)})

    def _set_clocks(self, block: Block) -> None:
        told = values(block.arrays, "now", np.int64, 2)
        check_numbers(told, "a clock", -FARTHEST)
        now, arrivals = told.tolist()
        self._clocks = self._told = Clocks(now, arrivals)

    def _asked(self, batch: Any) -> Iterator[Failure]:
        """Records of the control input ask for changes of stores; there is none, so that each of them fails as it is bound."""
        for row in batch.to_pylist():
            values = tuple(row.values())
            text = str(values[1])
            if text:
                try:
                    self.find(bind_on_demand(parse_on_demand(text), self.app, self._registry, text=text))
                except NadiError as problem:
                    told = problem.condition, problem.diagnostic.message
                    yield Failure(CONTROL, row["__ts"], values[: len(values) - 5], *told, routed=False)


class _Running:
    """A query at its place among the others."""

    def __init__(self, query: Query, app: App, tables: Mapping[str, HeldTable], others: Collection[str] = ()) -> None:
        self.query = query.id
        target = target_of(query)
        self.target = part_of(target, query.id) if target in others else target
        self._sources = tuple(source for source in dict.fromkeys(read(query).values()) if source not in tables)
        self.operator: Operator = operator(query, app, tables)
        keyings = {source: keying(query, source, app) for source in self._sources}
        self._keyings = {source: made for source, made in keyings.items() if made is not None}
        self._label = f"query {query.name}"
        self._meter: tuple[Clock, Part] | None = None
        self._timed = self.operator if isinstance(self.operator, Stateful) else None

    def run(self, streams: dict[str, Stretch], now: int) -> None:
        """Take what came of the streams that it reads, add what comes out."""
        given = {}
        for key in self._sources:
            if key in streams:
                given[key] = streams[key]
        if self._keyings:
            given = self._keyed(given)
        if not given:
            due = self._timed.next_timer() if self._timed is not None else None
            if due is None or due > now:
                return
        made = self.operator.process(given, now) if self._meter is None else self._measured(given, now, *self._meter)
        if made is not None:
            streams[self.target] = made

    def _keyed(self, given: Mapping[str, Stretch]) -> dict[str, Stretch]:
        """The events with keys that are made; those that have none are gone."""
        made = {key: self._keyings[key].process(s) if key in self._keyings else s for key, s in given.items()}
        return {key: stretch for key, stretch in made.items() if stretch is not None}

    def measure(self, clock: Clock, parts: dict[str, Part], detail: bool) -> None:
        """Charge its time from now on; without `detail` that of what it finds in tables only."""
        part = parts.setdefault(self._label, Part()) if detail else None
        self._meter = None if part is None else (clock, part)
        if isinstance(self.operator, Looking):
            self.operator.measure(clock, parts, part)

    def forget(self) -> None:
        """Charge it no more."""
        self._meter = None
        if isinstance(self.operator, Looking):
            self.operator.stop_measuring()

    def _measured(self, given: Mapping[str, Stretch], now: int, clock: Clock, part: Part) -> Stretch | None:
        begin = clock()
        try:
            return self.operator.process(given, now)
        finally:
            part.ns += clock() - begin
            part.calls += 1
            part.events += sum(map(len, given.values()))
