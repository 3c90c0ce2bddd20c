"""YAML of strangers: as `yaml.safe_load`, with a bound on what a few lines can become.

Anchors and aliases make many values out of few, and a value that holds itself; merge keys (`<<`) copy whole mappings. Both are counted as what they stand for,
before any of it is made.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
MOST_VALUES = 100_000
DEEPEST = 100
"""Levels of a value; what is nested in itself has no end."""


def read(text: str) -> Any:
    """The value of a text.

    Raises:
        yaml.YAMLError: it is none, or one that is too large or too deep.

    >>> read("a: &x [1, 2]\\nb: *x")
    {'a': [1, 2], 'b': [1, 2]}
    """
    node = composed(text, yaml.SafeLoader)
    return None if node is None else yaml.SafeLoader("").construct_document(node)


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
