"""What a cut leaves for who looks on: one small file, written once the cut is committed.

It is not synced to the disk and nothing depends on it: what a group goes on with is in its commit record, and only counters for display may start again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from nadi.config.ownership import OWN_FILE
from nadi.metrics import Counts, Progress
from nadi.received import read_json

__all__ = ["Counts", "Progress", "read_progress", "write_progress"]


def read_progress(state: Path) -> Progress | None:
    """The progress of the app whose state folder this is; None before the first cut."""
    try:
        return read_json((state / "progress.json").read_bytes(), Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # lost or torn: see the module's text


def write_progress(state: Path, progress: Progress) -> None:
    """Replace what is noted, in place: a file that is made and removed for each cut of a hundred apps costs more than the rest of a commit."""
    descriptor = os.open(state / "progress.json", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, OWN_FILE)
    try:
        packed = msgspec.json.encode(progress)
        os.pwrite(descriptor, packed, 0)
        if os.fstat(descriptor).st_size != len(packed):
            os.ftruncate(descriptor, len(packed))
    finally:
        os.close(descriptor)
