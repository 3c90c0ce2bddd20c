"""The processes of a node: which there are, what they do, how much processor time and memory they use.

All processes of a node carry its mark in their environment (`bench.checkouts.MARK`), whoever started them and whoever is their parent now.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.checkouts import MARK
from bench.processors import kind_of

JVM, HOSTS = "Spark (JVM)", "hosts"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its kind (`bench.processors`), processor seconds without those of its children, and when it began (ticks since the start of the system)."""

    pid: int
    kind: str
    seconds: float
    begin: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Processes of a tree and their proportional set size (PSS), bytes: a page that several of them share counts once."""

    processes: int
    pss: int
    by_kind: dict[str, int]


def processes(folder: Path) -> list[Process]:
    """The living processes that carry the mark of a folder."""
    mark = os.fsencode(f"{MARK}={folder}")
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or of another user
            if mark not in (path / "environ").read_bytes().split(b"\0"):
                continue
            words = (path / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                seconds = (int(fields[11]) + int(fields[12])) / _TICK
                found.append(Process(int(path.name), kind_of(words), seconds, int(fields[19])))
    return sorted(found, key=lambda p: p.begin)


def pids(folder: Path, kind: str) -> list[int]:
    """The processes of one kind, oldest first."""
    return [p.pid for p in processes(folder) if p.kind == kind]


def memory(folder: Path) -> Memory:
    """What the processes of a node hold."""
    by_kind: dict[str, int] = {}
    found = processes(folder)
    for process in found:
        by_kind[process.kind] = by_kind.get(process.kind, 0) + _pss(process.pid)
    return Memory(len(found), sum(by_kind.values()), by_kind)


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def used(before: Sequence[Process], after: Sequence[Process], seconds: float) -> dict[str, float]:
    """Shares of a core by kind, between two looks `seconds` apart. A process that began in between counts from its begin; what one did that ended in between
    is not known.

    >>> used([Process(1, "hosts", 1.0, 5)], [Process(1, "hosts", 1.5, 5), Process(2, "others", 0.1, 9)], 10.0)
    {'hosts': 0.05, 'others': 0.01}
    """
    known = {(p.pid, p.begin): p.seconds for p in before}
    found: dict[str, float] = {}
    for p in after:
        found[p.kind] = found.get(p.kind, 0.0) + p.seconds - known.get((p.pid, p.begin), 0.0)
    return {kind: round(value / seconds, 4) for kind, value in found.items()}


def kill_all(folder: Path) -> None:
    """kill -9 for every process that carries the mark, until there is none: one of them may start another meanwhile."""
    for _ in range(20):
        found = processes(folder)
        if not found:
            return
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
