"""How an app may be split over buckets, and why (semantics/tables.md#buckets).

By key: if and only if all state lies in partitions with value keys, and every one of these keys can be read off the inputs, one expression
per input. Stateless apps are split by input partition. Everything else has one bucket, with the sentences that say what prevents more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nadi.plan.annotations import found
from nadi.plan.elements import called, of_element, of_query
from nadi.plan.keys import Untraceable, origins, steps
from nadi.plan.nodes import (
    App,
    Const,
    DeleteFromTable,
    Expr,
    InsertIntoTable,
    JoinInput,
    Partition,
    Query,
    RangeKey,
    Sharding,
    StateInput,
    UpdateOrInsertTable,
    UpdateTable,
    ValueKey,
    WindowCall,
)
from nadi.plan.render import written
from nadi.plan.walk import inside, read, searched

_TABLE_OUTPUTS = (InsertIntoTable, DeleteFromTable, UpdateTable, UpdateOrInsertTable)


def shard(app: App, elements: Sequence[Query | Partition] | None = None) -> Sharding:
    """How the app, or the part of it that consists of these elements, may be split."""
    part = _Part(app, tuple(app.elements if elements is None else elements))
    obstacles = tuple(dict.fromkeys(part.obstacles()))
    if not obstacles and part.stateless():
        return Sharding(
            "partition", reasons=("nothing in it keeps state, so every partition of an input stands alone",)
        )
    if obstacles:
        return Sharding("single", reasons=obstacles)
    return _by_key(part)


def _by_key(part: _Part) -> Sharding:
    reasons: list[str] = []
    keys: dict[str, dict[Expr, str]] = {}
    for partition, key in part.keys_of_state():
        try:
            traced = origins(part.app, part.elements, key.stream, key.value)
        except Untraceable as obstacle:
            reasons.append(f"the key {written(key.value)} of '{key.stream}' in {partition.id} {obstacle}")
            continue
        for stream, expr in traced:
            keys.setdefault(stream, {}).setdefault(expr, partition.id)
    for stream, exprs in keys.items():
        if len(exprs) > 1:
            named = " and ".join(f"{written(e)} ({partition})" for e, partition in exprs.items())
            lift = "give each of these partitions an execution group of its own: @dist(execGroup='…')"
            reasons.append(f"the input '{stream}' would have to be split by {named} at once; to lift it, {lift}")
    if reasons:
        return Sharding("single", reasons=tuple(reasons))
    chosen = tuple((stream, next(iter(exprs))) for stream, exprs in sorted(keys.items()))
    shown = ", ".join(f"{stream} by {written(expr)}" for stream, expr in chosen)
    return Sharding("key", chosen, (f"all state lies in partitions whose keys come from the inputs: {shown}",))


def keys_of(app: App, stream: str) -> tuple[Expr, ...]:
    """By what the events of a stream of an app that is sharded by key are split, whether they come from outside or a query makes them.

    Empty where they meet no state. Several where it is not one value of an event that says which state it meets: then no event from outside can be split.
    """
    part = _Part(app, app.elements)
    met = set().union(*(steps(app, app.elements, key.stream, key.value) for _, key in part.keys_of_state()))
    return tuple(sorted({expr for at, expr in met if at == stream}, key=written))


@dataclass(slots=True)
class _Part:
    """The elements that are split together."""

    app: App
    elements: tuple[Query | Partition, ...]
    outside: tuple[Query, ...] = field(init=False)
    partitions: tuple[Partition, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.outside = tuple(e for e in self.elements if isinstance(e, Query))
        self.partitions = tuple(e for e in self.elements if isinstance(e, Partition))

    @property
    def queries(self) -> tuple[Query, ...]:
        return (*self.outside, *(q for p in self.partitions for q in p.queries))

    def stateless(self) -> bool:
        """Whether nothing keeps state; the list of seen keys is none where every event brings its own."""
        return not any(list(of_query(self.app, q)) for q in self.queries)

    def keys_of_state(self) -> Iterator[tuple[Partition, ValueKey]]:
        """The keys of the partitions that keep state; those that keep none may be split anyhow."""
        for partition in self.partitions:
            if any(list(of_query(self.app, q)) for q in partition.queries):
                yield from ((partition, k) for k in partition.keys if isinstance(k, ValueKey))

    def obstacles(self) -> Iterator[str]:
        """What prevents any split."""
        yield from self._stores()
        yield from self._triggers()
        for query in self.outside:
            yield from self._outside(query)
        for partition in self.partitions:
            yield from self._inside(partition)
        if self.app.playback is not None and any(of_element(self.app, e) for e in self.elements):
            yield "the clock of @app:playback is moved by the events of all keys; to lift it, leave the annotation out"

    # ---- definitions -----------------------------------------------------------------------------------------------

    def _stores(self) -> Iterator[str]:
        used = self._used()
        for name in self.app.tables:
            if name in used:
                yield f"the table '{name}' is shared by all keys{_split_off('the queries that use it')}"
        for name in self.app.windows:
            if name in used:
                yield f"the window '{name}' is shared by all keys{_split_off('the queries that use it')}"
        for name, aggregation in self.app.aggregations.items():
            whole = len(self.elements) == len(self.app.elements)
            if name in used or whole:
                yield (
                    f"the aggregation '{name}' adds up '{aggregation.input.source}' over all keys"
                    f"{_split_off('what joins it')}"
                )

    def _used(self) -> set[str]:
        names: set[str] = set()
        for query in self.queries:
            names |= set(read(query).values()) | searched(query)
            target = getattr(query.output, "target", None)
            if target is not None:
                names.add(target)
        return names

    def _triggers(self) -> Iterator[str]:
        read_outside = {s for q in self.outside for s in read(q).values()}
        read_inside = {s for p in self.partitions for q in p.queries for s in read(q).values()}
        for name in self.app.triggers:
            unread = name not in read_inside and len(self.elements) == len(self.app.elements)
            if name in read_outside or unread:
                yield (
                    f"the trigger '{name}' fires outside partitions, once and not once per bucket"
                    f"{_split_off('what reads it')}"
                )

    # ---- queries outside partitions --------------------------------------------------------------------------------

    def _outside(self, query: Query) -> Iterator[str]:
        what = self._keeps(query)
        if what:
            lift = _split_off("the query") if _has_stateful_partition(self) else _partition_it()
            yield f"query '{query.name}' stands outside a partition and {what}{lift}"

    def _keeps(self, query: Query) -> str:
        if isinstance(query.input, StateInput):
            return f"matches a {'sequence' if query.input.sequence else 'pattern'} over all events"
        if isinstance(query.input, JoinInput):
            return "joins over all events"
        return kept_over_events(self.app, query)

    # ---- partitions ------------------------------------------------------------------------------------------------

    def _inside(self, partition: Partition) -> Iterator[str]:
        for key in partition.keys:
            if isinstance(key, RangeKey):
                yield (
                    f"{partition.id} splits '{key.stream}' by ranges, one event may belong to several of them"
                    f"{_split_off('the partition')}"
                )
            if key.stream in self.app.triggers:
                yield f"{partition.id} takes its key from the trigger '{key.stream}'{_split_off('the partition')}"
        keyed = {k.stream for k in partition.keys}
        for query in partition.queries:
            for source in dict.fromkeys(read(query).values()):
                if source not in keyed and self._is_broadcast(source):
                    yield (
                        f"query '{query.name}' in {partition.id} reads '{source}', which has no key there, for all keys"
                        f"; to lift it, add a key for '{source}' to the partition"
                    )
            for call in inside(query.input):
                if isinstance(call, WindowCall) and shares_phase(call):
                    yield (
                        f"the window {called(call)} of query '{query.name}' shares its phase over all keys"
                        f"; to lift it, give it a start time: {_started(call.name)}"
                    )

    def _is_broadcast(self, source: str) -> bool:
        stream = self.app.streams.get(source)
        return stream is not None and stream.partition is None and source not in self.app.triggers


def _has_stateful_partition(part: _Part) -> bool:
    return any(list(of_query(part.app, q)) for p in part.partitions for q in p.queries)


def _split_off(what: str) -> str:
    return f"; to lift it, put {what} into an execution group of its own: @dist(execGroup='…')"


def _partition_it() -> str:
    return "; to lift it, put it into a partition by a key of its input"


def shares_phase(call: WindowCall) -> bool:
    """Whether the first event of any key fixes the phase of a window for all: `timeBatch(t)` and `timeBatch(t, true)` do, `timeBatch(t, start)` does not."""
    numbers = [a for a in call.args if isinstance(a, Const) and type(a.value) is int]
    return len(numbers) < call.traits.phase


def _started(name: str) -> str:
    return f"{name}(…, 0, n)" if name.endswith("LengthBatch") else f"{name}(…, 0)"


def kept_over_events(app: App, query: Query) -> str:
    """What makes the results of a query depend on several events, beside a join or a pattern; "" where nothing does."""
    for element in of_query(app, query):
        return f"keeps {element.what}"
    selection = query.selection
    if selection.group_by:
        return "groups the events of a chunk"
    if selection.order_by or selection.limit is not None or selection.offset is not None:
        return "orders or limits the events of a chunk"
    return ""


def groups(app: App) -> dict[str, tuple[Query | Partition, ...]]:
    """The execution groups of an app: name → elements, "" for what has no `@dist(execGroup=…)`."""
    named: dict[str, list[Query | Partition]] = {}
    for element in app.elements:
        dist = next(iter(found(element.annotations, "dist")), None)
        name = (dist.get("execGroup") if dist is not None else None) or ""
        named.setdefault(name, []).append(element)
    return {name: tuple(elements) for name, elements in named.items()}
