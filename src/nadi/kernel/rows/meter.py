"""Where the kernel's time goes: wrappers around the entries of queries, put there on request. Without a request nothing is there, so it costs nothing.

Delivery is depth-first: what a query emits is processed by the next ones before it goes on. Each part is charged for its own time only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nadi.kernel.rows.aggregations import AggregationRuntime
from nadi.kernel.rows.events import Chunk
from nadi.kernel.rows.namedwindows import NamedWindowRuntime
from nadi.kernel.rows.partitions import PartitionRuntime
from nadi.kernel.rows.queries import QueryRuntime
from nadi.kernel.rows.triggers import TriggerRuntime

if TYPE_CHECKING:
    from nadi.kernel.rows.assembly import Assembly
    from nadi.kernel.rows.flow import Flow, Woken

Emit = Callable[[Chunk], None]
Clock = Callable[[], int]


class Part:
    """What a query, a named window, an aggregation or a trigger took: ns of its own time, how often it was entered, with how many events."""

    __slots__ = ("calls", "events", "ns")

    def __init__(self) -> None:
        self.ns = self.calls = self.events = 0


class Meter:
    """Charges time to parts, by label. `clock` gives ns; the kernel itself never reads the machine's clock."""

    def __init__(self, clock: Clock, parts: dict[str, Part] | None = None) -> None:
        self.parts: dict[str, Part] = {} if parts is None else parts
        self._clock = clock
        self._current: Part | None = None
        self._since = 0

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


def metered(assembly: Assembly, flow: Flow, clock: Clock, charged: dict[str, Part] | None = None) -> Meter:
    """Put a meter around everything in an app that takes events or is woken; where `charged` is given its parts are charged."""
    meter = Meter(clock, charged)
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
        receivers[:] = [meter.entry(entries[r], r) if r in entries else r for r in receivers]
    clocks = [flow.timers] if flow.arrivals is flow.timers else [flow.timers, flow.arrivals]
    for timer in (timer for clock_ in clocks for timer in clock_.all()):
        timer.woken = meter.woken(_label_of(timer.state.id, labels), timer.woken)
    return meter


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
