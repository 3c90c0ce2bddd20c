"""The namespace `stats`: the median (Siddhi's extension siddhi-execution-stats has no other)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.functions.declare import returning
from nadi.functions.entries import Accumulator, Aggregator, Bag, Entry, State
from nadi.functions.signatures import NUMBERS, Arguments, Parameter
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import ON_ROWS


def _make_median(args: Arguments, removes: bool) -> Accumulator:
    """State: how many values are held. Null is ignored; the median of nothing is null."""

    def shown(state: State, bag: Bag, group: object) -> float | None:
        if state[0] == 0:
            return None
        upper = state[0] // 2
        below = None if state[0] % 2 else upper - 1
        found: list[Any] = []
        passed = 0
        for value in sorted(bag.values(group), key=_java_order):
            passed += bag.count(group, value)
            if below is not None and passed > below and not found:
                found.append(value)
            if passed > upper:
                found.append(value)
                break
        return float(found[0]) if len(found) == 1 else (found[0] + found[1]) / 2

    def step(adding: bool) -> Callable[[State, Any, Bag | None, object], Any]:
        def change(state: State, value: Any, bag: Bag | None, group: object) -> Any:
            if bag is None:
                raise ValueError("stats:median needs a bag")
            if value is not None:
                if adding:
                    bag.add(group, value)
                    state[0] += 1
                elif bag.remove(group, value) >= 0:
                    state[0] -= 1
            return shown(state, bag, group)

        return change

    return Accumulator(lambda: [0], step(True), step(False), bag=True)


def _java_order(value: Any) -> tuple[bool, Any]:
    """NaN is greater than all numbers."""
    return (value != value, value)


ENTRIES: tuple[Entry, ...] = (
    Aggregator(
        "stats:median",
        returning(Type.DOUBLE, (Parameter("data", NUMBERS),)),
        _make_median,
        "The median, as double: the mean of the two in the middle of an even number.",
        ("data",),
        ("stats:median(x) over 9, 1, 5 → 5.0", "stats:median(x) over 4, 1, 3, 2 → 2.5"),
        traits=ON_ROWS,
    ),
)
