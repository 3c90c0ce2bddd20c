"""The state of all buckets after one cut, as dumps that the hosts make beside their work: what a revision is written from while the stream goes on.

    <state>/revisions/dump              somebody wants one: it is to be of the next cut that is made …
    <state>/revisions/dump-<n>/         … which is cut n. Renamed before n comes into the cut log, so whoever processes n finds it
    <state>/revisions/dump-<n>/<b>.part the dump of bucket b, under way
    <state>/revisions/dump-<n>/<b>.base the same, whole: as `nadi.pipeline.frames` writes a base
    <state>/revisions/dump-<n>/<b>.none there will be none

The state after a cut is a function of the logs, so it does not matter which attempt of the batch a dump is from, nor that buckets come to it at different
times. A cut counts when its batch is committed at the sinks: only then a revision of it may be made, as what goes on from it sends nothing of that batch again.

Whoever waits for dumps may wait in vain: a host or child may be killed, a machine may not have the memory of a second kernel. Then the state that Spark
has committed is read instead (`nadi.pipeline.savedstate`), which costs a job beside the stream.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nadi.kernel.contract import Kernel
from nadi.kernel.segments import Part
from nadi.pipeline.forked import BUFFER, enough_memory, fork, turn, write_pieces
from nadi.pipeline.frames import base_stream, from_frames
from nadi.pipeline.progress import read_progress

LOOK = 0.05  # seconds
SILENT = 30.0  # seconds after which dumps that neither grow nor wait their turn are not waited for any more
_TURN = 0.2  # seconds between two looks whether it is a child's turn


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
            yield from from_frames(iter(lambda: source.read(BUFFER), b""))


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
    asked, named = requests(state) / "dump", requests(state) / f"dump-{cut}"
    if asked.exists():
        shutil.rmtree(named, ignore_errors=True)  # of an attempt to make this cut that came to nothing
        with contextlib.suppress(FileNotFoundError):  # not wanted any more
            asked.rename(named)


# ---- whoever holds kernels


class Dumper:
    """Makes the dumps of the kernels of one app in a host; `scratch` is the folder of the hosts."""

    def __init__(self, state: Path, scratch: Path) -> None:
        self._folder = requests(state)
        self._scratch = scratch
        self._children: list[int] = []
        self._lock = threading.Lock()

    def look(self, kernel: Kernel, cut: int, bucket: int) -> None:
        """Begin a dump of the kernel, which stands after this cut, where one is wanted; the caller holds the kernel's lock."""
        self._reap()
        folder = self._folder / f"dump-{cut}"
        whole = folder / f"{bucket}.base"
        if not folder.exists() or whole.exists():
            return
        # another attempt of the same batch may be at it: each has a file of its own
        part = folder / f"{bucket}.{os.getpid()}.part"
        try:
            if not enough_memory():
                raise MemoryError
            child = fork(lambda: _dump(kernel, self._scratch, part, whole))
        except (OSError, MemoryError):
            with contextlib.suppress(FileNotFoundError):  # nobody wants it any more
                (folder / f"{bucket}.none").touch()
            return
        with self._lock:
            self._children.append(child)

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if os.waitpid(child, os.WNOHANG)[0] == 0]


def _dump(kernel: Kernel, scratch: Path, part: Path, whole: Path) -> None:
    """What the child does, one of all hosts at a time."""
    part.touch()
    while turn(scratch) is None:  # it ends with this process
        os.utime(part)  # somebody is waiting for a sign of life
        time.sleep(_TURN)
    write_pieces(base_stream(kernel.dump()), part)
    part.rename(whole)
