"""Single values out of text and out of JSON, by Siddhi type; a value that does not fit raises ValueError with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from nadi.functions.arithmetic import parse_double, parse_float, parse_int, parse_long
from nadi.io.mappers.columns import INT_RANGE
from nadi.lang.tree import Type

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?|NaN|Infinity)")


def from_text(text: str, kind: Type) -> object:
    """A value of a text format (csv, text, a header). Spaces around numbers and bools are ignored; strings are taken as they are.

    >>> from_text(" 5 ", Type.INT)
    5
    """
    if kind in (Type.STRING, Type.OBJECT):
        return text
    word = text.strip()
    if kind is Type.BOOL:
        if word.lower() not in ("true", "false"):
            raise ValueError(f"'{_short(text)}' is not a bool")
        return word.lower() == "true"
    if kind in INT_RANGE:
        if not _WHOLE.fullmatch(word) or len(word) > 40:
            raise ValueError(f"'{_short(text)}' is not {_a(kind)}")
        return _within(int(word), kind)
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"'{_short(text)}' is not {_a(kind)}")
    return float(word.rstrip("fFdD"))


def from_json(text: bytes, kind: Type) -> object:
    """A JSON value as an attribute: ints widen to float and double, anything becomes a string as its JSON, nothing else is converted."""
    if text == b"null":
        return None
    if kind is Type.OBJECT or (kind is Type.STRING and text[:1] != b'"'):
        return text.decode()
    value = msgspec.json.decode(text)
    if kind is Type.STRING or (kind is Type.BOOL and isinstance(value, bool)):
        return value
    if kind in INT_RANGE and type(value) is int:
        return _within(value, kind)
    if kind in (Type.FLOAT, Type.DOUBLE) and type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{_short(str(value))} is out of range for {_a(kind)}") from None
    raise ValueError(f"{_short(text.decode())} is not {_a(kind)}")


def by_text(text: bytes, kind: Type) -> object:
    """A JSON value as an attribute that takes any value by its text, as Java reads it: numbers may be strings; what is not the text `true` is the bool false.

    >>> by_text(b'"7"', Type.INT), by_text(b'"1e3"', Type.DOUBLE), by_text(b'"TRUE"', Type.BOOL), by_text(b"1", Type.BOOL)
    (7, 1000.0, True, False)
    """
    if text == b"null" or kind in (Type.STRING, Type.OBJECT) or (kind is not Type.BOOL and text[:1] != b'"'):
        return from_json(text, kind)
    word: str = msgspec.json.decode(text) if text[:1] == b'"' else text.decode()
    if kind is Type.BOOL:
        return word.lower() == "true"
    value = _PARSED[kind](word)
    if value is None:
        raise ValueError(f"{_short(text.decode())} is not {_a(kind)}")
    return value


_PARSED: dict[Type, Callable[[str], float | None]] = {
    Type.INT: parse_int,
    Type.LONG: parse_long,
    Type.FLOAT: parse_float,
    Type.DOUBLE: parse_double,
}


def _within(value: int, kind: Type) -> int:
    low, high = INT_RANGE[kind]
    if not low <= value <= high:
        raise ValueError(f"{_short(str(value))} is out of range for {_a(kind)}")
    return value


def _a(kind: Type) -> str:
    return f"an {kind}" if kind is Type.INT else f"a {kind}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
