"""The state of all buckets after one cut, as dumps that the hosts make beside their work: what a revision is written from while the stream goes on.

    <state>/revisions/dump              somebody wants one: it is to be of the next cut that is made …
    <state>/revisions/dump-<n>/         … which is cut n. Renamed before n comes into the cut log, so whoever processes n finds it
    <state>/revisions/dump-<n>/<b>.part the dump of bucket b, under way
    <state>/revisions/dump-<n>/<b>.base the same, whole: as `nadi.pipeline.state.frames` writes a base
    <state>/revisions/dump-<n>/<b>.none there will be none

The state after a cut is a function of the logs, so it does not matter which attempt of the batch a dump is from, nor that buckets come to it at different
times. A cut counts when its batch is committed at the sinks: only then a revision of it may be made, as what goes on from it sends nothing of that batch again.

Whoever waits for dumps may wait in vain: a host or child may be killed, a machine may not have the memory of a second kernel. Then the state that Spark
has committed is read instead (`nadi.pipeline.revision.savedstate`), which costs a job beside the stream.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nadi.kernel.segments import Part
from nadi.pipeline.progress import read_progress
from nadi.pipeline.state.frames import from_frames

LOOK = 0.05  # seconds
SILENT = 30.0  # seconds after which dumps that neither grow nor wait their turn are not waited for any more
_PIECE = 1024 * 1024  # bytes that are read at a time


def folder_of(state: Path, cut: int) -> Path:
    """Where the dumps of a cut go; it is there where somebody wants them."""
    return requests(state) / f"dump-{cut}"


def requests(state: Path) -> Path:
    """Where all that is about revisions of a running app is, in its state folder."""
    return state / "revisions"


# ---- whoever wants one


@dataclass(frozen=True, slots=True)
class Dumped:
    """The dumps of all buckets after cut `cut`, in a folder."""

    folder: Path
    cut: int
    buckets: int

    def parts(self, bucket: int) -> Iterator[Part]:
        """Segments, as `Kernel.load` takes them."""
        with (self.folder / f"{bucket}.base").open("rb") as source:
            yield from from_frames(iter(lambda: source.read(_PIECE), b""))


def ask(state: Path) -> None:
    """Ask for dumps of the next cut."""
    (requests(state) / "dump").mkdir(parents=True, exist_ok=True)


def wait(state: Path, buckets: int, given_up: threading.Event) -> Dumped | None:
    """The dumps that were asked for, whole and of a cut that is committed; None where there will be none, or where waiting was given up."""
    changed, seen = time.monotonic(), -1.0
    while not given_up.wait(LOOK):
        folder = _marked(state)
        if folder is None:
            continue
        if any(folder.glob("*.none")):
            return None
        cut = int(folder.name.rpartition("-")[2])
        progress = read_progress(state)
        if progress is None or progress.n < cut:
            changed = time.monotonic()  # the batch is not done yet
        elif len(list(folder.glob("*.base"))) == buckets:
            return Dumped(folder, cut, buckets)
        elif (now := _touched(folder)) != seen:
            changed, seen = time.monotonic(), now
        elif time.monotonic() - changed > SILENT:
            return None
    return None


def forget(state: Path) -> None:
    """Remove requests and dumps, whole or not."""
    for folder in requests(state).glob("dump*"):
        shutil.rmtree(folder, ignore_errors=True)


def _marked(state: Path) -> Path | None:
    return next(requests(state).glob("dump-*"), None)


def _touched(folder: Path) -> float:
    """When something in it changed last."""
    latest = 0.0
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # whole now, and renamed
            latest = max(latest, file.stat().st_mtime)
    return latest


# ---- whoever makes cuts


def wanted(state: Path) -> bool:
    """Whether the next cut is to be dumped."""
    return (requests(state) / "dump").exists()


def mark(state: Path, cut: int) -> None:
    """Say that a cut, which nobody knows yet, is the one, if one is wanted."""
    asked, named = requests(state) / "dump", folder_of(state, cut)
    if asked.exists():
        shutil.rmtree(named, ignore_errors=True)  # of an attempt to make this cut that came to nothing
        with contextlib.suppress(FileNotFoundError):  # not wanted any more
            asked.rename(named)
