"""From what is told of an app to its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nadi.metrics.levels import Level
from nadi.metrics.measured import Key
from nadi.metrics.names import LATENCY, MEMORY, THROUGHPUT, MetricName
from nadi.metrics.progress import AppProgress
from nadi.metrics.registry import Registry
from nadi.plan.nodes import App

OWN, INPUTS = "App", "Inputs"
LATE = "late"


class AppMeters:
    """The metrics of one app; fed by one thread at a time. `wanted` says of a whole name whether there is such a metric."""

    def __init__(self, app: App, wanted: Callable[[str], bool], registry: Registry) -> None:
        self._app = app.name
        self._wanted = wanted
        self._registry = registry
        self._owners = owners_of(app)
        self._names: dict[tuple[Key, str], MetricName | None] = {}
        self._batches: int | None = None

    def take(self, progress: AppProgress, level: Level, now: float) -> None:
        """Feed what a snapshot of the app tells; `now` is in seconds. At level OFF nothing is fed."""
        before, self._batches = self._batches, progress.batches
        if level is Level.OFF:
            return
        measured = progress.measured
        for key, events in measured.marks.items():
            self._mark(key, LATE if key.type == INPUTS else THROUGHPUT, events, now)
        for key, pairs in measured.times.items():
            name = self._name(key, LATENCY)
            if name is not None:
                self._registry.time(name, pairs, now)
        if measured.delays and (name := self._name(Key(OWN, "events"), LATENCY)) is not None:
            self._registry.time(name, measured.delays, now)
        if before is not None and progress.batches > before:
            self._mark(Key(OWN, "cuts"), THROUGHPUT, progress.batches - before, now)
        self._gauges(progress)

    def _mark(self, key: Key, metric: str, events: int, now: float) -> None:
        name = self._name(key, metric)
        if name is not None:
            self._registry.mark(name, events, now)

    def _gauges(self, progress: AppProgress) -> None:
        gauge = self._gauge
        for key, size in shares_of(progress.entries, progress.state_bytes, self._owners).items():
            gauge(key, MEMORY, size)
        gauge(Key(OWN, "state"), "size", progress.state_bytes)
        gauge(Key(OWN, "errors"), "count", progress.errors)
        gauge(Key(OWN, "refused"), "count", progress.refused)
        gauge(Key(OWN, "setAside"), "count", progress.set_aside)
        gauge(Key(OWN, "restarts"), "count", progress.restarts)
        for phase, ms in progress.batch_ms.items():
            gauge(Key(OWN, "batch", phase), "duration", ms)
        for stream, waiting in progress.lag.items():
            gauge(Key(INPUTS, stream), "lag", waiting)

    def _gauge(self, key: Key, metric: str, value: float) -> None:
        name = self._name(key, metric)
        if name is not None:
            self._registry.gauge(name, value)

    def _name(self, key: Key, metric: str) -> MetricName | None:
        """The name of a metric; None where it is not wanted."""
        if (key, metric) not in self._names:
            name = MetricName(self._app, key.type, key.element, key.function, metric)
            self._names[key, metric] = name if self._wanted(name.full) else None
        return self._names[key, metric]


def owners_of(app: App) -> dict[str, Key]:
    """Whose state an element is, by what its id begins with."""
    found = {query.id: Key("Queries", query.name) for query in app.queries}
    for kind, names in (("Tables", app.tables), ("Windows", app.windows), ("Aggregations", app.aggregations)):
        found |= {name: Key(kind, name) for name in names}
    return found


def shares_of(entries: Mapping[str, int], size: int, owners: Mapping[str, Key]) -> dict[Key, int]:
    """How much of a state of `size` bytes each query, table, window and aggregation has, if an entry of each is as large as any other one, and what is nobody's
    is shared out, too: nobody knows better without reading all of it.

    >>> shares_of({"q/window": 30, "q/selector": 10, "T/table": 40, "app/clock": 20}, 100, {"q": Key("Queries", "q"), "T": Key("Tables", "T")})
    {Key(type='Queries', element='q', function=''): 50, Key(type='Tables', element='T', function=''): 50}
    """
    held = dict.fromkeys(owners.values(), 0)
    for element, count in entries.items():
        owner = _owner(element, owners)
        if owner is not None:
            held[owner] += count
    whole = sum(held.values())
    return {key: size * count // whole if whole else 0 for key, count in held.items()}


def _owner(element: str, owners: Mapping[str, Key]) -> Key | None:
    """Whose an element is: the one with the longest id that its own begins with."""
    at = len(element)
    while at > 0:
        if element[:at] in owners:
            return owners[element[:at]]
        at = element.rfind("/", 0, at)
    return None
