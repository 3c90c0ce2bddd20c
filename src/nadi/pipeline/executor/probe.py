"""What a host measures of a cut, and tells with its receipt (`nadi.metrics.measured`): the level comes with the request of each cut.

    reading ── decoding, late messages ──┐
    kernel ── own time of its parts ─────┼──► `measured` of a bucket's receipt
    sinks ── encoding ───────────────────┘

Figures are of whole cuts; no event is looked at by itself. At level OFF nothing is done and nothing is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nadi.io.contract import Connector
from nadi.io.controllog import TYPE as CONTROL_TYPE
from nadi.io.faultlog import TYPE as FAULTS_TYPE
from nadi.kernel.contract import ORDER, ArrivalBatch, Kernel
from nadi.metrics.levels import Level
from nadi.metrics.measured import Key
from nadi.pipeline.inputs.fatrows import Gathered
from nadi.plan.nodes import App

SAMPLE = 8  # log times that are told of each batch of arrivals, …
BATCHES = 16  # … of so many at most

Told = dict[str, dict[str, Any]]
_KINDS = {
    "query": "Queries",
    "window": "Windows",
    "aggregation": "Aggregations",
    "trigger": "Trigger",
    "table": "Tables",
}
_WRITTEN = {"Windows", "Aggregations"}


class Probe:
    """The meter of one live kernel. Used by whoever has the kernel."""

    def __init__(self) -> None:
        self._level = Level.OFF
        self._meter: Any = None
        self._before: dict[str, tuple[int, int, int]] = {}

    def switch(self, kernel: Kernel, level: int) -> None:
        """Have the kernel measured at this level from now on; a kernel that does not know its parts is not."""
        if level == self._level:
            return
        self._level, self._before = Level(level), {}
        if self._meter is not None:
            self._meter.stop()
            self._meter = None
        measure: Callable[..., Any] | None = getattr(kernel, "measure", None)
        if measure is not None and level:
            self._meter = measure(time.perf_counter_ns, detail=level >= Level.DETAIL)

    def tell(self, told: Told) -> None:
        """Add what the parts of the kernel took since the time before."""
        if self._meter is None:
            return
        for label, part in self._meter.parts.items():
            now = part.ns, part.calls, part.events
            ns, calls, events = (n - b for n, b in zip(now, self._before.get(label, (0, 0, 0)), strict=True))
            key = key_of(label)
            if not calls or key is None:
                continue
            self._before[label] = now
            if key.type == "Trigger":
                told["marks"][key.packed] = calls
                continue
            told["times"][key.packed] = [ns, events or calls]
            if key.function and events:
                told["marks"][key.packed] = events


def key_of(label: str) -> Key | None:
    """What metrics call a part of a kernel; None for those that they do not know.

    >>> [key_of(label).packed for label in ("table find Last", "window W", "window find W", "query my own")]
    ['Tables/find/Last', 'Windows/insert/W', 'Windows/find/W', 'Queries//my own']
    """
    word, _, name = label.partition(" ")
    kind = _KINDS.get(word)
    if kind is None:
        return None
    if kind == "Tables":
        operation, _, table = name.partition(" ")
        return Key(kind, table, operation)
    if kind not in _WRITTEN:
        return Key(kind, name)
    found = name.removeprefix("find ")
    return Key(kind, found, "insert" if found == name else "find")


class AppProbe:
    """What is measured of the cuts of one app in a host. `sources` are its inputs by number."""

    def __init__(self, app: App, sources: Mapping[int, Connector]) -> None:
        self._streams = app.streams.keys() - app.triggers.keys()
        self._sources = {n: one for n, one in sources.items() if one.type not in (CONTROL_TYPE, FAULTS_TYPE)}

    def of_cut(self, gathered: Gathered, counts: Mapping[str, int], probe: Probe) -> Told:
        """What a cut of a bucket tells, which its kernel has taken; `counts` are events that passed each stream."""
        told: Told = {"marks": {}, "times": {}}
        marks = told["marks"]
        for arrival in gathered.arrivals:
            source = self._sources.get(arrival.ordinal)
            if source is not None:
                _add(marks, Key("Sources", source.stream, source.type), arrival.batch.num_rows)
        if gathered.level >= Level.DETAIL:
            for stream, events in counts.items():
                if stream in self._streams:
                    _add(marks, Key("Streams", stream.partition("@")[0]), events)
        for ordinal, ns, messages, late in gathered.reads:
            source = self._sources.get(ordinal)
            if source is None:
                continue
            if late:
                _add(marks, Key("Inputs", source.stream), late)
            if gathered.level >= Level.DETAIL:
                key = Key("SourceMappers", source.stream, f"{source.type}.{source.map_type}").packed
                spent, before = told["times"].get(key, (0, 0))
                told["times"][key] = [spent + ns, before + messages]
        probe.tell(told)
        return {**told, "orders": orders_of([a for a in gathered.arrivals if a.ordinal in self._sources])}  # type: ignore[dict-item]  # a list


def _add(marks: dict[str, int], key: Key, events: int) -> None:
    marks[key.packed] = marks.get(key.packed, 0) + events


def orders_of(arrivals: Sequence[ArrivalBatch]) -> list[list[int]]:
    """A sample of the log times of a cut, each with the number of events that it stands for: [[ms, events]]. They ascend within a batch, so that events at the
    same distances from each other are a fair one."""
    step = -(-len(arrivals) // BATCHES) or 1
    found = []
    for at in range(0, len(arrivals), step):
        batch = arrivals[at].batch
        events = sum(a.batch.num_rows for a in arrivals[at : at + step])
        if not batch.num_rows:
            continue
        column = batch.column(batch.schema.get_field_index(ORDER))
        count = min(SAMPLE, batch.num_rows)
        for i in range(count):
            share = events * (i + 1) // count - events * i // count
            found.append([column[(2 * i + 1) * batch.num_rows // (2 * count)].as_py(), share])
    return found


def written(connector: Connector, rows: int, payloads: int, ns: int, level: int, told: Told) -> None:
    """Add what a sink was given in a cut, and how long its mapper took."""
    _add(told["marks"], Key("Sinks", connector.stream, connector.type), rows)
    if level >= Level.DETAIL:
        key = Key("SinkMappers", connector.stream, f"{connector.type}.{connector.map_type}")
        told["times"][key.packed] = [ns, payloads]
