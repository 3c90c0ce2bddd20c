"""`pytest tests/simulation --schedules N --seed S`: so many schedules, with the seeds from S on.

Without `--seed` the seeds are others in each run, and named at its end. A schedule that finds something names the command that replays it, bit for bit.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

SCHEDULES = 400
"""In a run of all tests: about eight seconds of processor time."""
A_SCHEDULE = 0.2  # seconds that one may take, on a busy machine
SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("simulation").addoption("--schedules", type=int, default=None, help="simulate so many schedules")


def pytest_configure(config: pytest.Config) -> None:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # the same in all processes of a run
    config.stash[SEED] = int(run[:7], 16) if run else int(time.time() * 1000) % 1_000_000_000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "find_nothing" in item.name:
            item.add_marker(pytest.mark.timeout(300 + A_SCHEDULE * _number(config)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        return  # the processes know it; one that finds something says it
    if any(
        HERE in Path(str(config.rootpath / found.fspath)).parents for found in terminalreporter.getreports("passed")
    ):
        terminalreporter.write_line(f"simulation: {_number(config)} schedules from --seed {_first(config)}")


def _number(config: pytest.Config) -> int:
    found: int | None = config.getoption("schedules", None)
    return SCHEDULES if found is None else found


def _first(config: pytest.Config) -> int:
    found: int | None = config.getoption("seed", None)
    return config.stash.get(SEED, 1) if found is None else found


@pytest.fixture
def number(request: pytest.FixtureRequest) -> int:
    return _number(request.config)


@pytest.fixture
def first_seed(request: pytest.FixtureRequest) -> int:
    found = _first(request.config)
    request.node.user_properties.append(("seed", found))  # what is run again begins with the same
    return found
