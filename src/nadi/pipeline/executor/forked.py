"""Forked children of a host, which read a kernel as it is after one cut while the host goes on with the next.

The child has the memory of the host as it was (copy-on-write). Only the thread that forked lives on in it, and other threads may have held locks of their
libraries at that moment (librdkafka, Arrow): the child touches none of them. It dumps a kernel of plain Python objects with msgspec, through the allocators
of Python and of the C library, which survive a fork; it logs nothing, collects no garbage and ends with `os._exit`. It closes what it inherited first: a
connection or lock of the host that stays open in a child would outlive a killed host.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NICE = 10
LOCK = "snapshot.lock"  # in the folder of the hosts
BUFFER = 1024 * 1024
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_PRCTL = (
    ctypes.CDLL(None).prctl if sys.platform == "linux" else None
)  # found before any fork: the loader has locks, too
_FIRST_TO_GO = b"1000"  # for the kernel's out-of-memory killer
_PAGE = os.sysconf("SC_PAGE_SIZE")

# A child is told of its parent's end when the *thread* that forked it ends: this one never does.
_FORKER = ThreadPoolExecutor(1, "forks")


def fork(work: Callable[[], None], keep: int | None = None) -> int:
    """Do `work` in a child of this process, which has descriptor `keep` of all that are open; -> its id.

    It ends with status 0 where the work came to its end. Whoever calls holds the locks of what the child reads, and waits for the child's end now and
    then. Errors: OSError where there is no process or memory for one.
    """
    # our own collector does not write to, hence copy, what the child reads; to collect before would take longer than all the rest of this
    gc.freeze()
    return _FORKER.submit(_fork, work, keep, os.getpid()).result()


def _fork(work: Callable[[], None], keep: int | None, parent: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            _prepare(keep, parent)
            work()
            os._exit(0)
        except BaseException as reason:
            os.write(2, f"a dump failed: {type(reason).__name__}: {reason}\n".encode())
            os._exit(1)
    return pid


def _prepare(keep: int | None, parent: int) -> None:
    """Make a bystander of this child."""
    gc.disable()
    if _PRCTL is not None:
        _PRCTL(_DIE_WITH_PARENT, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as own:
            own.write(_FIRST_TO_GO)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before we asked to be told
    first = 3
    if keep is not None:
        os.closerange(first, keep)
        first = keep + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    os.nice(NICE)


def end_child(pid: int) -> None:
    """Kill a child that was forked and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def turn(scratch: Path) -> int | None:
    """The lock that only one child of this JVM's hosts works under (one core of work at a time); None while another one does."""
    lock = os.open(scratch / LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def write_pieces(pieces: Iterable[bytes], path: Path) -> None:
    """Write a file that is whole when this returns; nothing is synced, it is a cache."""
    with open(path, "wb", buffering=BUFFER) as out:
        for piece in pieces:
            out.write(piece)


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def enough_memory() -> bool:
    """Whether the machine has memory for a copy of this process, which a child's reading of all objects makes in the end (reference counts)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return True  # not Linux: it is the system's to refuse
    available = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    return available is None or available > resident()
