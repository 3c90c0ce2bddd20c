"""The aggregators of a query at work: states of groups in cells, values remembered one by one in bags."""

from __future__ import annotations

from typing import Any

from nadi.errors import error
from nadi.functions.entries import Accumulator
from nadi.kernel.rows.bags import CountedBag
from nadi.kernel.rows.code import argument_of
from nadi.kernel.rows.events import CURRENT
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

    def step(self, kind: int, group: object, number: int, value: Any) -> Any:
        """What one aggregator is worth after a C or X event."""
        _n, step, bag = (self._adds if kind == CURRENT else self._removes)[number]
        return step(self._states(group)[number], value, bag, group)

    def forget_fresh(self, group: object) -> None:
        """A group that is as if it had seen nothing is forgotten."""
        if self._groups.get(group) == self._fresh:
            self._groups.pop(group)

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
        """An R event: clears every group. Only in 4.x does it spare what holds forever."""
        lasting = [n for n, a in enumerate(self._accumulators) if a.forever and self._flow.compat < 5]
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
