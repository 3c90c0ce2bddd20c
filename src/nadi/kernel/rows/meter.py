"""Where the kernel's time goes: wrappers around the entries of queries and tables, put there on request and taken away again. Without a request nothing is
there, so it costs nothing.

Delivery is depth-first: what a query emits is processed by the next ones before it goes on. Each part is charged for its own time only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from nadi.kernel.rows.aggregations import AggregationRuntime
from nadi.kernel.rows.events import Chunk
from nadi.kernel.rows.join import JoinRuntime
from nadi.kernel.rows.namedwindows import NamedWindowRuntime
from nadi.kernel.rows.partitions import PartitionRuntime
from nadi.kernel.rows.queries import QueryRuntime
from nadi.kernel.rows.stores import StoredTable
from nadi.kernel.rows.tables import Sought, TableRuntime
from nadi.kernel.rows.triggers import TriggerRuntime
from nadi.plan.nodes import DeleteFromTable, InsertIntoStream, InsertIntoTable, UpdateOrInsertTable, UpdateTable

if TYPE_CHECKING:
    from nadi.kernel.rows.assembly import Assembly
    from nadi.kernel.rows.flow import Flow, Woken

T = TypeVar("T")
Emit = Callable[[Chunk], None]
Clock = Callable[[], int]


class Part:
    """What a query, a named window, an aggregation, a trigger or an operation on a table took: ns of its own time, how often it was entered, with how many
    events."""

    __slots__ = ("calls", "events", "ns")

    def __init__(self) -> None:
        self.ns = self.calls = self.events = 0


class Meter:
    """Charges time to parts, by label, until it is stopped. `clock` gives ns; the kernel itself never reads the machine's clock."""

    def __init__(self, clock: Clock, parts: dict[str, Part] | None = None) -> None:
        self.parts: dict[str, Part] = {} if parts is None else parts
        self._clock = clock
        self._current: Part | None = None
        self._since = 0
        self._undo: list[Callable[[], object]] = []

    def on_stop(self, undo: Callable[[], object]) -> None:
        """Have something called when it is stopped."""
        self._undo.append(undo)

    def stop(self) -> None:
        """Charge nothing any more: everything is as it was before. Not while the kernel is at work."""
        while self._undo:
            self._undo.pop()()

    def _enter(self, part: Part) -> Part | None:
        """Begin to charge a part; -> the one that was charged before."""
        now, outer = self._clock(), self._current
        if outer is not None:
            outer.ns += now - self._since
        self._current, self._since = part, now
        part.calls += 1
        return outer

    def _leave(self, outer: Part | None) -> None:
        now, part = self._clock(), self._current
        if part is not None:
            part.ns += now - self._since
        self._current, self._since = outer, now

    def entry(self, label: str, receive: Emit) -> Emit:
        """A receiver whose time is charged to `label`."""
        part = self.parts.setdefault(label, Part())
        meter, clock = self, self._clock

        def timed(chunk: Chunk) -> None:
            # as in `_enter` and `_leave`, which are not called because each event comes through here
            now = clock()
            outer = meter._current
            if outer is not None:
                outer.ns += now - meter._since
            meter._current, meter._since = part, now
            part.calls += 1
            part.events += len(chunk)
            try:
                receive(chunk)
            finally:
                now = clock()
                part.ns += now - meter._since
                meter._current, meter._since = outer, now

        return timed

    def asked(self, label: str, find: Callable[..., T]) -> Callable[..., T]:
        """A look-up whose time is charged to `label`, one event for each call."""
        part = self.parts.setdefault(label, Part())
        enter, leave = self._enter, self._leave

        def timed(*given: Any) -> T:
            outer = enter(part)
            part.events += 1
            try:
                return find(*given)
            finally:
                leave(outer)

        return timed

    def read(self, label: str, rows: Callable[..., Iterable[T] | None]) -> Callable[..., Iterator[T]]:
        """Rows that somebody goes through, as far as he wants; until then time is charged to `label`, one event for each call."""
        part = self.parts.setdefault(label, Part())

        def timed(*given: Any) -> Iterator[T]:
            outer = self._enter(part)
            part.events += 1
            try:
                yield from rows(*given) or ()
            finally:
                if self._current is part:  # else he failed, and whoever called him is charged already
                    self._leave(outer)

        return timed

    def woken(self, label: str, work: Woken) -> Woken:
        """The work of a timer whose time is charged to `label`."""
        part = self.parts.setdefault(label, Part())
        enter, leave = self._enter, self._leave

        def timed(due: int, /) -> None:
            outer = enter(part)
            try:
                work(due)
            finally:
                leave(outer)

        return timed


_OPERATIONS = {
    InsertIntoTable: "insert",
    DeleteFromTable: "delete",
    UpdateTable: "update",
    UpdateOrInsertTable: "updateOrInsert",
}


def metered(
    assembly: Assembly, flow: Flow, clock: Clock, charged: dict[str, Part] | None = None, detail: bool = True
) -> Meter:
    """Put a meter around everything in an app that takes events or is woken, without `detail` around what queries do to tables only; where `charged` is given
    its parts are charged."""
    meter = Meter(clock, charged)
    windows = assembly.wiring.windows
    for query in _queries(assembly):
        label = _target(query, windows if detail else ())
        if label:
            meter.on_stop(partial(setattr, query, "act", query.act))
            query.act = meter.entry(label, query.act)
        if query.join is not None:
            _meter_finds(meter, query.join, ("table", "window", "aggregation") if detail else ("table",))
    for name, table in assembly.wiring.tables.items():
        if table.sought.used:
            _meter_contains(meter, f"table contains {name}", table)
    if detail:
        _meter_entries(meter, assembly, flow)
    return meter


def _meter_finds(meter: Meter, join: JoinRuntime, kinds: Collection[str]) -> None:
    """Charge what a join finds on its other side, where that is of one of these kinds."""
    meter.on_stop(partial(join.finds.__setitem__, slice(None), [*join.finds]))
    for slot, (kind, name) in enumerate(join.found):
        if kind in kinds:
            join.finds[slot] = meter.asked(f"{kind} find {name}", join.finds[slot])


def _meter_contains(meter: Meter, label: str, table: TableRuntime | StoredTable) -> None:
    """Charge what `in` looks through."""
    sought = table.sought
    if isinstance(sought, Sought):
        meter.on_stop(partial(setattr, sought, "rows", sought.rows))
        meter.on_stop(partial(setattr, sought, "lookup", sought.lookup))
        sought.rows, sought.lookup = meter.read(label, sought.rows), meter.read(label, sought.lookup)
    else:
        meter.on_stop(partial(setattr, sought, "contains", sought.contains))
        sought.contains = meter.asked(label, sought.contains)


def _queries(assembly: Assembly) -> Iterator[QueryRuntime]:
    """All queries, those in partitions included."""
    for part in assembly.begins:
        if isinstance(part, QueryRuntime):
            yield part
        elif isinstance(part, PartitionRuntime):
            yield from part.queries


def _target(query: QueryRuntime, windows: Collection[str]) -> str:
    """What the output of a query is charged to besides the query: a table, with what is done to it, or one of the windows."""
    output = query.query.output
    operation = _OPERATIONS.get(type(output))
    if operation is not None:
        return f"table {operation} {output.target}"  # type: ignore[union-attr]  # each of them has one
    if isinstance(output, InsertIntoStream) and output.target in windows:
        return f"window {output.target}"
    return ""


def _meter_entries(meter: Meter, assembly: Assembly, flow: Flow) -> None:
    labels: dict[str, str] = {}  # of element ids
    entries: dict[Emit, str] = {}
    lists = [junction.receivers for junction in assembly.wiring.junctions.values()]
    for id_, label, part in _parts(assembly):
        labels[id_] = label
        if isinstance(part, QueryRuntime):
            entries |= {subscription.receive: label for subscription in part.subscriptions}
        elif isinstance(part, AggregationRuntime):
            entries[part.process] = label
        elif isinstance(part, PartitionRuntime):
            lists += part.receivers.values()
    for receivers in lists:
        meter.on_stop(partial(receivers.__setitem__, slice(None), [*receivers]))
        receivers[:] = [meter.entry(entries[r], r) if r in entries else r for r in receivers]
    clocks = [flow.timers] if flow.arrivals is flow.timers else [flow.timers, flow.arrivals]
    for timer in (timer for clock_ in clocks for timer in clock_.all()):
        meter.on_stop(partial(setattr, timer, "woken", timer.woken))
        timer.woken = meter.woken(_label_of(timer.state.id, labels), timer.woken)


def _parts(assembly: Assembly) -> Iterator[tuple[str, str, object]]:
    """(element id, label, runtime) of all parts."""
    for part in assembly.begins:
        if isinstance(part, QueryRuntime):
            yield part.query.id, f"query {part.query.name}", part
        elif isinstance(part, PartitionRuntime):
            yield part.partition.id, f"partition {part.partition.id}", part
            for query in part.queries:
                yield query.query.id, f"query {query.query.name}", query
        elif isinstance(part, NamedWindowRuntime):
            yield part.window.window.id, f"window {part.window.name}", part
        elif isinstance(part, AggregationRuntime):
            yield part.plan.id, f"aggregation {part.plan.name}", part
        elif isinstance(part, TriggerRuntime):
            yield part.trigger.id, f"trigger {part.trigger.name}", part


def _label_of(element: str, labels: dict[str, str]) -> str:
    """The label of the part that an element belongs to: its id begins with that of the part.

    >>> _label_of("q1/window/timer", {"q1": "query a", "q": "query b"})
    'query a'
    """
    found = [id_ for id_ in labels if element == id_ or element.startswith(f"{id_}/")]
    return labels[max(found, key=len)] if found else element
