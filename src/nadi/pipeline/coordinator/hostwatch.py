"""Who hears that a host has died, and ends one that hangs.

A host that starts says hello to the coordinator and keeps the connection: its end is the host's end, whatever the reason. The thread of the connection waits
for that. Now and then it asks the host whether it is able to answer, in the way that Java asks it. One that has not answered for SILENT seconds (it was
stopped, its threads wait for each other, a call into C keeps the interpreter and never returns) is killed: who waits for it sees the connection break, starts
another host and asks again.

Silence is counted in beats that were sent and not answered. So a machine or a node that was paused does not make hosts look silent: that costs one beat.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from nadi.io.readiness import readable
from nadi.pipeline.hosting.atwork import read_at_work, work_file
from nadi.pipeline.hosting.hostclient import STARTS_WITHIN
from nadi.pipeline.hosting.lane import LaneClient, LaneFailure, Op, Request, decode_hello

_LOG = logging.getLogger("nadi.coordinator")

BEAT = 5.0  # seconds between two beats, and within which one has to be answered
STARTING = 1.0  # seconds between two beats before the first answer
SILENT = 30.0  # seconds after which a host that does not answer is killed

Died = Callable[[int, tuple[str, ...]], object]
"""Is told of a host that has ended: its number, and the ids of the apps that were at work in it."""


class HostWatch:
    """Watches the hosts in a folder, each in the thread that calls `attend`."""

    def __init__(self, folder: Path, died: Died) -> None:
        self._folder = folder
        self._died = died
        self._over = False

    def attend(self, hello: Request) -> None:
        """Return when the host that says hello has ended."""
        index, pid = decode_hello(hello.payload)
        silent, limit, pause, looked = 0.0, STARTS_WITHIN, STARTING, time.monotonic()
        while not readable([hello], pause) and not self._over:
            answers = self._answers(index)
            before, looked = looked, time.monotonic()
            if answers:
                silent, limit, pause = 0.0, SILENT, BEAT
                continue
            silent, pause = silent + min(BEAT, looked - before), STARTING
            if silent >= limit:
                _LOG.error("host %d (process %d) has not answered for %.0f s and is killed", index, pid, limit)
                # the connection stands, so it is this process that has the number
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                readable([hello])
        if not self._over:
            self._died(index, read_at_work(work_file(self._folder, index), pid))

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
