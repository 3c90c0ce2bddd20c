"""Stores: where the rows of `@store` tables live (semantics/tables.md#stores).

A store is a class with the methods of `Store`; a `StoreKind` makes it known under the type that apps write. Add it to a registry as functions are added,
or name it in an entry point of the group `nadi.functions`:

>>> from nadi.functions import default_registry
>>> from nadi.kernel.rows.memorystore import MemoryStore
>>> registry = default_registry()
>>> registry.add(StoreKind("example", MemoryStore))
>>> registry.store("example").name
'example'

Conditions reach a store as expressions of the plan over two rows: slot 0 is a row of *values*, which the kernel has computed from the event, and slot
`TABLE` is the table's row. `T.price > S.price * 2 and T.k == 'a'` comes as `T.price > value 0 and T.k == 'a'`, with `S.price * 2` as value 0. A store
translates such an expression once, in `compile`, and is given back what it made of it with each row of values.

A store that knows a write of a batch that is taken again, and does not do it once more, may have an attribute `written_before`: whether that was so with the
last write. A cache in front of it then reads the rows anew.

What a store reads may have been changed by others, so that no replay can repeat it: `nadi explain` tells which sinks are only at-least-once for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nadi.errors import NadiError
from nadi.plan.nodes import Expr, Schema, Storage, Table
from nadi.plan.options import Option

Row = tuple[Any, ...]

Changes = tuple[tuple[int, Expr], ...]
"""What `set` assigns: position of the column, and its value over the same two rows as a condition."""

Refused = Sequence[tuple[int, NadiError]]
"""Rows that a store did not take, such as those whose primary key is taken: their place in what it was given, and why."""


@dataclass(frozen=True, slots=True)
class StoreTable:
    """The table that a store is to hold. `primary_key` and `indexes` are positions of columns; `options` those of @store in lower case, without the type."""

    app: str
    name: str
    schema: Schema
    primary_key: tuple[int, ...] = ()
    indexes: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, app: str, table: Table, storage: Storage) -> StoreTable:
        """That of a table in an app's plan, which has this @store."""
        return cls(app, table.name, table.schema, table.primary_key, table.indexes, dict(storage.options))


class Store(Protocol):
    """Holds the rows of one table. Rows are tuples in the order of the schema.

    What a method raises is a failure of the event at hand, as if the query had failed (semantics/events.md#failures).
    """

    def connect(self) -> None:
        """Called once, before any other method but `compile`: the place to open connections and to make the table."""
        ...

    def compile(self, condition: Expr | None, changes: Changes = ()) -> Any:
        """A condition (None: every row) and what an update assigns, in a form of the store's own.

        Conditions follow the language, which is not SQL where a value is null: `==` and `<` are then false, `!=` is true, and `not` of null is true.

        Raises:
            NadiError: NOT_SUPPORTED: the store cannot evaluate it.
        """
        ...

    def find(self, compiled: Any, values: Row) -> Iterable[Row]:
        """The rows for which the condition holds."""
        ...

    def contains(self, compiled: Any, values: Row) -> bool:
        """Whether there is one."""
        ...

    def add(self, rows: Sequence[Row]) -> Refused:
        """Append rows."""
        ...

    def delete(self, compiled: Any, values: Sequence[Row]) -> None:
        """Remove the rows that the condition finds, for each row of values."""
        ...

    def update(self, compiled: Any, values: Sequence[Row]) -> Refused:
        """Change the rows that the condition finds, for each row of values in turn."""
        ...

    def update_or_add(self, compiled: Any, values: Sequence[Row], rows: Sequence[Row]) -> Refused:
        """Like `update`; where nothing is found for the n-th values, the n-th row is added."""
        ...


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A type of store. `make` gives the store of a table without connecting it; it checks what `options` cannot say. `once`: what a batch of a node writes
    counts once, however often it is taken.

    Apps may write `name` in any case. `options` are those of `@store` beside its type: all others are refused, each where it stands, before `make` is called.
    None: `make` looks at all of them.
    """

    name: str
    make: Callable[[StoreTable], Store]
    doc: str = ""
    options: tuple[Option, ...] | None = None
    once: bool = False
