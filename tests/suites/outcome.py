"""What a run of a suite came to, and what of it is run again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.suites.table import Suite

MOST_FAILURES, MOST_FILES = 20, 20
"""With more of them the change is at fault, not chance."""
NO_TESTS = 5
"""pytest's exit status where it found no test, or none that was selected."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed. `seed`: what its dice began with, where it has some."""

    test: str
    text: str
    seed: int | None = None

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def name(self) -> str:
        return self.test if self.seed is None else f"{self.test} --seed {self.seed}"


def said(text: str) -> list[str]:
    """What pytest says of a failure: its lines that begin with E, else all that are not empty.

    >>> said("    assert a == b" + chr(10) + "E   assert 1 == 2")
    ['assert 1 == 2']
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return [line[1:].strip() for line in lines if line.startswith("E ")] or lines


@dataclass(frozen=True, slots=True)
class Outcome:
    """`broken` says why the whole run does not count; "" where it does. `files` has the seconds of each file, summed over all processes, `dearest` the tests
    and files that took longest, each with its seconds and those of processors. `empty`: there was no test to run, which is broken, too. `processor`: the
    seconds of processors of the whole run, without those of processes that nobody saw end."""

    failures: tuple[Failure, ...] = ()
    broken: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    files: dict[str, float] = field(default_factory=dict)
    dearest: tuple[tuple[str, float, float], ...] = ()
    empty: bool = False
    processor: float = 0.0

    @property
    def green(self) -> bool:
        return not self.failures and not self.broken


def outcome_of(lines: Iterable[str], status: int) -> Outcome:
    """What `record` has written of a run that ended with `status`.

    >>> outcome_of([], -9).broken
    'pytest ended with status -9 before it was done'
    """
    failures: dict[tuple[str, int | None], Failure] = {}
    broken = []
    end, processor = None, 0.0
    for line in lines:
        found = json.loads(line)
        match found.pop("kind"):
            case "failed":  # in its body and while it cleaned up: one test
                failure = Failure(**found)
                failures.setdefault((failure.test, failure.seed), failure)
            case "broken":
                broken.append(found["text"])
            case "end":
                end = found
            case "processor":
                processor = found["seconds"]
    if end is None:
        broken.append(f"pytest ended with status {status} before it was done")
        return Outcome(tuple(failures.values()), "\n".join(broken))
    if status not in (0, 1) or (status == 1 and not failures):
        broken.append(f"pytest ended with status {status}")
    dearest = tuple((test, seconds, taken) for test, seconds, taken in end["dearest"])
    return Outcome(
        tuple(failures.values()),
        "\n".join(broken),
        end["outcomes"],
        end["seconds"],
        dearest,
        status == NO_TESTS,
        processor,
    )


@dataclass(frozen=True, slots=True)
class Again:
    """One thing to run again: `arguments` of pytest, because of `failures`."""

    suite: Suite
    arguments: tuple[str, ...]
    failures: tuple[Failure, ...]


def too_much(outcomes: Iterable[Outcome]) -> str:
    """Why nothing is run again, in spite of failures; "" where it is."""
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    files = {failure.file for failure in failures}
    if len(failures) > MOST_FAILURES:
        return f"{len(failures)} tests failed, and {MOST_FAILURES} at most are run again"
    if len(files) > MOST_FILES:
        return f"tests of {len(files)} files failed, and {MOST_FILES} at most are run again"
    return ""


def again(suite: Suite, outcome: Outcome) -> list[Again]:
    """A test with dice is run again alone, with the same dice. Of the others the whole file is: a test that needs another one before it, or suffers from it, is
    in the same company then as when somebody runs its file.

    >>> suite = Suite("some", 10, ("tests/io", "tests/kernel", "-m", "slow", "--rounds", "5"))
    >>> found = (Failure("tests/io/test_a.py::test_b", ""), Failure("tests/kernel/test_c.py::test_d", "", 7))
    >>> [one.arguments for one in again(suite, Outcome(found))]
    [('-m', 'slow', '--rounds', '5', 'tests/io/test_a.py'), ('-m', 'slow', '--rounds', '5', 'tests/kernel/test_c.py::test_d', '--seed', '7')]
    """
    options = tuple(word for word in suite.arguments if not word.startswith(("tests/", "--ignore")))
    planned = [
        Again(suite, (*options, one.test, "--seed", str(one.seed)), (one,))
        for one in outcome.failures
        if one.seed is not None
    ]
    files: dict[str, list[Failure]] = {}
    for one in outcome.failures:
        if one.seed is None:
            files.setdefault(one.file, []).append(one)
    return [Again(suite, (*options, file), tuple(those)) for file, those in files.items()] + planned
