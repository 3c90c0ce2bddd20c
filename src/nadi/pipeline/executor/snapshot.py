"""A dump of a kernel's state that is made beside its work: a forked child writes it into a file while batches go on (`nadi.pipeline.executor.forked`).

A dump is a cache like all that hosts hold: a child or host that is killed only means that another one is made.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nadi.kernel.contract import Kernel
from nadi.pipeline.executor.forked import end_child, enough_memory, fork, turn, write_pieces
from nadi.pipeline.hosting.hostclient import is_gone
from nadi.pipeline.state.frames import base_stream
from nadi.pipeline.state.layout import Dump


@dataclass(frozen=True, slots=True)
class Since:
    """Where in the life of a bucket a dump is: its deltas before frame `frame`, `bytes` bytes of those that are live, are in it."""

    frame: int
    bytes: int


class Snapshot:
    """The dump of one kernel, under way or whole. `folder` is the host's; the files go with `close`."""

    def __init__(self, folder: Path, pid: int, since: Since, frame_bytes: int) -> None:
        self._folder = folder
        self._frame_bytes = frame_bytes
        self._pid = pid
        self._since = since
        self._file: int | None = None
        self.failed = False
        self.dump: Dump | None = None

    @staticmethod
    def begin(kernel: Kernel, scratch: Path, since: Since, frame_bytes: int) -> Snapshot | None:
        """Fork a child that dumps the kernel as it is now; the caller holds the kernel's lock.

        None where another child of this machine's executor is at work (one core of work and the memory of one kernel at a time), or there is no memory
        for one.
        """
        if not enough_memory() or (lock := turn(scratch)) is None:
            return None
        folder = scratch / f"snapshot-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        try:
            pid = fork(lambda: write_pieces(base_stream(kernel.dump()), folder / "base"), lock)
        except OSError:  # no process, no memory: the next batch asks again
            shutil.rmtree(folder, ignore_errors=True)
            return None
        finally:
            os.close(lock)  # the child holds it now
        return Snapshot(folder, pid, since, frame_bytes)

    def look(self) -> Dump | None:
        """The dump, once it is whole."""
        if self.dump is None and not self.failed:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                self._ended(status)
        return self.dump

    def _ended(self, status: int) -> None:
        if status != 0:
            self.failed = True
            return
        self._file = os.open(self._folder / "base", os.O_RDONLY)
        size = os.fstat(self._file).st_size
        frames = -(-size // self._frame_bytes)
        self.dump = Dump(secrets.token_hex(8), frames, size, self._since.frame, self._since.bytes)

    def frames(self, first: int, end: int) -> Iterator[bytes]:
        """Frames [first, end) of the whole dump."""
        for number in range(first, end):
            assert self._file is not None
            yield os.pread(self._file, self._frame_bytes, number * self._frame_bytes)

    def close(self) -> None:
        """End the child and remove the files."""
        if self._pid:
            end_child(self._pid)
            self._pid = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None
        # a file of 1 GB takes a tenth of a second to go
        threading.Thread(target=shutil.rmtree, args=(self._folder, True), daemon=True).start()


def sweep(scratch: Path, alive: int) -> None:
    """Remove what snapshots of hosts that are gone have left; `alive` is the process whose own stay."""
    for folder in scratch.glob("snapshot-*-*"):
        owner = int(folder.name.split("-")[1])
        if owner != alive and is_gone(owner):
            shutil.rmtree(folder, ignore_errors=True)
