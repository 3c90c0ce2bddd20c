"""Script functions before they run: what their languages refuse, where, and what becomes of what they return."""

from __future__ import annotations

import math

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.functions.javascript import JavaScript
from nadi.functions.pythonscripts import BUILTINS, MODULES, Python
from nadi.functions.scripts import converted
from nadi.lang.tree import Type
from nadi.plan.catalog import ScriptProblem


def test_languages_are_found_whatever_their_capitals() -> None:
    registry = default_registry()
    assert registry.script("JavaScript") is registry.script("javascript")
    assert registry.script("R") is None
    assert registry.names("script") == ["javascript", "python"]


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        ("return data[0;", 1, 14),
        ("\n  var a = data[0];\n  return a +;\n", 3, 13),
        ("if (true) {", 1, 12),
    ],
)
def test_a_mistake_in_javascript_has_a_line_and_a_column_of_the_body(body: str, line: int, column: int) -> None:
    found = JavaScript().check(body)
    assert found is not None
    assert found.reason.startswith("SyntaxError")
    assert (found.line, found.column) == (line, column)


@pytest.mark.parametrize(
    "body",
    [
        "}); while (true); (function() {",
        "}]; while (true); [function() {",
        "}); throw 1; (function(){",
        "/*",
        "`",
        "// }",
    ],
)
def test_a_body_cannot_leave_its_function_and_nothing_of_it_runs_when_it_is_checked(body: str) -> None:
    found = JavaScript().check(body)
    assert (found is None) == (body == "// }")


@pytest.mark.parametrize(
    "body",
    [
        "(" * 200_000,
        "[" * 200_000 + "]" * 200_000,
        "return " + "a=>" * 50_000 + "1",
        "return 'a\x00b';",
        "return '\ud800';",
    ],
    ids=["open", "nested", "arrows", "null", "surrogate"],
)
def test_javascript_that_the_engine_cannot_read_is_refused(body: str) -> None:
    assert JavaScript().check(body) is not None


@pytest.mark.parametrize(
    "body",
    [
        "return " + "- " * 100_000 + "1",
        "return data" + ".a" * 100_000,
        "return " + "1+" * 100_000 + "1",
        "return 'a\x00b'",
        "return '\ud800'",
    ],
    ids=["signs", "attributes", "sums", "null", "surrogate"],
)
def test_python_that_the_compiler_cannot_read_is_refused(body: str) -> None:
    assert Python().check(body) is not None


def test_javascript_of_this_decade_is_understood() -> None:
    body = (
        "const {a, ...rest} = data[0]; let f = (x) => x ?? 1; return `${f(a)}`.at(-1) + [1, 2].includes(2) + 10n ** 2n;"
    )
    assert JavaScript().check(body) is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return data[0", ScriptProblem("SyntaxError: '[' was never closed", 1, 12)),
        (
            "\n    a = 1\n    return open('x')\n",
            ScriptProblem("'open' is not available in script functions", 3, 12),
        ),
        (" total = 1\n   return totl\n", ScriptProblem("the name 'totl' is not defined; did you mean 'total'?", 2, 11)),
        (
            "\n  import maths\n",
            ScriptProblem("no module 'maths' in script functions; did you mean 'math'?", 2, 3),
        ),
        (
            "from math import squrt",
            ScriptProblem("'math' has no 'squrt' in script functions; did you mean 'sqrt'?", 1, 1),
        ),
    ],
)
def test_a_mistake_in_python_has_a_line_and_a_column_of_the_body(body: str, problem: ScriptProblem) -> None:
    found = Python().check(body)
    assert found is not None
    assert found == problem


@pytest.mark.parametrize(
    "body",
    [
        "return ().__class__",
        "return __builtins__",
        "return (i for i in data).gi_frame",
        "return '{0.__class__}'.format(data)",
        "return str.format_map('{x}', {})",
        "import os",
        "from . import math",
        "import math.sub",
        "return eval('1')",
        "return id(data)",
        "return hash('a')",
        "print('x')",
        "data.x = 1",
        "del data.x",
        "class A:\n  pass",
        "async def f():\n  pass",
        "return getattr(data, 'x')",
        "match data:\n  case list(__class__=c):\n    return c",
        "from math import *",
        "x = lambda: 0\nreturn x.__globals__",
        "yield 1\nreturn undefined_name",
        "nonlocal x\nx = 1",
        "(" * 500,
    ],
)
def test_python_that_leads_out_of_the_sandbox_or_to_chance_is_refused_before_it_runs(body: str) -> None:
    assert Python().check(body) is not None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "return data[0]",
        "\n    # a comment\n    if data[0] > 1:\n        return 'a'\n    return 'b'\n",
        " if data[0]:\n    return 1\n  return 2",
        "\n\timport math as m\n\tfrom re import sub\n\treturn m.floor(data[0]) + len(sub('a', 'b', data[1]))",
        "\ndef fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\nreturn fact(data[0])",
        "try:\n  return 1 // data[0]\nexcept ZeroDivisionError as problem:\n  return str(problem)",
        "match data:\n  case [x, *rest]:\n    return x\n  case {'a': y, **more}:\n    return y",
        "global kept\nkept = 1\nreturn [x for x in data if (y := x)]",
    ],
)
def test_plain_python_is_taken_however_it_is_indented(body: str) -> None:
    assert Python().check(body) is None


def test_everything_that_is_offered_exists() -> None:
    import builtins
    import importlib

    assert all(hasattr(builtins, name) for name in BUILTINS)
    assert all(hasattr(importlib.import_module(m), name) for m, names in MODULES.items() for name in names)


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        (Type.INT, 3.0, 3),
        (Type.INT, -(2**31), -(2**31)),
        (Type.LONG, 2.0**40, 2**40),
        (Type.FLOAT, 0.1, 0.10000000149011612),
        (Type.DOUBLE, 1, 1.0),
        (Type.STRING, "a", "a"),
        (Type.STRING, "é😀\ud800", "é😀?"),
        (Type.OBJECT, ["\ud800", {"\udc00": "😀"}], ["?", {"?": "😀"}]),
        (Type.BOOL, False, False),
        (Type.OBJECT, {"a": [1]}, {"a": [1]}),
        *((kind, None, None) for kind in Type),
    ],
)
def test_a_result_gets_the_form_of_its_type(kind: Type, given: object, made: object) -> None:
    found = converted("f", kind, given)
    assert found == made
    assert type(found) is type(made)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Type.INT, 2.5),
        (Type.INT, 2**31),
        (Type.INT, True),
        (Type.INT, math.nan),
        (Type.LONG, 2**63),
        (Type.LONG, math.inf),
        (Type.DOUBLE, "1"),
        (Type.DOUBLE, 10**400),
        (Type.STRING, 1),
        (Type.BOOL, 1),
        (Type.STRING, {"a": 1}),
        (Type.BOOL, [True]),
    ],
)
def test_a_result_that_its_type_does_not_hold_is_a_class_cast_exception(kind: Type, given: object) -> None:
    with pytest.raises(NadiError) as failed:
        converted("f", kind, given)
    assert (failed.value.condition, failed.value.siddhi_class) == ("SCRIPT_RESULT", "ClassCastException")
