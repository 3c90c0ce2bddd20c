"""A dump of a kernel's state that is made beside its work: a forked child writes it into a file while batches go on.

The child has the memory of the host as it was after one cut (copy-on-write). Only the thread that forked lives on in it, and other threads may have held
locks of their libraries at that moment (librdkafka, Arrow): the child touches none of them. It dumps a kernel of plain Python objects with msgspec, through
the allocators of Python and of the C library, which survive a fork; it logs nothing, collects no garbage and ends with `os._exit`. It closes what it
inherited first: a connection or lock of the host that stays open in a child would outlive a killed host.

A dump is a cache like all that hosts hold: a child or host that is killed only means that another one is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nadi.kernel.contract import Kernel
from nadi.pipeline.frames import base_stream
from nadi.pipeline.layout import Dump

NICE = 10
LOCK = "snapshot.lock"  # in the folder of the hosts
_BUFFER = 1024 * 1024
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PRCTL = (
    ctypes.CDLL(None).prctl if sys.platform == "linux" else None
)  # found before any fork: the loader has locks, too
_FIRST_TO_GO = b"1000"  # for the kernel's out-of-memory killer
_PAGE = os.sysconf("SC_PAGE_SIZE")

# A child is told of its parent's end when the *thread* that forked it ends: this one never does.
_FORKER = ThreadPoolExecutor(1, "snapshots")


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

        None where another snapshot of this machine's executor is under way (one core of work and the memory of one kernel at a time), or there is no
        memory for a second copy of this process, which a child's reading of all objects makes in the end (reference counts).
        """
        if not enough_memory() or (turn := _turn(scratch)) is None:
            return None
        folder = scratch / f"snapshot-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        # our own collector does not write to, hence copy, what the child reads; to collect before would take longer than all the rest of this
        gc.freeze()
        try:
            pid = _FORKER.submit(_fork, kernel, folder, turn, os.getpid()).result()
        except OSError:  # no process, no memory: the next batch asks again
            shutil.rmtree(folder, ignore_errors=True)
            return None
        finally:
            os.close(turn)  # the child holds it now
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
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
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
        if owner != alive and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def enough_memory() -> bool:
    """Whether the machine has memory for a copy of this process."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return True  # not Linux: it is the system's to refuse
    available = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    return available is None or available > resident()


def _turn(scratch: Path) -> int | None:
    """The lock that only one child of this JVM's hosts holds; None while another one does."""
    lock = os.open(scratch / LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _fork(kernel: Kernel, folder: Path, turn: int, parent: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _prepare(turn, parent)
            _write(kernel, folder)
            os._exit(0)
        except BaseException as reason:
            os.write(2, f"a snapshot failed: {type(reason).__name__}: {reason}\n".encode())
            os._exit(1)
    return pid


def _prepare(turn: int, parent: int) -> None:
    """Make a bystander of this child."""
    gc.disable()
    if _PRCTL is not None:
        _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as own:
            own.write(_FIRST_TO_GO)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before we asked to be told
    os.closerange(3, turn)
    os.closerange(turn + 1, os.sysconf("SC_OPEN_MAX"))
    os.nice(NICE)


def _write(kernel: Kernel, folder: Path) -> None:
    """The base stream; whole when this process ends with status 0."""
    with open(folder / "base", "wb", buffering=_BUFFER) as out:
        for piece in base_stream(kernel.dump()):
            out.write(piece)
