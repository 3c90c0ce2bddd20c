"""Which queries of an app may run on columns beside others on rows: what connects them, what goes between them (columns/rows.md#what-ties-a-query-to-rows).

Columns run first and hand streams on to rows: an event of such a stream arrives there where the event of the input arrives that it came from. What rows make
columns do not see in the same batch. So a query goes to rows with another one where

- it reads what that one makes there, or that one reads what it makes and it cannot be handed on;
- that one stands before it at a stream, and may fail on an event, which ends the delivery of that event;
- both touch the same table;
- the keys of a partition that both stand in would not be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nadi.plan.chains import as_chain, as_run
from nadi.plan.columns.failures import may_fail, safe
from nadi.plan.columns.matchsums import sums
from nadi.plan.columns.tableuse import touched
from nadi.plan.columns.windowsupport import shows_expired
from nadi.plan.nodes import App, InsertIntoStream, JoinInput, Partition, Query, RangeKey, StateInput
from nadi.plan.streams import producers
from nadi.plan.walk import read
from nadi.plan.windowtraits import HANDED


@dataclass(frozen=True, slots=True)
class Slot:
    """Who reads a stream: a query, or an aggregation (None); `element` is the place of the query or its partition in the app, -1 of an aggregation."""

    element: int
    reader: Query | None


class Mixing:
    """The queries of an app while it is found out where they run. `rows` (id → reason) only grows.

    Args:
        app: the app.
        unable: by id why columns cannot run a query; "" where they can.
    """

    def __init__(self, app: App, unable: Mapping[str, str]) -> None:
        self.app = app
        self.rows = {query: reason for query, reason in unable.items() if reason}
        self._producers = producers(app.elements)
        self._fails: dict[str, bool] = {}
        # what a query makes that columns could run is of the classes that its stream says, wherever it runs
        self._strange = {key for key, queries in self._producers.items() if any(q.id in self.rows for q in queries)}
        self._tables = {q.id: sorted(touched(q, app)) for q in app.queries} if app.tables else {}
        self._places = {q.id: i for i, e in enumerate(app.elements) for q in _queries(e)}

    def _sources(self, query: Query) -> list[str]:
        """The streams that a query reads, each once."""
        return [source for source in dict.fromkeys(read(query).values()) if source not in self.app.tables]

    @cached_property
    def readers(self) -> dict[str, list[Slot]]:
        """Who reads a stream, in the order of delivery."""
        found: dict[str, list[Slot]] = {}
        for aggregation in self.app.aggregations.values():
            found.setdefault(aggregation.input.source, []).append(Slot(-1, None))
        for query in self.app.queries:
            for source in self._sources(query):
                found.setdefault(source, []).append(Slot(self._places[query.id], query))
        return found

    def settle(self) -> None:
        """Move queries to rows until all others may stay."""
        changed = True
        while changed:
            changed = False
            failing = {source: self._failing(slots) for source, slots in self.readers.items()}
            for query in self.app.queries:
                if query.id not in self.rows and (reason := next(self._obstacles(query, failing), "")):
                    self.rows[query.id] = reason
                    changed = True
            if not changed:
                for query, reason in self._unordered():
                    self.rows.setdefault(query.id, reason)
                    changed = True

    # ---- why a query has to go to rows

    def _obstacles(self, query: Query, failing: Mapping[str, _Failing]) -> Iterator[str]:
        for source in self._sources(query):
            for producer in self._producers.get(source, ()):
                if producer.id in self.rows:
                    yield f"it reads '{source}', which {producer.name} makes on rows"
            if (before := failing[source].before(query, self._places[query.id])) is not None:
                yield f"{before} stands before it at '{source}' on rows, and an event on which that fails goes no further"
        for table in self._tables.get(query.id, ()):
            if (other := self._on_rows_with(table)) is not None:
                yield f"{other} uses the table '{table}' on rows"
        if query.partition is not None:
            yield from self._of_partition(query)
        target = _target(query)
        for maker in self._producers.get(target, ()):
            if maker.id in self.rows:
                yield f"{maker.name} inserts into '{target}' on rows, and their rows would have to be merged in order"
        for slot in self.readers.get(target, ()):
            if self._on_rows(slot) and self._inner(target):
                yield f"{_name(slot)} reads the inner stream '{target}' on rows, whose keys columns do not hand on"
            elif self._on_rows(slot) and not hands_on(query):
                yield f"{_name(slot)} reads '{target}' on rows, and what such a query makes cannot be handed on to them"

    def _on_rows_with(self, table: str) -> str | None:
        """The first query on rows that touches a table."""
        return next((q.name for q in self.app.queries if q.id in self.rows and table in self._tables[q.id]), None)

    def _inner(self, stream: str) -> bool:
        return stream in self.app.streams and self.app.streams[stream].partition is not None

    def _of_partition(self, query: Query) -> Iterator[str]:
        partition = self.app.elements[self._places[query.id]]
        assert isinstance(partition, Partition)  # it has the query in it
        others = [q for q in partition.queries if q.id in self.rows]
        if others and partition.purge_idle is not None:
            yield f"{others[0].name} stands in its partition on rows, and @purge forgets what both have of a key at once"
        for other in others:
            seen = set(read(other).values())
            if all(map(self._inner, seen)):  # who makes these is on rows, too
                continue
            for source in read(query).values():
                if source not in seen:
                    yield f"{other.name} stands in its partition on rows, and the keys of '{source}' are keys of both"

    def _failing(self, slots: list[Slot]) -> _Failing:
        """Who on rows may fail at a stream, and ends the delivery."""
        found = _Failing()
        for slot in slots:
            if not self._on_rows(slot):
                continue
            query = slot.reader
            if query is None or query.partition is None:
                if query is None or self._may_fail(query):
                    found.note(slot.element, _name(slot))
                continue
            partition = self.app.elements[slot.element]
            assert isinstance(partition, Partition)  # it has a query in it
            if _keys_may_fail(partition):
                found.note(slot.element, partition.id)
            if self._may_fail(query):
                found.inside.setdefault(slot.element, query)
        return found

    def _may_fail(self, query: Query) -> bool:
        if query.id not in self._fails:
            self._fails[query.id] = may_fail(query, self.app, self._strange)
        return self._fails[query.id]

    # ---- what is handed on

    def _on_rows(self, slot: Slot) -> bool:
        return slot.reader is None or slot.reader.id in self.rows

    def handed(self) -> dict[str, tuple[str, ...]]:
        """By stream that columns read and hand something on of: the streams that one event of it comes to on rows, in order; it may be among them."""
        relevant = self._relevant()
        found = {}
        for source in dict.fromkeys(s for q in self._on_columns() for s in self._sources(q)):
            if source in relevant:
                flat = tuple(self._flattened(source, relevant))
                if any(stream != source for stream in flat):
                    found[source] = flat
        return found

    def _on_columns(self) -> list[Query]:
        return [q for q in self.app.queries if q.id not in self.rows]

    def _relevant(self) -> frozenset[str]:
        """The streams that somebody on rows reads, or reads what columns make of them."""
        waiting = [stream for stream, slots in self.readers.items() if any(map(self._on_rows, slots))]
        found: set[str] = set()
        feeding = {key: [q for q in queries if q.id not in self.rows] for key, queries in self._producers.items()}
        while waiting:
            stream = waiting.pop()
            if stream not in found:
                found.add(stream)
                waiting += (source for q in feeding.get(stream, ()) for source in self._sources(q))
        return frozenset(found)

    def _flattened(self, stream: str, relevant: frozenset[str]) -> Iterator[str]:
        """The streams with readers on rows, as an event of this one comes to them: depth first, each delivered as a whole."""
        delivered: set[str] = set()
        waiting = [(stream, iter(self.readers.get(stream, ())))]
        while waiting:
            here, slots = waiting[-1]
            slot = next(slots, None)
            if slot is None:
                waiting.pop()
            elif slot.reader is None or slot.reader.id in self.rows:
                if here not in delivered:
                    yield here
                delivered.add(here)
            elif (target := _target(slot.reader)) in relevant:
                waiting.append((target, iter(self.readers.get(target, ()))))

    def _unordered(self) -> Iterator[tuple[Query, str]]:
        """Queries that hand on what rows would not get in its order."""
        relevant = self._relevant()
        giving = [q for q in self._on_columns() if _target(q) in relevant]
        for query in giving:
            for source in self._sources(query):
                if self._parted(source, relevant):
                    yield query, f"'{source}' is read on rows before and behind it, and what it makes stands between"
        taken: dict[int, int] = {}
        for query in giving:
            if (query.partition is None and not isinstance(query.input, StateInput)) or self._inner(_target(query)):
                continue
            streams = len(tuple(self._flattened(_target(query), relevant)))
            element = self._places[query.id]
            if streams > 1 or (query.partition is not None and taken.get(element)):
                turn = "key by key" if query.partition is not None else "match by match"
                yield query, f"rows get what it makes {turn}, in turn with other streams"
            else:
                taken[element] = 1

    def _parted(self, stream: str, relevant: frozenset[str]) -> bool:
        """Whether readers on rows stand on both sides of one that hands something on."""
        sides: list[bool] = []
        elements: dict[int, set[bool]] = {}
        for slot in self.readers.get(stream, ()):
            on_rows = self._on_rows(slot)
            if on_rows or (slot.reader is not None and _target(slot.reader) in relevant):
                sides.append(on_rows)
                elements.setdefault(slot.element, set()).add(on_rows)
        if any(len(kinds) > 1 for kinds in elements.values()):  # of one partition, that asks them in turn for each key
            return True
        return sum(here and not before for before, here in zip([False, *sides], sides)) > 1


@dataclass(slots=True)
class _Failing:
    """The first one at a stream that may fail, outside of partitions, and by partition the first one in it."""

    first: tuple[int, str] | None = None
    inside: dict[int, Query] = field(default_factory=dict)

    def note(self, element: int, name: str) -> None:
        if self.first is None:
            self.first = (element, name)

    def before(self, query: Query, element: int) -> str | None:
        """Who stands before a query and may fail."""
        if self.first is not None and self.first[0] < element:
            return self.first[1]
        other = self.inside.get(element)
        if other is None or query.partition is None:
            return None
        return other.name


def hands_on(query: Query) -> bool:
    """Whether what a query makes on columns can be handed on to rows: rows that come with the events that it reads, and never by themselves."""
    source, selection = query.input, query.selection
    if query.rate is not None or shows_expired(query):
        return False
    if isinstance(source, StateInput):
        return not sums(query) and (as_run(source, 5) if source.sequence else as_chain(source, 5)) is not None
    if selection.order_by or selection.limit is not None or selection.offset:
        return False
    if isinstance(source, JoinInput):
        return "table" in (source.left.kind, source.right.kind)
    return source.window is None or source.window.has(HANDED)


def _keys_may_fail(partition: Partition) -> bool:
    return any(isinstance(key, RangeKey) or not safe(key.value) for key in partition.keys)


def _queries(element: Query | Partition) -> tuple[Query, ...]:
    return element.queries if isinstance(element, Partition) else (element,)


def _target(query: Query) -> str:
    return query.output.target if isinstance(query.output, InsertIntoStream) else ""


def _name(slot: Slot) -> str:
    return "an aggregation" if slot.reader is None else slot.reader.name
