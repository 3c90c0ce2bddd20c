"""Finding 5: a script's body cannot leave its function, and what a script reaches for outside of its sandbox it does not get, in both languages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import _quickjs as quickjs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.javascript import JavaScript
from nadi.functions.pythonscripts import Python
from nadi.lang.tree import Type
from nadi.plan.nodes import Script
from nadi.runtime.sandbox import Limits, Sandbox

Make = Callable[..., Sandbox]

LEAVING = [
    'var a = /"/; }, globalThis.ran = 7, function(data) { var b = /"/; return ran; ',
    "}, globalThis.ran = 7, function(data) { return 7;",
    "} [(globalThis.ran = 7, 'a')] = function(data) {",
    "} : globalThis.ran = 7 ? (data) => {",
    "}), (globalThis.ran = 7), (function(data) {",
    "}\n, globalThis.ran = 7\n, function(data) {",
    "}], [globalThis.ran = 7, function(data) {",
    "}(globalThis.ran = 7), function(data) {",
    "}`${globalThis.ran = 7}`, function(data) {",
    "} + function() {",
    "} /* */ , /* */ function(data) {",
    "} <!-- \n , function(data) {",
]
"""Bodies that close the brace before them, do something, and open one for the brace behind them."""

WORDS = """} { ( ) [ ] , : ? ; => (data)=> function(data) ' " / ` ${ // /* */ return 1 a = new class get async 0 ."""
PIECES = st.sampled_from([*WORDS.split(), "\n"])


@pytest.fixture
def make() -> Iterator[Make]:
    """Sandboxes with functions f, g, … of one language; they are closed behind the test."""
    made: list[Sandbox] = []

    def sandbox(language: str, *bodies: str, limits: Limits | None = None) -> Sandbox:
        scripts = {n: Script(n, language, Type.OBJECT, b) for n, b in zip("fghi", bodies, strict=False)}
        made.append(Sandbox(scripts, limits or Limits(seconds=0.3)))
        return made[-1]

    yield sandbox
    for one in made:
        one.close()


@pytest.mark.parametrize("body", LEAVING)
def test_a_javascript_body_that_closes_its_function_is_a_mistake_in_the_text(body: str) -> None:
    assert JavaScript().check(body) is not None


@pytest.mark.parametrize("body", LEAVING)
def test_the_sandbox_refuses_a_body_that_closes_its_function_even_where_nobody_checked_it(
    make: Make, body: str
) -> None:
    with pytest.raises(NadiError) as failed:
        make("javascript", body).call("f", ())
    assert failed.value.condition == "SCRIPTS_UNAVAILABLE"


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, min_size=2, max_size=12).map(" ".join))
def test_whatever_passes_the_check_is_one_function(body: str) -> None:
    if JavaScript().check(body) is None:
        text = f"function(data) {{\n{body}\n}}"
        assert quickjs.Context().eval(f"String(({text}))") == text


def test_text_that_runs_before_the_function_is_made_is_ended_like_a_call(make: Make) -> None:
    with pytest.raises(NadiError) as failed:
        make("javascript", "}, (() => { while (true); })(), function(data) {")
    assert failed.value.condition == "SCRIPTS_UNAVAILABLE"
    assert "out of time" in str(failed.value)


def test_text_that_runs_before_the_function_is_made_has_bounded_memory(make: Make) -> None:
    with pytest.raises(NadiError) as failed:
        make("javascript", "}, 'x'.repeat(500000000), function(data) {")
    assert "out of memory" in str(failed.value)


BODIES = ["return 1", "a = 1\n  return a", "}, 1, {", "{", "}", "'}'", "# }\nreturn 1", '"""\n}\n"""']


@pytest.mark.parametrize(
    "body", [*BODIES, "return 1\n\ndef g(): pass\nimport os", "return 1\nprint(open('/etc/passwd'))"]
)
def test_a_python_body_has_no_wrapper_to_leave(body: str) -> None:
    """It is parsed alone and becomes the statements of one function as a tree; no text stands around it."""
    if Python().check(body) is None:
        assert "open" not in body
        assert "import os" not in body


REACHING = {
    "javascript": [
        "return require('fs').readFileSync('/etc/passwd');",
        "return std.open('/etc/passwd', 'r');",
        "return os.exec(['true']);",
        "import('fs'); throw new Error('no module');",
        "return fetch('http://127.0.0.1');",
        "return new XMLHttpRequest();",
        "return new WebSocket('ws://127.0.0.1');",
        "return Function('return require')()('fs');",
        "return (0, eval)('require(\"fs\")');",
        "return this.process.env;",
        "return load('/etc/passwd');",
        "return new Worker('/etc/passwd');",
        "return new (function(){}.constructor.constructor)('return process')().env;",
    ],
    "python": [
        "return open('/etc/passwd').read()",
        "import os\nreturn os.listdir('/')",
        "import socket\nreturn socket.socket()",
        "import subprocess\nreturn subprocess.run(['true'])",
        "from urllib.request import urlopen\nreturn urlopen('http://127.0.0.1')",
        "return __import__('os').environ",
        "return eval('1')",
        "exec('import os')",
        "return ().__class__.__base__.__subclasses__()",
        "return [c for c in type.mro(int)]",
        "return '{0.__class__}'.format(1)",
        "import json\nreturn json.codecs.open('/etc/passwd')",
        "return getattr(1, '__class__')",
    ],
}


@pytest.mark.parametrize(("language", "body"), [(k, b) for k, bodies in REACHING.items() for b in bodies])
def test_a_script_that_reaches_for_files_or_the_network_gets_nothing(make: Make, language: str, body: str) -> None:
    checker = JavaScript() if language == "javascript" else Python()
    if checker.check(body) is not None:
        return
    with pytest.raises(NadiError) as failed:
        make(language, body).call("f", (1,))
    assert failed.value.condition == "SCRIPT_FAILED"


@pytest.mark.parametrize("body", [b for b in REACHING["python"] if "codecs" not in b])
def test_a_python_script_that_reaches_outside_is_a_mistake_in_the_text(body: str) -> None:
    assert Python().check(body) is not None


HOSTILE = [
    "(",
    "[",
    "{",
    "`${",
    "- ",
    "(a=",
    "function f(){",
    "({a:",
    "a+",
    "/(",
    "'",
    "\\",
    "lambda: ",
    "if 1:",
    "f'{",
]


@pytest.mark.parametrize(("checker", "piece"), [*itertools.product([JavaScript(), Python()], HOSTILE)])
def test_a_hostile_body_of_any_length_is_answered(checker: JavaScript | Python, piece: str) -> None:
    for times in (100, 10_000, 1_000_000):
        checker.check(piece * times)


@pytest.mark.parametrize("checker", [JavaScript(), Python()])
def test_a_body_that_is_longer_than_any_script_is_refused_by_its_length(checker: JavaScript | Python) -> None:
    found = checker.check("a = 1;" * 20_000)
    assert found is not None
    assert "120,000 characters; 100,000 is the most" in found.reason


def test_no_file_comes_to_be_beside_the_sandbox(make: Make, tmp_path: Path) -> None:
    body = f"try:\n  found = open({str(tmp_path / 'made')!r}, 'w')\nexcept Exception:\n  pass\nreturn 1"
    assert Python().check(body) is not None
    with pytest.raises(NadiError):
        make("python", body.replace("except Exception", "except ZeroDivisionError")).call("f", ())
    assert not any(tmp_path.iterdir())
