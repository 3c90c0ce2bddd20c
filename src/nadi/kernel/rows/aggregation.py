"""The aggregators of a query at work: states of groups in cells, values remembered one by one in bags."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from nadi.errors import error
from nadi.functions.entries import Accumulator
from nadi.kernel.rows.code import argument_of
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Cell, Cells, Map
from nadi.plan.nodes import Aggregate

States = list[list[Any]]


class Aggregation:
    """All aggregators of one query, per flow key and group.

    Cells: `groups` group key → the states of the aggregators by number; `bag<n>` (group key, value) → how often it is held, for those that need it.
    """

    def __init__(self, element_id: str, aggregates: tuple[Aggregate, ...], removes: bool, flow: Flow) -> None:
        self._flow = flow
        self._accumulators = tuple(accumulator_of(a, removes, flow) for a in aggregates)
        bags = {f"bag{n}": Map for n, a in enumerate(self._accumulators) if a.bag}
        cells: dict[str, type[Cell]] = {"groups": Map, **bags}
        self._element = flow.store.element(element_id, cells)
        self._bags = tuple(CountedBag() if a.bag else None for a in self._accumulators)
        self._adds = tuple((n, a.add, b) for n, (a, b) in enumerate(zip(self._accumulators, self._bags, strict=True)))
        self._removes = tuple(
            (n, a.remove, b) for n, (a, b) in enumerate(zip(self._accumulators, self._bags, strict=True))
        )
        self._fresh = [a.fresh() for a in self._accumulators]
        self._cells: Cells | None = None

    def bind(self) -> None:
        """Turn to the flow key at hand; call before a chunk."""
        cells = self._element.at(self._flow.key)
        if cells is not self._cells:
            self._cells = cells
            self._groups: Map = cells["groups"]
            for number, bag in enumerate(self._bags):
                if bag is not None:
                    bag.bind(cells[f"bag{number}"])

    def add(self, group: object, values: tuple[Any, ...]) -> list[Any]:
        """A C event: the aggregators' values after it, by number."""
        states = self._states(group)
        return [step(states[n], values[n], bag, group) for n, step, bag in self._adds]

    def remove(self, group: object, values: tuple[Any, ...]) -> list[Any]:
        """An X event: the aggregators' values after it. A group that is as if it had seen nothing is forgotten."""
        states = self._states(group)
        found = [step(states[n], values[n], bag, group) for n, step, bag in self._removes]
        if states == self._fresh:
            self._groups.pop(group)
        return found

    def _states(self, group: object) -> States:
        """The states of a group, to be changed."""
        groups = self._groups
        states: States | None = groups.get(group)
        if states is None:
            states = [a.fresh() for a in self._accumulators]
            groups.set(group, states)
        else:
            groups.touch(group)
        return states

    def forget(self, group: object) -> None:
        """A group is of no interest any more."""
        self._groups.pop(group)
        for bag in self._bags:
            if bag is not None:
                for value in list(bag.values(group)):
                    while bag.remove(group, value) > 0:
                        pass

    def reset(self) -> None:
        """An R event: clears every group; what holds forever stays."""
        lasting = [n for n, a in enumerate(self._accumulators) if a.forever]
        kept = [(group, states) for group, states in self._groups.items()] if lasting else []
        self._groups.clear()
        for group, states in kept:
            fresh = [s if n in lasting else a.fresh() for n, (s, a) in enumerate(zip(states, self._accumulators))]
            self._groups.set(group, fresh)
        for bag in self._bags:
            if bag is not None:
                bag.clear()


def accumulator_of(aggregate: Aggregate, removes: bool, flow: Flow) -> Accumulator:
    """How an aggregate of the plan counts.

    Raises:
        FUNCTION_NOT_FOUND: the registry does not have it.
    """
    found = flow.registry.aggregator(aggregate.function)
    if found is None:
        raise error("FUNCTION_NOT_FOUND", name=aggregate.function, hint="register it before the app is made")
    return found.make(tuple(argument_of(a) for a in aggregate.args), removes)


class CountedBag:
    """The values of all groups in one Map cell: (group, value) → count, so that a delta writes the values that came or went and no others.

    Order is not state: a heap per group and direction is made when first asked for, fed from then on, and forgotten when the cells change. Values
    that left stay in a heap until they reach its top.
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
        held = int(self._counts.get((group, value), 0)) + 1
        self._counts.set((group, value), held)
        if held == 1:
            self._enter(group, value)
        return held

    def _enter(self, group: object, value: Any) -> None:
        if (heap := self._least.get(group)) is not None:
            heappush(heap, value)
        if (heap := self._greatest.get(group)) is not None:
            heappush(heap, -value)
        if self._distinct is not None:
            self._distinct.setdefault(group, {})[value] = None

    def remove(self, group: object, value: object) -> int:
        key = (group, value)
        held = self._counts.get(key)
        if held is None:
            return -1
        if held > 1:
            self._counts.set(key, held - 1)
            return int(held) - 1
        self._counts.pop(key)
        if self._distinct is not None:
            self._leave(self._distinct, group, value)
        return 0

    def _leave(self, distinct: dict[object, dict[Any, None]], group: object, value: object) -> None:
        del distinct[group][value]
        if not distinct[group]:
            del distinct[group]
            self._least.pop(group, None)
            self._greatest.pop(group, None)

    def values(self, group: object) -> Iterable[Any]:
        if self._distinct is None:
            self._distinct = {}
            for held_group, value in self._counts:
                self._distinct.setdefault(held_group, {})[value] = None
        return self._distinct.get(group, {})

    def count(self, group: object, value: object) -> int:
        return int(self._counts.get((group, value), 0))

    def least(self, group: object) -> Any:
        heap = self._least.get(group)
        if heap is None:
            heap = self._least[group] = list(self.values(group))
            heapify(heap)
        return self._top(heap, group, 1)

    def greatest(self, group: object) -> Any:
        heap = self._greatest.get(group)
        if heap is None:
            heap = self._greatest[group] = [-v for v in self.values(group)]
            heapify(heap)
        return self._top(heap, group, -1)

    def _top(self, heap: list[Any], group: object, sign: int) -> Any:
        while heap and (group, sign * heap[0]) not in self._counts:
            heappop(heap)
        return sign * heap[0] if heap else None
