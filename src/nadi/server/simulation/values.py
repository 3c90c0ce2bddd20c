"""From the text forms of values, as files and requests have them, to values of attributes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nadi.lang.tree import Type
from nadi.plan.nodes import Schema

_INT = re.compile(r"[+-]?[0-9]{1,19}")
_BOUNDS = {Type.INT: 1 << 31, Type.LONG: 1 << 63}
_BOOLS = {"true": True, "false": False}
_SHOWN = 60  # characters of a value in a message


def converted(values: Sequence[object], schema: Schema) -> tuple[Any, ...]:
    """The values of an event of a stream; null stays null. Raises ValueError, which names the attribute.

    >>> from nadi.plan.nodes import Column
    >>> schema = Schema((Column("symbol", Type.STRING), Column("price", Type.DOUBLE), Column("sold", Type.BOOL)))
    >>> converted(["IBM", "75.5", "true"], schema)
    ('IBM', 75.5, True)
    >>> converted(["IBM", "cheap", "true"], schema)
    Traceback (most recent call last):
        ...
    ValueError: the attribute 'price' is a double, and 'cheap' is none
    """
    if len(values) != len(schema):
        raise ValueError(f"the stream has {len(schema)} attributes, {len(values)} values are given")
    return tuple(_converted(value, column.type, column.name) for value, column in zip(values, schema.columns))


def _converted(value: object, kind: Type, name: str) -> Any:
    if value is None or kind is Type.OBJECT:
        return value
    try:
        return _of_text(value, kind)
    except (ValueError, OverflowError):
        raise ValueError(f"the attribute '{name}' is a {kind.value}, and {str(value)[:_SHOWN]!r} is none") from None


def _of_text(value: object, kind: Type) -> Any:
    if isinstance(value, dict | list):
        raise ValueError
    text = text_of(value)
    if kind is Type.STRING:
        text.encode()  # half of a pair of surrogates is no text
        return text
    if kind is Type.BOOL:
        if isinstance(value, int) and value in (0, 1):  # as some databases have them
            return bool(value)
        if text.strip().lower() not in _BOOLS:
            raise ValueError
        return _BOOLS[text.strip().lower()]
    if isinstance(value, bool):
        raise ValueError
    if kind in _BOUNDS:
        return _whole(text.strip(), _BOUNDS[kind])
    if "_" in text:  # Python would take it
        raise ValueError
    return float(text)


def _whole(text: str, bound: int) -> int:
    if _INT.fullmatch(text) is None or not -bound <= int(text) < bound:
        raise ValueError
    return int(text)


def text_of(value: object) -> str:
    """The text form of a value of JSON.

    >>> text_of(True), text_of(75.5), text_of("IBM")
    ('true', '75.5', 'IBM')
    """
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
