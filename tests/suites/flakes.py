"""`python -m tests.suites.flakes [--rounds N] [PATH...]`: look for tests that depend on chance.

All tests run in N rounds, each in another random order of files and of the tests in them; in every other round two busy loops run beside them. Then each
file runs alone in a process of its own. The table at the end has each test that failed, how often, where, and the first lines of the failure.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.suites.outcome import Outcome, said
from tests.suites.processes import Processes
from tests.suites.started import PROJECT, processes, test_paths

SHOWN = 4
"""Lines of a failure in the table."""
BUSY = 2
PROCESSES = 3


@dataclass(slots=True)
class Flakes:
    """Where each test failed, and what it said first."""

    where: dict[str, list[str]] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, outcome: Outcome) -> None:
        found = [(failure.name, failure.text) for failure in outcome.failures]
        if outcome.broken:
            found.append(("the run as a whole", outcome.broken))
        for name, text in found:
            self.where.setdefault(name, []).append(place)
            self.says.setdefault(name, text)

    def table(self) -> Iterator[str]:
        """Lines; who failed most often stands first."""
        for name, places in sorted(self.where.items(), key=lambda one: (-len(one[1]), one[0])):
            yield f"{len(places):>3} × {name}: {', '.join(places)}"
            yield from (f"        {line[:200]}" for line in said(self.says[name])[:SHOWN])


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Processes that compute without an end, as long as this lasts."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def search(runs: Processes, rounds: int, files: list[str], paths: list[str]) -> Flakes:
    """Run `paths` in so many rounds, and each of `files` alone."""
    flakes = Flakes()
    for number in range(1, rounds + 1):
        seed, loops = random.SystemRandom().randrange(2**31), 0 if number % 2 else BUSY
        place = f"round {number} (--randomly-seed={seed}{', beside busy loops' if loops else ''})"
        if runs.ended:
            return flakes
        runs.say(place)
        order = ("-n", str(PROCESSES), "-p", "randomly", f"--randomly-seed={seed}", "--randomly-dont-reset-seed")
        with busy(loops):
            flakes.add(place, runs.run(f"round-{number}", (*order, *paths), live=True))
    for number, file in enumerate(files, 1):
        if runs.ended:
            return flakes
        runs.say(f"alone, {number} of {len(files)}: {file}")
        outcome = runs.run(f"alone-{number}", (file,), live=False)
        if not outcome.empty:
            flakes.add("alone", outcome)
    return flakes


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.flakes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("path", nargs="*", default=[])
    given = parser.parse_args(words)
    runs = processes("flakes")
    paths = given.path or ["tests"]
    found = search(runs, given.rounds, test_paths(PROJECT, paths), paths)
    lines = list(found.table())
    for line in lines or ["no test failed"]:
        print(line)
    print(f"outputs: {runs.folder}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
