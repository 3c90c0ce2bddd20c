"""`pytest tests/chaos --rounds N --seed S --pools true`: how often something is killed, what the dice begin with, and whether apps share queries of Spark:
`true`, `false`, or one run with and one without (`both`).

Without `--rounds` the test counts as a slow one, and does everything once or twice (`strikes.DECK`).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SECONDS_A_ROUND = 90
# A broker that was killed is registered for so long; only then another one may have its number.
RETURNING = "broker.session.timeout.ms=1000\nbroker.heartbeat.interval.ms=200\n"
REPORTS = pytest.StashKey[list[str]]()
HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "endtoend"):  # nodes are started and looked at there
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from strikes import ROUNDS  # noqa: E402 (the folder had to be added first)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--rounds", type=int, default=None, help="kill so many times")
    group.addoption("--kinds", default="", help="only these faults, with commas (of a cluster or a pair)")
    group.addoption("--load", type=int, default=None, help="events a second that a pair is sent")
    group.addoption("--pools", choices=("true", "false", "both"), default="both", help="whether apps share queries")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pools" in metafunc.fixturenames:
        given = metafunc.config.getoption("pools", "both")
        ways = {"shared": True, "own": False}
        chosen = {name: way for name, way in ways.items() if given in ("both", str(way).lower())}
        metafunc.parametrize("pools", list(chosen.values()), ids=list(chosen))


def _rounds(config: pytest.Config) -> int | None:
    found: int | None = config.getoption("rounds", None)
    return found


@pytest.hookimpl(tryfirst=True)  # before marks deselect
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("spark"):
            if _rounds(config) is None:
                item.add_marker("slow")
            item.add_marker(pytest.mark.timeout(600 + SECONDS_A_ROUND * (_rounds(config) or ROUNDS)))


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return _rounds(request.config) or ROUNDS


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given: int | None = request.config.getoption("seed", None)
    chosen = int(time.time()) if given is None else given
    request.node.user_properties.append(("seed", chosen))  # what is run again has the same dice
    return chosen


@pytest.fixture
def kinds(request: pytest.FixtureRequest) -> list[str]:
    given: str = request.config.getoption("kinds", "")
    return [kind for kind in given.split(",") if kind]


@pytest.fixture(scope="session")
def broker_module() -> Any:
    """The example's broker, with a setting that lets it come back in 4 s instead of 13."""
    path = HERE.parents[1] / "examples" / "kafka" / "broker.py"
    spec = importlib.util.spec_from_file_location("chaos_broker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    module.PROPERTIES += RETURNING
    return module


@pytest.fixture
def reports() -> pytest.StashKey[list[str]]:
    """Where reports go that are shown at the end of the run."""
    return REPORTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for text in config.stash.get(REPORTS, []):
        terminalreporter.section("kill test")
        terminalreporter.write_line(text)
