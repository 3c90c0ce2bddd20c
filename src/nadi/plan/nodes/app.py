"""The whole app."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.errors import Diagnostic
from nadi.lang.tree import Annotation
from nadi.plan.nodes.definitions import Aggregation, NamedWindow, Script, Stream, Table, Trigger
from nadi.plan.nodes.expressions import Expr
from nadi.plan.nodes.queries import Partition, Query


@dataclass(frozen=True, slots=True)
class Playback:
    """`@app:playback`; idle time and increment in ms, both or none."""

    idle: int | None = None
    increment: int | None = None


@dataclass(frozen=True, slots=True)
class Sharding:
    """How the app may be split over buckets, and why.

    `kind` is "single" (one bucket), "partition" (stateless: by input partition) or "key"; for "key", `keys` gives per
    input stream the expression (slot 0) whose string form is the key; events of inputs that are not listed meet no state and may go to any bucket,
    as may those whose key is null. `reasons` are sentences: what prevents sharding, or what allows it.
    """

    kind: str
    keys: tuple[tuple[str, Expr], ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class App:
    """A whole app. `elements` are queries and partitions in the order of the text; the maps are by key or name."""

    name: str
    streams: dict[str, Stream] = field(hash=False)
    tables: dict[str, Table] = field(hash=False)
    windows: dict[str, NamedWindow] = field(hash=False)
    triggers: dict[str, Trigger] = field(hash=False)
    scripts: dict[str, Script] = field(hash=False)
    aggregations: dict[str, Aggregation] = field(hash=False)
    elements: tuple[Query | Partition, ...]
    playback: Playback | None = None
    compat: int = 5  # 4 or 5: whose rules hold where Siddhi 4.x and 5.1 differ
    pool: str = ""  # "own" or "shared": which query of Spark it is pinned to; "": the node decides
    buckets: int = 0  # in how many parts its keys are processed, where it can be split; 0: the node decides
    annotations: tuple[Annotation, ...] = ()
    sharding: Sharding = Sharding("single")
    text: str = ""
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)  # what is taken, and looks like a mistake

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries, those in partitions included, in order."""
        return tuple(q for e in self.elements for q in (e.queries if isinstance(e, Partition) else (e,)))
