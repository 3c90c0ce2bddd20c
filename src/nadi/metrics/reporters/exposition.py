"""All metrics in the text format of Prometheus.

| family | of |
|---|---|
| `nadi_events_total` | meters `throughput` |
| `nadi_latency_seconds` | timers `latency`, with quantiles |
| `nadi_memory_bytes` | gauges `memory` |
| `nadi_…` | what is nadi's own: see `OWN` |
| `jvm_…`, `nadi_node_…` | gauges of the node, with `_` for what is no letter or digit |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from nadi.metrics.histograms import Timed
from nadi.metrics.meters import Rates
from nadi.metrics.names import CHANNELS, LATENCY, MEMORY, THROUGHPUT, MetricName
from nadi.metrics.registry import Counter, Snapshot, Value
from nadi.metrics.reservoirs import QUANTILES, Distribution

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics of one kind. `labels` says which parts of a name are its labels; `scale` makes base units."""

    name: str
    kind: str
    help: str
    labels: tuple[tuple[str, str], ...] = (
        ("app", "app"),
        ("type", "type"),
        ("element", "element"),
        ("function", "function"),
    )
    scale: float = 1.0


_APP = (("app", "app"),)
_INPUT = (("app", "app"), ("element", "element"))
_CHANNEL = (("app", "app"), ("channel", "element"))
_READER = (*_CHANNEL, ("instance", "function"))
COMMON = {
    THROUGHPUT: Family("nadi_events", "counter", "Events that passed, by stream, source, sink and so on."),
    LATENCY: Family("nadi_latency_seconds", "summary", "Time that an event took in a part of an app."),
    MEMORY: Family(
        "nadi_memory_bytes", "gauge", "State of a query, table, window or aggregation, by its share of entries."
    ),
}
"""Families by the metric of a name."""
OWN = {
    ("App", "cuts", THROUGHPUT): Family("nadi_cuts", "counter", "Cuts of the input that were committed.", _APP),
    ("App", "state", "size"): Family("nadi_state_bytes", "gauge", "Bytes of the state log that the app needs.", _APP),
    ("App", "errors", "count"): Family(
        "nadi_errors", "counter", "Rows of the error store, since the state folder was made.", _APP
    ),
    ("App", "refused", "count"): Family(
        "nadi_refused", "counter", "Messages that sources refused, since the app came to this node.", _APP
    ),
    ("App", "setAside", "count"): Family(
        "nadi_set_aside",
        "counter",
        "Messages that are set aside as hosts died of them, since the state folder was made.",
        _APP,
    ),
    ("App", "restarts", "count"): Family(
        "nadi_restarts", "counter", "Times that the app was tried again after a failure.", _APP
    ),
    ("App", "batch", "duration"): Family(
        "nadi_batch_seconds", "gauge", "Phases of the last batch.", (("app", "app"), ("phase", "function")), 0.001
    ),
    ("Inputs", "", "lag"): Family("nadi_lag_messages", "gauge", "Messages that wait to be read.", _INPUT),
    ("Inputs", "", "late"): Family(
        "nadi_late_events", "counter", "Messages whose log time is before that of an earlier one.", _INPUT
    ),
    (CHANNELS, "", "bytes"): Family("nadi_channel_bytes", "gauge", "Bytes that a channel holds.", _CHANNEL),
    (CHANNELS, "", "messages"): Family("nadi_channel_messages", "gauge", "Messages that a channel holds.", _CHANNEL),
    (CHANNELS, "", "lag.chunks"): Family(
        "nadi_channel_lag_chunks", "gauge", "Chunks of a channel that an instance has not committed.", _READER
    ),
    (CHANNELS, "", "lag.ms"): Family(
        "nadi_channel_lag_seconds", "gauge", "How far an instance is behind who fills a channel.", _READER, 0.001
    ),
}
"""Families by type, element ("": any) and metric of a name."""


def exposition(snapshot: Snapshot) -> bytes:
    """A snapshot as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(snapshot))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        """The families, each once."""
        return families(self._snapshot)


def families(snapshot: Snapshot) -> list[Metric]:
    """A snapshot as Prometheus' families, each once."""
    found: dict[str, Metric] = {}
    for name, value in snapshot.values:
        family = family_of(name, value)
        if family is None:
            continue
        metric = found.get(family.name)
        if metric is None:
            metric = found[family.name] = Metric(family.name, family.help, family.kind)
        _add(metric, family, name, value)
    return list(found.values())


def family_of(name: MetricName, value: Value | Counter) -> Family | None:
    """What Prometheus calls a metric that tells this, and which kind it is; None for what has no place there."""
    if isinstance(value, str):
        return None
    if not name.app:
        return Family(_NO_NAME.sub("_", name.element), _kind_of(value), name.element, ())
    for element in (name.element, ""):
        own = OWN.get((name.type, element, name.metric))
        if own is not None:
            return own
    return COMMON.get(name.metric)


def _kind_of(value: Value | Counter) -> str:
    match value:
        case Rates() | Counter():
            return "counter"
        case Timed() | Distribution():
            return "summary"
    return "gauge"


def _add(metric: Metric, family: Family, name: MetricName, value: Value | Counter) -> None:
    labels: dict[str, str] = {label: getattr(name, part) for label, part in family.labels}
    match value:
        case Timed(lengths, _):
            _summary(metric, family.name, labels, lengths, 0.001)
        case Distribution():
            _summary(metric, family.name, labels, value, family.scale)
        case Rates(count) | Counter(count):
            metric.add_sample(f"{family.name}_total", labels, count)
        case int() | float():
            metric.add_sample(
                f"{family.name}_total" if family.kind == "counter" else family.name, labels, value * family.scale
            )


def _summary(metric: Metric, name: str, labels: dict[str, str], lengths: Distribution, scale: float) -> None:
    values = (lengths.p50, lengths.p75, lengths.p95, lengths.p98, lengths.p99, lengths.p999)
    for quantile, value in zip(QUANTILES, values, strict=True):
        metric.add_sample(name, {**labels, "quantile": str(quantile)}, value * scale)
    metric.add_sample(f"{name}_count", labels, lengths.count)
    metric.add_sample(f"{name}_sum", labels, lengths.total * scale)
