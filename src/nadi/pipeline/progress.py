"""What the write stage leaves after each cut for the process that makes cuts and for the supervisor: one small file, replaced atomically.

It is not synced to the disk: what is lost with it can be found out again (order times by reading a cut's range once more, timers by an
additional cut), and only counters for display start again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec

from nadi.metrics import Counts, Progress

__all__ = ["Counts", "Progress", "read_progress", "write_progress"]


def read_progress(state: Path) -> Progress | None:
    """The progress of the app whose state folder this is; None before the first cut."""
    try:
        return msgspec.json.decode((state / "progress.json").read_bytes(), type=Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # lost or torn: see the module's text


def write_progress(state: Path, progress: Progress) -> None:
    """Note the progress of a cut, once or more often for the same one; totals count it once."""
    known = read_progress(state)
    if known is not None:
        before = known.before if known.n == progress.n else known.totals
        progress = replace(progress, before=before)
    fresh = state / f"progress.json.{os.getpid()}"
    fresh.write_bytes(msgspec.json.encode(progress))
    fresh.replace(state / "progress.json")
