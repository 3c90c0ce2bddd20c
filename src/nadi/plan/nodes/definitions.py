"""What an app defines: streams, tables, named windows, triggers, scripts, aggregations."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.lang.tree import Annotation, Events, Type
from nadi.plan.nodes.expressions import Expr
from nadi.plan.nodes.inputs import SingleInput, WindowCall
from nadi.plan.nodes.schema import Schema
from nadi.plan.nodes.selection import Selection


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: defined, made by a query, a fault stream (`!S`) or an inner one (`#I` with its partition's id in `partition`).

    `annotations` are those of the definition (@source, @sink, @OnError, @async …). `key` is its unique name in the app:
    "S", "!S", "#I@<partition id>".
    """

    key: str
    name: str
    schema: Schema
    defined: bool = True
    annotations: tuple[Annotation, ...] = ()
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """`@cache` in a `@store`: at most `size` rows; `policy` (FIFO, LRU or LFU) says which one goes when another comes.

    Every `interval` ms, rows that came more than `retention` ms ago are let go; None where they stay.
    """

    size: int
    policy: str = "FIFO"
    retention: int | None = None
    interval: int | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """`@store`: the registered type, and its options in lower case without the type. `cache` is what stands in front of it. `once`: what a batch of a node
    writes counts once, as the type says."""

    type: str
    options: tuple[tuple[str, str], ...] = ()
    cache: Cache | None = None
    once: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: positions of the primary key (empty: none) and of the indexed columns. `storage` is None where the rows are kernel state."""

    name: str
    schema: Schema
    primary_key: tuple[int, ...] = ()
    indexes: tuple[int, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    storage: Storage | None = None

    @property
    def id(self) -> str:
        return f"{self.name}/table"


@dataclass(frozen=True, slots=True)
class NamedWindow:
    """`define window`: fed by inserts, read like a stream (key = its name) and searched like a table."""

    name: str
    schema: Schema
    window: WindowCall
    output: Events = Events.ALL
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Trigger:
    """Feeds the stream of its name with `triggered_time long`. Exactly one of the three is set (`start` as True)."""

    name: str
    every: int | None = None
    cron: str | None = None
    start: bool = False

    @property
    def id(self) -> str:
        return f"{self.name}/trigger"


@dataclass(frozen=True, slots=True)
class Script:
    """`define function f[language] return type { body }`."""

    name: str
    language: str
    type: Type
    body: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`define aggregation`: `durations` in ascending order, all spelled out."""

    name: str
    input: SingleInput
    selection: Selection
    timestamp: Expr | None
    durations: tuple[str, ...]
    schema: Schema
    annotations: tuple[Annotation, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.name}/aggregation"
