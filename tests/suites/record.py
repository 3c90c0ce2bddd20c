"""A plugin of pytest: `-p tests.suites.record --record FILE` writes what failed, a JSON object a line, and at the end how the run went.

`failed`: a test, with what it printed and the dice it used (the property `seed`). `broken`: an error of collection, or a process of pytest that died. `end`:
pytest's exit status, how many tests had which outcome, the seconds that each file took, and the dearest tests and files, each with its seconds and those of
processors that it and what it has started and seen end took. `processor`: those seconds of the whole run.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.naming import plain

DEAREST = 150


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, default=None, help="write to this file what failed")


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("record")
    if file is not None:
        config.pluginmanager.register(Meter(), "meter")
    if file is not None and not hasattr(config, "workerinput"):  # the processes of xdist report to this one
        config.pluginmanager.register(Record(file), "record")


class Meter:
    """Notes the processor time of each test, in the process that runs it."""

    def __init__(self) -> None:
        self._before = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._before = self._before or _processor()  # of the first test; to ask takes a while

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            before, self._before = self._before, _processor()  # the next test begins now
            item.user_properties.append(("processor", round(self._before - before, 2)))


def _processor() -> float:
    """Seconds of processors that this process, and those that it has started and seen end, have taken."""
    return sum(os.times()[:4])


class Record:
    """Writes the lines of one run to `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w", encoding="utf-8")
        self._outcomes: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()
        self._processor: Counter[str] = Counter()

    def _write(self, kind: str, **facts: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **facts}) + "\n")
        self._file.flush()  # what comes next may be the end of the process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = plain(report.nodeid)
        self._files[test.partition("::")[0]] += report.duration
        self._tests[test] += report.duration
        properties = dict(report.user_properties)
        if report.when == "teardown":
            self._processor[test] += properties.get("processor", 0)
            self._processor[test.partition("::")[0]] += properties.get("processor", 0)
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.outcome] += 1
        if report.failed:
            text = "\n".join([report.longreprtext, *(f"--- {name}\n{content}" for name, content in report.sections)])
            seed = properties.get("seed")
            self._write("failed", test=test, text=text, seed=seed)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("broken", text=f"{report.nodeid or 'the collection'}: {report.longreprtext}")

    @pytest.hookimpl(optionalhook=True)  # of xdist
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._write("broken", text=f"the process {node.gateway.id} of pytest died: {error}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        dearest = [*self._dearest(self._files), *self._dearest(self._tests)]
        self._write("end", status=int(exitstatus), outcomes=self._outcomes, seconds=self._files, dearest=dearest)

    def _dearest(self, seconds: Counter[str]) -> list[tuple[str, float, float]]:
        return [(name, round(took, 2), round(self._processor[name], 2)) for name, took in seconds.most_common(DEAREST)]

    @pytest.hookimpl(trylast=True)  # the processes of xdist have ended
    def pytest_unconfigure(self) -> None:
        self._write("processor", seconds=round(_processor(), 1))
        self._file.close()
