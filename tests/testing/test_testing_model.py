"""Test files: what may stand in them, and what is said of what may not."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.testing.model import read_tests


def _refused(text: str) -> NadiError:
    with pytest.raises(NadiError) as caught:
        read_tests(text, "a.test.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("scenarios:\n  - name: a\n    stesp: []\n", 3, 5, "unknown key 'stesp' (did you mean 'steps'?)"),
        ("scenarois: []\n", 1, 1, "unknown key 'scenarois' (did you mean 'scenarios'?)"),
        (
            "scenarios:\n  - name: a\n    steps:\n      - sent: {S: [1]}\n",
            4,
            9,
            "unknown key 'sent' (did you mean 'send'?)",
        ),
        (
            "scenarios:\n  - name: a\n    expect:\n      Out: {row: []}\n",
            4,
            13,
            "unknown key 'row' (did you mean 'rows'?)",
        ),
        ("scenarios:\n  - {name: a, fails: {conditon: X}}\n", 2, 23, "unknown key 'conditon'"),
        ("scenarios:\n  - steps: []\n", 2, 5, "the key 'name' is missing"),
        ("app: x.siddhi\n", 1, 1, "the key 'scenarios' is missing"),
        ("scenarios:\n  - name: a\n    steps: {send: {}}\n", 3, 12, "'steps': expected a list, got a mapping"),
        ("scenarios:\n  - {name: a, tolerance: much}\n", 2, 26, "'tolerance': expected a number, got text"),
        ("scenarios:\n  - name: a\n    steps:\n      - {}\n", 4, 9, "the step says nothing"),
        ("scenarios:\n  - name: a\n    steps:\n      - gives: [[1]]\n", 4, 16, "'gives' without 'query'"),
        ("scenarios:\n  - {name: a, name: b}\n", 2, 15, "the key 'name' is there twice"),
        ("- 1\n", 1, 1, "a test file is a mapping"),
        ("scenarios:\n  - {name: a, fails: X, errors: []}\n", 2, 22, "an app that cannot be made takes no steps"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_the_nearest_known_key(text, line, column, said):
    found = _refused(text)
    assert found.condition == "TEST_MALFORMED"
    assert (found.diagnostic.span.line, found.diagnostic.span.column) == (line, column), str(found)
    assert said in str(found)
    assert str(found).startswith(f"a.test.yaml:{line}:{column}: ")


def test_what_is_no_yaml_is_told_with_its_line():
    found = _refused("scenarios:\n  - name: [a\n  - name: b\n")
    assert found.condition == "TEST_NOT_YAML"
    assert found.diagnostic.span.line == 3
    assert _refused("").condition == "TEST_MALFORMED"
    assert _refused("a: \x00").condition == "TEST_NOT_YAML"


def test_words_that_older_yaml_takes_for_something_else_are_text():
    _tests, document = read_tests(
        "scenarios: [{name: no}, {name: 2013-01-01, steps: [{send: {S: [1:30, on, 1e-3, ..., '...', -5, .5, ~]}}]}]"
    )
    second = document.value["scenarios"][1]  # type: ignore[index]
    assert second["steps"][0]["send"]["S"] == ["1:30", "on", 0.001, ..., "...", -5, 0.5, None]
    assert second["name"] == "2013-01-01"


def test_names_of_streams_and_attributes_are_free():
    tests, _document = read_tests(
        "scenarios: [{name: a, variables: {anything: 5}, steps: [{send: {S: {what: 1}}, query: from T,"
        " gives: [{x: 1}], expect: {O: [{y: {z: 1}}], P: {rows: [{q: 1}], unordered: true}}}]}]"
    )
    assert tests.scenarios[0].variables == {"anything": 5}
