"""Columns and schemas."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.lang.tree import Type


@dataclass(frozen=True, slots=True)
class Column:
    """A name and a type."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order; names are unique.

    >>> Schema((Column("a", Type.INT),)).position("a")
    0
    """

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.columns)

    def position(self, name: str) -> int | None:
        """The index of a column, None where there is none of this name."""
        return next((i for i, c in enumerate(self.columns) if c.name == name), None)

    def __len__(self) -> int:
        return len(self.columns)
