"""Waiting for what other processes do: until it is so, never for a fixed time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Return as soon as `holds()` is true; fail after `seconds`."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"still not so after {seconds} s"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process runs (one that waits to be reaped does not)."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
