"""What is in a test file. Names of fields are the keys of the file."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from nadi.errors import NOWHERE, NadiError, did_you_mean, error
from nadi.testing.times import Time
from nadi.testing.yamltext import Document, Path, read_yaml


class _Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping with known keys only."""


class Rows(_Keys, frozen=True):
    """Expected rows with a wish about how they are compared."""

    rows: list[Any]
    unordered: bool = False
    tolerance: float | None = None


class Failing(_Keys, frozen=True):
    """An expected error; what is left out is not looked at, `message` is a part of the message."""

    condition: str | None = None
    stream: str | None = None
    message: str | None = None


Expectations = dict[str, list[Any] | Rows]


class Step(_Keys, frozen=True):
    """One step; where it has several keys, what they say happens in the order of these fields."""

    at: Time | None = None
    advance: Time | None = None
    send: dict[str, Any] | None = None
    query: str | None = None
    gives: list[Any] | Rows | None = None
    expect: Expectations | None = None
    errors: list[Failing] | None = None


class Scenario(_Keys, frozen=True):
    """Steps on a fresh app, then what must be so at the end. `fails`: no app can be made of the text, for this reason."""

    name: str
    start: Time | None = None
    variables: dict[str, str | int | float | bool] = {}
    tolerance: float | None = None
    fails: Failing | str | None = None
    steps: list[Step] = []
    expect: Expectations = {}
    errors: list[Failing] | None = None


class File(_Keys, frozen=True):
    """A test file. `app` is its app, beside it; start, variables and tolerance are those of scenarios that say nothing else."""

    scenarios: list[Scenario]
    app: str | None = None
    start: Time = 0
    variables: dict[str, str | int | float | bool] = {}
    tolerance: float | None = None


_KINDS: dict[str, type[msgspec.Struct]] = {"scenarios": Scenario, "steps": Step, "errors": Failing, "fails": Failing}
"""What stands in the lists and mappings under these keys."""


def read_tests(text: str, file: str = "") -> tuple[File, Document]:
    """The tests in a text, and where they stand.

    Raises:
        CannotLoadConfigurationException: TEST_NOT_YAML; TEST_MALFORMED with the line, and the nearest known key for an unknown one.

    >>> tests, _places = read_tests("scenarios: [{name: nothing, expect: {Out: []}}]")
    >>> tests.scenarios[0].name
    'nothing'
    """
    document = read_yaml(text, file)
    if not isinstance(document.value, dict):
        raise _malformed(document, (), "a test file is a mapping", "begin with 'scenarios:'")
    _check_keys(document, document.value, ())
    try:
        tests = msgspec.convert(document.value, File)
    except msgspec.ValidationError as problem:
        raise _placed(document, str(problem)) from problem
    for i, scenario in enumerate(tests.scenarios):
        _check_scenario(document, scenario, i)
    return tests, document


def _fields(path: Path) -> tuple[str, ...] | None:
    """The keys that are known in the mapping at a path; None where names are free (streams, variables, attributes)."""
    if not path:
        return File.__struct_fields__
    inside = [key for key in path if isinstance(key, str)]
    if len(inside) >= 2 and inside[-2] == "expect":
        return Rows.__struct_fields__
    if inside[-1] == "gives" and isinstance(path[-1], str):
        return Rows.__struct_fields__
    if "send" in inside or "expect" in inside or "gives" in inside or "variables" in inside:
        return None
    kind = _KINDS.get(inside[-1])
    return kind.__struct_fields__ if kind is not None else None


def _check_keys(document: Document, value: object, path: Path) -> None:
    """Unknown keys, told with their own place and the nearest known one."""
    if isinstance(value, list):
        if not (len(path) >= 2 and path[-2] in ("expect", "send")):
            for i, item in enumerate(value):
                _check_keys(document, item, (*path, i))
        return
    if not isinstance(value, dict) or (path[-1:] == ("gives",) and "rows" not in value):
        return
    known = _fields(path)
    for key, inner in value.items():
        if known is not None and key not in known:
            span = document.keys.get((*path, key), NOWHERE)
            where = f"unknown key '{key}'" if key else "a key is missing"
            hint = did_you_mean(key, known)
            raise error("TEST_MALFORMED", span, document.text, document.file, reason=where, hint=hint)
        _check_keys(document, inner, (*path, key))


_PLACE = re.compile(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$", re.DOTALL)
_NAMES = {
    "`object`": "a mapping",
    "`array`": "a list",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
}


def _placed(document: Document, message: str) -> NadiError:
    """msgspec's message in plain words, at the value that it is about."""
    found = _PLACE.match(message)
    said, where = (found[1], found[2] or "") if found else (message, "")
    path: list[str | int] = []
    for key, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", where):
        if index == "...":
            break  # a key of the user's: msgspec does not tell which
        path.append(key or int(index))
    said = re.sub(r"^Object missing required field `(\w+)`", r"the key '\1' is missing", said)
    said = said.replace(" | null`", "`")
    for name, plain in _NAMES.items():
        said = said.replace(name, plain)
    last = next((key for key in reversed(path) if isinstance(key, str)), "")
    return _malformed(
        document,
        tuple(path),
        (f"'{last}': " if last else "") + said[:1].lower() + said[1:],
        _FORMS.get(last, "see the page about tests"),
    )


_FORMS = {
    "scenarios": "a list of mappings, each with 'name', 'steps', 'expect'",
    "steps": "a list of mappings, each with 'send', 'advance', 'expect' …",
    "expect": "a mapping of streams, each with a list of rows",
    "send": "a mapping of streams, each with a row or a list of rows",
    "gives": "a list of rows",
    "errors": "a list of mappings with 'condition', 'stream', 'message'",
    "variables": "a mapping of names and values",
}


def _check_scenario(document: Document, scenario: Scenario, index: int) -> None:
    path: Path = ("scenarios", index)
    if scenario.fails is not None and (scenario.steps or scenario.expect or scenario.errors is not None):
        raise _malformed(document, (*path, "fails"), "an app that cannot be made takes no steps", "leave 'fails' out")
    for j, step in enumerate(scenario.steps):
        if step.gives is not None and step.query is None:
            raise _malformed(document, (*path, "steps", j, "gives"), "'gives' without 'query'", "add the query")
        if step == Step():
            raise _malformed(
                document, (*path, "steps", j), "the step says nothing", "add 'send', 'advance' or 'expect'"
            )


def _malformed(document: Document, path: Path, reason: str, hint: str) -> NadiError:
    return error("TEST_MALFORMED", document.place(path), document.text, document.file, reason=reason, hint=hint)
