"""The suite `state` without Spark: hosts as they are, a dict for the state store, batches over all sizes in turn.

On a machine that does other things, too, times of one batch after the other cannot be compared; here the same moment has a batch over each size, and the
processor time of the hosts is counted beside the clock's. What is measured is a batch in its host (kernel, delta, slices) with the protocol, without Spark's
part.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.checks import Rows, compare, window_rows
from bench.state import BATCH, HOUR_MS, NOTE, StateSetting, app_text, events_of, host_pids
from nadi.kernel.contract import ARRIVAL_COLUMNS
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.inputs.fatrows import from_ipc, pack, to_ipc
from nadi.pipeline.kernelstage import StoredState, ask_kernel
from nadi.pipeline.spec import AppSpec

FILL = 50_000  # events in a batch that fills
ATTRIBUTES = (
    ("ts", pa.int64()),
    ("sym", pa.string()),
    ("price", pa.float64()),
    ("vol", pa.int32()),
    ("note", pa.string()),
)
_TICK = os.sysconf("SC_CLK_TCK")

Say = Callable[[str], object]


class DictStore:
    """What a MapState is to the stage."""

    def __init__(self) -> None:
        self.values: dict[tuple[int], tuple[bytes]] = {}

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        return self.values.get(key)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self.values[key] = value

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        self.values.pop(key, None)


class Lane:
    """One app and size: a bucket in a host of its own."""

    def __init__(self, ask: Hosts, setting: StateSetting, index: int) -> None:
        self.setting = setting
        self._ask, self._index = ask, index
        self._spec = AppSpec(
            f"direct-{setting.app}-{setting.mb}", app_text(setting), "", hosts=ask.count, outputs=("Out",)
        )
        self._store = DictStore()
        self._at = self._cut = 0
        self._taken = 0
        self.notes: list[dict[str, Any]] = []
        self._out: list[pa.RecordBatch] = []

    @property
    def name(self) -> str:
        return f"{self.setting.app} direct, {self.setting.mb} MB"

    def fill(self, say: Say) -> None:
        while self._at < self.setting.fill:
            self.batch(min(FILL, self.setting.fill - self._at), keep=False)
            say(f"{self.name}: {self._at:,} of {self.setting.fill:,} events")
        self.notes.clear()
        self._taken = self._at

    def batch(self, count: int = BATCH, keep: bool = True) -> dict[str, Any]:
        """One batch; its figures."""
        body, last = self._rows(count)
        self._cut += 1
        clock = {"k": "clock", "n": self._cut, "clock": last, "started": last, "ranges": [], "bytes": len(body)}
        events = {"k": "events", "o": 0, "p": 0, "s": 0, "q": 0, "t": True}
        head = {"query": "direct", "bucket": self._index, "heads": [pack(events), pack(clock)]}
        more = {"streams": {"0": "In"}, "want": ["Out"]}
        cpu, begin = self._cpu(), time.perf_counter()
        state = StoredState(self._store, self._index)
        answer, feeding = ask_kernel(self._spec, self._ask, state, {**head, **more}, [body, b""])
        written = state.keep(answer.head, answer.parts)
        told = answer.head
        figures = {
            "ms": (time.perf_counter() - begin) * 1000,
            "cpu_ms": (self._cpu() - cpu) * 1000,
            "written": written,
            "feeding_s": feeding,
            **{name: told[name] for name in ("loading", "memory", "snapshot", "state_bytes")},
        }
        self.notes.append(figures)
        if keep:
            self._out.extend(from_ipc(part) for part in answer.parts[told["frames"] :])
        return figures

    def _rows(self, count: int) -> tuple[bytes, int]:
        part = events_of(self.setting, self._at, self._at + count)
        places = np.arange(self._at, self._at + count)
        self._at += count
        notes = [f"{NOTE}{i}" for i in places.tolist()]
        keys = [f"S{k}" for k in part.key.tolist()]
        zeros = np.zeros(count, np.int32)
        columns = (part.ts, keys, part.cents / 100, part.vol, notes, part.ts, places, zeros, part.ts, zeros)
        fields = [*(pa.field(n, t) for n, t in ATTRIBUTES), *ARRIVAL_COLUMNS]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, fields)]
        return to_ipc(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))), int(part.ts[-1])

    @property
    def pid(self) -> int | None:
        wanted = str(self._index).encode()
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in host_pids(self._ask.jvm)}
        return next((pid for pid, words in lines.items() if words[-3] == wanted), None)

    def _cpu(self) -> float:
        pid = self.pid
        if pid is None:
            return 0.0
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def kill(self) -> None:
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def check(self) -> dict[str, int | float]:
        """Compare what came of the measured batches with what must."""
        wanted = window_rows(events_of(self.setting, 0, self._at), HOUR_MS)
        low = events_of(self.setting, self._taken, self._taken + 1).ts[0]
        since = wanted["ts"] > low  # events of one ms may be on both sides
        table = pa.Table.from_batches(self._out)
        found: Rows = {name: table.column(name).to_numpy() for name in ("ts", "mean", "n")}
        found["key"] = np.array([int(k[1:]) for k in table.column("sym").to_pylist()], np.int64)
        kept = found["ts"] > low
        return compare({n: c[since] for n, c in wanted.items()}, {n: c[kept] for n, c in found.items()})


def measure_direct(
    folder: Path, apps: Sequence[str], sizes: Sequence[int], batches: int, say: Say
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, figures) of each app and size. Errors: WrongOutputError, those of hosts."""
    wanted = [StateSetting(folder, app, mb, batches, "") for app in apps for mb in sizes]
    ask = Hosts(os.getpid(), len(wanted))
    lanes = [Lane(ask, setting, i) for i, setting in enumerate(wanted)]
    try:
        for lane in lanes:
            lane.fill(say)
        gc.collect()
        gc.freeze()
        for number in range(batches):
            for lane in lanes:
                lane.batch()
            say(f"round {number + 1} of {batches}")
        for lane in lanes:
            steady = list(lane.notes)
            say(f"{lane.name}: killing its host")
            lane.kill()
            back = lane.batch()
            yield lane.name, _figures(lane, steady, back)
    finally:
        for pid in host_pids(ask.jvm):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ask.close()
        for process in ask._started:
            process.wait()
        shutil.rmtree(hosts_folder(ask.jvm), ignore_errors=True)


def _figures(lane: Lane, steady: list[dict[str, Any]], back: dict[str, Any]) -> dict[str, Any]:
    def spread(name: str, notes: list[dict[str, Any]]) -> dict[str, float]:
        values = [n[name] for n in notes]
        if not values:
            return {"count": 0}
        ranks = {f"p{q}": float(np.percentile(values, q)) for q in (90, 99)}
        return {"median": float(np.median(values)), "mean": float(np.mean(values)), **ranks, "max": float(max(values)), "count": len(values)}  # fmt: skip

    return {
        "events": lane.setting.fill,
        "keys": lane.setting.keys,
        "batches": len(steady),
        "state_bytes": max(n["state_bytes"] for n in steady),
        "batch_ms": spread("ms", steady),
        "cpu_ms": spread("cpu_ms", steady),
        "by_snapshot": {
            kind or "alone": {name: spread(name, [n for n in steady if n["snapshot"] == kind]) for name in ("ms", "cpu_ms")}
            for kind in ("", "dumping", "copying")
        },
        "written": spread("written", steady),
        "written_per_event": sum(n["written"] for n in steady) / (BATCH * len(steady)),
        "memory": max(n["memory"] for n in steady),
        "back": {**back, "starting_and_rest_s": back["ms"] / 1000 - back["feeding_s"] - back["loading"]},
        "check": lane.check(),
        "all_batches": [[round(n["ms"]), round(n["cpu_ms"]), n["snapshot"], n["written"]] for n in steady],
    }  # fmt: skip
