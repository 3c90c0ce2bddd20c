"""The values that aggregators remember one by one."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import nan
from typing import Any

from nadi.kernel.rows.state import Map

NAN = b"NaN"
"""What NaN is held as: no attribute is of this type."""


def held_as(value: Any) -> Any:
    """The value by which a bag finds what it holds."""
    return NAN if type(value) is float and value != value else value


class CountedBag:
    """The values of all groups in one Map cell: (group, value) → count, so that a delta writes the values that came or went and no others.

    Order is not state: a heap per group and direction is made when first asked for, fed from then on, and forgotten when the cells change. Values
    that left stay in a heap until they reach its top. NaN, which is equal to nothing, is held under a key of its own and stands in no heap.
    """

    def __init__(self) -> None:
        self._counts: Map
        self._least: dict[object, list[Any]] = {}
        self._greatest: dict[object, list[Any]] = {}
        self._distinct: dict[object, dict[Any, None]] | None = None

    def bind(self, counts: Map) -> None:
        """Work on this cell from now on."""
        self._counts = counts
        self._forget()

    def _forget(self) -> None:
        self._least.clear()
        self._greatest.clear()
        self._distinct = None

    def clear(self) -> None:
        self._counts.clear()
        self._forget()

    def add(self, group: object, value: object) -> int:
        key = group, held_as(value)
        held = int(self._counts.get(key, 0)) + 1
        self._counts.set(key, held)
        if held == 1:
            self._enter(*key)
        return held

    def _enter(self, group: object, value: Any) -> None:
        if value is not NAN:
            if (heap := self._least.get(group)) is not None:
                heappush(heap, value)
            if (heap := self._greatest.get(group)) is not None:
                heappush(heap, -value)
        if self._distinct is not None:
            self._distinct.setdefault(group, {})[value] = None

    def remove(self, group: object, value: object) -> int:
        key = group, held_as(value)
        held = self._counts.get(key)
        if held is None:
            return -1
        if held > 1:
            self._counts.set(key, held - 1)
            return int(held) - 1
        self._counts.pop(key)
        if self._distinct is not None:
            self._leave(self._distinct, *key)
        return 0

    def _leave(self, distinct: dict[object, dict[Any, None]], group: object, value: object) -> None:
        del distinct[group][value]
        if not distinct[group]:
            del distinct[group]
            self._least.pop(group, None)
            self._greatest.pop(group, None)

    def values(self, group: object) -> Iterable[Any]:
        return [nan if value == NAN else value for value in self._held(group)]

    def _held(self, group: object) -> Iterable[Any]:
        if self._distinct is None:
            self._distinct = {}
            for held_group, value in self._counts:
                self._distinct.setdefault(held_group, {})[value] = None
        return self._distinct.get(group, {})

    def count(self, group: object, value: object) -> int:
        return int(self._counts.get((group, held_as(value)), 0))

    def _numbers(self, group: object) -> list[Any]:
        return [
            value for value in self._held(group) if value == value and value != NAN
        ]  # older states hold NaN as it is

    def least(self, group: object) -> Any:
        heap = self._least.get(group)
        if heap is None:
            heap = self._least[group] = self._numbers(group)
            heapify(heap)
        return self._top(heap, group, 1)

    def greatest(self, group: object) -> Any:
        heap = self._greatest.get(group)
        if heap is None:
            heap = self._greatest[group] = [-v for v in self._numbers(group)]
            heapify(heap)
        return self._top(heap, group, -1)

    def _top(self, heap: list[Any], group: object, sign: int) -> Any:
        while heap and (group, sign * heap[0]) not in self._counts:
            heappop(heap)
        if heap:
            return sign * heap[0]
        return nan if self.count(group, nan) else None
