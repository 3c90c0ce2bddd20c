"""Names, strings, numbers and times as they are written in a text."""

from __future__ import annotations

import math
import re
import struct

from nadi.lang.expressions import float32
from nadi.lang.tokens import QUOTED_AS_NAMES
from nadi.lang.tree import Constant, TimeConstant, Type

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\r": "\\r"}
_TO_ESCAPE = re.compile(r"[\\\x00-\x08\x0b-\x1f]|\"(?=\"|\Z)")
_PLURALS = frozenset({"year", "month", "week", "day", "hour"})


def name_text(name: str) -> str:
    """A name, between back quotes where it would not be read as one without them."""
    if _PLAIN_NAME.match(name) and name.lower() not in QUOTED_AS_NAMES:
        return name
    return f"`{name}`"


def function_text(name: str) -> str:
    """The name of a function that is called; most keywords are unmistakable there."""
    if _PLAIN_NAME.match(name) and name.lower() not in ("not", "true", "false"):
        return name
    return f"`{name}`"


def string_text(value: str) -> str:
    """A string literal, with the plainest quotes that can hold the value."""
    if not _CONTROL.search(value):
        if "'" not in value and '"' not in value:
            return f"'{value}'"
        if '"' not in value:
            return f'"{value}"'
    escaped = _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m.group(), _escaped(m.group())), value)
    return f'"""{escaped}"""'


def _escaped(character: str) -> str:
    return '\\"' if character == '"' else f"\\u{ord(character):04x}"


def constant_text(constant: Constant) -> str:
    """A literal."""
    value = constant.value
    match constant.type:
        case Type.STRING:
            return string_text(str(value))
        case Type.BOOL:
            return "true" if value else "false"
        case Type.LONG:
            return f"{value}L"
        case Type.FLOAT:
            return _float_text(float(value)) + "f"
        case Type.DOUBLE:
            return _double_text(float(value))
        case _:
            return str(value)


def _double_text(value: float) -> str:
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def _float_text(value: float) -> str:
    """The shortest decimal that is this 32-bit float."""
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    wanted = struct.pack("f", value)
    text = next(t for digits in range(1, 18) if struct.pack("f", float32(float(t := f"{value:.{digits}g}"))) == wanted)
    return repr(float(text))


def time_text(time: TimeConstant) -> str:
    """`1 hour 30 min`."""
    return " ".join(f"{n} {unit}{'s' if n != 1 and unit in _PLURALS else ''}" for n, unit in time.units)
