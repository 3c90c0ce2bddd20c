"""Aggregators in a loop: arrays by group, and the lines that add a value, take one off, and show what there is (semantics/selection.md#aggregators).

What they do is, operation by operation and in the same order, what `nadi.functions.aggregators` does on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.distinct import Distinct
from nadi.kernel.columns.ranking import Different, Ranked
from nadi.kernel.columns.remembering import Deviation, Extreme, Truths
from nadi.kernel.columns.stretch import DTYPES
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import AggregatorTraits, Looks
from nadi.plan.nodes import Aggregate, Attr, Expr

_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One aggregator of a query. Its arrays are called `<name><number>`, one entry per group.

    `argument` is the number of the argument among those of the query, None where values are not looked at. `zero` is what its sum is worth when it holds
    nothing.
    """

    number: int
    function: str
    argument: int | None
    kind: Type
    forever: bool = False  # what leaves changes nothing of it

    @property
    def _whole(self) -> bool:
        return self.kind in _WHOLE and self.function == "sum"

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype."""
        n = self.number
        match self.function:
            case "count":
                return {f"n{n}": "int64"}
            case "sum" | "avg":
                return {f"n{n}": "int64", f"s{n}": "int64" if self._whole else "float64"}
            case _:
                return {f"n{n}": "int64", f"s{n}": DTYPES[self.kind]}

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that comes: what is held is in `n<number>_` and `s<number>_` afterwards."""
        n, g = self.number, group
        self._load(write, g)
        match self.function:
            case "count":
                self._store(write, Term(""), g, [f"n{n}_ += 1"])
            case "sum" | "avg":
                self._store(write, value, g, [f"s{n}_ = {self._total('+', value)}", f"n{n}_ += 1"])
            case _:
                sign = ">" if self.function.startswith("max") else "<"
                better = f"{value.text} if n{n}_ == 0 or {value.text} {sign} s{n}_ else s{n}_"
                self._store(write, value, g, [f"s{n}_ = {better}", f"n{n}_ = 1"])

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that leaves."""
        n, g = self.number, group
        self._load(write, g)
        if self.forever:
            return
        if self.function == "count":
            self._store(write, Term(""), g, [f"n{n}_ -= 1"])
            return
        lines = [f"s{n}_ = {self._total('-', value)}", f"n{n}_ -= 1"]
        if not self._whole:  # what rounding leaves of a sum whose last value went is nothing
            lines.append(f"if n{n}_ == 0 and abs(s{n}_) <= 1e-9 * abs({value.text}): s{n}_ *= 0.0")
        self._store(write, value, g, lines)

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing."""
        return tuple(f"{name}[{group}] = 0" for name in self.arrays)

    def _load(self, write: Writer, group: str) -> None:
        """Names for what a group holds: the compiler cannot know that no other array is the same memory."""
        n = self.number
        write.line(f"n{n}_ = int(n{n}[{group}])")
        if self.function != "count":
            write.line(f"s{n}_ = {'int' if self._integral else 'float'}(s{n}[{group}])")

    def _store(self, write: Writer, value: Term, group: str, lines: Sequence[str]) -> None:
        """What changes a group, unless the value is null."""
        if value.null:
            write.line(f"if not {value.null}:")
        stores = [f"{name}[{group}] = {name}_" for name in self.arrays]
        for text in (*lines, *stores):
            write.line(f"    {text}" if value.null else text)

    @property
    def _integral(self) -> bool:
        return self._whole or (self.function not in ("sum", "avg") and self.kind in _WHOLE)

    def _total(self, op: str, value: Term) -> str:
        held = f"s{self.number}_"
        return f"wrap_long({held} {op} {value.text})" if self._whole else f"{held} {op} {value.text}"

    def shown(self, write: Writer) -> Term:
        """The value after an event that came."""
        n = self.number
        if self.function == "count":
            return Term(f"n{n}_")
        null = write.name(f"n{n}_ == 0")
        if self.function == "avg":
            return Term(write.name(f"0.0 if {null} else s{n}_ / n{n}_"), null)
        return Term(f"s{n}_", null)

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        n = self.number
        return f"n{n}_ == 0" if self.function == "count" else f"n{n}_ == 0 and s{n}_ == 0"


Aggregator = Accumulator | Distinct | Different | Extreme | Ranked | Deviation | Truths
"""What is written for an aggregator."""


class InBags(Enum):
    """Of which aggregators the values are held one by one in trees, as any of them may leave next."""

    NONE = auto()
    EXTREMES = auto()
    ALL = auto()  # of extremes, and of what tells values apart


def accumulators(
    aggregates: Sequence[Aggregate], removes: bool, bags: InBags = InBags.NONE
) -> tuple[tuple[Aggregator, ...], tuple[Expr, ...]]:
    """The accumulators of a query, and the different arguments that they look at. `removes`: events leave again."""
    arguments: list[Expr] = []
    made = []
    for aggregate in aggregates:
        argument = None
        if _in_bag(aggregate, bags) or aggregate.traits.looks is Looks.VALUES:
            if aggregate.args[0] not in arguments:
                arguments.append(aggregate.args[0])
            argument = arguments.index(aggregate.args[0])
        kind = aggregate.args[0].type if aggregate.args else Type.LONG
        made.append(_accumulator(aggregate, argument, kind, removes, bags))
    return tuple(made), tuple(arguments)


def taken(write: Writer, aggregators: Sequence[Aggregator], arguments: Sequence[Expr]) -> None:
    """The lines that take the event at place `j` off the aggregators of its group `h`: its arguments are held as `h_a<n>`, and `h_z<n>` tells nulls."""
    values = loaded_arguments(write, arguments)
    for one in aggregators:
        one.take(write, Term("") if one.argument is None else values[one.argument], "h")
    sums = [f"s{a.number}" for a in aggregators if a.arrays.get(f"s{a.number}") == "float64"]
    if sums:  # a group that is as if it had seen nothing begins anew: its sums are 0.0 and not -0.0
        write.line(f"if {' and '.join(a.fresh() for a in aggregators)}:")
        for name in sums:
            write.line(f"    {name}[h] = 0.0")


def loaded_arguments(write: Writer, arguments: Sequence[Expr]) -> tuple[Term, ...]:
    """The lines that look at the arguments of the event at place `j`, and how these are called."""
    values = []
    for number, argument in enumerate(arguments):
        write.line(f"b{number} = {_CONVERTED[np.dtype(DTYPES[argument.type]).kind]}(h_a{number}[j])")
        write.line(f"y{number} = h_z{number}[j]")
        values.append(Term(f"b{number}", f"y{number}"))
    return tuple(values)


def loaded(write: Writer, one: Aggregator, group: str) -> None:
    """The lines after which `shown` can tell what an aggregator has come to."""
    for name, dtype in one.arrays.items():
        write.line(f"{name}_ = {_CONVERTED[np.dtype(dtype).kind]}({name}[{group}])")


_CONVERTED = {"i": "int", "f": "float", "b": "bool"}


def _in_bag(aggregate: Aggregate, bags: InBags) -> bool:
    extreme, texts = aggregate.traits.extreme, aggregate.traits.looks is Looks.TEXTS
    return (extreme and bags is not InBags.NONE) or (texts and bags is InBags.ALL)


def _accumulator(aggregate: Aggregate, argument: int | None, kind: Type, removes: bool, bags: InBags) -> Aggregator:
    number, name, traits = aggregate.number, aggregate.function, aggregate.traits
    if traits.looks is Looks.TEXTS:
        if argument is not None:
            return Different(number, name, argument, kind)
        counted = aggregate.args[0]
        assert isinstance(counted, Attr)  # as islands says
        return Distinct(number, name, None, counted.position)
    if argument is not None and _in_bag(aggregate, bags):
        return Ranked(number, name, argument, kind)
    if argument is not None and traits.extreme and removes:
        return Extreme(number, name, argument, kind)
    return OPERATORS[name](number, name, argument, kind, traits)


def _deviation(number: int, name: str, argument: int | None, kind: Type, _traits: AggregatorTraits) -> Aggregator:
    assert argument is not None  # as its traits say
    return Deviation(number, name, argument, kind)


def _truths(number: int, name: str, argument: int | None, kind: Type, _traits: AggregatorTraits) -> Aggregator:
    assert argument is not None  # as its traits say
    return Truths(number, name, argument, kind)


def _numbers(number: int, name: str, argument: int | None, kind: Type, traits: AggregatorTraits) -> Aggregator:
    return Accumulator(number, name, argument, kind, traits.forever)


OPERATORS: dict[str, Callable[[int, str, int | None, Type, AggregatorTraits], Aggregator]] = {
    **dict.fromkeys(("count", "sum", "avg", "min", "max", "minForever", "maxForever"), _numbers),
    "stdDev": _deviation,
    "and": _truths,
    "or": _truths,
}
"""What writes the lines of an aggregator whose values need not be held; those that tell values apart are of another kind."""
