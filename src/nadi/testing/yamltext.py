"""YAML as plain values that know where they stand: every error of a test file names its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from nadi.config.yamltext import LONGEST_NUMBER, composed
from nadi.errors import NOWHERE, Span, error

Path = tuple[str | int, ...]
"""The way to a value: keys and indices, from the top."""


ANY = ...
"""`...` in an expected row: the value there is not looked at. (Between quotes it is text.)"""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML text: its value, and the places of its values and of the keys of its mappings."""

    value: object
    text: str
    file: str
    places: Mapping[Path, Span]
    keys: Mapping[Path, Span]

    def place(self, path: Path) -> Span:
        """Where the value at a path stands, or the nearest one around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, NOWHERE)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """The core schema of YAML 1.2: `no`, `1:30` and `2024-01-31` are text, `1e-9` is a number."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's way


_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, object] = {
    "...": ANY,
    "null": None,
    "~": None,
    "": None,
    "true": True,
    "false": False,
    ".nan": float("nan"),
    ".inf": float("inf"),
    "-.inf": float("-inf"),
}


def read_yaml(text: str, file: str = "") -> Document:
    """The document in a text.

    Raises:
        CannotLoadConfigurationException: TEST_NOT_YAML, TEST_MALFORMED (a key is there twice), with line and column.

    >>> read_yaml("a: [1, x, 1e-3]").value
    {'a': [1, 'x', 0.001]}
    """
    try:
        node = composed(text, _Loader)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        reason = ", ".join(filter(None, (problem.context, problem.problem)))
        raise error("TEST_NOT_YAML", _span(mark, mark), text, file, reason=reason) from problem
    except yaml.YAMLError as problem:
        raise error("TEST_NOT_YAML", file=file, reason=problem) from problem
    reading = _Reading(text, file)
    value = reading.value(node, ()) if node is not None else None
    return Document(value, text, file, reading.places, reading.keys)


def _span(start: Any, end: Any) -> Span:
    """Marks of PyYAML count lines and columns from 0."""
    if start is None:
        return NOWHERE
    if end.line != start.line:  # a block: its first line is enough
        return Span(start.index, start.index, start.line + 1, start.column + 1, start.line + 1, start.column + 2)
    return Span(start.index, end.index, start.line + 1, start.column + 1, end.line + 1, end.column + 1)


class _Reading:
    """Turns nodes into values and notes the places."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        self.places: dict[Path, Span] = {}
        self.keys: dict[Path, Span] = {}

    def value(self, node: Any, path: Path) -> object:
        self.places[path] = _span(node.start_mark, node.end_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return node.value if node.style else _scalar(node.value)

    def _mapping(self, node: Any, path: Path) -> dict[str, object]:
        made: dict[str, object] = {}
        for key_node, value_node in node.value:
            span = _span(key_node.start_mark, key_node.end_mark)
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            if not key or key in made:
                reason = f"the key '{key}' is there twice" if key else "a key must be a name"
                raise error("TEST_MALFORMED", span, self._text, self._file, reason=reason, hint="leave one of them out")
            self.keys[(*path, key)] = span
            made[key] = self.value(value_node, (*path, key))
        return made


def _scalar(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text) if len(text) <= LONGEST_NUMBER else text
    return float(text) if _FLOAT.match(text) else text
