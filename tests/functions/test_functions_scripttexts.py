"""Script functions in an app's text: what is wrong with them is found when the app is made, at its place."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.plan import diagnose, plan_app

STREAM = "define stream S (a int);\n"


def failure(text: str) -> NadiError:
    with pytest.raises(NadiError) as failed:
        plan_app(text, default_registry())
    return failed.value


def test_a_language_that_does_not_exist_is_named_with_those_that_do() -> None:
    found = failure("define function f[R] return int { 1 };")
    assert (found.condition, found.siddhi_class) == ("SCRIPT_LANGUAGE_NOT_FOUND", "ExtensionNotFoundException")
    assert "javascript, python" in str(found)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (STREAM + "define function f[javascript] return int {\n  var x = 1;\n  return data[0;\n};", 4, 16),
        (STREAM + "define function f[python] return int {\n  x = 1\n  return data[0] +\n};", 4, 19),
        (STREAM + "define function f[Python] return int { return missing };", 2, 47),
        ("define function f[JavaScript] return int { return 1 +; };", 1, 54),
    ],
)
def test_a_mistake_in_a_script_is_shown_in_the_text_of_the_app(text: str, line: int, column: int) -> None:
    found = failure(text)
    assert (found.condition, found.siddhi_class) == ("SCRIPT_INVALID", "SiddhiAppCreationException")
    assert (found.diagnostic.span.line, found.diagnostic.span.column) == (line, column)


def test_several_scripts_that_are_wrong_are_reported_at_once() -> None:
    text = (
        "define function f[python] return int { return ( };\ndefine function g[javascript] return int { return ( };\n"
        + STREAM
    )
    found = diagnose(text, "", default_registry())
    assert [(d.condition, d.span.line) for d in found] == [("SCRIPT_INVALID", 1), ("SCRIPT_INVALID", 2)]


def test_a_script_that_is_wrong_and_used_is_one_error() -> None:
    text = STREAM + "define function f[python] return int { return ( };\nfrom S select f(a) as b insert into Out;"
    assert [d.condition for d in diagnose(text, "", default_registry())] == ["SCRIPT_INVALID"]
