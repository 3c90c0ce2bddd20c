"""What state costs the rows kernel, alone in one process: the delta of each event, dumping all and loading it again.

    python bench/packing.py [--events 1000000]

Three states: one window for all keys, a window for each of a tenth as many keys as events, a pattern of two steps with a match waiting for each of those
keys. Times are of the processor; the collector is off while they run, as it is in hosts that load and in children that dump. Loading is done in a process
of its own, which has the pages of its memory still to get.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nadi.functions.registry import default_registry
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.segments import parts_of, reader, stream_of
from nadi.plan import plan_app

BEGIN = 1_700_000_000_000
BATCH = 10_000
DELTAS = 10
_IN = "define stream In (ts long, sym string, price double, vol int);"
_WINDOW = "from In#window.time(1 hour) select ts, sym, avg(price) as mean, count() as n group by sym insert into Out;"
_PATTERN = (
    "from every e1=In -> e2=In[price > e1.price] within 1 hour select e1.sym as sym, e2.price as p insert into Out;"
)
APPS = {
    "one window": f"{_IN} {_WINDOW}",
    "window per key": f"{_IN} partition with (sym of In) begin {_WINDOW} end;",
    "pattern per key": f"{_IN} partition with (sym of In) begin {_PATTERN} end;",
}


def kernel_of(text: str) -> RowsKernel:
    """Without state."""
    registry = default_registry()
    return RowsKernel(plan_app(text, registry), registry)


def begun(text: str) -> RowsKernel:
    """A kernel that has started."""
    kernel = kernel_of(text)
    kernel.start(BEGIN)
    return kernel


def feed(kernel: RowsKernel, keys: Iterator[int], first: int) -> None:
    """An event for each key, 100 to the millisecond."""
    for i, key in enumerate(keys, first):
        ts = BEGIN + i // 100
        kernel.advance(ts)
        kernel.deliver("In", [Event(CURRENT, ts, (ts, f"S{key}", 100 - (i % 1000) * 0.01, i % 100))])


def deltas(text: str, keys: int) -> tuple[float, float]:
    """Microseconds and bytes for each event, of the fastest of some deltas of 10,000 events over so many keys."""
    kernel, chosen = begun(text), np.random.default_rng(7)
    seconds, size = [], 0
    for number in range(DELTAS):
        feed(kernel, iter(chosen.integers(0, keys, BATCH).tolist()), number * BATCH)
        gc.disable()
        start = time.process_time()
        size += len(kernel.delta())
        seconds.append(time.process_time() - start)
        gc.enable()
    return min(seconds) / BATCH * 1e6, size / DELTAS / BATCH


def moved(text: str, events: int, keys: int) -> str:
    """Dump and load of a kernel after so many events over so many keys."""
    kernel = begun(text)
    feed(kernel, (i % keys for i in range(events)), 0)
    kernel.delta()
    gc.collect()
    gc.freeze()
    gc.disable()
    start = time.process_time()
    segments = list(kernel.dump())
    dumped = time.process_time() - start
    with tempfile.NamedTemporaryFile(suffix=".state") as held:
        held.writelines(stream_of(segments))
        held.flush()
        told = subprocess.run(
            [sys.executable, __file__, "--load", held.name, "--app", text], check=True, capture_output=True, text=True
        ).stdout
    loaded, entries = told.split()
    if int(entries) != sum(kernel.size().values()):
        raise SystemExit("what was loaded is not what was dumped")
    gc.enable()
    gc.unfreeze()
    sizes = [len(s.payload) for s in segments]
    return f"{sum(sizes) / 1e6:.1f} | {len(sizes)} | {max(sizes) / 1e6:.2f} | {dumped:.2f} | {float(loaded):.2f}"


def load(text: str, file: str) -> None:
    """Print the seconds that loading takes in a process that has had nothing yet, and how many entries there are."""
    segments = list(parts_of(reader([Path(file).read_bytes()])))
    kernel = kernel_of(text)
    gc.disable()
    start = time.process_time()
    kernel.load(segments)
    print(time.process_time() - start, sum(kernel.size().values()))


def main() -> None:
    """Print a table in markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    parser.add_argument("--app", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load:
        load(asked.app, asked.load)
        return
    events = asked.events
    print("| state | µs a delta and event | bytes | MB | segments | largest, MB | dump, s | load, s |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    for name, text in APPS.items():
        keys = events // 10
        time_, size = deltas(text, 30_000)
        count = keys if name == "pattern per key" else events
        print(f"| {name} | {time_:.1f} | {size:.0f} | {moved(text, count, keys)} |", flush=True)


if __name__ == "__main__":
    main()
