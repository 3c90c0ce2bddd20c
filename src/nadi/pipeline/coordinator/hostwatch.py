"""Who hears that a host has died, and ends one that hangs.

A host that starts says hello to the coordinator and keeps the connection: its end is the host's end, whatever the reason. The thread of the connection waits
for that. Now and then it asks the host whether it is able to answer, in the way that Java asks it. One that has not answered for SILENT seconds (it was
stopped, its threads wait for each other, a call into C keeps the interpreter and never returns) is killed: who waits for it sees the connection break, starts
another host and asks again.

A host whose kernel computes for an app that has ended is killed, too: nothing else ends a loop without an end, and the app has been told to be over.

Silence is counted in beats that were sent and not answered. So a machine or a node that was paused does not make hosts look silent: that costs one beat.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nadi.io.readiness import readable
from nadi.pipeline.coordinator.watchdog import WITHIN, Patience, Watchdog
from nadi.pipeline.hosting.atwork import app_of, kernel_of, read_at_work, work_file
from nadi.pipeline.hosting.hostclient import STARTS_WITHIN
from nadi.pipeline.hosting.lane import LaneClient, LaneFailure, Op, Request, decode_hello

_LOG = logging.getLogger("nadi.coordinator")

BEAT = 5.0  # seconds between two beats, and within which one has to be answered
STARTING = 1.0  # seconds between two beats before the first answer
SILENT = 30.0  # seconds after which a host that does not answer is killed

Died = Callable[[int, tuple[str, ...], bool], object]
"""Is told of a host that has ended: its number, what it was at (`nadi.pipeline.hosting.atwork`), and whether it was killed as a kernel came to no end: then it
is told of the app of that one only."""


class HostWatch:
    """Watches the hosts in a folder, each in the thread that calls `attend`. A kernel may be at one thing for `within` seconds, times its `patience`."""

    def __init__(
        self, folder: Path, died: Died, patience: Patience = lambda _note: 1.0, within: float = WITHIN
    ) -> None:
        self._patience, self._within = patience, within
        self._folder = folder
        self._died = died
        self._over = False
        self._pids: dict[int, int] = {}
        self._left: set[str] = set()
        self._lock = threading.Lock()

    def attend(self, hello: Request) -> None:
        """Return when the host that says hello has ended."""
        index, pid = decode_hello(hello.payload)
        silent, limit, pause, looked = 0.0, STARTS_WITHIN, STARTING, time.monotonic()
        watchdog, late = Watchdog(self._patience, self._within), ""
        with self._lock:
            self._pids[index] = pid
        while not readable([hello], pause) and not self._over:
            self._end_left(index, pid)
            answers = self._answers(index)
            before, looked = looked, time.monotonic()
            if answers:
                late = self._look_at_kernels(index, pid, watchdog, min(BEAT, looked - before)) or late
                silent, limit, pause = 0.0, SILENT, BEAT
                continue
            silent, pause = silent + min(BEAT, looked - before), STARTING
            if silent >= limit:
                _LOG.error("host %d (process %d) has not answered for %.0f s and is killed", index, pid, limit)
                # the connection stands, so it is this process that has the number
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                readable([hello])
        with self._lock:
            if self._pids.get(index) == pid:
                del self._pids[index]
        if not self._over:
            at_work = read_at_work(work_file(self._folder, index), pid)
            guilty = app_of(late)
            self._died(index, tuple(n for n in at_work if not late or app_of(n) == guilty), bool(late))

    # ---- kernels without an end

    def _look_at_kernels(self, index: int, pid: int, watchdog: Watchdog, seconds: float) -> str:
        """Kill a host one of whose kernels comes to no end; -> what that is at."""
        late = watchdog.late(read_at_work(work_file(self._folder, index), pid), seconds)
        if late:
            _LOG.error("host %d (process %d) is killed: it comes to no end with the %s", index, pid, late)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return late

    def computes(self, app: str) -> bool:
        """Whether a kernel of the app with this id is at a cut in one of the hosts."""
        with self._lock:
            known = list(self._pids.items())
        return any(self._is_at(index, pid, app) for index, pid in known)

    def leave(self, app: str) -> None:
        """The app with this id has ended: a host in which a kernel of it still computes is killed, now or when it is seen."""
        with self._lock:
            self._left.add(app)
            known = list(self._pids.items())
        for index, pid in known:
            self._end_left(index, pid)

    def admit(self, app: str) -> None:
        """The app with this id runs again."""
        with self._lock:
            self._left.discard(app)

    def _end_left(self, index: int, pid: int) -> None:
        with self._lock:
            left = sorted(self._left)
            if self._pids.get(index) != pid:
                return
            for app in left:
                if self._is_at(index, pid, app):
                    _LOG.error(
                        "host %d (process %d) is killed: a kernel of %s computes, which has ended", index, pid, app
                    )
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    return

    def _is_at(self, index: int, pid: int, app: str) -> bool:
        return any(note.startswith(kernel_of(app)) for note in read_at_work(work_file(self._folder, index), pid))

    def close(self) -> None:
        """The coordinator ends: connections end without their hosts."""
        self._over = True

    def _answers(self, index: int) -> bool:
        try:
            with LaneClient(self._folder / f"{index}.lane", BEAT) as host:
                host.ask(Op.BEAT)
        except (OSError, LaneFailure):
            return False
        return True
