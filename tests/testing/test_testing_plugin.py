"""The pytest plugin: the fixture `siddhi`, and YAML files as tests.

Each run has a process of its own: within ours pytester would make it forget the modules that it imports, and numpy cannot be imported twice.
"""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

APP = "define stream S (v int);\n@info(name='double') from S[v > 0] select v * 2 as w insert into Out;\n"
TESTS = """
def test_good(siddhi):
    app = siddhi("double.siddhi")
    app.send("S", [[1], [2]], at="1 sec")
    app.expect("Out", [[2], {"w": 4}])

def test_wrong(siddhi):
    app = siddhi("define stream ${NAME} (v int); from A insert into B;", variables={"NAME": "A"})
    app.send("A", [1])
    app.expect("B", [[2]])

def test_more_comes(siddhi):
    app = siddhi("double.siddhi")
    app.expect("Out", [])
    app.send("S", [3])
"""
SCENARIOS = """scenarios:
  - name: good
    steps: [{send: {S: [1]}}]
    expect: {Out: [[2]]}
  - name: bad
    steps: [{send: {S: [1]}}]
    expect: {Out: [[3]]}
  - name: mistaken
    steps: [{send: {T: [1]}}]
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # one of them would shuffle the tests
    pytester.path.joinpath("double.siddhi").write_text(APP, encoding="utf-8")
    pytester.makeconftest("pytest_plugins = ['nadi.testing.plugin']")
    return pytester


def test_apps_are_tested_in_python(project):
    project.makepyfile(test_double=TESTS)
    answer = project.runpytest_subprocess("-q")
    answer.assert_outcomes(passed=2, failed=1, errors=1)  # what comes too late is told when the fixture ends
    answer.stdout.fnmatch_lines(
        ["*stream Out: 1 row too many*", "*query 'double', line 2 of *", "*stream B: 1 differs*"]
    )


def test_yaml_files_are_tests(project):
    project.path.joinpath("double.test.yaml").write_text(SCENARIOS, encoding="utf-8")
    answer = project.runpytest_subprocess("-v")
    answer.assert_outcomes(passed=1, failed=2)
    answer.stdout.fnmatch_lines(
        [
            "*::good PASSED*",
            "*double.test.yaml:7:*",
            "*stream Out: 1 differs*",
            "*line 2 of *",
            "*STREAM_NOT_DEFINED*'T'*",
        ]
    )


def test_apps_of_yaml_files_get_the_variables_that_are_named(project, monkeypatch):
    project.path.joinpath("double.siddhi").write_text(APP.replace("v * 2", "v * ${FACTOR}"), encoding="utf-8")
    project.path.joinpath("double.test.yaml").write_text(
        SCENARIOS[: SCENARIOS.index("  - name: bad")], encoding="utf-8"
    )
    monkeypatch.setenv("FACTOR", "2")
    project.runpytest_subprocess("-q").assert_outcomes(failed=1)
    project.runpytest_subprocess("-q", "--siddhi-env", "FACTOR").assert_outcomes(passed=1)
    project.runpytest_subprocess("-q", "--siddhi-env", "FACTOR=3").assert_outcomes(failed=1)


def test_a_yaml_file_that_cannot_be_read_is_an_error_and_one_without_an_app_is_somebody_elses(project):
    project.path.joinpath("double.test.yaml").write_text("scenarios: 1\n", encoding="utf-8")
    project.path.joinpath("other.test.yaml").write_text("anything: 1\n", encoding="utf-8")
    answer = project.runpytest_subprocess("-q")
    answer.assert_outcomes(errors=1)
    answer.stdout.fnmatch_lines(["*double.test.yaml:1:12: *TEST_MALFORMED*'scenarios': expected a list, got*"])
