"""The suite `rows`: the rows kernel alone, in this process, without Spark, sources and sinks.

Each app is fed in two ways: `process`, Arrow arrivals of one event each, as the pipeline hands them over, in batches that each end with a delta; and
`chunks`, events handed to a stream one chunk at a time, as the runtime in a process does. Only what the kernel does is timed; what comes out is
compared row by row before a figure counts.
"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bench.checks import Rows, WrongOutputError, compare
from bench.events import Events, make_events
from bench.rows_apps import PATTERN, ROWS_APPS, STATE_BYTES, RowsApp
from nadi.functions.registry import default_registry
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Outputs
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.plan import plan_app

BATCH = 10_000  # arrivals in one `process`
STATE_KEYS = 5_000
PROFILED = 50_000  # events that are enough to count calls
PROFILE_LINES = 30
FEEDS = ("process", "chunks")

Say = Callable[[str], object]


class Timing(msgspec.Struct, frozen=True):
    """One run: seconds by the clock, of the processor, and for deltas; the machine's load (1 min) before and after it."""

    wall_s: float
    cpu_s: float
    delta_s: float
    delta_bytes: int
    load: tuple[float, float]


class Figure(msgspec.Struct, frozen=True):
    """An app fed in one way: events/s of the fastest run by the clock and by processor time, the latter with deltas, too; all runs."""

    events: int
    events_per_s: float
    events_per_cpu_s: float
    events_per_cpu_s_with_delta: float
    goal: int
    reached: bool
    calls_per_event: float
    runs: list[Timing]
    check: dict[str, int | float]


@dataclass(frozen=True, slots=True)
class RowsSetting:
    """`events` an app is fed with, how often, and whether to print where the time goes."""

    events: int
    repeat: int
    profile: bool


def measure_rows(app: RowsApp, feed: str, setting: RowsSetting, say: Say) -> dict[str, Any]:
    """The figures of one app fed in one way. Raises WrongOutputError: figures of wrong results are not given."""
    events = make_events(0, setting.events)
    take = _Process(app, events) if feed == "process" else _Chunks(app, events)
    runs: list[Timing] = []
    check: dict[str, int | float] = {}
    for number in range(setting.repeat):
        say(f"{app.name}, {feed}: run {number + 1} of {setting.repeat}")
        timing, rows = _timed(take)
        try:
            check = compare(app.expected(events), rows)
        except WrongOutputError as reason:
            raise WrongOutputError(f"{app.name}, {feed}: {reason}") from reason
        runs.append(timing)
    few = make_events(0, min(PROFILED, setting.events))
    profile = _profiled(_Process(app, few) if feed == "process" else _Chunks(app, few))
    fastest = len(events) / min(r.wall_s for r in runs)
    figure = Figure(
        len(events),
        fastest,
        len(events) / min(r.cpu_s for r in runs),
        len(events) / min(r.cpu_s + r.delta_s for r in runs),
        app.goal,
        fastest >= app.goal,
        profile.total_calls / len(few),  # type: ignore[attr-defined]  # the stubs do not know it
        runs,
        check,
    )
    told: dict[str, Any] = msgspec.to_builtins(figure)
    return {**told, "profile": _shown(profile)} if setting.profile else told


def measure_state(say: Say) -> dict[str, Any]:
    """Bytes of state per partition key, where each key has one waiting match of a pattern with two steps: in a dump, and in memory."""
    say(f"state: {STATE_KEYS:,} keys")
    app = ROWS_APPS["pattern"]
    events = make_events(0, STATE_KEYS)
    once = Events(events.ts, np.arange(STATE_KEYS), events.cents, events.vol)
    take = _Process(app, once)
    kernel = take.kernel()
    gc.collect()
    tracemalloc.start()
    for batch, until in take.batches():
        kernel.process([batch], until)
        kernel.delta()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    dumped = sum(len(s.payload) for s in kernel.dump() if s.element != "app/clock")
    per_key = held / STATE_KEYS
    return {
        "app": PATTERN,
        "keys": STATE_KEYS,
        "bytes_per_key_in_memory": per_key,
        "bytes_per_key_in_dump": dumped / STATE_KEYS,
        "goal": STATE_BYTES,
        "reached": per_key <= STATE_BYTES,
    }


# ---- feeding -------------------------------------------------------------------------------------------------------


class _Process:
    """Arrow arrivals of one event each; what comes out is Arrow."""

    def __init__(self, app: RowsApp, events: Events) -> None:
        self._app = app
        self._batches = list(_arrivals(events, app.name == "pattern"))

    def kernel(self) -> RowsKernel:
        return _kernel(self._app, ("Out",))

    def batches(self) -> list[tuple[ArrivalBatch, int]]:
        return self._batches

    def run(self, kernel: RowsKernel) -> tuple[list[Outputs], float, int]:
        outputs, seconds, size = [], 0.0, 0
        for batch, until in self._batches:
            outputs.append(kernel.process([batch], until))
            begin = time.process_time()
            size += len(kernel.delta())
            seconds += time.process_time() - begin
        return outputs, seconds, size

    def rows(self, outputs: list[Outputs]) -> Rows:
        failed = [f for o in outputs for f in o.failures]
        if failed:
            raise WrongOutputError(f"{self._app.name}: {len(failed)} events failed, the first of them: {failed[0]}")
        made = [o.batches["Out"] for o in outputs if "Out" in o.batches]
        if not made:
            return {}
        table = pa.Table.from_batches(made)
        names = [n for n in table.column_names if not n.startswith("__")]
        return _columns(names, [table.column(n).to_pylist() for n in names])


class _Chunks:
    """Events handed over in process, a chunk of one at a time; what comes out is heard with a callback."""

    def __init__(self, app: RowsApp, events: Events) -> None:
        self._app = app
        columns = (events.ts, [f"S{k}" for k in events.key.tolist()], events.cents / 100, events.vol)
        rows = list(zip(*(c if isinstance(c, list) else c.tolist() for c in columns)))
        self._rows = list(zip(events.ts.tolist(), rows))
        self._heard: Chunk = []

    def kernel(self) -> RowsKernel:
        kernel = _kernel(self._app, ())
        self._heard = []
        kernel.on_stream("Out", self._heard.extend)
        return kernel

    def run(self, kernel: RowsKernel) -> tuple[Chunk, float, int]:
        advance, deliver = kernel.advance, kernel.deliver
        for ts, row in self._rows:
            advance(ts)
            deliver("In", [Event(CURRENT, ts, row)])
        return self._heard, 0.0, 0

    def rows(self, heard: Chunk) -> Rows:
        columns = list(zip(*(e.row for e in heard)))
        schema = plan_app(self._app.text, default_registry()).streams["Out"].schema
        return _columns([c.name for c in schema.columns], [list(c) for c in columns]) if columns else {}


def _kernel(app: RowsApp, outputs: tuple[str, ...]) -> RowsKernel:
    registry = default_registry()
    return RowsKernel(plan_app(app.text, registry), registry, outputs)


def _arrivals(events: Events, keyed: bool) -> Iterator[tuple[ArrivalBatch, int]]:
    """Batches of arrivals, and the clock at the end of each."""
    texts = [f"S{k}" for k in events.key.tolist()]
    groups = [key_group(t) if keyed else 0 for t in texts]
    attributes = [pa.field("ts", pa.int64()), pa.field("sym", pa.string()), pa.field("price", pa.float64())]
    schema = pa.schema([*attributes, pa.field("vol", pa.int32()), *ARRIVAL_COLUMNS])
    for start in range(0, len(events), BATCH):
        part = slice(start, min(start + BATCH, len(events)))
        count = part.stop - start
        columns: list[Any] = [events.ts[part], texts[part], events.cents[part] / 100, events.vol[part].astype(np.int32)]
        columns += [events.ts[part], np.arange(start, part.stop), np.zeros(count, np.int32), events.ts[part]]
        arrays = [pa.array(c, f.type) for c, f in zip([*columns, groups[part]], schema)]
        yield ArrivalBatch("In", 0, 0, pa.RecordBatch.from_arrays(arrays, schema=schema)), int(events.ts[part.stop - 1])


def _columns(names: list[str], columns: list[list[Any]]) -> Rows:
    made: dict[str, Any] = {}
    for name, values in zip(names, columns):
        if name == "sym":
            made["key"] = np.array([int(v[1:]) for v in values], np.int64)
        elif name in ("price", "low", "high"):
            made[name] = np.rint(np.array(values, np.float64) * 100).astype(np.int64)
        else:
            made[name] = np.array(values, np.float64 if name == "mean" else np.int64)
    return made


# ---- timing --------------------------------------------------------------------------------------------------------


def _timed(take: Any) -> tuple[Timing, Rows]:
    kernel = take.kernel()
    gc.collect()
    load = os.getloadavg()[0]
    wall, cpu = time.perf_counter(), time.process_time()
    output, delta, size = take.run(kernel)
    cpu, wall = time.process_time() - cpu - delta, time.perf_counter() - wall - delta
    return Timing(wall, cpu, delta, size, (load, os.getloadavg()[0])), take.rows(output)


def _profiled(take: Any) -> pstats.Stats:
    """Where the calls are: their number hangs on the code alone, not on the machine."""
    profile = cProfile.Profile()
    kernel = take.kernel()
    profile.enable()
    take.run(kernel)
    profile.disable()
    return pstats.Stats(profile)


def _shown(profile: pstats.Stats) -> str:
    text = StringIO()
    profile.stream = text  # type: ignore[attr-defined]  # where it prints to
    profile.strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    return text.getvalue()
