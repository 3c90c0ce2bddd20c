"""What a cut leaves for who looks on: one small file, replaced atomically once the cut is committed.

It is not synced to the disk and nothing depends on it: what a group goes on with is in its commit record, and only counters for display may start again.
"""

from __future__ import annotations

import os
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
    """Replace what is noted."""
    fresh = state / f"progress.json.{os.getpid()}"
    fresh.write_bytes(msgspec.json.encode(progress))
    fresh.replace(state / "progress.json")
