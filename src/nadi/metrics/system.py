"""Gauges of a node by the names of the JVM's, read from /proc when they are asked for.

Processor time, threads and memory of `jvm.os` are those of the node's process and of all that it has started: Spark's JVM and the executor hosts.
`jvm.memory`, `jvm.class-loading`, `jvm.threads` and `jvm.gc` are of Spark's JVM, which is asked by whoever has it.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nadi.metrics.filters import Shown

JvmFacts = Callable[[], Mapping[str, float]]
"""What Spark's JVM tells of itself, by name; nothing where there is none."""

FRESH = 1.0  # seconds for which a reading is good: several may ask at once, and a share of no time is none
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    ticks: int
    threads: int
    virtual: int
    resident: int


class NodeGauges:
    """Of the process `pid` and what it has started. `clock` is in seconds and never goes back. Used by one thread at a time."""

    def __init__(
        self,
        jvm: JvmFacts = dict,
        shown: Shown | None = None,
        pid: int | None = None,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jvm = jvm
        self._shown = Shown() if shown is None else shown
        self._pid = os.getpid() if pid is None else pid
        self._proc = proc
        self._clock = clock
        self._cores = os.cpu_count() or 1
        self._ticks: dict[int, int] = {}
        self._machine = (0, 0)
        self._at = clock()
        self._known = self._read()

    def read(self) -> dict[str, float]:
        """All gauges. Loads of processors are shares (0 to 1) since the reading before, which was a second ago or more."""
        if self._clock() - self._at >= FRESH:
            self._known = self._read()
        return self._known

    def _read(self) -> dict[str, float]:
        found = {**self._os(), **self._jvm()}
        return {name: value for name, value in sorted(found.items()) if self._shown.of(name)}

    def _os(self) -> dict[str, float]:
        tree = self._tree()
        memory = _fields(self._proc / "meminfo")
        own, machine = self._loads(tree)
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return {
            "jvm.os.cpu.load.process": own,
            "jvm.os.cpu.load.system": machine,
            "jvm.os.system.load.average": float((self._proc / "loadavg").read_text().split()[0]),
            "jvm.os.file.descriptor.open.count": _count(self._proc / str(self._pid) / "fd"),
            "jvm.os.file.descriptor.max.count": most,
            "jvm.os.physical.memory.free.size": memory.get("MemAvailable", memory.get("MemFree", 0)),
            "jvm.os.physical.memory.total.size": memory.get("MemTotal", 0),
            "jvm.os.swap.space.free.size": memory.get("SwapFree", 0),
            "jvm.os.swap.space.total.size": memory.get("SwapTotal", 0),
            "jvm.os.virtual.memory.committed.size": sum(p.virtual for p in tree.values()),
            "nadi.node.memory.resident.size": sum(p.resident for p in tree.values()),
            "nadi.node.processes.count": len(tree),
            "nadi.node.threads.count": sum(p.threads for p in tree.values()),
        }

    def _loads(self, tree: Mapping[int, _Process]) -> tuple[float, float]:
        """Shares of the processors that the tree and the machine had since the time before."""
        now, machine = self._clock(), self._busy()
        elapsed = now - self._at
        spent = sum(p.ticks - self._ticks.get(pid, 0) for pid, p in tree.items())
        busy, whole = (after - before for after, before in zip(machine, self._machine, strict=True))
        self._ticks, self._machine, self._at = {pid: p.ticks for pid, p in tree.items()}, machine, now
        own = spent / _TICKS / elapsed / self._cores if elapsed > 0 else 0.0
        return min(1.0, own), busy / whole if whole > 0 else 0.0

    def _busy(self) -> tuple[int, int]:
        """Ticks that the machine worked, and all."""
        parts = [int(part) for part in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(parts) - parts[3] - parts[4], sum(parts)

    def _tree(self) -> dict[int, _Process]:
        """The process and all below it."""
        known = dict(self._processes())
        found: dict[int, _Process] = {}
        waiting = [self._pid]
        children: dict[int, list[int]] = {}
        for pid, process in known.items():
            children.setdefault(process.parent, []).append(pid)
        while waiting:
            pid = waiting.pop()
            if pid in known and pid not in found:
                found[pid] = known[pid]
                waiting += children.get(pid, [])
        return found

    def _processes(self) -> Iterator[tuple[int, _Process]]:
        for folder in self._proc.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                parts = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            yield (
                int(folder.name),
                _Process(
                    int(parts[1]),
                    int(parts[11]) + int(parts[12]),
                    int(parts[17]),
                    int(parts[20]),
                    int(parts[21]) * _PAGE,
                ),
            )


def _fields(path: Path) -> dict[str, int]:
    """Bytes by name of a file like /proc/meminfo."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        parts = value.split()
        if parts:
            found[name] = int(parts[0]) * (1024 if parts[-1] == "kB" else 1)
    return found


def _count(folder: Path) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0
