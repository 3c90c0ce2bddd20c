"""Dumps of kernels for revisions, made by children of their host after a cut that somebody has marked (`nadi.pipeline.state.dumps`)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from nadi.kernel.contract import Kernel
from nadi.pipeline.executor.forked import enough_memory, fork, turn, write_pieces
from nadi.pipeline.state.dumps import folder_of
from nadi.pipeline.state.frames import base_stream

TURN = 0.2  # seconds between two looks whether it is a child's turn


class Dumper:
    """Makes the dumps of the kernels of one app in a host; `scratch` is the folder of the hosts."""

    def __init__(self, state: Path, scratch: Path) -> None:
        self._state = state
        self._scratch = scratch
        self._children: list[int] = []
        self._lock = threading.Lock()

    def look(self, kernel: Kernel, cut: int, bucket: int) -> None:
        """Begin a dump of the kernel, which stands after this cut, where one is wanted; the caller holds the kernel's lock."""
        self._reap()
        folder = folder_of(self._state, cut)
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
        time.sleep(TURN)
    write_pieces(base_stream(kernel.dump()), part)
    part.rename(whole)
