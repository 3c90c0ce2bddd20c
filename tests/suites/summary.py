"""What is shown at the end of a run of suites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.suites.outcome import Failure, said
from tests.suites.run import Ran, Verdict


def summary(verdict: Verdict, folder: Path) -> Iterator[str]:
    """Lines: a table of suites with their budgets, then what failed."""
    yield f"{'suite':<24} {'budget':>7} {'took':>7} {'processor':>9}  outcome"
    for ran in sorted(verdict.ran, key=lambda one: one.suite.name):
        over = " over its budget" if ran.seconds > ran.suite.budget else ""
        yield f"{ran.suite.name:<24} {ran.suite.budget:>5} s {ran.seconds:>5.0f} s {ran.outcome.processor:>7.0f} s  {_counts(ran)}{over}"
        yield from _packages(ran)
    yield f"the dearest tests: {dearest(verdict, folder)}"
    yield from (f"BROKEN {line}" for line in verdict.broken)
    if verdict.red:
        yield f"RED {len(verdict.red)}: {_names(verdict.red)} (outputs: {folder})"
    if verdict.flaky:
        for one in verdict.flaky:
            yield f"flaky: {one.name}: {(said(one.text) or [''])[0][:200]}"
        yield f"FLAKY {len(verdict.flaky)}: {_names(verdict.flaky)} (outputs: {outputs(verdict, folder)})"


def dearest(verdict: Verdict, folder: Path) -> Path:
    """The file with the tests and the files of tests that took longest, of all suites, with their seconds and those of processors."""
    file = folder / "dearest.txt"
    everything = sorted((one for ran in verdict.ran for one in ran.outcome.dearest), key=lambda one: -one[1])
    tests, files = [one for one in everything if "::" in one[0]], [one for one in everything if "::" not in one[0]]
    lines = ["seconds processor test", *map(_line, tests), "", "seconds processor file", *map(_line, files)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _line(dear: tuple[str, float, float]) -> str:
    name, seconds, processor = dear
    return f"{seconds:7.1f} {processor:9.1f} {name}"


def outputs(verdict: Verdict, folder: Path) -> Path:
    """The file with all that tests printed which failed."""
    file = folder / "failures.txt"
    parts = [f"==== {one.name}\n{one.text}\n" for one in (*verdict.red, *verdict.flaky)]
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def _names(failures: list[Failure]) -> str:
    return ", ".join(one.name for one in failures)


def _counts(ran: Ran) -> str:
    if ran.outcome.broken:
        return "broken"
    return ", ".join(f"{count} {what}" for what, count in sorted(ran.outcome.counts.items(), reverse=True)) or "nothing"


def _packages(ran: Ran) -> Iterator[str]:
    """The seconds of the packages of tests, summed over all processes, the dearest first; nothing where there is one only."""
    packages = Counter[str]()
    for file, seconds in ran.outcome.files.items():
        packages["/".join(file.split("/")[:2])] += seconds
    if len(packages) > 1:
        dear = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in packages.most_common() if seconds >= 1)
        yield f"    {dear}"
