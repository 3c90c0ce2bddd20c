"""Test files are found, read and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from nadi.errors import NOWHERE, NadiError, error, raised
from nadi.testing.app import TOLERANCE, AppUnderTest, ExpectedError
from nadi.testing.model import Expectations, Failing, File, Rows, Scenario, Step, read_tests
from nadi.testing.report import Difference, Unexpected, plain
from nadi.testing.yamltext import Document, Path

ENDINGS = (".test.yaml", ".test.yml")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scenario: it passed where there is neither a difference nor an error."""

    file: str
    line: int
    name: str
    differences: tuple[Difference, ...] = ()
    error: NadiError | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario that can be run. `text` is that of the app, `app_file` its name as messages show it."""

    tests: File
    document: Document
    index: int
    text: str
    app_file: str

    @property
    def scenario(self) -> Scenario:
        return self.tests.scenarios[self.index]

    @property
    def path(self) -> Path:
        return ("scenarios", self.index)

    @property
    def line(self) -> int:
        return self.document.place(self.path).line


def files_in(places: Iterable[FilePath]) -> list[FilePath]:
    """The test files among files and in folders, each once, in order of their names.

    Raises:
        NO_TESTS: there are none in a folder.
    """
    found: dict[FilePath, None] = {}
    for place in places:
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*") if p.name.endswith(ENDINGS) and p.is_file())
            if not inside:
                raise error("NO_TESTS", place=place, filter="")
            found.update(dict.fromkeys(inside))
        else:
            found[place] = None
    return list(found)


def cases(file: FilePath) -> list[Case]:
    """The scenarios of a file, with the app that it names or, if it names none, `<first part of its name>.siddhi`; beside it in both cases.

    Raises:
        TEST_NOT_YAML, TEST_MALFORMED, APP_NOT_READABLE.
    """
    tests, document = read_tests(_read(file), str(file))
    app = file.parent / (tests.app or file.name.partition(".")[0] + ".siddhi")
    try:
        text = _read(app)
    except NadiError as unreadable:
        span = document.place(("app",)) if tests.app else NOWHERE
        given = unreadable.parameters
        raise error("APP_NOT_READABLE", span, document.text, document.file, **given) from unreadable
    return [Case(tests, document, i, text, str(app)) for i in range(len(tests.scenarios))]


def _read(file: FilePath) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        raise error("APP_NOT_READABLE", file=str(file), reason=reason) from reason


def run(case: Case, variables: Mapping[str, str] | None = None) -> Outcome:
    """Run a scenario on a fresh app. `${name}` comes from the scenario, the file and `variables`, in this order."""
    scenario, tests = case.scenario, case.tests
    own = {name: _text(value) for name, value in {**tests.variables, **scenario.variables}.items()}
    given = {**(variables or {}), **own}
    start = tests.start if scenario.start is None else scenario.start
    tolerance = next((t for t in (scenario.tolerance, tests.tolerance) if t is not None), TOLERANCE)
    differences: list[Difference] = []
    problem: NadiError | None = None
    try:
        app = AppUnderTest(case.text, file=case.app_file, start=start, variables=given, tolerance=tolerance)
    except NadiError as failed:
        differences, problem = _failed(case, failed)
    else:
        try:
            if scenario.fails is not None:
                path = (*case.path, "fails")
                what = f"the app can be made; expected was {_failing(scenario.fails)}"
                differences = [Difference(what, line=case.document.place(path).line)]
            else:
                differences = _Running(case, app).all()
        except NadiError as failed:
            problem = failed
    return Outcome(case.document.file, case.line, scenario.name, tuple(differences), problem)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _failing(fails: Failing | str) -> ExpectedError:
    return ExpectedError(fails) if isinstance(fails, str) else ExpectedError(fails.condition, None, fails.message)


def _failed(case: Case, failed: NadiError) -> tuple[list[Difference], NadiError | None]:
    """No app could be made: what was expected, or not."""
    fails = case.scenario.fails
    if fails is None:
        return [], failed
    wanted = _failing(fails)
    fits = wanted.condition in (None, failed.condition) and (wanted.message or "") in failed.diagnostic.message
    if fits:
        return [], None
    what = f"the app cannot be made for another reason than {wanted}: {failed}"
    return [Difference(what, line=case.document.place((*case.path, "fails")).line)], None


def told(outcome: Outcome) -> list[str]:
    """A failed scenario, a line each."""
    if outcome.error is not None:
        return str(outcome.error).splitlines()
    return [
        line
        for found in outcome.differences
        for line in (f"{outcome.file}:{found.line}:", *(f"  {text}" for text in plain(found)))
    ]


class _Running:
    """The steps of a scenario on its app. A difference does not end it; a mistake in the test file does."""

    def __init__(self, case: Case, app: AppUnderTest) -> None:
        self._case = case
        self._app = app
        self._found: list[Difference] = []

    def all(self) -> list[Difference]:
        case, scenario = self._case, self._case.scenario
        for j, step in enumerate(scenario.steps):
            self._step(step, (*case.path, "steps", j))
        self._expect(scenario.expect, (*case.path, "expect"))
        if scenario.errors is not None:
            self._errors(scenario.errors, (*case.path, "errors"))
        line = case.document.place(case.path).line
        self._found += [replace(d, what=f"at the end, {d.what}", line=line) for d in self._app.finish()]
        return self._found

    def _step(self, step: Step, path: Path) -> None:
        app = self._app
        if step.at is not None:
            self._do((*path, "at"), partial(app.at, step.at))
        if step.advance is not None:
            self._do((*path, "advance"), partial(app.advance, step.advance))
        for stream, rows in (step.send or {}).items():
            self._do((*path, "send", stream), partial(app.send, stream, rows))
        if step.query is not None:
            self._query(step.query, step.gives, path)
        if step.expect is not None:
            self._expect(step.expect, (*path, "expect"))
        if step.errors is not None:
            self._errors(step.errors, (*path, "errors"))

    def _query(self, text: str, gives: list[Any] | Rows | None, path: Path) -> None:
        if gives is None:
            self._do((*path, "query"), partial(self._app.query, text))
        else:
            rows, options = _rows(gives)
            self._do((*path, "gives"), partial(self._app.expect_query, text, rows, **options))

    def _expect(self, expectations: Expectations, path: Path) -> None:
        for stream, given in expectations.items():
            rows, options = _rows(given)
            self._do((*path, stream), partial(self._app.expect, stream, rows, **options))

    def _errors(self, given: Sequence[Failing], path: Path) -> None:
        wanted = [ExpectedError(e.condition, e.stream, e.message) for e in given]
        self._do(path, partial(self._app.expect_errors, wanted))

    def _do(self, path: Path, what: Callable[[], object]) -> None:
        """Do it; what is wrong is told with its place in the file."""
        document = self._case.document
        span = document.keys.get(path) or document.place(path)
        try:
            what()
        except Unexpected as found:
            self._found.append(replace(found.difference, line=span.line))
        except NadiError as problem:
            if problem.diagnostic.span != NOWHERE and path[-1] == "gives":  # the place is one in the query
                span = document.place((*path[:-1], "query"))
            told = replace(problem.diagnostic, span=span, source=document.text, file=document.file)
            raise raised(told, **problem.parameters) from problem


def _rows(given: list[Any] | Rows) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(given, Rows):
        return given.rows, {"unordered": given.unordered, "tolerance": given.tolerance}
    return given, {}
