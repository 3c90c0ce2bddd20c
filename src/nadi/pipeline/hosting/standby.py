"""A process that stands by to be a host: it has imported and loaded what hosts need before one dies, so that neighbours do not wait for that.

    node ──start──► python … host <folder> standby <JVM>: imports, loads what the apps need, waits at its standard input
    host i dies: node ──"i, log"──► it is host i from now on, and another one is started in a while

Whoever asks a host that has died starts one itself; where the file STANDBY is in the folder, only after HANDED_WITHIN. Who comes second finds that there is
a host.
A standby ends when its node closes the pipe, or dies.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

STANDBY = "standby"
"""What it is called in place of a number, and the file in the folder that says that there is one now and then."""
HANDED_WITHIN = 0.4  # seconds
FIRST_AFTER = 20.0  # seconds from the second app of a node on: its start has other things to do
NEXT_AFTER = 5.0  # seconds after one was taken
TOLD = 32_000  # bytes of apps that one is told of: a pipe takes so much at once

_JSON = msgspec.json.Encoder().encode


class Standby:
    """The one of a node, in the folder of its hosts. `needs` gives what hosts are asked to load (`rehearse`); logs are beside those of hosts."""

    def __init__(self, folder: Path, jvm: int, logs: Path, needs: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._folder, self._jvm, self._logs = folder, jvm, logs
        self._needs = needs
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None
        self._over = False
        self._lock = threading.Lock()

    def want(self, after: float) -> None:
        """Have one in so many seconds, unless there is one or will be."""
        with self._lock:
            if self._over or self._timer is not None or self._process is not None:
                return
            self._timer = threading.Timer(after, self._start)
            self._timer.daemon = True
            self._timer.start()

    @property
    def pid(self) -> int | None:
        """The one that stands by."""
        process = self._process
        return None if process is None else process.pid

    def _start(self) -> None:
        needs, size = [], 0
        for need in self._needs():
            line = _JSON(need) + b"\n"
            if line not in needs and size + len(line) <= TOLD:
                needs.append(line)
                size += len(line)
        arguments = [str(self._folder), STANDBY, str(self._jvm)]
        with self._lock, (self._logs / "host-standby.log").open("ab") as log:
            self._timer = None
            if self._over:
                return
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nadi.pipeline.executor.host", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            (self._folder / STANDBY).touch(mode=0o600)
            self._tell(self._process, b"".join(needs))

    def take(self, index: int) -> bool:
        """Have it be host `index`, if there is one; the next one comes in a while."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                told = {"index": index, "log": str(self._logs / f"host-{index}.log")}
                self._tell(process, _JSON(told) + b"\n")
                _close(process)
                # nobody else takes note of its end, and it would stay in the table of processes
                threading.Thread(target=process.wait, name=f"end of host {index}", daemon=True).start()
        self.want(NEXT_AFTER)
        return process is not None

    def _tell(self, process: subprocess.Popen[bytes], told: bytes) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: whoever needs a host starts one
            process.stdin.write(told)
            process.stdin.flush()

    def close(self) -> None:
        """End the one that stands by; those that became hosts stay."""
        with self._lock:
            self._over = True
            if self._timer is not None:
                self._timer.cancel()
            process, self._process = self._process, None
        if process is not None:
            _close(process)
            process.kill()
            process.wait()
        (self._folder / STANDBY).unlink(missing_ok=True)


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def called(load: Callable[[Mapping[str, Any]], object]) -> int | None:
    """In the process that stands by: load what the node says until it says which host this is; None where no host is needed. Standard output and error are that
    host's log from then on."""
    with open(0, "rb", closefd=False) as told:
        for line in told:
            asked = msgspec.json.decode(line)
            if "index" in asked:
                _be(Path(asked["log"]))
                return int(asked["index"])
            load(asked)
    return None


def _be(log: Path) -> None:
    nothing, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    for descriptor, place in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(descriptor, place)
    os.close(nothing)
    os.close(out)
