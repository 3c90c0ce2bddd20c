"""What a window is that holds its events in places of its own, for the loop of `sliding`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.groups import Groups
from nadi.kernel.columns.stretch import Array, Stretch


@dataclass(frozen=True, slots=True)
class Holding:
    """What a window is to hold of each event: `columns` (name → dtype), of which those in `named` are numbers of other tables, and its group."""

    columns: Mapping[str, str]
    groups: Groups
    named: Mapping[str, Groups]

    @property
    def dtypes(self) -> dict[str, str]:
        """The columns, and that of the group where there may be more than one."""
        return {**self.columns, "group": "int32"} if self.groups.grouped else dict(self.columns)

    @property
    def tables(self) -> dict[str, Groups]:
        """What the columns that are numbers are numbers of."""
        return {**self.named, "group": self.groups} if self.groups.grouped else dict(self.named)


class Held(Protocol):
    """The events that are held. What is held of one lies in arrays by place, which a loop gets as `h_<name>`.

    `names` are those that the loop is to fill for an event that comes; `passing`: events pass only, none is held to leave again. `calls` is what
    the lines call.
    """

    names: frozenset[str]
    passing: bool
    calls: Mapping[str, object]

    @property
    def parameters(self) -> dict[str, str]:
        """What the loop gets: name → dtype."""
        ...

    @property
    def before(self) -> tuple[str, ...]:
        """Lines before the loop."""
        ...

    @property
    def after(self) -> tuple[str, ...]:
        """Lines behind it."""
        ...

    def write(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines for an event that comes, whose group is `g`: what leaves, and its own place `j`.

        `taken` writes those for an event that leaves place `j` and is of group `h`; they may `continue` the loop in which they stand.
        """
        ...

    def write_end(self, write: Writer, taken: Callable[[], None]) -> None:
        """The lines behind the loop."""
        ...

    def given(self, stretch: Stretch) -> dict[str, Array | int]:
        """The parameters for a stretch, with room for its events."""
        ...

    def held_groups(self) -> Array:
        """The groups of the events that are held."""
        ...

    def sweep(self) -> None:
        """Forget keys that hold nothing, where there are so many that it is worth while."""
        ...

    def changes(self) -> Iterator[Block]:
        """What changed since the last delta."""
        ...

    def contents(self, sharded: bool) -> Iterator[Block]:
        """All events."""
        ...

    def apply(self, block: Block) -> None:
        """Put back what was told."""
        ...

    def clear(self) -> None:
        """Forget all."""
        ...

    def __len__(self) -> int: ...
