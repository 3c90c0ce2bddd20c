"""Runs pytest in processes of its own, each with its output and its record in files."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from tests.suites.outcome import Outcome, outcome_of

LEFT = 20.0
"""Seconds after the end of pytest for which what it started may hold its output."""


class Processes:
    """Runs pytest in the folder `project`. What it prints goes to `folder`, which is made."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._project, self.folder = project, folder
        self._children: set[subprocess.Popen[str]] = set()
        self._lock = threading.RLock()  # a signal may come while its thread has it
        self._numbers = itertools.count()
        self.ended = False
        folder.mkdir(parents=True)

    def run(self, name: str, arguments: tuple[str, ...], live: bool, nice: int = 0) -> Outcome:
        """A run of pytest. Its output is shown as it comes (`live`), or not at all (`log_of` has it)."""
        record, temporary = self.folder / f"{name}.jsonl", self._temporary()
        command = [
            *("nice", "-n", str(nice)),
            *(sys.executable, "-m", "pytest", "-p", "tests.suites.record", "--record", str(record)),
            *("--basetemp", str(temporary)),
            *arguments,
        ]
        status = self._status(command, self.log_of(name), live)
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        outcome = outcome_of(lines, status)
        if outcome.green:
            shutil.rmtree(temporary, ignore_errors=True)
        return outcome

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _status(self, command: list[str], log: Path, live: bool) -> int:
        with self._lock:
            if self.ended:
                return -signal.SIGINT
            child = subprocess.Popen(
                command, cwd=self._project, text=True, errors="replace", stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
            self._children.add(child)
        log.write_text(f"{shlex.join(command)}\n", encoding="utf-8")
        assert child.stdout is not None
        reading = threading.Thread(target=_copied, args=(child.stdout, log, live), daemon=True, name="output of pytest")
        reading.start()
        status = child.wait()
        with self._lock:
            self._children.discard(child)
        reading.join(LEFT)
        if reading.is_alive():  # nobody waits for a server that a test has forgotten
            self.say(f"a process that the tests have started still runs: {shlex.join(command)}")
        return status

    def _temporary(self) -> Path:
        """A folder for the folders of tests: pytest itself keeps those of three runs only, and what failed first would be gone. Its name is short, for the sake
        of sockets in it."""
        return Path(tempfile.gettempdir()) / f"t{os.getpid()}-{next(self._numbers)}"

    def say(self, what: str) -> None:
        with self._lock:
            print(what, flush=True)

    def end(self) -> None:
        """Somebody pressed Ctrl-C, or wants it to stop: so do the runs of pytest, which end what they started."""
        self.ended = True
        with self._lock:
            for child in self._children:
                child.send_signal(signal.SIGINT)


def _copied(lines: IO[str], log: Path, live: bool) -> None:
    with lines, log.open("a", encoding="utf-8", buffering=1) as copy:
        for line in lines:
            copy.write(line)
            if live:
                sys.stdout.write(line)
                sys.stdout.flush()
