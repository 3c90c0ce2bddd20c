"""The suite `kernel`: the columns kernel alone, in this process, fed with Arrow batches of one event per arrival.

The events are those of the peers' benchmarks (splitmix64, seed 42), so that figures can stand beside theirs. A figure counts only if the first events give,
batch for batch, exactly what the rows kernel gives, and every run puts out the same.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.checks import WrongOutputError
from nadi.functions.registry import default_registry
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.mixed import MixedKernel
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Kernel, Outputs
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app
from nadi.plan.columns.islands import Islands, islands
from nadi.plan.nodes import App

BATCHES = (100_000, 1_000)
CHECKED = 100_000  # events that rows get, too
FIRST_MS = 1_700_000_000_000
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_IN = "define stream In (ts long, sym string, price double, vol int);\n"

_PATTERN = (
    "from every e1=In[price > 90] -> e2=In[sym == e1.sym and price > e1.price] within 5 sec "
    "select e1.sym as sym, e1.price as p1, e2.price as p2, e1.ts as t1, e2.ts as t2 insert into Out;"
)
_RISING = (
    "from every e1=In -> e2=In[price > e1.price] within 5 sec "
    "select e2.ts as ts, e2.sym as sym, e1.ts as since, e1.price as low, e2.price as high insert into Out;"
)
_JOIN = (
    "define stream In2 (ts long, sym string, price double, vol int);\n"
    "from In#window.time(1 sec) as a join In2#window.time(1 sec) as b on a.sym == b.sym "
    "select a.sym as sym, a.price as p1, b.price as p2 insert into Out;"
)
_TABLE = (
    "define stream In2 (ts long, sym string, price double, vol int);\n"
    "@primaryKey('sym') define table Last (sym string, price double, vol int);\n"
    "from In2 select sym, price, vol update or insert into Last on Last.sym == sym;\n"
    "from In as a join Last on a.sym == Last.sym select a.sym as sym, a.price as p1, Last.price as p2 insert into Out;"
)
_COUNTER = (
    "@primaryKey('sym') define table Seen (sym string, n long, most double);\n"
    "from In as a left outer join Seen on a.sym == Seen.sym select a.sym as sym, coalesce(Seen.n, 0L) + 1L as n, "
    "maximum(coalesce(Seen.most, a.price), a.price) as most update or insert into Seen on Seen.sym == sym;\n"
    "from In as a join Seen on a.sym == Seen.sym select a.sym as sym, Seen.n as n, Seen.most as most insert into Out;"
)
_SEQUENCE = (
    "from every e1=In, e2=In[price > e1.price]+, e3=In[price < e2[last].price] "
    "select e1.sym as sym, e1.price as p1, e2[last].price as p2, e3.price as p3 insert into Out;"
)

Say = Callable[[str], object]
Fed = list[tuple[list[ArrivalBatch], int]]
"""Batches, one for each stream, and the clock at the end of each."""


@dataclass(frozen=True, slots=True)
class KernelApp:
    """`goal` in events/s with batches of 100,000 on a quiet machine; with batches of 1,000 it is half of that.

    `counts_rows`: what counts is rows out/s, because an event gives many. `streams` get the events in turn. `most`: so many events are enough.
    """

    name: str
    text: str
    goal: int
    keys: int = 1_000
    counts_rows: bool = False
    streams: int = 1
    most: int = 2_000_000_000


KERNEL_APPS: dict[str, KernelApp] = {
    app.name: app
    for app in (
        KernelApp("pass", f"{_IN}from In select ts, sym, price, vol insert into Out;", 38_000_000),
        KernelApp("filter", f"{_IN}from In[price > 50] select ts, sym, price, vol insert into Out;", 38_000_000),
        KernelApp(
            "time",
            f"{_IN}from In#window.time(1 sec) select sym, avg(price) as a group by sym insert into Out;",
            39_000_000,
        ),
        KernelApp(
            "length", f"{_IN}from In#window.length(1000) select sym, avg(price) as a insert into Out;", 54_000_000
        ),
        KernelApp(
            "timebatch",
            f"{_IN}from In#window.timeBatch(1 sec) select sym, sum(price) as s group by sym insert into Out;",
            64_000_000,
        ),
        KernelApp(
            "extremes",
            f"{_IN}from In#window.time(1 sec) select sym, min(price) as a, max(price) as b group by sym insert into Out;",
            8_000_000,
        ),
        KernelApp("pattern", f"{_IN}partition with (sym of In) begin {_PATTERN} end;", 7_400_000),
        KernelApp("pattern100k", f"{_IN}partition with (sym of In) begin {_PATTERN} end;", 5_000_000, keys=100_000),
        KernelApp("rising", f"{_IN}partition with (sym of In) begin {_RISING} end;", 7_400_000),
        KernelApp("flat", f"{_IN}{_PATTERN}", 2_200_000),
        KernelApp("sequence", f"{_IN}partition with (sym of In) begin {_SEQUENCE} end;", 8_600_000),
        KernelApp("join", f"{_IN}{_JOIN}", 660_000, counts_rows=True, streams=2, most=400_000),
        KernelApp("table", f"{_IN}{_TABLE}", 2_500_000, streams=2),
        KernelApp("counter", f"{_IN}{_COUNTER}", 2_500_000),
    )
}


class KernelRun(msgspec.Struct, frozen=True):
    """One run: seconds by the clock and of the processor, those of deltas after each batch, their bytes; the machine's load."""

    wall_s: float
    cpu_s: float
    delta_s: float
    delta_cpu_s: float
    delta_bytes: int
    load: float


class KernelFigure(msgspec.Struct, frozen=True):
    """Events/s (rows out/s where `of` is "rows"): the median, least and greatest by the clock, the median by processor time, the same with deltas; the
    checksum of all output."""

    events: int
    of: str
    events_per_s: float
    least: float
    greatest: float
    events_per_cpu_s: float
    events_per_cpu_s_with_delta: float
    goal: int
    reached: bool
    rows: int
    checksum: int
    runs: list[KernelRun]


def measure_kernel(app: KernelApp, size: int, count: int, repeat: int, say: Say) -> dict[str, Any]:
    """The figures of one app fed with batches of one size. Raises WrongOutputError: figures of wrong results are not given."""
    count = min(count, app.most)
    say(f"{app.name}, {size:,}: comparing with rows")
    check(app, size)
    fed = list(arrivals(0, count, size, app.keys, app.streams))
    run(_columns(app), fed, Total().add)  # what is compiled when it is first called is not what is measured
    runs, seen = [], set()
    for number in range(repeat):
        say(f"{app.name}, {size:,}: run {number + 1} of {repeat}")
        total = Total()
        runs.append(run(_columns(app), fed, total.add))
        seen.add((total.rows, total.checksum))
    if len(seen) > 1:
        raise WrongOutputError(f"{app.name}: runs differ in what they put out: {seen}")
    ((rows, checksum),) = seen
    counted = rows if app.counts_rows else count
    wall = [counted / r.wall_s for r in runs]
    goal = app.goal if size >= BATCHES[0] else app.goal // 2
    median = statistics.median(wall)
    with_delta = statistics.median(counted / (r.cpu_s + r.delta_cpu_s) for r in runs)
    cpu = statistics.median(counted / r.cpu_s for r in runs)
    of = "rows" if app.counts_rows else "events"
    figure = KernelFigure(
        count, of, median, min(wall), max(wall), cpu, with_delta, goal, median >= goal, rows, checksum, runs
    )
    told: dict[str, Any] = msgspec.to_builtins(figure)
    return told


def check(app: KernelApp, size: int) -> None:
    """Raises WrongOutputError unless columns give exactly what rows give, batch for batch."""
    fed = list(arrivals(0, max(CHECKED, size), size, app.keys, app.streams))
    registry = default_registry()
    expected: list[Outputs] = []
    found: list[Outputs] = []
    run(RowsKernel(plan_app(app.text, registry), registry, ("Out",)), fed, expected.append)
    run(_columns(app), fed, found.append)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.batches.keys() != other.batches.keys() or any(b != other.batches[k] for k, b in one.batches.items()):
            raise WrongOutputError(f"{app.name}: batch {number} of {size:,} events differs from what rows give")


def run(kernel: Kernel, fed: Fed, take: Callable[[Outputs], None]) -> KernelRun:
    """Feed a kernel that has no state yet; what comes out is handed over beside the clock."""
    kernel.start(0)
    gc.collect()
    wall = cpu = delta = delta_cpu = 0.0
    size = 0
    for batches, until in fed:
        begin = time.perf_counter(), time.process_time()
        outputs = kernel.process(batches, until)
        half = time.perf_counter(), time.process_time()
        size += len(kernel.delta())
        end = time.perf_counter(), time.process_time()
        wall, cpu = wall + half[0] - begin[0], cpu + half[1] - begin[1]
        delta, delta_cpu = delta + end[0] - half[0], delta_cpu + end[1] - half[1]
        take(outputs)
    return KernelRun(wall, cpu, delta, delta_cpu, size, os.getloadavg()[0])


@dataclass(slots=True)
class Total:
    """How many rows came out, and a checksum of them, their order and their numbers."""

    rows: int = 0
    checksum: int = 0

    def add(self, outputs: Outputs) -> None:
        batch = outputs.batches.get("Out")
        if batch is not None:
            self.rows += batch.num_rows
            for column in batch.columns:
                for buffer in pa.concat_arrays([column]).buffers():
                    self.checksum = crc32(buffer, self.checksum) if buffer is not None else self.checksum


class _Makes:
    """Kernels of the standard functions."""

    def rows(self, app: App, outputs: Collection[str]) -> RowsKernel:
        return RowsKernel(app, default_registry(), outputs)

    def columns(self, app: App, outputs: Collection[str], part: Islands) -> ColumnsKernel:
        return ColumnsKernel(app, default_registry(), outputs, part)


def _columns(app: KernelApp) -> Kernel:
    """All queries are on columns; of an app with a table rows answer on-demand queries."""
    plan = plan_app(app.text, default_registry())
    part, makes = islands(plan), _Makes()
    if len(part.order) < len(plan.queries):
        raise WrongOutputError(f"{app.name}: {part.why}")
    return MixedKernel(plan, ("Out",), part, makes) if part.mixed else makes.columns(plan, ("Out",), part)


# ---- events ----------------------------------------------------------------------------------------------------------


def words(start: int, stop: int) -> npt.NDArray[np.uint64]:
    """Outputs number `start` to `stop` of splitmix64 with seed 42.

    >>> bool((words(0, 10)[5:] == words(5, 10)).all())
    True
    """
    z = np.uint64(42) + (np.arange(start, stop).astype(np.uint64) + np.uint64(1)) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    return z ^ (z >> np.uint64(31))


def arrivals(start: int, stop: int, size: int, keys: int, streams: int = 1) -> Iterator[tuple[list[ArrivalBatch], int]]:
    """The events [start, stop) in batches, each event an arrival of its own; 100 in each millisecond. With two streams they go to In and In2 in turn."""
    names = pa.array([f"S{k}" for k in range(keys)])
    attributes = [pa.field("ts", pa.int64()), pa.field("sym", pa.string()), pa.field("price", pa.float64())]
    schema = pa.schema([*attributes, pa.field("vol", pa.int32()), *ARRIVAL_COLUMNS])
    for first in range(start, stop, size):
        last = min(first + size, stop)
        batches = []
        for ordinal in range(streams):
            at = np.arange(first, last)[ordinal::streams]
            w, n = words(first, last)[ordinal::streams], len(at)
            ts = FIRST_MS + at // 100
            sym = names.take(pa.array((w >> np.uint64(40)) % np.uint64(keys)))
            price = (((w >> np.uint64(8)) & np.uint64(0xFFFFF)) % np.uint64(10_000)).astype(np.int64) / 100.0
            vol = ((w & np.uint64(0xFF)) % np.uint64(100) + np.uint64(1)).astype(np.int32)
            marks = (ts, at, np.zeros(n, np.int32), ts, np.zeros(n, np.int16))
            columns = [pa.array(c) for c in (ts, sym, price, vol, *marks)]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            batches.append(ArrivalBatch("In" if ordinal == 0 else "In2", ordinal, 0, batch))
        yield batches, FIRST_MS + (last - 1) // 100
