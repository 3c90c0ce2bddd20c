"""Runs suites side by side, then once more what failed, and says how it went."""

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
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suites.outcome import Again, Failure, Outcome, again, outcome_of, too_much
from tests.suites.table import Suite

TRIES = 2
"""How often what failed is run again; once it has to pass."""


@dataclass(frozen=True, slots=True)
class Ran:
    suite: Suite
    outcome: Outcome
    seconds: float


@dataclass(slots=True)
class Verdict:
    """What a run of several suites came to. `flaky` failed and passed when they were run again, `red` failed each time."""

    ran: list[Ran] = field(default_factory=list)
    flaky: list[Failure] = field(default_factory=list)
    red: list[Failure] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def green(self) -> bool:
        return not self.red and not self.broken


class Runner:
    """Runs suites in the folder `project`. What they print goes to `folder`, and to `out`."""

    def __init__(self, project: Path, folder: Path, more: Sequence[str] = ()) -> None:
        self._project, self.folder, self._more = project, folder, tuple(more)
        self._children: set[subprocess.Popen[str]] = set()
        self._lock = threading.RLock()  # a signal may come while its thread has it
        self._numbers = itertools.count()
        self._ended = False
        folder.mkdir(parents=True)

    def run(self, suites: Sequence[Suite]) -> Verdict:
        """All of them, those of one lane one after the other; then what failed."""
        lanes: dict[str, list[Suite]] = {}
        for suite in suites:
            lanes.setdefault(suite.lane, []).append(suite)
        verdict = Verdict()
        threads = [
            threading.Thread(target=self._lane, args=(lane, verdict, len(lanes) == 1)) for lane in lanes.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._again(verdict)
        if self._ended:
            verdict.broken.append("somebody has interrupted it")
        return verdict

    def _lane(self, suites: list[Suite], verdict: Verdict, live: bool) -> None:
        for suite in suites:
            if self._ended:
                return
            ran = self._suite(suite, live)
            with self._lock:
                verdict.ran.append(ran)

    def _suite(self, suite: Suite, live: bool) -> Ran:
        processes = ("-n", str(suite.processes)) if suite.processes else ()
        began = time.monotonic()
        self._say(f"{suite.name}: begins")
        outcome = self._pytest(suite, (*processes, *suite.arguments, *self._more), suite.name.replace(" ", "-"), live)
        seconds = time.monotonic() - began
        self._say(f"{suite.name}: {'passed' if outcome.green else 'FAILED'} after {seconds:.0f} s")
        return Ran(suite, outcome, seconds)

    def _again(self, verdict: Verdict) -> None:
        """Run again what failed, after everything else, one after the other."""
        outcomes = [ran.outcome for ran in verdict.ran]
        verdict.broken = [f"{ran.suite.name}: {ran.outcome.broken}" for ran in verdict.ran if ran.outcome.broken]
        if why := too_much(outcomes):
            verdict.broken.append(why)
        if verdict.broken:
            verdict.red = [failure for outcome in outcomes for failure in outcome.failures]
            return
        planned = [one for ran in verdict.ran for one in again(ran.suite, ran.outcome)]
        for number, one in enumerate(planned, 1):
            found = list(one.failures)
            (verdict.flaky if self._passes(one, number, found) else verdict.red).extend(found)

    def _passes(self, one: Again, number: int, found: list[Failure]) -> bool:
        """Whether it passes in one of its tries. What else fails meanwhile is added to `found`."""
        for attempt in range(1, TRIES + 1):
            if self._ended:
                return False
            names = ", ".join(failure.name for failure in one.failures)
            self._say(f"again ({attempt} of {TRIES}): {names}")
            outcome = self._pytest(one.suite, ("-n", "0", *one.arguments), f"again-{number}-{attempt}", live=True)
            if outcome.green and outcome.counts.get("passed"):
                return True
            found += [failure for failure in outcome.failures if failure.test not in {before.test for before in found}]
        return False

    def _pytest(self, suite: Suite, arguments: tuple[str, ...], name: str, live: bool) -> Outcome:
        """A run of pytest in a process of its own. Its output is shown as it comes (`live`), or whole when it has ended."""
        record, log = self.folder / f"{name}.jsonl", self.folder / f"{name}.log"
        temporary = self._temporary()
        command = [
            *("nice", "-n", str(suite.nice)),
            *(sys.executable, "-m", "pytest", "-p", "tests.suites.record", "--record", str(record)),
            *("--basetemp", str(temporary), "-o", "tmp_path_retention_policy=failed"),
            *arguments,
        ]
        with log.open("w", encoding="utf-8") as shown:
            shown.write(f"{shlex.join(command)}\n")
            child = self._started(command)
            with child:
                for line in child.stdout or ():
                    shown.write(line)
                    if live:
                        sys.stdout.write(line)
                        sys.stdout.flush()
                status = child.wait()
            with self._lock:
                self._children.discard(child)
        if not live:
            self._say(log.read_text(encoding="utf-8"))
        lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
        outcome = outcome_of(lines, status)
        if outcome.green:
            shutil.rmtree(temporary, ignore_errors=True)
        return outcome

    def _started(self, command: list[str]) -> subprocess.Popen[str]:
        with self._lock:
            child = subprocess.Popen(
                command, cwd=self._project, text=True, errors="replace", stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
            self._children.add(child)
        return child

    def _temporary(self) -> Path:
        """A folder for the folders of tests: pytest itself keeps those of three runs only, and what failed first would be gone. Its name is short, for the sake
        of sockets in it."""
        return Path(tempfile.gettempdir()) / f"t{os.getpid()}-{next(self._numbers)}"

    def _say(self, what: str) -> None:
        with self._lock:
            print(what, flush=True)

    def end(self) -> None:
        """Somebody pressed Ctrl-C, or wants it to stop: so do the runs of pytest, which end what they started."""
        self._ended = True
        with self._lock:
            for child in self._children:
                child.send_signal(signal.SIGINT)
