"""A child process that never outlives its parent, not even when the parent is killed with -9.

    python -m nadi.io.guard PIPE PARENT LOCK -- COMMAND …

The parent holds one end of a pipe and the guard reads the other: when the parent is gone, however it went, the kernel closes its end and the guard
ends the command (SIGTERM, after a grace period SIGKILL). The pipe could be held open by a process that the parent forked, so the guard waits for the end of
its parent's process as well, or where the system does not tell that, looks at its parent's id. On Linux the command dies with the guard too
(PR_SET_PDEATHSIG: safe here because the guard has one thread; the signal follows the *thread* that started a child). The guard has a session of its own, so
Ctrl-C reaches the node only, which stops its servers in order.

LOCK ("" for none) is a file that is locked as long as the guard or the command lives: a second server on the same folder would destroy it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nadi.errors import error
from nadi.io.readiness import readable

LOCKED = 75  # exit code: somebody else holds the lock (EX_TEMPFAIL)
GRACE = "NADI_GUARD_GRACE"  # environment: seconds that a command has to stop by itself (5)
LOCK_WAIT = "NADI_LOCK_WAIT"  # environment: seconds to wait for a predecessor that is still stopping (10)
LOOK = 0.5  # seconds between two looks at the parent's id where its end is not told
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Guarded:
    """A running command under its guard; `process` is the guard, `pipe` this process' end of the pipe, until it is closed."""

    process: subprocess.Popen[bytes]
    pipe: list[int]

    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code of the command (LOCKED where its folder is in use). Raises subprocess.TimeoutExpired (seconds)."""
        return self.process.wait(timeout)

    def stop(self) -> None:
        """End the command and wait for it; a second call has no effect."""
        with contextlib.suppress(IndexError):  # once: after that its number is somebody else's
            os.close(self.pipe.pop())
        try:
            self.process.wait(_seconds(GRACE, 5) + 2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def guarded(command: Sequence[str], log: Path, lock: Path | None = None) -> Guarded:
    """Start a command under a guard; its output goes to the file `log`.

    >>> child = guarded(["sleep", "60"], Path("/dev/null"))
    >>> child.running()
    True
    >>> child.stop()
    """
    # both are closed in whatever the parent executes; the reading end is handed on by name
    reading, writing = os.pipe()
    arguments = [str(reading), str(os.getpid()), str(lock or ""), "--", *command]
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "nadi.io.guard", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(reading,),
                start_new_session=True,
            )
    except OSError as reason:
        os.close(writing)
        raise error("SERVER_NOT_STARTED", server=command[0], reason=reason) from reason
    finally:
        os.close(reading)
    return Guarded(process, [writing])


def main(arguments: Sequence[str]) -> int:
    """Run the command and end it with the parent; returns its exit code."""
    pipe, parent, lock = int(arguments[0]), int(arguments[1]), arguments[2]
    held = _locked(lock, pipe) if lock else None
    if held == -1:
        return LOCKED
    kept = () if held is None else (held,)
    child = subprocess.Popen(arguments[4:], preexec_fn=_die_with_guard(), pass_fds=kept)  # noqa: PLW1509 (one thread)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end(child))
    ended = _told_of_children()
    gone = _told_of(parent)
    try:
        while child.poll() is None and not _parent_gone(pipe, parent, ended, gone):
            pass
    finally:
        _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _die_with_guard() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc, guard = ctypes.CDLL(None, use_errno=True), os.getpid()

    def arm() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # the guard died before the line above
            os._exit(1)

    return arm


def _told_of_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written to the descriptor
    return reading


def _told_of(process: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None where there is none to be had."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return os.pidfd_open(process)
    except OSError:  # the process is gone, which its id tells; or the kernel is older, or does not let us
        return None


def _parent_gone(pipe: int, parent: int, ended: int, gone: int | None) -> bool:
    """Wait for the end of the parent or of the child, for LOOK where the parent's is not told; whether it was the parent's."""
    if os.getppid() != parent:
        return True
    told = [pipe, ended] if gone is None else [pipe, ended, gone]
    ready = readable(told, LOOK if gone is None else None)
    if ended in ready:
        os.read(ended, 64)
    return pipe in ready or gone in ready or os.getppid() != parent


def _seconds(variable: str, default: float) -> float:
    return float(os.environ.get(variable, default))


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(_seconds(GRACE, 5))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _locked(path: str, pipe: int) -> int:
    """The descriptor of the locked file, -1 where somebody holds it for too long or the parent is gone."""
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _seconds(LOCK_WAIT, 10)
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
        except BlockingIOError:
            if time.monotonic() > until or readable([pipe], 0.05):
                return -1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
