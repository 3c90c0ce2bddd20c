"""What sliding windows and running aggregates keep, by the names in their blocks.

Per group `n0`, `s0` … of aggregator 0 (`kernel.columns.accumulating`, `remembering`); of an event that is held `a0`, `z0` of argument 0, `c0`, `y0` of the
first attribute of computed arguments, `e0` of what `distinctCount`, being aggregator 0, counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import AggregatorTraits, Looks
from nadi.plan.nodes import Aggregate, Attr, Expr
from nadi.plan.walk import inside

WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Kept:
    """An aggregator that `nadi.plan.columns.stateforms` knows. `argument` is the number of its argument among those that are held of events, None of those of
    which none is; `counted` is the attribute of `distinctCount`."""

    number: int
    function: str
    argument: int | None
    kind: Type
    traits: AggregatorTraits
    counted: Attr | None = None

    @property
    def whole(self) -> bool:
        """Whether it is a sum or an extreme of whole numbers."""
        return self.function != "avg" and self.kind in WHOLE

    @property
    def extreme(self) -> bool:
        """Whether it is one of values that may leave again, in a window."""
        return self.traits.extreme


def kept_of(aggregates: Sequence[Aggregate]) -> tuple[tuple[Kept, ...], tuple[Expr, ...]]:
    """The aggregators of a query, and the different arguments that are held."""
    arguments: list[Expr] = []
    made = []
    for aggregate in aggregates:
        argument: int | None = None
        counted: Attr | None = None
        if aggregate.traits.looks is Looks.VALUES:
            if aggregate.args[0] not in arguments:
                arguments.append(aggregate.args[0])
            argument = arguments.index(aggregate.args[0])
        elif aggregate.traits.looks is Looks.TEXTS:
            of = aggregate.args[0]
            assert isinstance(of, Attr)  # as islands says
            counted = of
        kind = aggregate.args[0].type if aggregate.args else Type.LONG
        made.append(Kept(aggregate.number, aggregate.function, argument, kind, aggregate.traits, counted))
    return tuple(made), tuple(arguments)


def leaves_of(arguments: Iterable[Expr]) -> tuple[Attr, ...]:
    """The attributes of arguments that are computed; strings are not held."""
    found = {
        part.position: part
        for argument in arguments
        if not isinstance(argument, Attr)
        for part in inside(argument)
        if isinstance(part, Attr) and part.type is not Type.STRING
    }
    return tuple(found.values())
