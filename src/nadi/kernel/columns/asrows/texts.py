"""Texts of keys as the values that they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from nadi.errors import error
from nadi.kernel.columns.keytable import BETWEEN
from nadi.kernel.columns.stretch import Array
from nadi.lang.tree import Type


def texts(arrays: Mapping[str, Array]) -> list[str]:
    """The texts that a block names."""
    if "ends" not in arrays:
        return []
    whole, ends = arrays["texts"].tobytes(), arrays["ends"].tolist()
    return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]


def values(text: str, kinds: Sequence[Type]) -> tuple[Any, ...]:
    """The values of a key: such as have this text.

    >>> values("a" + BETWEEN + "3", (Type.STRING, Type.INT)), values("null", (Type.LONG,))
    (('a', 3), (None,))
    """
    found = _values(text.split(BETWEEN), kinds)
    if found is None:
        raise error("STATE_NOT_READABLE", reason=f"the key {text!r} cannot be taken apart")
    return found


def _values(parts: Sequence[str], kinds: Sequence[Type]) -> tuple[Any, ...] | None:
    """Strings may have what stands between values in them."""
    if not kinds:
        return None if parts else ()
    most = len(parts) - len(kinds) + 1
    for size in range(1, (most if kinds[0] is Type.STRING else min(1, most)) + 1):
        first = _value(BETWEEN.join(parts[:size]), kinds[0])
        rest = _values(parts[size:], kinds[1:])
        if first is not None and rest is not None:
            return (*first, *rest)
    return None


def _value(text: str, kind: Type) -> tuple[Any] | None:
    if kind is Type.STRING:
        return (text,)
    if text == "null":
        return (None,)
    if kind is Type.BOOL:
        return (text == "true",) if text in ("true", "false") else None
    try:
        return (int(text),)
    except ValueError:
        return None
