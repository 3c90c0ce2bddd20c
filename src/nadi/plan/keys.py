"""Tracing the key of a partition back to the inputs, through projections that pass it on."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.plan.elements import of_query
from nadi.plan.nodes import (
    Aggregate,
    App,
    Attr,
    AttrList,
    Call,
    Expr,
    InTable,
    Partition,
    Query,
    SingleInput,
    SlotNullCheck,
    ValueKey,
)
from nadi.plan.streams import input_streams, producers
from nadi.plan.walk import inside, read, replaced

Origin = tuple[str, Expr]
"""An input stream and an expression over its events (slot 0)."""

_NOT_OF_THE_EVENT = frozenset({"UUID", "currentTimeMillis", "eventTimestamp"})


class Untraceable(Exception):
    """A key cannot be read off the inputs; the text completes "the key …"."""


def origins(app: App, elements: Sequence[Query | Partition], stream: str, key: Expr) -> set[Origin]:
    """The inputs, and the expression over each, that have the same value as `key` has over events of `stream`.

    Raises:
        Untraceable: it is computed from more than one event of an input, or by something that is no function of the event.
    """
    return _Tracer(app, tuple(elements)).trace(stream, key)[0]


def steps(app: App, elements: Sequence[Query | Partition], stream: str, key: Expr) -> set[Origin]:
    """As `origins`, for every stream on the way from the inputs to `stream`, these two included. Raises Untraceable."""
    return _Tracer(app, tuple(elements)).trace(stream, key)[1]


class _Tracer:
    def __init__(self, app: App, elements: tuple[Query | Partition, ...]) -> None:
        self.app = app
        self.partitions = {e.id: e for e in elements if isinstance(e, Partition)}
        self.producers = producers(elements)
        self.inputs = frozenset(input_streams(app, elements))

    def trace(self, stream: str, key: Expr) -> tuple[set[Origin], set[Origin]]:
        """See `origins` and `steps`. A list of what is still to be followed: chains of queries may be long, and may be cycles."""
        traced: set[Origin] = set()
        waiting: list[Origin] = [(stream, key)]
        seen = {(stream, key)}
        while waiting:
            here = waiting.pop()
            self._check(here[1])
            if here[0] in self.inputs or not (here[0] in self.producers or here[0].startswith("!")):
                traced.add(here)
            for before in self._sources(*here):
                if before not in seen:
                    seen.add(before)
                    waiting.append(before)
        return traced, seen

    def _sources(self, stream: str, key: Expr) -> list[Origin]:
        """One step towards the inputs."""
        if stream.startswith("!"):
            return [self._of_fault(stream[1:], key)]
        return [origin for query in self.producers.get(stream, []) for origin in self._through(query, key)]

    def _check(self, key: Expr) -> None:
        for part in inside(key):
            if isinstance(part, Call) and part.function in self.app.scripts:
                raise Untraceable(f"uses {part.function}(), a script, and buckets are told before scripts can run")
            if isinstance(part, Call) and part.function in _NOT_OF_THE_EVENT:
                raise Untraceable(f"uses {part.function}(), which is no function of the event's attributes alone")
            if isinstance(part, InTable):
                raise Untraceable(f"depends on '{part.table}'")

    def _of_fault(self, stream: str, key: Expr) -> Origin:
        width = len(self.app.streams[stream].schema)
        if any(isinstance(p, Attr) and p.position >= width for p in inside(key)):
            raise Untraceable("depends on the error of a fault stream")
        return stream, key

    def _through(self, query: Query, key: Expr) -> list[Origin]:
        slot, before = self._before(query, key)
        source = read(query)[slot]
        partition = self.partitions.get(query.partition or "")
        if partition is None:
            return [(source, before)]
        keyed = self._flow_key(partition, source, before, frozenset())
        if keyed:
            return [(k.stream, k.value) for k in keyed]
        if isinstance(query.input, SingleInput) and not self._is_inner(source) and self._is_stateless(query):
            return [(source, before)]
        raise Untraceable(f"passes query '{query.name}', which is keyed by something else")

    def _before(self, query: Query, key: Expr) -> tuple[int, Expr]:
        """The key as an expression over one slot of the query's input."""
        values = query.selection.values

        def put(leaf: Expr) -> Expr:
            return values[leaf.position] if isinstance(leaf, Attr) else leaf

        before = replaced(key, put)
        parts = list(inside(before))
        if any(isinstance(p, (Aggregate, AttrList, SlotNullCheck)) for p in parts):
            raise Untraceable(f"is computed from several events by query '{query.name}'")
        slots = {p.slot for p in parts if isinstance(p, Attr)}
        if len(slots) != 1:
            many = "no event" if not slots else "several events"
            raise Untraceable(f"is computed from {many} by query '{query.name}'")
        (slot,) = slots
        stream = self.app.streams[read(query)[slot]]  # tables and windows prevent sharding before any key is traced
        if any(isinstance(p, Attr) and p.position >= len(stream.schema) for p in parts):
            raise Untraceable(f"is made by a stream function of query '{query.name}'")
        return slot, replaced(before, _plain)

    def _flow_key(self, partition: Partition, source: str, expr: Expr, seen: frozenset[str]) -> tuple[ValueKey, ...]:
        """The keys of a partition that an expression over one of its streams equals; empty where it is something else."""
        if not self._is_inner(source):
            return tuple(
                k for k in partition.keys if isinstance(k, ValueKey) and k.stream == source and k.value == expr
            )
        if source in seen:
            return ()
        found_keys: list[ValueKey] = []
        for query in self.producers.get(source, []):
            try:
                slot, before = self._before(query, expr)
            except Untraceable:
                return ()
            keys = self._flow_key(partition, read(query)[slot], before, seen | {source})
            if not keys:
                return ()
            found_keys.extend(keys)
        return tuple(found_keys)

    def _is_inner(self, source: str) -> bool:
        stream = self.app.streams.get(source)
        return stream is not None and stream.partition is not None

    def _is_stateless(self, query: Query) -> bool:
        return not list(of_query(self.app, query))


def _plain(leaf: Expr) -> Expr:
    """The same attribute, of the event alone."""
    return Attr(0, leaf.position, leaf.type, None, leaf.name) if isinstance(leaf, Attr) else leaf
