"""The aggregators (semantics/selection.md#aggregators): C adds, X removes, R clears.

The state of a group is a short list, so that a delta writes little. Where values must be remembered one by one (sliding min and max, distinct values,
sets) they lie in a `Bag`: one entry per value and group, of which a delta writes only those that changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nadi.errors import error
from nadi.functions.arithmetic import WrongClass, told, wrap_long
from nadi.functions.entries import Accumulator, Aggregator, Bag, State, Step
from nadi.functions.signatures import NUMBERS, Arguments, Parameter, match
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import EVERYWHERE, OF_DISTINCT_COUNT, ON_ROWS, AggregatorTraits, Looks
from nadi.plan.catalog import Returns

_ANY = tuple(Type)
_NUMBER = (Parameter("arg", NUMBERS),)


def _returning(result: Type | None, *overloads: tuple[Parameter, ...]) -> Returns:
    """`result`, or the argument's type where it is None."""

    def returns(args: Arguments) -> Type:
        match(args, *overloads)
        return args[0].type if result is None else result

    return returns


def _sum_type(args: Arguments) -> Type:
    match(args, _NUMBER)
    return Type.LONG if args[0].type in (Type.INT, Type.LONG) else Type.DOUBLE


# ---- sums ----------------------------------------------------------------------------------------------------------


def _make_sum(args: Arguments, removes: bool) -> Accumulator:
    whole = args[0].type in (Type.INT, Type.LONG)
    zero: float = 0 if whole else 0.0

    # More may be taken off than was put in (a join takes an X off once per match of that moment), so that the count says nothing about the sum:
    # as in Siddhi, the sum stays what it is, and only what a removal leaves empty is null.
    def add(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is None:
            return state[1] if state[0] else None
        total = state[1] + value
        state[0] += 1
        state[1] = wrap_long(total) if whole else total
        return state[1]

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is None:
            return state[1] if state[0] else None
        total = state[1] - value
        state[0] -= 1
        state[1] = wrap_long(total) if whole else total
        if state[0]:
            return state[1]
        if not whole:  # whole numbers are not rounded: what is left of them counts
            _left_empty(state, value)
        return None

    return Accumulator(lambda: [0, zero], add, remove)


def _left_empty(state: State, value: Any) -> None:
    """What rounding leaves of a sum whose last value went is nothing, so that the group can be forgotten."""
    if abs(state[1]) <= 1e-9 * abs(value):
        state[1] *= 0


def _make_avg(args: Arguments, removes: bool) -> Accumulator:
    def add(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None:
            state[1] += value
            state[0] += 1
        return _mean(state)

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None:
            state[1] -= value
            state[0] -= 1
            if state[0] == 0:
                _left_empty(state, value)
        return _mean(state)

    def _mean(state: State) -> Any:
        return state[1] / state[0] if state[0] else None

    return Accumulator(lambda: [0, 0.0], add, remove)


def _make_count(args: Arguments, removes: bool) -> Accumulator:
    def add(state: State, value: Any, bag: Bag | None, group: object) -> int:
        state[0] += 1
        return int(state[0])

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> int:
        state[0] -= 1
        return int(state[0])

    return Accumulator(lambda: [0], add, remove)


def _make_deviation(args: Arguments, removes: bool) -> Accumulator:
    """Population deviation by running sums of squared distances (Welford); state: count, sum, mean, squares."""

    def add(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None:
            before = state[2]
            state[0] += 1
            if state[0] == 1:
                state[1] = state[2] = 0.0 + value
                state[3] = 0.0
            elif state[0] != 0:
                state[1] += value
                state[2] = state[1] / state[0]
                state[3] += (value - before) * (value - state[2])
        return _deviation(state)

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None:
            before = state[2]
            rest = state[1] - value
            state[0] -= 1
            if state[0] == 0:
                state[1:] = [0.0, 0.0, 0.0]
            else:
                state[1], state[2] = rest, rest / state[0]
                state[3] -= (value - before) * (value - state[2])
        return _deviation(state)

    def _deviation(state: State) -> Any:
        if state[0] == 0:
            return None
        if state[0] == 1:
            return 0.0
        square = state[3] / state[0]
        return math.sqrt(square) if square >= 0 else math.nan

    return Accumulator(lambda: [0, 0.0, 0.0, 0.0], add, remove)


# ---- extremes ------------------------------------------------------------------------------------------------------


def _extreme(greatest: bool, forever: bool) -> Callable[[Arguments, bool], Accumulator]:
    def better(value: Any, held: Any) -> bool:
        return bool(value > held) if greatest else bool(value < held)

    def keep(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None and (state[0] is None or better(value, state[0])):
            state[0] = value
        return state[0]

    def shown(bag: Bag, group: object) -> Any:
        return bag.greatest(group) if greatest else bag.least(group)

    def add(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None and bag is not None:
            if state[0] is not None:
                better(value, state[0])  # a value that cannot be compared fails before it is kept
            bag.add(group, value)
            if state[0] is None or better(value, state[0]):
                state[0] = value
        return state[0]

    # A NaN that came first is shown, as nothing is less or greater, until one leaves: what is shown then is a number, if one is held.
    def remove(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if value is not None and bag is not None:
            left = bag.remove(group, value)
            if (left == 0 and value == state[0]) or state[0] != state[0]:
                state[0] = shown(bag, group)
        return state[0]

    def make(args: Arguments, removes: bool) -> Accumulator:
        if forever:
            return Accumulator(lambda: [None], keep, keep, forever=True)
        if removes:
            return Accumulator(lambda: [None], add, remove, bag=True)
        return Accumulator(lambda: [None], keep, lambda state, value, bag, group: state[0])

    return make


# ---- distinct values, sets -----------------------------------------------------------------------------------------


def _make_distinct(args: Arguments, removes: bool) -> Accumulator:
    """Null is a value as any other, as in Siddhi."""

    def add(state: State, value: Any, bag: Bag | None, group: object) -> int:
        if bag is not None and bag.add(group, value) == 1:
            state[0] += 1
        return int(state[0])

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> int:
        if bag is not None and bag.remove(group, value) == 0:
            state[0] -= 1
        return int(state[0])

    return Accumulator(lambda: [0], add, remove, bag=True)


def _make_union(args: Arguments, removes: bool) -> Accumulator:
    def each(value: Any, step: Callable[[object, object], int], group: object) -> None:
        if value is None:
            return
        if not isinstance(value, (set, frozenset)):
            raise WrongClass(f"{told(value)} is not a set")
        for item in value:
            step(group, item)

    def add(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if bag is None:
            return None
        each(value, bag.add, group)
        return frozenset(bag.values(group))

    def remove(state: State, value: Any, bag: Bag | None, group: object) -> Any:
        if bag is None:
            return None
        each(value, bag.remove, group)
        return frozenset(bag.values(group))

    return Accumulator(list, add, remove, bag=True)


# ---- and, or -------------------------------------------------------------------------------------------------------


def _logical(name: str, result: Callable[[State], bool]) -> Callable[[Arguments, bool], Accumulator]:
    """State: how many trues and falses are held."""

    def step(by: int) -> Step:
        def change(state: State, value: Any, bag: Bag | None, group: object) -> bool:
            if value is None:
                raise error("NULL_VALUE", where=f"the aggregator '{name}'")
            state[0 if value else 1] += by
            return result(state)

        return change

    return lambda args, removes: Accumulator(lambda: [0, 0], step(1), step(-1))


def _entry(
    name: str,
    returns: Returns,
    make: Callable[[Arguments, bool], Accumulator],
    doc: str,
    example: str,
    traits: AggregatorTraits,
) -> Aggregator:
    return Aggregator(name, returns, make, doc, ("arg",), (f"{name}({example}",), traits=traits)


_OF_SUM = AggregatorTraits(
    sure=True,
    null_fails=False,
    forever=False,
    extreme=False,
    looks=Looks.VALUES,
    incremental=True,
    numbers=("n", "s"),
    columns=EVERYWHERE,
)
_OF_COUNT = replace(_OF_SUM, looks=Looks.NOTHING, numbers=("n",))
_OF_DEVIATION = replace(_OF_SUM, numbers=("n", "s", "u", "w"))
_OF_EXTREME = replace(_OF_SUM, extreme=True, numbers=())
_OF_ALL_TIME = replace(_OF_SUM, forever=True, incremental=False, numbers=())
_OF_LOGIC = replace(_OF_SUM, sure=False, null_fails=True, incremental=False)


_SAME_NUMBER = _returning(None, _NUMBER)
_BOOLEAN = _returning(Type.BOOL, (Parameter("arg", (Type.BOOL,)),))

AGGREGATORS: tuple[Aggregator, ...] = (
    _entry(
        "sum",
        _sum_type,
        _make_sum,
        "The sum: long of int and long, double of float and double.",
        "x) over 1, 2, 3 → 6L",
        _OF_SUM,
    ),
    _entry("avg", _returning(Type.DOUBLE, _NUMBER), _make_avg, "The mean, as double.", "x) over 1, 2 → 1.5", _OF_SUM),
    _entry(
        "count",
        _returning(Type.LONG, (), (Parameter("arg", _ANY),)),
        _make_count,
        "How many events.",
        ") over 5, 6 → 2L",
        _OF_COUNT,
    ),
    _entry(
        "distinctCount",
        _returning(Type.LONG, (Parameter("arg", _ANY),)),
        _make_distinct,
        "How many different values; null is one.",
        "x) over 'a', 'b', 'a' → 2L",
        OF_DISTINCT_COUNT,
    ),
    _entry("min", _SAME_NUMBER, _extreme(False, False), "The least value held.", "x) over 3, 1, 2 → 1", _OF_EXTREME),
    _entry("max", _SAME_NUMBER, _extreme(True, False), "The greatest value held.", "x) over 1, 3, 2 → 3", _OF_EXTREME),
    _entry(
        "minForever",
        _SAME_NUMBER,
        _extreme(False, True),
        "The least value ever seen.",
        "x) over 3, 1, 2 → 1",
        _OF_ALL_TIME,
    ),
    _entry(
        "maxForever",
        _SAME_NUMBER,
        _extreme(True, True),
        "The greatest value ever seen.",
        "x) over 1, 3, 2 → 3",
        _OF_ALL_TIME,
    ),
    _entry(
        "stdDev",
        _returning(Type.DOUBLE, _NUMBER),
        _make_deviation,
        "The population standard deviation.",
        "x) over 1, 3 → 1.0",
        _OF_DEVIATION,
    ),
    _entry(
        "and",
        _BOOLEAN,
        _logical("and", lambda s: s[0] > 0 and s[1] == 0),
        "Whether all are true.",
        "x) over true, false → false",
        _OF_LOGIC,
    ),
    _entry(
        "or",
        _BOOLEAN,
        _logical("or", lambda s: s[0] > 0),
        "Whether one is true.",
        "x) over true, false → true",
        _OF_LOGIC,
    ),
    _entry(
        "unionSet",
        _returning(Type.OBJECT, (Parameter("set", (Type.OBJECT,)),)),
        _make_union,
        "The union of sets.",
        "createSet(x)) over 'a', 'b' → [\"a\",\"b\"]",
        ON_ROWS,
    ),
)
