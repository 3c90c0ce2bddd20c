"""Partitions (semantics/tables.md#partitions): events get the flow key of their partition key, and with it state of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nadi.kernel.keys import java_text
from nadi.kernel.rows.compile import compile_row
from nadi.kernel.rows.events import Chunk, Event
from nadi.kernel.rows.junctions import Junction
from nadi.kernel.rows.queries import QueryRuntime, Wiring
from nadi.kernel.rows.state import Cells, Value
from nadi.plan.nodes import Partition, RangeKey, ValueKey

Emit = Callable[[Chunk], None]
KeyOf = Callable[[Event], str | None]
KeysOf = Callable[[Event], tuple[str, ...]]


class PartitionRuntime:
    """The queries of one partition and the keys that exist, in the order in which they came."""

    def __init__(self, partition: Partition, wiring: Wiring) -> None:
        self.partition = partition
        self._flow = wiring.flow
        self._wiring = wiring
        self.queries = tuple(QueryRuntime(q, wiring) for q in partition.queries)
        self._state = wiring.flow.store.element(f"{partition.id}/keys", {"number": Value, "seen": Value})
        self._known = self._state.flow_keys()
        self._order: list[str] = []
        self._newest: Cells | None = None  # of the last key in `_order`: tells whether it still holds
        self._purge = partition.purge_idle
        if self._purge is not None:
            self._purge_timer = wiring.flow.arrivals.timer(f"{partition.id}/keys/purge", self._purge_idle)
        keys = {key.stream: key for key in partition.keys}
        self.receivers: dict[str, list[Emit]] = {}
        for query in self.queries:
            for subscription in query.subscriptions:
                self.receivers.setdefault(subscription.source, []).append(subscription.receive)
        for source, those in self.receivers.items():
            junction = wiring.junctions[source]
            stream = wiring.app.streams.get(source)
            if stream is not None and stream.partition == partition.id:
                for receive in those:
                    junction.subscribe(receive)
            elif source in keys:
                junction.subscribe(self._keyed(junction, those, keys[source]))
            else:
                junction.subscribe(self._broadcast(junction, those))

    def begin(self) -> None:
        """At the start of the app."""
        if self._purge is not None:
            self._purge_timer.at(self._flow.arrival_now + (self.partition.purge_interval or 300_000))

    def begin_keys(self) -> None:
        """Begin the queries under every key that is known."""
        before = self._flow.key
        for key in tuple(self._keys()):
            self._flow.key = key
            for query in self.queries:
                query.begin()
        self._flow.key = before

    def _keys(self) -> list[str]:
        """The keys in the order in which they came; sorted anew only after a load, which makes other cells."""
        known, order = self._state.flow_keys(), self._order
        fresh = len(known) == len(order)
        if fresh and order:
            fresh = order[-1] in known and self._state.at(order[-1]) is self._newest
        if not fresh:
            order = self._order = sorted(known, key=lambda k: (self._state.at(k)["number"].get(), k))
            self._newest = self._state.at(order[-1]) if order else None
        return order

    def _enter(self, key: str) -> None:
        """Travel under a key from here on; a new one begins its queries."""
        flow = self._flow
        flow.key = key
        if key in self._known:
            if self._purge is not None:
                self._state.at(key)["seen"].set(flow.now)
            return
        keys = self._keys()
        number = 1 + (self._state.at(keys[-1])["number"].get() if keys else 0)
        cells = self._state.at(key)
        cells["number"].set(number)
        cells["seen"].set(flow.now)
        keys.append(key)
        self._newest = cells
        for query in self.queries:
            query.begin()

    def _keyed(self, junction: Junction, receivers: list[Emit], of: ValueKey | RangeKey) -> Emit:
        if isinstance(of, ValueKey):
            return self._by_value(junction, receivers, key_of_stream(of, self._wiring))
        return self._by_run(junction, receivers, keys_of_stream(of, self._wiring))

    def _by_value(self, junction: Junction, receivers: list[Emit], key_of: KeyOf) -> Emit:
        """An event has one key or none; most chunks are one event."""
        flow = self._flow
        by_run = self._by_run(junction, receivers, lambda event: () if (key := key_of(event)) is None else (key,))

        def receive(chunk: Chunk) -> None:
            if len(chunk) != 1:
                by_run(chunk)
                return
            key = key_of(chunk[0])
            if key is None:
                return
            before = flow.key
            try:
                self._enter(key)
                junction.deliver(receivers, chunk)
            finally:
                flow.key = before

        return receive

    def _by_run(self, junction: Junction, receivers: list[Emit], keys_of: KeysOf) -> Emit:
        flow = self._flow

        def receive(chunk: Chunk) -> None:
            before = flow.key
            try:
                for key, run in runs(chunk, keys_of):
                    self._enter(key)
                    junction.deliver(receivers, run)
            finally:
                flow.key = before

        return receive

    def _broadcast(self, junction: Junction, receivers: list[Emit]) -> Emit:
        def receive(chunk: Chunk) -> None:
            before = self._flow.key
            try:
                for key in tuple(self._keys()):
                    self._flow.key = key
                    junction.deliver(receivers, chunk)
            finally:
                self._flow.key = before

        return receive

    def _purge_idle(self, due: int) -> None:
        """Forget the keys that had no event for the idle period: in playback, too, by the clock of events, while one looks by that of arrivals.

        As in Siddhi the period has to be over. A live clock is beyond its end by the time that one looks; that of playback may stand on it.
        """
        flow = self._flow
        interval = self.partition.purge_interval or 300_000
        missed = max(0, (flow.arrival_now - due) // interval)
        self._purge_timer.at(due + (missed + 1) * interval)
        least = (self._purge or 0) + (1 if flow.playback else 0)
        idle = [k for k in self._keys() if flow.now - self._state.at(k)["seen"].get() >= least]
        prefixes = tuple(f"{q.query.id}/" for q in self.queries)
        for key in idle:
            flow.store.drop(key, prefixes)
            self._state.drop(key)
        self._order = []


def runs(chunk: Chunk, keys_of: KeysOf) -> Iterator[tuple[str, Chunk]]:
    """Runs of events with equal keys, in order; an event without a key takes no part and ends no run.

    They are found lazily, so that one run is wholly processed before the keys of the next are computed.
    """
    current: str | None = None
    run: Chunk = []
    for event in chunk:
        for key in keys_of(event):
            if key != current and current is not None:
                yield current, run
                run = []
            current = key
            run.append(event)
    if current is not None:
        yield current, run


def key_of_stream(key: ValueKey, wiring: Wiring) -> KeyOf:
    """The function from an event to its partition key, as Java prints it; None where the value is null."""
    value, kind = compile_row(key.value, wiring.flow, wiring.searched), key.value.type

    def by_value(event: Event) -> str | None:
        _kind, ts, row = event
        found = value(row, ts)
        return found if found is None or type(found) is str else java_text(found, kind)

    return by_value


def keys_of_stream(key: RangeKey, wiring: Wiring) -> KeysOf:
    """The function from an event to its partition keys: the labels whose condition holds."""
    ranges = [(label, compile_row(condition, wiring.flow, wiring.searched)) for label, condition in key.ranges]

    def by_range(event: Event) -> tuple[str, ...]:
        return tuple(label for label, condition in ranges if condition(event.row, event.ts))

    return by_range
