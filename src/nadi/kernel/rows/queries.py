"""A query, assembled: input → selector → rate limiter → query callbacks → output action (semantics/events.md#a-query)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from nadi.kernel.rows.aggregations import AggregationRuntime
from nadi.kernel.rows.events import CURRENT, EXPIRED, Chunk, Group
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.join import JoinRuntime
from nadi.kernel.rows.junctions import Delivery, Junction, call_back
from nadi.kernel.rows.namedwindows import NamedWindowRuntime
from nadi.kernel.rows.outputs import TableOutput, into_stream, into_table
from nadi.kernel.rows.patterns import state_runtime
from nadi.kernel.rows.rate import make_limiter
from nadi.kernel.rows.selector import Selector
from nadi.kernel.rows.steps import make_steps
from nadi.kernel.rows.stores import StoredTable, into_store
from nadi.kernel.rows.tables import TableRuntime
from nadi.lang.tree import Events
from nadi.plan.nodes import App, InsertIntoStream, JoinInput, JoinSide, Query, ReturnEvents, SingleInput, StateInput

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable

Emit = Callable[[Chunk], None]
QueryCallback = Callable[[int, Chunk | None, Chunk | None], None]


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a query is plugged into. `searched` has everything that can be searched, by name: tables, named windows, aggregations."""

    app: App
    registry: Registry
    flow: Flow
    delivery: Delivery
    junctions: dict[str, Junction]
    tables: dict[str, TableRuntime | StoredTable]
    windows: dict[str, NamedWindowRuntime]
    aggregations: dict[str, AggregationRuntime]
    searched: dict[str, Searchable]

    def stand_in(self, tables: Mapping[str, TableRuntime]) -> None:
        """Put tables in the place of those of the same names."""
        self.tables.update(tables)
        self.searched.update(tables)


class Begins(Protocol):
    """Whatever starts counting with the app or with a partition key."""

    def begin(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Subscription:
    """One stream (or named window) that a query reads, and where its chunks go."""

    source: str
    receive: Emit


class QueryRuntime:
    """One query. `subscriptions` tell what to feed it; `callbacks` get each result before the output action, `act`."""

    def __init__(self, query: Query, wiring: Wiring) -> None:
        self.query = query
        self.callbacks: list[QueryCallback] = []
        self._wiring = wiring
        self._keyed = bool(query.selection.group_by)
        self._together: list[tuple[Chunk, list[str]]] | None = None
        self.act = output_action(query, wiring)
        self._limited = query.rate is not None
        self._limiter = make_limiter(query, wiring.flow, self._out)
        self._selector = Selector(query, wiring.flow, wiring.searched, self._selected)
        self._parts: list[Begins] = [self._limiter]
        self.join: JoinRuntime | None = None
        self.subscriptions = self._connect(query)

    def begin(self) -> None:
        """Once per flow key, before its first event."""
        for part in self._parts:
            part.begin()

    def _connect(self, query: Query) -> tuple[Subscription, ...]:
        wiring, source = self._wiring, query.input
        if isinstance(source, SingleInput):
            steps = make_steps(
                source.steps,
                source.schema,
                wiring.flow,
                wiring.searched,
                wiring.registry,
                self._selector.process,
                keeps_expired=keeps_expired(query),
                shown=query.selection.values,
            )
            self._parts.append(steps)
            return (Subscription(source.source, steps.process),)
        if isinstance(source, JoinInput):
            return self._connect_join(source)
        state = state_runtime(source, wiring.flow, wiring.searched, wiring.registry, self._grouped)
        self._parts.append(state)
        return tuple(Subscription(key, partial(state.receive, key)) for key in sources(source))

    def _connect_join(self, source: JoinInput) -> tuple[Subscription, ...]:
        wiring = self._wiring
        join = JoinRuntime(source, self.query, wiring.flow, wiring.searched, wiring.registry, self._grouped)
        self._parts.append(join)
        self.join = join
        left, right = (partial(join.receive, side) for side in ("left", "right"))
        if _live(source.left) and _live(source.right) and source.left.input.source == source.right.input.source:
            # Siddhi hands the events of a stream that stands on both sides over one by one, left before right; those of a named window to the left side alone
            receivers = (left,) if source.left.kind == "window" else (left, right)

            def both(chunk: Chunk) -> None:
                for event in chunk:
                    for receive in receivers:
                        receive([event])

            return (Subscription(source.left.input.source, both),)
        sides = ((source.left, left), (source.right, right))
        return tuple(Subscription(side.input.source, receive) for side, receive in sides if _live(side))

    def _grouped(self, group: Group) -> None:
        """Chunks that the selector takes one by one, while what it makes of them goes on as one."""
        if len(group) == 1:
            self._selector.process(group[0])
            return
        if self._selector.alone:
            self._selector.process([event for chunk in group for event in chunk])
            return
        outer, self._together = self._together, []
        try:
            for chunk in group:
                self._selector.process(chunk)
            parts = self._together
        finally:
            self._together = outer
        if parts:
            keys = [key for _made, those in parts for key in those]
            self._limiter.process([e for made, _keys in parts for e in made], keys if self._keyed else None)

    def _selected(self, chunk: Chunk) -> None:
        if self._together is not None:
            self._together.append((chunk, self._selector.group_keys))
        elif self._limited:
            self._limiter.process(chunk, self._selector.group_keys if self._keyed else None)
        else:
            self._out(chunk)

    def _out(self, chunk: Chunk) -> None:
        if self.callbacks:
            current = [e for e in chunk if e.kind == CURRENT] or None
            expired = [e for e in chunk if e.kind == EXPIRED] or None
            ts = chunk[-1].ts if chunk else self._wiring.flow.now
            for callback in self.callbacks:
                call_back(self._wiring.delivery, self.query.name, callback, ts, current, expired)
        self.act(chunk)


def _live(side: JoinSide) -> bool:
    return side.kind in ("stream", "window")


def keeps_expired(query: Query) -> bool:
    """Whether anything of a query wants X: its output, or a snapshot, which follows what leaves the window."""
    return query.output.events is not Events.CURRENT or (query.rate is not None and query.rate.kind == "snapshot")


def sources(source: StateInput) -> tuple[str, ...]:
    """The streams that a pattern reads, each once, in textual order."""
    found: dict[str, None] = {}
    waiting: list[object] = [source.root]
    while waiting:
        node = waiting.pop(0)
        if (key := getattr(node, "source", None)) is not None:
            found[key] = None
        waiting[:0] = [*getattr(node, "elements", ())] + [
            part for name in ("element", "left", "right") if (part := getattr(node, name, None)) is not None
        ]
    return tuple(found)


def output_action(query: Query, wiring: Wiring) -> Emit:
    """Where the result of a query goes."""
    output = query.output
    if isinstance(output, ReturnEvents):
        return lambda chunk: None
    if isinstance(output, InsertIntoStream):
        window = wiring.windows.get(output.target)
        send = wiring.junctions[output.target].send if window is None else window.insert
        # what the selector lets out is of the kinds that the output wants
        return into_stream(send, only_current=query.rate is None and output.events is Events.CURRENT)
    return onto_table(output, wiring)


def onto_table(output: TableOutput, wiring: Wiring) -> Emit:
    """The action on a table, in memory or in a store."""
    table = wiring.tables[output.target]
    if isinstance(table, StoredTable):
        return into_store(output, table, wiring.flow, wiring.searched, wiring.delivery)
    return into_table(output, table, wiring.flow, wiring.searched, wiring.delivery)
