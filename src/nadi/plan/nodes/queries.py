"""Queries and partitions."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.lang.tree import Annotation, Events
from nadi.plan.nodes.expressions import Expr
from nadi.plan.nodes.inputs import JoinInput, SingleInput
from nadi.plan.nodes.outputs import Output
from nadi.plan.nodes.selection import Rate, Selection
from nadi.plan.nodes.states import StateInput

Input = SingleInput | JoinInput | StateInput


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `name` is from @info or `query_<n>`; `id` starts the ids of its elements; `partition` the id of its partition or None.

    `keeps_expired`: its output wants X events (batch windows keep the previous batch only then). `annotations` as written.
    """

    id: str
    name: str
    input: Input
    selection: Selection
    output: Output
    rate: Rate | None = None
    partition: str | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def keeps_expired(self) -> bool:
        return self.output.events is not Events.CURRENT

    @property
    def selector_id(self) -> str:
        return f"{self.id}/selector"


@dataclass(frozen=True, slots=True)
class ValueKey:
    """The key of an event of `stream` is the string form of `value` (slot 0); null drops the event."""

    stream: str
    value: Expr


@dataclass(frozen=True, slots=True)
class RangeKey:
    """An event of `stream` goes to every label whose condition (slot 0) holds."""

    stream: str
    ranges: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """Its queries keep state per key. Streams read inside and not among the keys go to all keys that exist."""

    id: str
    keys: tuple[ValueKey | RangeKey, ...]
    queries: tuple[Query, ...]
    purge_idle: int | None = None
    purge_interval: int | None = None
    annotations: tuple[Annotation, ...] = ()
