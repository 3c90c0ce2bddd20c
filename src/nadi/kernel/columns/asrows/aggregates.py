"""What sliding windows and running aggregates keep, by the names in their blocks: `n0`, `s0` of aggregator 0, `a0`, `z0` of argument 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nadi.lang.tree import Type
from nadi.plan.nodes import Aggregate, Attr, Expr
from nadi.plan.walk import inside


@dataclass(frozen=True, slots=True)
class Kept:
    """An aggregator that `nadi.plan.keeping` knows. `argument` is the number of its argument among those that are held of events, None of `count`."""

    number: int
    function: str
    argument: int | None
    kind: Type

    @property
    def whole(self) -> bool:
        """Whether it is a sum of whole numbers."""
        return self.function == "sum" and self.kind in (Type.INT, Type.LONG)


def kept_of(aggregates: Sequence[Aggregate]) -> tuple[tuple[Kept, ...], tuple[Expr, ...]]:
    """The aggregators of a query, and the different arguments that are held."""
    arguments: list[Expr] = []
    made = []
    for aggregate in aggregates:
        argument = None
        if aggregate.function != "count":
            if aggregate.args[0] not in arguments:
                arguments.append(aggregate.args[0])
            argument = arguments.index(aggregate.args[0])
        kind = aggregate.args[0].type if aggregate.args else Type.LONG
        made.append(Kept(aggregate.number, aggregate.function, argument, kind))
    return tuple(made), tuple(arguments)


def leaves_of(arguments: Iterable[Expr]) -> tuple[Attr, ...]:
    """The attributes of arguments that are computed, which blocks have as `c<position>` and `y<position>`; strings are not held."""
    found = {
        part.position: part
        for argument in arguments
        if not isinstance(argument, Attr)
        for part in inside(argument)
        if isinstance(part, Attr) and part.type is not Type.STRING
    }
    return tuple(found.values())
