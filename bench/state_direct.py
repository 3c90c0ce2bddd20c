"""The suite `state` without Spark: groups, hosts, inputs, state log and sinks as they are, batches over all sizes in turn.

On a machine that does other things, too, times of one batch after the other cannot be compared; here the same moment has a batch over each size, and the
processor time of the hosts is counted beside the clock's. What is measured is a batch from its cut to its commit record, but for what Spark takes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.checks import WrongOutputError, compare, window_rows
from bench.pace import Pace, PacedCutMaker, write_pace
from bench.state import (
    BATCH,
    HOUR_MS,
    StateSetting,
    app_name,
    app_text,
    by_renewal,
    events_of,
    host_pids,
    read_output,
    spread,
    write_input,
)
from bench.state_node import bucket_counts
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.receipts import Receipt, gather
from nadi.pipeline.coordinator.tasks import Work, one_stage
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.lane import LaneClient, Op, decode_rows
from nadi.pipeline.spec import AppSpec

CUT_WITHIN = 30.0  # seconds
_TICK = os.sysconf("SC_CLK_TCK")

Say = Callable[[str], object]


class Direct:
    """One app and size: a group of one bucket, in a host of its own."""

    def __init__(self, ask: Hosts, setting: StateSetting, index: int) -> None:
        setting.folder.mkdir(parents=True)
        write_input(setting)
        self.setting = setting
        self._ask, self._index = ask, index
        self._pace = setting.folder / "pace.json"
        write_pace(self._pace, Pace(0, BATCH))
        spec = AppSpec(
            app_name(setting),
            app_text(setting),
            str(setting.folder / "state"),
            hosts=ask.count,
            first=index,
            outputs=("Out",),
        )
        self._group = Group(spec, lambda: None, partial(PacedCutMaker, path=self._pace))
        self._at = 0
        self.notes: list[dict[str, Any]] = []

    @property
    def name(self) -> str:
        return f"{self.setting.app} direct, {self.setting.mb} MB"

    def fill(self, say: Say) -> None:
        while self._at < self.setting.fill:
            self.batch(min(self.setting.fill_step, self.setting.fill - self._at))
            say(f"{self.name}: {self._at:,} of {self.setting.fill:,} events")
        self.notes.clear()

    def batch(self, count: int = BATCH) -> dict[str, Any]:
        """One batch; its figures. Errors: what the group failed with."""
        self._at += count
        write_pace(self._pace, Pace(self._at, count))
        cpu, begin = self._cpu(), time.perf_counter()
        while not self._group.look() and self._group.failure is None and time.perf_counter() - begin < CUT_WITHIN:
            time.sleep(0.001)  # an input looks through a file piece by piece
        receipt = self._asked()
        while receipt.state == "need":
            self._group.again(tell_all=True)
            receipt = self._asked()
        if receipt.state == "done":
            self._group.settle(receipt)
        if self._group.failure is not None or receipt.state != "done":
            raise self._group.failure or receipt.failure()
        (told,) = map(bucket_counts, receipt.buckets)
        if told["events"] != count:
            raise WrongOutputError(f"{self.name}: a batch of {count:,} took {told['events']:,} events")
        ms, cpu_ms = (time.perf_counter() - begin) * 1000, (self._cpu() - cpu) * 1000
        self.notes.append({"ms": ms, "cpu_ms": cpu_ms, "written": told["delta"] + told["base"], **told})
        return self.notes[-1]

    def _asked(self) -> Receipt:
        """What the host tells of the cut that is ready. Errors: what the group failed with."""
        work: Work | None = self._group.begin()
        if work is None:
            raise self._group.failure or WrongOutputError(f"{self.name}: no cut was made of what waits")
        (task,) = one_stage([work], None, "")
        self._ask.call(self._index, {"op": "ping"})  # it is started where it is not there
        with LaneClient(hosts_folder(self._ask.jvm) / f"{self._index}.lane") as lane:
            rows = [row for frame in lane.frames(Op.READ, task.request) for row in decode_rows(frame)]
        return gather(row.body for row in rows)[self._group.key]

    @property
    def pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            return int((hosts_folder(self._ask.jvm) / f"{self._index}.alive").read_text())
        return None

    def _cpu(self) -> float:
        """Seconds of processor that the host took; 0 where none lives."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return 0.0 if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / _TICK
        return 0.0

    def kill(self) -> None:
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def check(self) -> dict[str, int | float]:
        """Compare what came out with what must. Errors: WrongOutputError."""
        return compare(
            window_rows(events_of(self.setting, 0, self._at), HOUR_MS), read_output(self.setting.folder / "out.jsonl")
        )

    def close(self) -> None:
        self._group.close()


def measure_direct(
    folder: Path, apps: Sequence[str], sizes: Sequence[int], batches: int, say: Say
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, figures) of each app and size. Errors: WrongOutputError, those of hosts and groups."""
    wanted = [StateSetting(folder / f"{app}-{mb}", app, mb, batches, "") for app in apps for mb in sizes]
    with contextlib.ExitStack() as open_, _hosts(len(wanted)) as ask:
        parts = [Direct(ask, setting, i) for i, setting in enumerate(wanted)]
        for part in parts:
            open_.callback(part.close)
            part.fill(say)
        gc.collect()
        gc.freeze()
        for number in range(batches):
            for part in parts:
                part.batch()
            say(f"round {number + 1} of {batches}")
        for part in parts:
            steady = list(part.notes)
            say(f"{part.name}: killing its host")
            part.kill()
            yield part.name, _figures(part, steady, part.batch())


@contextlib.contextmanager
def _hosts(count: int) -> Iterator[Hosts]:
    """Hosts of this process; none of them outlives the block."""
    ask = Hosts(os.getpid(), count)
    try:
        yield ask
    finally:
        for pid in host_pids(ask.jvm):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ask.close()
        for process in ask._started:
            process.wait()
        shutil.rmtree(hosts_folder(ask.jvm), ignore_errors=True)


def _figures(part: Direct, steady: list[dict[str, Any]], back: dict[str, Any]) -> dict[str, Any]:
    def of(name: str) -> dict[str, float]:
        values = [n[name] for n in steady]
        return {**spread(values), "mean": float(np.mean(values))}

    renewing = {n["cut"] for n in steady if n["snapshot"] or n["base"]}
    return {
        "events": part.setting.fill,
        "keys": part.setting.keys,
        "batches": len(steady),
        "state_bytes": max(n["state_bytes"] for n in steady),
        "batch_ms": of("ms"),
        "cpu_ms": of("cpu_ms"),
        "by_renewal": {name: by_renewal({n["cut"]: n[name] for n in steady}, renewing) for name in ("ms", "cpu_ms")},
        "written": of("written"),
        "written_per_event": sum(n["written"] for n in steady) / (BATCH * len(steady)),
        "memory": max(n["memory"] for n in steady),
        "back": {
            "ms": back["ms"],
            "loading": back["loading"],
            "starting_and_rest_s": back["ms"] / 1000 - back["loading"],
        },
        "check": part.check(),
        "all_batches": [[round(n["ms"]), round(n["cpu_ms"]), n["snapshot"], n["written"]] for n in steady],
    }
