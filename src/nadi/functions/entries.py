"""What a registered name stands for: scalar functions, aggregators, windows, stream functions and stores, as plain frozen records.

Below everything else of this package: the modules of functions make entries, the registry holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from nadi.functions.stores import StoreKind
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import AggregatorTraits
from nadi.plan.catalog import Argument, Column, Returns
from nadi.plan.windowtraits import WindowTraits

Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function.

    `returns(arguments)` checks them and tells the type. `make(arguments, type)` gives the Python callable, which takes one value per argument, null as
    None. `needs` names what it takes before them: "now" (the app's clock, ms), "timestamp" (of the event, ms), "unique" (a text that no other
    call of the app gets, the same again on a replay), "properties" (of the node, by name).
    `inline` names a form of its own in compiled expressions: only the core has such.
    `pure` is False where the result depends on more than arguments, clock and event (a foreign system).
    """

    name: str
    returns: Returns
    make: Callable[[Arguments, Type], Callable[..., Any]]
    doc: str = ""
    parameters: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    inline: str = ""
    pure: bool = True


class Bag(Protocol):
    """The values that an aggregator must remember one by one, per group, with how often each is held."""

    def add(self, group: object, value: object) -> int:
        """How often the value is held now."""
        ...

    def remove(self, group: object, value: object) -> int:
        """How often the value is still held; -1 where it was not held at all (nothing changes then)."""
        ...

    def least(self, group: object) -> Any:
        """The least number held; NaN where there is nothing else, None where there is nothing."""
        ...

    def greatest(self, group: object) -> Any:
        """The greatest number held; NaN where there is nothing else, None where there is nothing."""
        ...

    def values(self, group: object) -> Iterable[Any]:
        """The distinct values held, in the order in which they came."""
        ...

    def count(self, group: object, value: object) -> int:
        """How often a value is held."""
        ...


State = list[Any]
Step = Callable[[State, Any, Bag | None, object], Any]
"""(state of the group, value of the argument, bag, group) → the aggregator's value now. Changes the state in place."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """How one aggregator of one query counts.

    `fresh()` is the state of a group that has seen nothing: a short list of plain values. `add` takes a C event, `remove` an X event.
    `bag` says that values must be remembered one by one; `forever` that in 4.x R events do not clear it.
    """

    fresh: Callable[[], State]
    add: Step
    remove: Step
    bag: bool = False
    forever: bool = False


@dataclass(frozen=True, slots=True)
class Aggregator:
    """An aggregator: `make(arguments, removes)` gives its accumulator; `removes` is whether X events can reach it. All else that planning and columns must know
    of it are its `traits`."""

    name: str
    returns: Returns
    make: Callable[[Arguments, bool], Accumulator]
    doc: str = ""
    parameters: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    traits: AggregatorTraits = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The signature of a window.

    `batch` windows emit whole batches (the chunk rule of 4.x asks), and X only if the output wants them, unless they are `cancels` windows,
    which send no R: their X are what takes the last batch out of the aggregators. The first argument of `conditional` windows is the text of an
    expression over what they hold. All else that planning must know of a window are its `traits`.
    """

    name: str
    check: Callable[[Arguments], None]
    doc: str
    traits: WindowTraits
    batch: bool = False
    cancels: bool = False
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class StreamFunctionSpec:
    """A stream function: `adds(arguments)` are the columns it appends; `make(types)` gives the callable: values of the arguments → values to append.

    The callable returns None to drop the event. With `many` it returns a list of such tuples, and the event goes on once for each.
    """

    name: str
    adds: Callable[[Arguments], tuple[Column, ...]]
    make: Callable[[tuple[Type, ...]], Callable[[tuple[Any, ...]], Any]]
    doc: str = ""
    parameters: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    many: bool = False


Entry = ScalarFunction | Aggregator | WindowSpec | StreamFunctionSpec | StoreKind
