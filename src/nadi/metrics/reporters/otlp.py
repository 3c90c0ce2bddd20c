"""A reporter to a collector of OpenTelemetry, over HTTP. Names and labels are those of Prometheus (`nadi.metrics.reporters.exposition`); of a timer there are
its number and sum, and a gauge with the label `quantile`, as OpenTelemetry's own histograms have bounds that nobody knows before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from nadi.metrics.registry import Snapshot
from nadi.metrics.reporters.exposition import families

NANO = 1_000_000


class OtlpReporter:
    """Sends to `endpoint`, within `timeout` seconds; `node` is the name of the service's instance."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout: float, node: str) -> None:
        self._exporter = OTLPMetricExporter(endpoint=endpoint, headers=dict(headers), timeout=timeout)
        self._timeout = timeout
        self._resource = Resource({"service.name": "nadi", "service.instance.id": node})
        self._began = time.time_ns()

    def report(self, snapshot: Snapshot) -> None:
        """Send all of it. Errors: ConnectionError where the collector did not take it."""
        told = self._exporter.export(self._data(snapshot), timeout_millis=self._timeout * 1000)
        if told is not MetricExportResult.SUCCESS:
            raise ConnectionError("the collector did not take them")

    def _data(self, snapshot: Snapshot) -> MetricsData:
        scope = ScopeMetrics(InstrumentationScope("nadi"), list(self._metrics(snapshot)), "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metrics(self, snapshot: Snapshot) -> Iterator[Metric]:
        at = snapshot.at * NANO
        for family in families(snapshot):
            points: dict[str, list[NumberDataPoint]] = {}
            for sample in family.samples:
                point = NumberDataPoint(sample.labels, self._began, at, sample.value)
                points.setdefault(sample.name, []).append(point)
            for name, found in points.items():
                adds = name != family.name
                data = Sum(found, AggregationTemporality.CUMULATIVE, is_monotonic=True) if adds else Gauge(found)
                yield Metric(name, family.documentation, "", data)

    def close(self) -> None:
        """Let go of the connection."""
        self._exporter.shutdown()
