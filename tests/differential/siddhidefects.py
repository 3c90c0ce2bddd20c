"""nadi with the defects of Siddhi 5.1: what it gives with them and not without is what they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nadi.functions.entries import Accumulator, Aggregator, State
from nadi.functions.registry import default_registry
from nadi.functions.signatures import Arguments
from nadi.functions.stores import StoreKind
from tests.differential.playing import Case, played
from tests.differential.siddhiheld import failed
from tests.differential.siddhitables import Moment, SiddhiTable

EMPTIED = "min, max, percentile and groupConcat behind some windows"
SMALL = "Small things that are stricter or laxer here"
_TABLE = re.compile(r"define table ")


def with_defects(case: Case, order: int = 0) -> tuple[Case, Moment]:
    """What nadi gives with Siddhi's defects, and which have shown. Hash sets go in one of many orders: 0 is the order in which rows came."""
    moment = Moment(order)
    registry = default_registry()
    registry.add(StoreKind("asInSiddhi", lambda table: SiddhiTable(table, moment, registry)))
    for name, change in AGGREGATORS.items():
        aggregator = registry.aggregator(name)
        assert aggregator is not None
        registry.add(_changed(aggregator, change, moment))
    app = _TABLE.sub("@store(type='asInSiddhi') define table ", case["app"])
    result = played({**case, "app": app}, registry, moment.tell)
    asked = iter([text for stream, _time, text in case["events"] if stream == "?"])
    for call in result["got"]:
        if call[0] == "?" and next(asked).startswith("from ") and call[2] == [["done"]]:
            call[2] = [["none"]]  # a store answers so
    return result, moment


# ---- aggregators

Change = Callable[[Accumulator, Arguments, Moment], Accumulator]
"""What becomes of an accumulator from which events leave, with these arguments."""


def _changed(aggregator: Aggregator, change: Change, moment: Moment) -> Aggregator:
    def make(args: Arguments, removes: bool) -> Accumulator:
        made = aggregator.make(args, removes)
        return change(made, args, moment) if removes else made

    return replace(aggregator, make=make)


def _percentile(made: Accumulator, _args: Arguments, moment: Moment) -> Accumulator:
    """It fails where nothing is left to it."""

    def remove(*given: Any) -> Any:
        if (found := made.remove(*given)) is None:
            moment.noted.add(EMPTIED)
            raise failed("a percentile of nothing")
        return found

    return replace(made, remove=remove)


def _concat(made: Accumulator, args: Arguments, moment: Moment) -> Accumulator:
    """It fails where a text leaves that it does not hold: a null, if it has one argument, or that of an event on which the query failed."""

    def remove(state: State, value: Any, bag: Any, group: object) -> Any:
        if bag.count(group, "null" if value is None and len(args) > 1 else value) == 0:
            moment.noted.add(EMPTIED)
            raise failed("groupConcat of what it does not hold")
        return made.remove(state, value, bag, group)

    return replace(made, remove=remove)


def _union(_made: Accumulator, _args: Arguments, moment: Moment) -> Accumulator:
    """What has left is still counted once, so that it never leaves again. The state is the values of the union, and how often each is counted."""

    def add(state: State, value: Any, _bag: Any, _group: object) -> Any:
        held, counts = state
        for item in value or ():
            held[item] = None
            counts[item] = counts.get(item, 0) + 1
        return frozenset(held)

    def remove(state: State, value: Any, _bag: Any, _group: object) -> Any:
        held, counts = state
        for item in value or ():
            if counts.get(item) == 1:
                held.pop(item, None)
                moment.noted.add(SMALL)
            elif item in counts:
                counts[item] -= 1
        return frozenset(held)

    return Accumulator(lambda: [{}, {}], add, remove)


def _extreme(greatest: bool) -> Change:
    """`min` or `max` that keeps no value which a later one undercuts, and takes off the first value equal to one that leaves. The state is what is shown,
    and behind it what is kept."""

    def undercuts(value: Any, held: Any) -> bool:
        return bool(value > held) if greatest else bool(value < held)

    def add(state: State, value: Any, _bag: Any, _group: object) -> Any:
        if value is not None:
            while len(state) > 1 and undercuts(value, state[-1]):
                state.pop()
            state.append(value)
            if state[0] is None or undercuts(value, state[0]):
                state[0] = value
        return state[0]

    def change(_made: Accumulator, _args: Arguments, moment: Moment) -> Accumulator:
        def remove(state: State, value: Any, _bag: Any, _group: object) -> Any:
            if value is not None:
                if value in state[1:]:
                    at = state.index(value, 1)
                    if at > 1:  # an equal value that came later: what leaves is not kept any more
                        moment.noted.add(EMPTIED)
                    state.pop(at)
                state[0] = state[1] if len(state) > 1 else None
            return state[0]

        return Accumulator(lambda: [None], add, remove)

    return change


AGGREGATORS: Mapping[str, Change] = {
    "math:percentile": _percentile,
    "str:groupConcat": _concat,
    "unionSet": _union,
    "min": _extreme(False),
    "max": _extreme(True),
}
"""Those that have a defect."""
