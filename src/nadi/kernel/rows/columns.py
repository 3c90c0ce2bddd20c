"""Columns of plain values as MessagePack: what they have in common is told once, beside them, so that one call in C makes all of them, tuples included.

A column is written as a shape and data. The *shape* is a text:

- `.`: what MessagePack has itself: None, bool, int, float, str, bytes, and lists of them;
- `(s)`: tuples, whose items all have the shape s; `(s,s,…)`: tuples of so many items, with a shape each; both are written as arrays;
- `[s]`: lists of s, where s is not `.`;
- `?s`: None, or s;
- `*`: anything else, in the form of `nadi.kernel.rows.messagepack`.

Two more stand for a whole column: `=` is one value for all, and data that one; `+` are ints, each written as what it is more than the one before it.

>>> column_of([(1, ("a", 2.5)), (2, ("b", None))])
('(.,(.))', [(1, ('a', 2.5)), (2, ('b', None))])
>>> column_of([700, 701, 705]), column_of([False, False])
(('+', [700, 1, 4]), ('=', False))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from operator import itemgetter, sub
from typing import Any, Optional

import msgspec

from nadi.kernel.rows.messagepack import ATOMS, mark, unpack_rare

Column = tuple[str, Any]
"""Shape and data."""

PLAIN, ANY = ".", "*"
_NEAR = 1 << 31
"""Ints that lie within this of each other are written as differences: in 5 bytes at most, where a time takes 9."""
_NONE = type(None)
_REPEATED = frozenset({int, bool, str, _NONE})
_FIRST_COLUMNS = tuple(itemgetter(i) for i in range(16))


def column_of(values: Sequence[Any]) -> Column:
    """Values, of which there is at least one, in the form in which they are encoded."""
    first = values[0]
    kinds = set(map(type, values))
    if len(kinds) == 1:
        if type(first) in _REPEATED and values[-1] == first and values.count(first) == len(values):
            return "=", first
        if type(first) is list and not any(values):
            return "=", []
        if type(first) is int and max(values) - min(values) < _NEAR:
            return "+", [first, *map(sub, values[1:], values)]
    shape = shape_of(values)
    return shape, marked(values, shape)


def values_of(shape: str, data: msgspec.Raw | bytes) -> Iterable[Any]:
    """The values of a column, again and again the same where one stands for all."""
    if shape == "=":
        value = decoder(PLAIN, False).decode(data)
        return repeat(value) if value != [] else iter(list, None)  # a list for each, as they may be changed
    if shape == "+":
        return accumulate(decoder(PLAIN, True).decode(data))
    values: list[Any] = decoder(shape, True).decode(data)
    return values


# ---- shapes ----------------------------------------------------------------------------------------------------------


def shape_of(values: Sequence[Any]) -> str:
    """The shape that all of these values have."""
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        return PLAIN
    optional = _NONE in kinds
    kinds.discard(_NONE)
    given = [v for v in values if v is not None] if optional else values
    if all(issubclass(kind, tuple) for kind in kinds):
        return "?" * optional + _of_tuples(given)
    if list not in kinds or not kinds <= _LIST_OR_ATOM:
        return ANY
    inner = shape_of(list(chain.from_iterable(v for v in given if type(v) is list)))
    if inner == PLAIN:
        return PLAIN
    return "?" * optional + f"[{inner}]" if len(kinds) == 1 else ANY


_LIST_OR_ATOM = ATOMS | {list}


def _of_tuples(values: Sequence[tuple[Any, ...]]) -> str:
    if ATOMS.issuperset(map(type, chain.from_iterable(values))):
        return "(.)"
    lengths = set(map(len, values))
    if len(lengths) > 1:
        return f"({shape_of(list(chain.from_iterable(values)))})"
    shapes = [shape_of(list(column)) for column in _columns(values, lengths.pop())]
    return f"({shapes[0]})" if len(set(shapes)) == 1 else f"({','.join(shapes)})"


def _columns(values: Sequence[tuple[Any, ...]], length: int) -> Iterator[Iterable[Any]]:
    getters = _FIRST_COLUMNS[:length] if length <= len(_FIRST_COLUMNS) else map(itemgetter, range(length))
    return (map(get, values) for get in getters)


def marked(values: Sequence[Any], shape: str) -> Sequence[Any]:
    """Values with what MessagePack does not have itself as extension values."""
    if ANY not in shape:
        return values
    if shape == ANY:
        return [mark(v) for v in values]
    if shape[0] == "?":
        made = iter(marked([v for v in values if v is not None], shape[1:]))
        return [None if v is None else next(made) for v in values]
    inner = _parts(shape[1:-1])
    if len(inner) > 1:
        return list(zip(*(marked(list(c), s) for c, s in zip(_columns(values, len(inner)), inner, strict=True))))
    return [marked(v, inner[0]) for v in values]


def _parts(shapes: str) -> list[str]:
    """The shapes that stand between commas."""
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(shapes):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and not depth:
            parts.append(shapes[start:i])
            start = i + 1
    return [*parts, shapes[start:]]


@lru_cache(1024)
def decoder(shape: str, several: bool) -> msgspec.msgpack.Decoder[Any]:
    """Decodes a value of a shape, or an array of several."""
    kind = _type_of(shape)
    return msgspec.msgpack.Decoder(list[kind] if several else kind, ext_hook=unpack_rare)  # type: ignore[valid-type]  # it is made here


def _type_of(shape: str) -> Any:
    if shape in (PLAIN, ANY):
        return Any
    if shape[0] == "?":
        return Optional[_type_of(shape[1:])]  # noqa: UP045  # of what is only known now
    inner = [_type_of(s) for s in _parts(shape[1:-1])]
    if shape[0] == "[":
        return list[inner[0]]  # type: ignore[valid-type]  # it is made here
    return tuple.__class_getitem__((inner[0], ...) if len(inner) == 1 else tuple(inner))
