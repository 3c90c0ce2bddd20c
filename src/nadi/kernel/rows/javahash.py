"""The order of a Java HashMap: tables with a primary key are one, aggregations are read through one, apps see its order (semantics/tables.md#order-of-rows)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from nadi.functions.arithmetic import java_text
from nadi.lang.tree import Type

DELIMITER = ":-:"
"""Follows every part of a key that is made of several."""

_MASK = 0xFFFFFFFF
_SMALLEST, _LOAD = 16, 0.75


def buckets_for(most: int) -> int:
    """How many buckets a map has that held up to `most` entries.

    >>> buckets_for(12), buckets_for(13)
    (16, 32)
    """
    buckets = _SMALLEST
    while most > buckets * _LOAD:
        buckets *= 2
    return buckets


def bucket_of(key: tuple[object, ...], types: tuple[Type, ...], buckets: int) -> int:
    """The bucket of a primary key; several columns are one text in Siddhi, each followed by ":-:".

    >>> bucket_of(("WSO2",), (Type.STRING,), 16), bucket_of((-1,), (Type.INT,), 16), bucket_of((-1,), (Type.LONG,), 16)
    (7, 0, 0)
    """
    text = "".join(f"{java_text(part, kind)}{DELIMITER}" for part, kind in zip(key, types))
    spread = java_hash(key[0], types[0]) if len(key) == 1 else java_hash(text, Type.STRING)
    return _bucket(spread, buckets)


def text_buckets(keys: Sequence[str], most: int = 0) -> list[int]:
    """The buckets of texts that are keys of one map, which has `most`, if these are not all.

    >>> text_buckets(["1496289950000:-:WSO2:-:", "1496289950000:-:IBM:-:"])
    [12, 3]
    """
    buckets = buckets_for(max(most, len(keys)))
    return [_bucket(_text_hash(key), buckets) for key in keys]


@lru_cache(maxsize=1 << 16)  # a join reads the same buckets of an aggregation for every event
def _text_hash(text: str) -> int:
    return java_hash(text, Type.STRING)


def _bucket(spread: int, buckets: int) -> int:
    return (spread ^ (spread >> 16)) & (buckets - 1)


def java_hash(value: object, kind: Type) -> int:
    """`hashCode()` of a value of a type, unsigned; a map of Java takes 0 for null.

    >>> java_hash("hello", Type.STRING), java_hash(None, Type.STRING)
    (99162322, 0)
    """
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        return value & _MASK if kind is Type.INT else _folded(value & 0xFFFFFFFFFFFFFFFF)
    if isinstance(value, float):
        if kind is Type.FLOAT:
            return int.from_bytes(struct.pack(">f", value), "big")
        return _folded(int.from_bytes(struct.pack(">d", value), "big"))
    result = 0
    for unit in memoryview(str(value).encode("utf-16-le", "surrogatepass")).cast("H"):
        result = (31 * result + unit) & _MASK
    return result


def _folded(bits: int) -> int:
    return (bits ^ (bits >> 32)) & _MASK
