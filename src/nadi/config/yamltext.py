"""YAML of strangers: as `yaml.safe_load`, with a bound on what a few lines can become.

Anchors and aliases make many values out of few, and a value that holds itself; merge keys (`<<`) copy whole mappings. Both are counted as what they stand for,
before any of it is made.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
MOST_VALUES = 100_000
LONGEST_NUMBER = 100
"""Characters of what looks like a number or a date: `1:1:1:…` takes time by the square of its length."""
DEEPEST = 100
"""Levels of a value; what is nested in itself has no end."""


_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))


def read(text: str) -> Any:
    """The value of a text.

    Raises:
        yaml.YAMLError: it is none, or one that is too large or too deep.

    >>> read("a: &x [1, 2]\\nb: *x")
    {'a': [1, 2], 'b': [1, 2]}
    """
    node = composed(text, yaml.SafeLoader)
    try:
        return None if node is None else yaml.SafeLoader("").construct_document(node)
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as problem:
        # PyYAML itself lets them out: `2024-13-01` looks like a date, `!!int x` says that it is a number
        raise yaml.YAMLError(f"a value is not what it looks like, or says that it is: {problem}") from problem


def composed(text: str, loader: type[yaml.SafeLoader]) -> Any:
    """The nodes of a text, None where it is empty. Raises as `read`."""
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"it has {len(text):,} characters; {MOST_CHARACTERS:,} is the most that is read")
    try:
        node = yaml.compose(text, Loader=loader)
        if node is not None:
            _count(node, {}, 1)
    except RecursionError as problem:
        raise yaml.YAMLError(f"it is nested deeper than {DEEPEST} levels") from problem
    return node


def _count(node: Any, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """How many values a node stands for, and how many levels it has; `known` are those of nodes that have been counted, (0, 0) of those that are being
    counted."""
    found = known.get(id(node))
    if found == (0, 0):
        raise yaml.YAMLError("a value holds itself")
    if found is None:
        known[id(node)] = (0, 0)
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        if not parts and node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise yaml.YAMLError(
                f"a number or a date has more than {LONGEST_NUMBER} characters: if it is a text, it takes quotes"
            )
        inner = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        values, levels = 1, 0
        for one in inner:
            more, deeper = _count(one, known, level + 1)
            values, levels = values + more, max(levels, deeper)
        found = known[id(node)] = (values, levels + 1)
    if found[0] > MOST_VALUES:
        raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} values")
    if level - 1 + found[1] > DEEPEST:
        raise yaml.YAMLError(f"it is nested deeper than {DEEPEST} levels")
    return found
