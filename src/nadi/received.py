"""Reads JSON that others have written: whatever is wrong with it is one error, and its depth is bounded.

The decoders of msgspec and of Python raise other errors for a million brackets than for a missing one, and how many brackets are too many for them depends
on who calls: the same bytes could be read in one process and not in another. `DEEPEST` is the same everywhere.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, TypeVar, overload

import msgspec

DEEPEST = 100
"""Levels of a value that has no type."""
TOO_DEEP = f"it is nested too deep: {DEEPEST} levels are the most"

Content = bytes | str
T = TypeVar("T")

# possessive, and with an end that every text has: no text is read twice
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@overload
def read_json(content: Content) -> Any: ...
@overload
def read_json(content: Content, of: type[T]) -> T: ...
@overload
def read_json(content: Content, of: Any) -> Any: ...
def read_json(content: Content, of: Any = Any) -> Any:
    """The value of a JSON text, of a type if one is wanted.

    Raises:
        msgspec.DecodeError: it is no JSON, not of this type, not UTF-8, or nested too deep.

    >>> read_json(b'{"a": [1]}')
    {'a': [1]}
    """
    if of is Any and is_deep(content):
        raise msgspec.DecodeError(TOO_DEEP)
    try:
        return msgspec.json.decode(content, type=of)
    except RecursionError:
        raise msgspec.DecodeError(TOO_DEEP) from None
    except UnicodeError as reason:
        raise msgspec.DecodeError("it is no text in UTF-8") from reason


def is_deep(content: Content) -> bool:
    """Whether a JSON text has more than `DEEPEST` levels, as far as its brackets go. Takes time in proportion to the text.

    >>> is_deep(b"[" * 101), is_deep('["' + "[" * 101)
    (True, False)
    """
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    brackets = _TEXTS.sub(b"", data).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST
