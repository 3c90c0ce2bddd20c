"""What is looked at before a loop gets what a state says: of what type arrays are, how many values they have, that places are such as there are.

A state may come from a stranger, and loops do not check their indices. What does not fit is a ValueError, of which `flat` makes STATE_NOT_READABLE. Each check
goes through an array once, without a loop in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nadi.kernel.columns.stretch import Array

FARTHEST = 1 << 62
"""What is counted on stays below: a number cannot become one that is negative."""


def values(given: Mapping[str, Array], name: str, dtype: Any, count: int) -> Array:
    """The array of a name. Raises ValueError where there is none, or where it has other values, or more or fewer of them.

    >>> values({"ts": np.arange(2)}, "ts", "int64", 2).tolist()
    [0, 1]
    >>> values({"ts": np.arange(2)}, "ts", "int64", 1)
    Traceback (most recent call last):
    ...
    ValueError: 'ts' has 2 values of int64 in the place of 1 of int64
    """
    found = given.get(name)
    wanted = np.dtype(dtype)
    if found is None:
        raise ValueError(f"there is no '{name}'")
    if found.dtype != wanted or len(found) != count:
        raise ValueError(f"'{name}' has {len(found)} values of {found.dtype} in the place of {count} of {wanted}")
    return found


def many(given: Mapping[str, Array], name: str, dtype: Any) -> Array:
    """The same, where any number of values may be."""
    found = given.get(name)
    return values(given, name, dtype, 0 if found is None else len(found))


def single(given: Mapping[str, Array], name: str) -> int:
    """A number that stands alone."""
    return int(values(given, name, np.int64, 1)[0])


def check_places(found: Array, count: int, what: str, least: int = 0) -> None:
    """Raises ValueError where one of some places is not below `count`, or below the `least` one; -1 may stand for none."""
    if len(found) and not (least <= found.min() and found.max() < count):
        raise ValueError(f"{what} is a place that there is not")


def check_numbers(found: Array, what: str, least: int = 0) -> None:
    """Raises ValueError where numbers that are counted on are too small, or too great to be counted on."""
    check_places(found, FARTHEST, what, least)


def check_different(ids: Array, room: int) -> None:
    """Raises ValueError where a block tells of one thing twice; ids are below `room`."""
    seen = np.zeros(room, np.bool_)
    seen[ids] = True
    if np.count_nonzero(seen) != len(ids):
        raise ValueError("it tells of one key twice")
