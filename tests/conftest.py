"""What concerns all tests: with several processes (`-n 2`) those that start Spark stay in one of them, where they share its session, and those of the columns
kernel in one, too."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path

import httpx
import pytest
from hypothesis import settings
from naming import again, short
from servers.emptydatabase import database, database_server

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nadi.io.authorities import authorities
from tests import room
from tests.generate.budget import ASKED, dice
from tests.onespark import one_spark

__all__ = ["database", "database_server", "one_spark"]  # fixtures for all

pytest.register_assert_rewrite("tests.kernel.columns.comparing")

# How long a case takes is the machine's business; each run has other cases.
settings.register_profile("nadi", deadline=None, max_examples=int(ASKED or 40))
settings.load_profile("nadi")

MORE_OR_LESS = ("rounds", "load", "schedules", "kinds", "examples")
"""Options that say how much a test does, and with which faults: kill tests, simulations and generated clusters have them."""
ONE_PROCESS = ("spark", "slow", "long")  # two of these at a time fight for the machine: 14 minutes instead of 11


def _group(item: pytest.Item) -> str:
    """The name of the tests that one process runs, one after the other; "" where any process may."""
    if any(item.get_closest_marker(name) for name in ONE_PROCESS):
        return "spark"
    # Who calls a loop first compiles it: of two processes that begin with the same tests both would, and generated ones wait for each other.
    return "columns" if "columns" in (item.path.parent.name, item.path.stem.rpartition("_")[2]) else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed", type=int, default=None, help="what the dice of kill tests, simulations and generated cases begin with"
    )
    parser.addoption(
        "--examples", type=int, default=None, help="how many apps are generated whose parts are run as a cluster"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(room)
    dice.begin(config)
    # httpx waits for five seconds where nobody says how long, and a busy machine may take longer. nadi itself says it everywhere.
    patience = httpx.Client.__init__.__kwdefaults__["timeout"]
    patience.connect = patience.read = patience.write = patience.pool = 60.0
    # Each client loads the certificates of all authorities, which takes 20 ms; those of tests have one context.
    calls = [httpx.Client.__init__, httpx.AsyncClient.__init__, httpx.request, httpx.stream.__wrapped__]
    for call in [*calls, httpx.get, httpx.post, httpx.put, httpx.patch, httpx.delete, httpx.head, httpx.options]:
        call.__kwdefaults__["verify"] = authorities()
    # A shell lets what it runs behind ignore Ctrl-C, and processes hand that on: those that tests interrupt would not end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Whoever ends pytest by another signal, or closes its terminal, wants the servers and nodes of its tests to end as well.
    if not hasattr(config, "workerinput"):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before the plugin reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collectstart() -> None:
    gc.disable()  # until all tests are collected: what they import stays


def pytest_collection_finish() -> None:
    # Python would go through all modules and 11,000 tests again and again while tests run, and find that nothing of it is garbage.
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    return short(val)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How each test that failed is run again, alone, with the same dice."""
    given = {name: value for name in MORE_OR_LESS if (value := config.getoption(name, None))}
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    commands = {
        again(one.nodeid, one.keywords, given | _dice(one)) for one in failed if isinstance(one, pytest.TestReport)
    }
    if commands:
        terminalreporter.section("run again")
        for command in sorted(commands):
            terminalreporter.write_line(command)


def _dice(report: pytest.TestReport) -> dict[str, object]:
    """The seed that the test began with, where it has dice."""
    return {name: value for name, value in report.user_properties if name == "seed"}
