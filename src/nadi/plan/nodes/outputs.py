"""Where the events of a query go."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.lang.tree import Events
from nadi.plan.nodes.expressions import Expr


@dataclass(frozen=True, slots=True)
class InsertIntoStream:
    """`insert into` a stream or named window: `target` is its key."""

    target: str
    events: Events


@dataclass(frozen=True, slots=True)
class InsertIntoTable:
    """`insert into` a table."""

    target: str
    events: Events


@dataclass(frozen=True, slots=True)
class DeleteFromTable:
    """`delete T on`: slots 0 (output event) and TABLE; no condition deletes everything."""

    target: str
    events: Events
    on: Expr | None


@dataclass(frozen=True, slots=True)
class UpdateTable:
    """`update T set … on`: pairs of column position and value."""

    target: str
    events: Events
    set: tuple[tuple[int, Expr], ...]
    on: Expr | None


@dataclass(frozen=True, slots=True)
class UpdateOrInsertTable:
    """`update or insert into T`: `insert` maps the output row to a table row, by output position."""

    target: str
    events: Events
    set: tuple[tuple[int, Expr], ...]
    on: Expr | None
    insert: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReturnEvents:
    """`return`: the result of an on-demand query or anonymous stream."""

    events: Events


Output = InsertIntoStream | InsertIntoTable | DeleteFromTable | UpdateTable | UpdateOrInsertTable | ReturnEvents
