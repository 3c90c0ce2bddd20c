"""Gauges of a node, of this machine and of a made-up one."""

from __future__ import annotations

import os
from pathlib import Path

from nadi.metrics.filters import Shown
from nadi.metrics.system import NodeGauges


def made_proc(folder: Path, ticks: int, busy: int, idle: int) -> Path:
    """Processes 1 ── 2 ── 3, and 9, which is somebody else's."""
    folder.mkdir(exist_ok=True)
    for pid, parent in ((1, 0), (2, 1), (3, 2), (9, 0)):
        (folder / str(pid)).mkdir(exist_ok=True)
        rest = [str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 4, "5", "0", "0", "1000", "2", "0"]
        (folder / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {' '.join(rest)}\n")
    (folder / "1" / "fd").mkdir(exist_ok=True)
    for number in "012":
        (folder / "1" / "fd" / number).touch()
    (folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n")
    (folder / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 40 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n")
    (folder / "loadavg").write_text("1.50 1.00 0.50 1/2 3\n")
    return folder


def test_loads_are_shares_since_the_reading_before_and_of_the_whole_tree(tmp_path: Path):
    now = [100.0]
    proc = made_proc(tmp_path / "proc", ticks=0, busy=0, idle=0)
    gauges = NodeGauges(pid=1, proc=proc, clock=lambda: now[0])
    now[0] = 110.0
    per_second, cores = os.sysconf("SC_CLK_TCK"), os.cpu_count() or 1
    made_proc(proc, ticks=per_second, busy=30, idle=70)
    found = gauges.read()
    assert abs(found["jvm.os.cpu.load.process"] - 3 / 10 / cores) < 1e-9
    assert found["jvm.os.cpu.load.system"] == 0.3
    assert found["jvm.os.system.load.average"] == 1.5
    assert found["jvm.os.file.descriptor.open.count"] == 3
    assert found["jvm.os.physical.memory.free.size"] == 40 * 1024
    assert found["jvm.os.swap.space.free.size"] == 4 * 1024
    assert found["jvm.os.virtual.memory.committed.size"] == 3_000
    assert found["nadi.node.processes.count"] == 3
    assert found["nadi.node.threads.count"] == 15
    now[0] = 110.5
    made_proc(proc, ticks=9 * per_second, busy=90, idle=70)
    assert gauges.read() == found  # who asks again at once hears the same
    now[0] = 111.0
    assert gauges.read()["jvm.os.cpu.load.system"] == 1.0


def test_levels_decide_which_gauges_there_are(tmp_path: Path):
    facts = {"jvm.threads.count": 7, "jvm.gc.G1.count": 1, "jvm.memory.heap.used": 5}
    proc = made_proc(tmp_path / "proc", 0, 0, 0)

    def names(shown: Shown) -> set[str]:
        return {n for n in NodeGauges(lambda: facts, shown, 1, proc).read() if n in facts}

    assert names(Shown()) == {"jvm.memory.heap.used"}
    assert names(Shown(levels={"jvm.threads": "DEBUG", "jvm.memory.heap": "OFF"})) == {"jvm.threads.count"}
    assert names(Shown("ALL")) == set(facts)
    assert NodeGauges(lambda: facts, Shown("OFF"), 1, proc).read() == {}


def test_this_machine_tells_of_itself():
    found = NodeGauges().read()
    assert found["jvm.os.physical.memory.total.size"] > 0
    assert 0 <= found["jvm.os.cpu.load.process"] <= 1
    assert found["nadi.node.processes.count"] >= 1
