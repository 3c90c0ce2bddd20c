"""`${name}` in the text of an app."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nadi.errors import NadiError, Span, error

_PLACE = re.compile(r"\$\{(\w+)\}")


def substitute(text: str, variables: Mapping[str, str], *, file: str = "") -> str:
    """The text with every `${name}` replaced by the variable's value; values are not searched again.

    Raises:
        SiddhiParserException: VARIABLE_NOT_SET, for the first name without a value.

    >>> substitute("define stream ${name} (a int);", {"name": "S"})
    'define stream S (a int);'
    """
    replaced, errors = substitute_collecting(text, variables, file=file)
    if errors:
        raise errors[0]
    return replaced


def substitute_collecting(
    text: str, variables: Mapping[str, str], *, file: str = ""
) -> tuple[str, tuple[NadiError, ...]]:
    """As `substitute`, but names without a value become their own name, and are all reported."""
    errors: list[NadiError] = []

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in variables:
            errors.append(error("VARIABLE_NOT_SET", _span(text, *found.span()), text, file, name=name))
            return name
        return variables[name]

    return _PLACE.sub(value, text), tuple(errors)


def _span(text: str, start: int, end: int) -> Span:
    """The span of a stretch inside one line."""
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(start, end, line, column, line, column + end - start)
