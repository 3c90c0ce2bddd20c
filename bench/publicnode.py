"""A node as a user has it: `python -m nadi run …`, or another command, of some checkout in a process of its own. Nothing of it is known but what
the command says and does.

with PublicNode(checkout, folder, [app], conf={"nadi.kernel": "auto"}) as node:
    node.until(lambda: output.exists() or None, 120, "a first row")
    ended = node.stop()
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.checkouts import Checkout
from bench.checks import WrongOutputError
from bench.children import ChildFailedError
from bench.processtree import kill_all

MASTER = "local[*,4]"
LOOK = 0.02  # seconds between two looks
STOPS_WITHIN = 180.0
ENDS_WITHIN = 15.0  # after it was told to end at once
_SUMMARY = re.compile(
    r"(?P<app>\S+): (?P<state>finished|stopped|failed), (?P<taken>[\d,]+) events in, (?P<given>[\d,]+) out(?P<rest>.*)"
)
_WAITING = re.compile(r"(?P<app>\S+): waiting · ")
_PASSWORD = re.compile(r"the password (\S+)")

T = TypeVar("T")


class TooSlowError(ChildFailedError):
    """What was waited for did not come within its time."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a node said of an app at its end: "finished", "stopped" or "failed", events in and out, and what it said of errors ("" for nothing)."""

    app: str
    state: str
    taken: int
    given: int
    errors: str


def summary(lines: Sequence[str]) -> dict[str, Ended]:
    """What was said of each app at the end.

    >>> summary(["a: running · in 5", "a: stopped, 1,200 events in, 7 out"])
    {'a': Ended(app='a', state='stopped', taken=1200, given=7, errors='')}
    """
    found = {}
    for line in lines:
        if told := _SUMMARY.fullmatch(line.strip()):
            taken, given = (int(told[name].replace(",", "")) for name in ("taken", "given"))
            found[told["app"]] = Ended(told["app"], told["state"], taken, given, told["rest"].strip(", "))
    return found


def restarted(lines: Sequence[str]) -> set[str]:
    """The apps that had to be started again.

    >>> restarted(["a: running · in 5", "a: waiting · in 5", "b: running · in 1"])
    {'a'}
    """
    return {told["app"] for line in lines if (told := _WAITING.match(line.strip()))}


class PublicNode:
    """A node that runs. `folder` is its own: state, log and mark; `cache` is where it keeps what it compiles (None: where the user's is)."""

    def __init__(
        self,
        checkout: Checkout,
        folder: Path,
        apps: Sequence[Path],
        *,
        master: str = MASTER,
        conf: Mapping[str, str] | None = None,
        until_end: bool = False,
        cache: Path | None = None,
        command: Sequence[str] = (),
    ) -> None:
        """`command`: another one than `run` with what is given here."""
        self.checkout, self.folder, self.state = checkout, folder, folder / "state"
        self.lines: list[str] = []
        self.begin = time.monotonic()
        self._log = folder / "node.log"
        folder.mkdir(parents=True, exist_ok=True)
        words = ["run", *map(str, apps), "--state-dir", str(self.state), "--master", master]
        words += [word for name, value in (conf or {}).items() for word in ("--conf", f"{name}={value}")]
        words += ["--until-end"] if until_end else []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nadi", *(command or words)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**checkout.environment(folder), **({"NADI_CACHE": str(cache)} if cache is not None else {})},
            start_new_session=True,  # Ctrl-C is for the run, which ends its processes in order
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("wb") as log, self._process.stdout as output:
            for line in output:
                log.write(line)
                log.flush()
                self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def __enter__(self) -> PublicNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def password(self) -> str:
        """That of the user it made at its start, once it has said so; "" where it has said none."""
        return next((found[1] for line in self.lines if (found := _PASSWORD.search(line))), "")

    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.begin

    def check(self) -> None:
        """Errors: ChildFailedError where it has ended."""
        if self._process.poll() is not None:
            self._listener.join(5)
            told = next((line for line in reversed(self.lines) if line.strip()), "it said nothing")
            raise ChildFailedError(
                f"nadi run ({self.checkout.label}) ended with {self._process.returncode}: {told} (see {self._log})"
            )

    def until(
        self, look: Callable[[], T | None], within: float, what: str, show: Callable[[], object] | None = None
    ) -> T:
        """Look again and again until there is something. Errors: ChildFailedError where the node ends, TooSlowError after `within` s."""
        limit, told = time.monotonic() + within, time.monotonic()
        while (found := look()) is None:
            self.check()
            now = time.monotonic()
            if now > limit:
                last = next((line for line in reversed(self.lines) if line.strip()), "nothing")
                raise TooSlowError(
                    f"{self.checkout.label}: no {what} within {within:.0f} s; nadi run said last: {last}"
                )
            if show is not None and now - told > 1.0:
                told = now
                show()
            time.sleep(LOOK)
        return found

    def wait(self, within: float, show: Callable[[], object] | None = None) -> dict[str, Ended]:
        """Wait until it has ended by itself. Errors: TooSlowError; ChildFailedError where an app failed."""
        limit, told = time.monotonic() + within, time.monotonic()
        while self._process.poll() is None:
            now = time.monotonic()
            if now > limit:
                raise TooSlowError(f"nadi run ({self.checkout.label}) did not end within {within:.0f} s")
            if show is not None and now - told > 1.0:
                told = now
                show()
            time.sleep(LOOK)
        self._listener.join(10)
        if self._process.returncode:
            self.check()
        return summary(self.lines)

    def stop(self, within: float = STOPS_WITHIN) -> dict[str, Ended]:
        """Ctrl-C, and wait for its end; -> what it said of each app. Errors: ChildFailedError where it had ended, or does not end."""
        self.check()
        self._process.send_signal(signal.SIGINT)
        return self.wait(within)

    def end(self) -> None:
        """End it at once if it still runs, with all that it started; a second call has no effect."""
        for _ in range(2):  # the second one is for those that do not want to wait
            with contextlib.suppress(ProcessLookupError):
                if self._process.poll() is None:
                    os.kill(self._process.pid, signal.SIGTERM)
                    time.sleep(0.1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDS_WITHIN)
        kill_all(self.folder)
        self._process.wait()
        self._listener.join(5)


def check_end(
    label: str, ended: Mapping[str, Ended], app: str, lines: Sequence[str], taken: int | None = None
) -> Ended:
    """What was said of an app that ran without trouble, and took so many events if that is known. Errors: WrongOutputError."""
    if app not in ended:
        raise WrongOutputError(f"{label}: nadi run said nothing of {app} at its end")
    told = ended[app]
    if told.state == "failed" or told.errors or app in restarted(lines):
        trouble = told.errors or ("it was started again" if app in restarted(lines) else "see its log")
        raise WrongOutputError(f"{label}: the app {told.state}: {trouble}")
    if taken is not None and told.taken != taken:
        raise WrongOutputError(f"{label}: the app took {told.taken:,} of {taken:,} events")
    return told
