"""The suite `sweep`: what an event costs when a pattern gets longer, waits longer or meets more noise, while as many matches complete.

The sweeps are those that complex event recognition is compared by: length of the sequence, size of the window, share of events that belong to nothing.
Each point is the columns kernel alone, unpartitioned, in batches of `SIZE`. Before a figure counts, the first events give what the rows kernel gives, batch
for batch.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.checks import WrongOutputError
from bench.kernel import FIRST_MS, Fed, Say, Total, run
from nadi.functions.registry import default_registry
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Kernel, Outputs
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app

SIZE = 100_000
CHECKED = 20_000  # events that rows get, too
KINDS = 24  # of events; each comes once in a round, so that one match completes in each
PER_MS = 100
_IN = "define stream In (ts long, kind int, key long);\n"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Point:
    """One app of a sweep: `value` is where it stands on it, `events` makes (kind, key) of the events [start, stop)."""

    sweep: str
    value: str
    text: str
    events: Callable[[int, int], tuple[Ints, Ints]]

    @property
    def name(self) -> str:
        return f"{self.sweep} {self.value}"


def chain(length: int, joint: str, within: str = "") -> str:
    """A pattern (`joint` "->") or sequence (",") of the kinds 0, 1, … in this order."""
    parts = f" {joint} ".join(f"e{i}=In[kind == {i}]" for i in range(length))
    return f"{_IN}from every {parts}{within} select e0.ts as since, e{length - 1}.ts as ts insert into Out;"


def keyed(within: str) -> str:
    """Openers wait for an event with their key; most of them in vain, so how many wait hangs on the time alone."""
    pattern = "every e1=In[kind == 0] -> e2=In[kind == 1 and key == e1.key]"
    return f"{_IN}from {pattern} within {within} select e1.key as key, e1.ts as since, e2.ts as ts insert into Out;"


def rounds(noise: int) -> Callable[[int, int], tuple[Ints, Ints]]:
    """One event of `noise` belongs to a round of all kinds; the others are of no kind."""

    def made(start: int, stop: int) -> tuple[Ints, Ints]:
        at = np.arange(start, stop)
        return np.where(at % noise == 0, at // noise % KINDS, -1), at // (noise * KINDS)

    return made


def openers(start: int, stop: int) -> tuple[Ints, Ints]:
    """A key for each event, but for the last one of a round: it has that of the event before."""
    at = np.arange(start, stop)
    closes = at % KINDS == KINDS - 1
    return closes.astype(np.int64), at - closes


POINTS: tuple[Point, ...] = (
    *(Point("pattern of", str(n), chain(n, "->", " within 5 sec"), rounds(1)) for n in (2, 4, 8, 12, 16, 24)),
    *(Point("sequence of", str(n), chain(n, ","), rounds(1)) for n in (2, 4, 8, 12, 16, 24)),
    *(
        Point("waiting", value, keyed(value), openers)
        for value in ("10 milliseconds", "100 milliseconds", "1 sec", "10 sec")
    ),
    *(Point("one of", str(n), chain(8, "->"), rounds(n)) for n in (1, 2, 10, 100)),
)
SWEEPS = tuple(dict.fromkeys(point.sweep for point in POINTS))


def measure_point(point: Point, count: int, repeat: int, say: Say) -> dict[str, Any]:
    """Nanoseconds an event, by processor time: median, least, greatest. Raises WrongOutputError: figures of wrong results are not given."""
    say(f"{point.name}: comparing with rows")
    registry = default_registry()
    first = list(arrivals(point, CHECKED, CHECKED // 4))
    expected: list[Outputs] = []
    found: list[Outputs] = []
    run(RowsKernel(plan_app(point.text, registry), registry, ("Out",)), first, expected.append)
    run(_columns(point), first, found.append)
    if [one.batches for one in expected] != [one.batches for one in found]:
        raise WrongOutputError(f"{point.name}: what comes out differs from what rows give")
    fed: Fed = list(arrivals(point, count, SIZE))
    total = Total()
    run(_columns(point), fed, total.add)  # what is compiled when it is first called is not what is measured
    runs = []
    for number in range(repeat):
        say(f"{point.name}: run {number + 1} of {repeat}")
        runs.append(run(_columns(point), fed, Total().add))
    ns = [1e9 * (r.cpu_s + r.delta_cpu_s) / count for r in runs]
    return {
        "sweep": point.sweep,
        "value": point.value,
        "ns": statistics.median(ns),
        "least": min(ns),
        "greatest": max(ns),
        "rows": total.rows,
        "load": (runs[0].load, runs[-1].load),
    }


def arrivals(point: Point, count: int, size: int) -> Iterator[tuple[list[ArrivalBatch], int]]:
    """The first `count` events in batches, each event an arrival of its own."""
    fields = [pa.field("ts", pa.int64()), pa.field("kind", pa.int32()), pa.field("key", pa.int64())]
    schema = pa.schema([*fields, *ARRIVAL_COLUMNS])
    for first in range(0, count, size):
        last = min(first + size, count)
        ts = FIRST_MS + np.arange(first, last) // PER_MS
        kind, key = point.events(first, last)
        marks = (ts, np.arange(first, last), np.zeros(last - first, np.int32), ts, np.zeros(last - first, np.int16))
        columns = [pa.array(c) for c in (ts, kind.astype(np.int32), key, *marks)]
        yield [ArrivalBatch("In", 0, 0, pa.RecordBatch.from_arrays(columns, schema=schema))], int(ts[-1])


def _columns(point: Point) -> Kernel:
    registry = default_registry()
    return ColumnsKernel(plan_app(point.text, registry), registry, ("Out",))
