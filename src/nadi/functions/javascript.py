"""Scripts in JavaScript: whether a body can be compiled.

The engine is QuickJS-ng, which lives (its wheels follow the engine's releases), takes 8 MB where V8 takes 80, and bounds memory and stack by itself.
Nothing of a body runs here: a `throw` stands before the function that holds it. Scripts run in the sandbox of the runtime.
"""

from __future__ import annotations

import re

import _quickjs as quickjs  # the package around it starts a thread when it is imported

from nadi.plan.catalog import ScriptProblem

MEMORY = 32 << 20
"""Bytes that compiling may take."""

LONGEST = 100_000
"""Characters of a body: the engine takes time that grows with the square of what is declared in it."""

_WRAPPERS = (
    ('throw "compiled"; (function(data) {\n', "\n})"),
    ('throw "compiled"; (function() { return 0 ? (data) => {\n', "\n} : 0; })"),
    ('throw "compiled"; (function() { return [(data) => {\n', "\n}]; })"),
)
"""The first is how the sandbox takes a body; its message is the one that people know. The other two see to it that a body does not close the brace and
go on behind it: nothing continues an arrow function, so a colon has to follow in the one, and in the other a comma or a bracket. No text has both."""

_PLACE = re.compile(r"<input>:(\d+):(\d+)")


class JavaScript:
    """Implements `nadi.plan.catalog.ScriptLanguage`."""

    name = "javascript"
    title = "JavaScript"

    def check(self, body: str) -> ScriptProblem | None:
        """What is wrong with the text between the braces.

        >>> JavaScript().check("return data[0];") is None
        True
        >>> JavaScript().check("var a = 1;\\nreturn data[0;")
        ScriptProblem(reason="SyntaxError: Unexpected token ';'", line=2, column=14)
        """
        if len(body) > LONGEST:
            return ScriptProblem(f"it has {len(body):,} characters; {LONGEST:,} is the most that is read", 1, 1)
        for opening, closing in _WRAPPERS:
            context = quickjs.Context()
            context.set_memory_limit(MEMORY)
            try:
                context.eval(opening + body + closing)
            except quickjs.JSException as problem:
                if not str(problem).startswith("compiled"):
                    return _problem(str(problem), body)
            except ValueError as problem:
                return ScriptProblem(str(problem), 1, 1)
        return None

    def prepared(self, name: str, body: str) -> str:
        """What the sandbox is given: the text itself."""
        return body


def _problem(text: str, body: str) -> ScriptProblem:
    lines = body.split("\n")
    found = _PLACE.search(text)
    line, column = (int(found[1]) - 1, int(found[2])) if found else (1, 1)
    if line > len(lines):  # what is open is only missed behind the end
        line, column = len(lines), len(lines[-1]) + 1
    return ScriptProblem(text.split("\n")[0], max(line, 1), column)
