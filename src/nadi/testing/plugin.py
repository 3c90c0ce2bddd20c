"""For pytest: a fixture for tests in Python, and the YAML files beside apps as tests.

Switch it on with `pytest_plugins = ["nadi.testing.plugin"]` in the topmost conftest.py, or `-p nadi.testing.plugin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from nadi.config.variables import variables_of
from nadi.errors import NadiError
from nadi.testing.app import TOLERANCE, AppUnderTest
from nadi.testing.report import plain
from nadi.testing.scenarios import ENDINGS, Case, Outcome, cases, run, told
from nadi.testing.times import Time


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--siddhi-env`: as `nadi test --env`."""
    said = "A variable that apps of YAML files get, ${NAME}: NAME from the environment, or NAME=VALUE."
    parser.addoption("--siddhi-env", action="append", default=[], metavar="NAME[=VALUE]", help=said)


class Apps:
    """Makes apps under test; the fixture `siddhi` is one of these."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: list[AppUnderTest] = []

    def __call__(
        self,
        app: str | Path,
        *,
        start: Time = 0,
        variables: Mapping[str, str] | None = None,
        tolerance: float = TOLERANCE,
    ) -> AppUnderTest:
        """An app from a file (a name that ends with `.siddhi`, beside the test) or from its text."""
        text, file = str(app), ""
        if text.endswith(".siddhi"):
            file = str(self._folder / app)
            text = Path(file).read_text(encoding="utf-8")
        made = AppUnderTest(text, file=file, start=start, variables=variables, tolerance=tolerance)
        self.made.append(made)
        return made


@pytest.fixture
def siddhi(request: pytest.FixtureRequest) -> Iterator[Apps]:
    """Apps on a virtual clock. At the end of the test, rows that came after the last `expect` on a stream and errors that nobody expected fail it."""
    apps = Apps(request.path.parent)
    yield apps
    left = [difference for app in apps.made for difference in app.finish()]
    if left:
        pytest.fail("\n".join(line for difference in left for line in plain(difference)), pytrace=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Files whose app stands beside them; other projects use the ending as well."""
    if file_path.name.endswith(ENDINGS) and _has_app(file_path):
        return TestFile.from_parent(parent, path=file_path)
    return None


def _has_app(path: Path) -> bool:
    beside = path.parent / (path.name.partition(".")[0] + ".siddhi")
    return beside.is_file() or any(line.startswith("app:") for line in path.read_text("utf-8").splitlines())


class TestFile(pytest.File):
    """A YAML file of scenarios."""

    __test__ = False

    def collect(self) -> Iterable[pytest.Item]:
        try:
            found = cases(self.path)
        except NadiError as problem:
            raise self.CollectError(str(problem)) from problem
        for case in found:
            yield TestScenario.from_parent(self, name=case.scenario.name, case=case)


class Failed(Exception):
    """A scenario did not pass."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name)
        self.outcome = outcome


class TestScenario(pytest.Item):
    """One scenario."""

    __test__ = False

    def __init__(self, *, case: Case, name: str, parent: pytest.Collector) -> None:
        super().__init__(name, parent)
        self._case = case

    def runtest(self) -> None:
        outcome = run(self._case, variables_of(self.config.getoption("--siddhi-env")))
        if not outcome.passed:
            raise Failed(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        if isinstance(excinfo.value, Failed):
            return "\n".join(told(excinfo.value.outcome))
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._case.line - 1, self.name
