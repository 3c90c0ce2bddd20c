"""Possessive groups that Python before 3.11.5 misreads: `(?:a?b)*+` may match less there, or nothing.

Python does not note where to go on when it steps back inside of such a group (its issue 106052). Where nothing inside can step back nothing is wrong: `a*+`,
`(?:ab|c)*+`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from re import _constants as op  # CPython has parser and constants in these since 3.11
from re import _parser as parser
from typing import Any

MENDED = (3, 11, 5)
MISREAD = (
    f"Python {'.'.join(map(str, sys.version_info[:3]))} misreads a possessive group in which something repeats or looks around; "
    "3.11.5 and later ones do not"
)
_STEPS_BACK = frozenset({op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT, op.ASSERT, op.ASSERT_NOT})


def is_misread(pattern: str, flags: int, version: tuple[int, ...] = sys.version_info[:3]) -> bool:
    """Whether this Python may misread a pattern.

    >>> [is_misread(p, 0, (3, 11, 2)) for p in ("a*+b", "(?:ab|c)++", "(?:a?b)++", "(?:a(?!b))?+")]
    [False, False, True, True]
    >>> is_misread("(?:a?b)++", 0, (3, 11, 5))
    False
    """
    if version >= MENDED or "+" not in pattern:
        return False
    groups = (value[2] for code, value in _steps(parser.parse(pattern, flags)) if code is op.POSSESSIVE_REPEAT)
    return any(code in _STEPS_BACK for group in groups for code, _ in _steps(group))


def _steps(found: Any) -> Iterator[tuple[Any, Any]]:
    """What a pattern consists of, at every depth: operations with what belongs to each."""
    if isinstance(found, parser.SubPattern):
        for code, value in found:
            yield code, value
            yield from _steps(value)
    elif isinstance(found, (tuple, list)):
        for part in found:
            yield from _steps(part)
