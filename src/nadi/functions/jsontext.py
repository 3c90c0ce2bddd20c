"""JSON as the namespaces `map` and `json` read and write it.

Objects are dicts and arrays are lists. Whole numbers that do not fit into 64 bits are doubles. As Siddhi's parsers do, single quotes and bare names
are taken too: `{name: 'John'}`.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import msgspec

from nadi.functions.arithmetic import LONG_MAX, LONG_MIN, double_text, java_text
from nadi.received import read_json

# possessive, and with an end that every text has: no text is read twice
_LAX = re.compile(
    r"""'((?:[^'\\]|\\.)*+)(?:(')|\\?\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[0-9][0-9.]*+(?:[eE][-+]?[0-9]++)?|[A-Za-z_$][\w$-]*""",
    re.DOTALL,
)
_WORDS = frozenset({"true", "false", "null"})


def parse(text: str) -> Any:
    """The value of a JSON text.

    >>> parse("{'a': [1, 2.5], b: null}")
    {'a': [1, 2.5], 'b': None}

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return _fitting(read_json(text))
    except msgspec.DecodeError:
        pass  # perhaps it is written in the lax way
    try:
        return _fitting(read_json(_LAX.sub(_strict, text)))
    except msgspec.DecodeError as reason:
        raise ValueError(f"{text[:80]!r} is not JSON: {reason}") from reason


def _strict(found: re.Match[str]) -> str:
    whole = found[0]
    if whole[0] in '"0123456789' or whole in _WORDS or (whole.startswith("'") and not found[2]):
        return whole  # what has no end stays wrong, and the e of a number is no name
    if found[2]:
        return '"' + found[1].replace("\\'", "'").replace('"', '\\"') + '"'
    return f'"{whole}"'


def _fitting(value: Any) -> Any:
    if type(value) is int:
        return value if LONG_MIN <= value <= LONG_MAX else float(value)
    if isinstance(value, dict):
        return {k: _fitting(v) for k, v in value.items()}
    return [_fitting(v) for v in value] if isinstance(value, list) else value


def written(value: Any, short: bool = False) -> str:
    """A value as JSON; sets are arrays, keys are text. With `short` a double ends without zeros behind its point, as `map:toJSON` of Siddhi writes it.

    >>> written({1: [True, None], "b": 2.0})
    '{"1":[true,null],"b":2.0}'
    >>> written([-3.0, 1.25, 1e20], short=True)
    '[-3,1.25,1.0E20]'
    """
    return msgspec.json.encode(_plain(value, short)).decode()


def _plain(value: Any, short: bool) -> Any:
    if isinstance(value, dict):
        return {k if isinstance(k, str) else java_text(k): _plain(v, short) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v, short) for v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(v, short) for v in value]
    return _short(value) if short and type(value) is float and isfinite(value) else value


def _short(value: float) -> msgspec.Raw:
    text = double_text(value)
    return msgspec.Raw((text if "E" in text else text.rstrip("0").rstrip(".")).encode())
