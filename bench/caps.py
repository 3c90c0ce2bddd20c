"""Shares of a core that processes may use at most, by control groups of the system (version 2, or 1), where this user may make some.

with capped(pids, 0.2): ...
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.children import ChildFailedError

PERIOD = 100_000  # µs
ENDS_WITHIN = 10.0  # seconds that processes of a group have to end
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def _limits(share: float) -> tuple[Path, dict[str, str]]:
    """Where groups are made, and what is written into one. Errors: ChildFailedError where there is no such thing."""
    quota = int(share * PERIOD)
    if (V2 / "cgroup.controllers").exists() and "cpu" in (V2 / "cgroup.controllers").read_text().split():
        return V2, {"cpu.max": f"{quota} {PERIOD}"}
    if (V1 / "cpu.cfs_quota_us").exists():
        return V1, {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(quota)}
    raise ChildFailedError("this system has no control groups for processor time")


@contextlib.contextmanager
def capped(pids: Iterable[int], share: float) -> Iterator[None]:
    """Give processes, and what they start, a share of a core together. The group is removed when they have ended. Errors: ChildFailedError, also where this
    user may not make a group."""
    root, written = _limits(share)
    group = root / f"nadi-bench-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        for name, text in written.items():
            (group / name).write_text(text)
    except OSError as reason:
        raise ChildFailedError(f"no control group could be made: {reason}") from reason
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    until = time.monotonic() + ENDS_WITHIN
    while (group / "cgroup.procs").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    for pid in (group / "cgroup.procs").read_text().split():  # they live on, without a cap
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    with contextlib.suppress(OSError):
        group.rmdir()
