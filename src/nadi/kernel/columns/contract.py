"""What an operator is: a query over stretches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.stretch import Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Expr


@dataclass(frozen=True, slots=True)
class Input:
    """What the operator of a query is made from, beside the query.

    `types` of the columns that it reads, `filters` before its window, `behind` those after it. `key` is the attribute by which the query's partition
    splits the events, None outside of partitions; `sharded`: key-groups count; `purged`: idle keys are forgotten.
    """

    types: tuple[Type, ...]
    filters: tuple[Expr, ...]
    key: int | None = None
    sharded: bool = False
    behind: tuple[Expr, ...] = ()
    purged: bool = False


class Operator(Protocol):
    """A query at work."""

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of one batch, None where there are none.

        `given` has the stretch of each stream that the query reads and that has events; after them timers fire that are due up to `until` (ms). It is
        called where there are events, and where `next_timer` is due.
        """
        ...


@runtime_checkable
class Begins(Protocol):
    """An operator that counts time from the start of the app."""

    def begin(self, now: int) -> None:
        """The app starts, at a clock (ms)."""
        ...


class State(Protocol):
    """What is told as blocks, and put back."""

    def changes(self) -> Iterable[Block]:
        """What changed since the last `changes`, `contents` or `apply`; costs what changed."""
        ...

    def contents(self) -> Iterable[Block]:
        """All it holds, in blocks of about `flat.BLOCK_BYTES`, each of one element and key-group; to be applied to an empty one in this order.

        Runs in a forked process, too: numpy and compiled loops only, no Arrow.
        """
        ...

    def apply(self, block: Block) -> None:
        """Put back what `contents` or `changes` told."""
        ...

    def clear(self) -> None:
        """Forget all."""
        ...


@runtime_checkable
class Stateful(State, Protocol):
    """An operator with state. `elements` are the ids of the elements that it keeps, the same ones as on rows."""

    elements: tuple[str, ...]

    def next_timer(self) -> int | None:
        """When something comes out by itself, ms; None where nothing will."""
        ...

    def size(self) -> dict[str, int]:
        """Entries held, by element."""
        ...


@runtime_checkable
class Checks(Protocol):
    """State of which several blocks tell parts that belong together."""

    def check(self) -> None:
        """After a load: raises an error where they do not, or where nothing can be made of them. Costs what is held."""
        ...


def check(one: object) -> None:
    """Have an operator, or what it holds, see whether what was loaded fits together."""
    if isinstance(one, Checks):
        one.check()


@runtime_checkable
class Forgets(Protocol):
    """An operator in a partition that keeps something for each key."""

    def forget(self, keys: pa.Array) -> None:
        """Be as if some keys (by their texts) had never been; the next delta tells it."""
        ...
