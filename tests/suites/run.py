"""Runs suites side by side, and then once more what failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.suites.outcome import Again, Failure, Outcome, again, too_much
from tests.suites.processes import Processes
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
    """Runs suites in processes of pytest, with `more` arguments."""

    def __init__(self, processes: Processes, more: Sequence[str] = ()) -> None:
        self._processes, self._more = processes, tuple(more)

    def run(self, suites: Sequence[Suite]) -> Verdict:
        """All of them, those of one lane one after the other; then what failed."""
        lanes: dict[str, list[Suite]] = {}
        for suite in suites:
            lanes.setdefault(suite.lane, []).append(suite)
        verdict = Verdict()
        live = len(lanes) == 1
        threads = [threading.Thread(target=self._lane, args=(lane, verdict.ran, live)) for lane in lanes.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._again(verdict)
        if self._processes.ended:
            verdict.broken.append("somebody has interrupted it")
        return verdict

    def _lane(self, suites: list[Suite], ran: list[Ran], live: bool) -> None:
        for suite in suites:
            if not self._processes.ended:
                ran.append(self._suite(suite, live))

    def _suite(self, suite: Suite, live: bool) -> Ran:
        say, name = self._processes.say, suite.name.replace(" ", "-")
        processes = ("-n", str(suite.processes)) if suite.processes else ()
        began = time.monotonic()
        say(f"{suite.name}: begins")
        outcome = self._processes.run(name, (*processes, *suite.arguments, *self._more), live, suite.nice)
        seconds = time.monotonic() - began
        if not live:
            say(self._processes.log_of(name).read_text(encoding="utf-8"))
        say(f"{suite.name}: {'passed' if outcome.green else 'FAILED'} after {seconds:.0f} s")
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
            names = ", ".join(failure.name for failure in one.failures)
            self._processes.say(f"again ({attempt} of {TRIES}): {names}")
            outcome = self._processes.run(f"again-{number}-{attempt}", ("-n", "0", *one.arguments), live=True)
            if outcome.green and outcome.counts.get("passed"):
                return True
            found += [failure for failure in outcome.failures if failure.test not in {before.test for before in found}]
        return False
