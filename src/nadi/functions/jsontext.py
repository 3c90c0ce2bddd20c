"""JSON as the namespaces `map` and `json` read and write it.

Objects are dicts and arrays are lists. Whole numbers that do not fit into 64 bits are doubles. As Siddhi's parsers do, single quotes and bare names
are taken too: `{name: 'John'}`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from nadi.functions.arithmetic import LONG_MAX, LONG_MIN, java_text

_LAX = re.compile(r"""'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*"|[A-Za-z_$][\w$-]*""", re.DOTALL)
_WORDS = frozenset({"true", "false", "null"})


def parse(text: str) -> Any:
    """The value of a JSON text.

    >>> parse("{'a': [1, 2.5], b: null}")
    {'a': [1, 2.5], 'b': None}

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return _fitting(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # perhaps it is written in the lax way
    try:
        return _fitting(msgspec.json.decode(_LAX.sub(_strict, text)))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as reason:
        raise ValueError(f"{text[:80]!r} is not JSON: {reason}") from reason


def _strict(found: re.Match[str]) -> str:
    whole = found[0]
    if whole.startswith('"') or whole in _WORDS:
        return whole
    if whole.startswith("'"):
        return '"' + found[1].replace("\\'", "'").replace('"', '\\"') + '"'
    return f'"{whole}"'


def _fitting(value: Any) -> Any:
    if type(value) is int:
        return value if LONG_MIN <= value <= LONG_MAX else float(value)
    if isinstance(value, dict):
        return {k: _fitting(v) for k, v in value.items()}
    return [_fitting(v) for v in value] if isinstance(value, list) else value


def written(value: Any) -> str:
    """A value as JSON; sets are arrays, keys are text.

    >>> written({1: [True, None], "b": 2.0})
    '{"1":[true,null],"b":2.0}'
    """
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k if isinstance(k, str) else java_text(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=repr)
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
