"""What reporters make of one poll: Prometheus' text, OpenTelemetry's messages, files, lines."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import structlog
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from nadi.metrics.filters import Filter
from nadi.metrics.names import LATENCY, MEMORY, THROUGHPUT, MetricName
from nadi.metrics.registry import Registry, Snapshot
from nadi.metrics.reporters.console import ConsoleReporter
from nadi.metrics.reporters.csvfiles import CsvFiles
from nadi.metrics.reporters.exposition import exposition, families
from nadi.metrics.reporters.logged import LogReporter
from nadi.metrics.reporters.otlp import OtlpReporter
from nadi.metrics.reporters.poll import Polling
from nadi.metrics.reservoirs import DecayingReservoir

APP = "Orders"


def snapshot() -> Snapshot:
    registry = Registry(lambda now: DecayingReservoir(now, seed=1))
    registry.gauge(MetricName(APP, "Tables", 'La"st\n', "", MEMORY), 800)
    registry.gauge(MetricName(APP, "App", "batch", "addBatch", "duration"), 12)
    registry.gauge(MetricName(APP, "App", "errors", "", "count"), 3)
    registry.gauge(MetricName(APP, "Inputs", "In", "", "lag"), 9)
    registry.mark(MetricName(APP, "Sources", "In", "http", THROUGHPUT), 15, 0.0)
    registry.mark(MetricName(APP, "Inputs", "In", "", "late"), 2, 0.0)
    registry.mark(MetricName(APP, "App", "cuts", "", THROUGHPUT), 5, 0.0)
    registry.time(MetricName(APP, "Queries", "q", "", LATENCY), [(2.0, 10), (4.0, 10)], 0.0)
    return registry.snapshot(1_700_000_000_000, 10.0, lambda _name: True, [("jvm.memory.non-heap.used", 5.0)])


def test_prometheus_gets_families_with_labels_and_base_units():
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(snapshot()).decode())
        for sample in family.samples
    }
    app = ("app", APP)
    query = (app, ("element", "q"), ("function", ""))
    assert found["nadi_events_total", app, ("element", "In"), ("function", "http"), ("type", "Sources")] == 15
    assert found["nadi_late_events_total", app, ("element", "In")] == 2
    assert found["nadi_cuts_total", app] == 5
    assert found["nadi_errors_total", app] == 3
    assert found["nadi_lag_messages", app, ("element", "In")] == 9
    assert found["nadi_batch_seconds", app, ("phase", "addBatch")] == 0.012
    assert found["nadi_memory_bytes", app, ("element", 'La"st\n'), ("function", ""), ("type", "Tables")] == 800
    assert found["nadi_latency_seconds_count", *query, ("type", "Queries")] == 20
    assert found["nadi_latency_seconds_sum", *query, ("type", "Queries")] == pytest.approx(0.06)
    assert found["nadi_latency_seconds", *query, ("quantile", "0.99"), ("type", "Queries")] == 0.004
    assert found["jvm_memory_non_heap_used",] == 5


def test_a_family_has_the_kind_of_what_its_metrics_tell():
    registry = Registry(lambda now: DecayingReservoir(now, seed=1))
    registry.mark(MetricName.of_node("node.meter"), 5, 0.0)
    registry.count(MetricName.of_node("node.counter"), 2)
    registry.note(MetricName.of_node("node.sizes"), [(2.0, 1)], 0.0)
    registry.time(MetricName.of_node("node.times"), [(2.0, 1)], 0.0)
    registry.gauge(MetricName.of_node("node.text"), "no number")
    told = registry.snapshot(0, 1.0, lambda _name: True, [("node.gauge", 5.0)])
    found = {family.name: family.type for family in families(told)}
    assert found == {
        "node_meter": "counter",
        "node_counter": "counter",
        "node_sizes": "summary",
        "node_times": "summary",
        "node_gauge": "gauge",
    }


class Collector(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    taken: list[tuple[str, dict[str, str], bytes]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.taken.append((self.path, dict(self.headers), body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_said: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def collector() -> Iterator[type[Collector]]:
    kept = type("Kept", (Collector,), {"taken": []})
    server = HTTPServer(("127.0.0.1", 0), kept)
    kept.url = f"http://127.0.0.1:{server.server_port}/v1/metrics"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_collector_of_opentelemetry_gets_the_same(collector: type[Collector]):
    reporter = OtlpReporter(collector.url, {"x-key": "secret"}, 5.0, "node-1")
    reporter.report(snapshot())
    reporter.close()
    ((path, headers, body),) = collector.taken
    assert (path, headers["x-key"]) == ("/v1/metrics", "secret")
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert (names["service.name"], names["service.instance.id"]) == ("nadi", "node-1")
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    events = metrics["nadi_events_total"].sum
    assert events.is_monotonic
    assert events.data_points[0].as_double == 15 or events.data_points[0].as_int == 15
    assert {a.key: a.value.string_value for a in events.data_points[0].attributes}["type"] == "Sources"
    assert len(metrics["nadi_latency_seconds"].gauge.data_points) == 6
    assert metrics["jvm_memory_non_heap_used"].gauge.data_points[0].time_unix_nano == 1_700_000_000 * 10**9


def test_a_collector_that_refuses_is_an_error(collector: type[Collector]):
    collector.status = 400
    reporter = OtlpReporter(collector.url, {}, 1.0, "node-1")
    with pytest.raises(ConnectionError):
        reporter.report(snapshot())
    reporter.close()


def test_files_have_a_line_for_each_poll(tmp_path: Path):
    reporter = CsvFiles(tmp_path / "metrics")
    reporter.report(snapshot())
    reporter.report(snapshot())
    path = tmp_path / "metrics" / "org.wso2.siddhi.SiddhiApps.Orders.Siddhi.Queries.q.latency.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 2
    assert (rows[0]["t"], rows[0]["count"], rows[0]["max"]) == ("1700000000", "20", "4.0")
    assert rows[0]["duration_unit"] == "milliseconds"
    assert (tmp_path / "metrics").stat().st_mode & 0o077 == 0


def test_the_console_and_the_log_have_a_line_for_each_metric():
    out = io.StringIO()
    ConsoleReporter(out).report(snapshot())
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(snapshot().values)
    assert any("Sources.In.http.throughput count=15 mean_rate=1.5" in line for line in lines)
    with structlog.testing.capture_logs() as logged:
        LogReporter("metrics").report(snapshot())
    assert len(logged) == len(snapshot().values)


def test_names_are_filtered_by_globs_or_by_regular_expressions():
    assert len(snapshot().matching(Filter(includes=("*.Sources.*", "jvm.*"))).values) == 2
    assert len(snapshot().matching(Filter(excludes=("*Orders*",))).values) == 1
    assert len(snapshot().matching(Filter(includes=(r".*\.(latency|lag)",), regex=True)).values) == 2


class Failing:
    """Fails as long as it is told so."""

    def __init__(self) -> None:
        self.polls = 0
        self.fails = True
        self.seen = threading.Event()
        self.closed = False

    def report(self, _snapshot: Snapshot) -> None:
        self.polls += 1
        self.seen.set()
        if self.fails:
            raise OSError("it is away")

    def close(self) -> None:
        self.closed = True


def test_a_reporter_that_fails_is_noted_once_and_goes_on():
    failing = Failing()
    with structlog.testing.capture_logs() as logged:
        polling = Polling("X", failing, Filter(), 0.01, snapshot)
        for fails in (True, True, True, False, False):
            failing.fails = fails
            failing.seen.clear()
            assert failing.seen.wait(60)
        polling.close()
    assert failing.closed
    assert [(one["event"], one["reporter"]) for one in logged] == [
        ("metrics are not reported", "X"),
        ("metrics are reported again", "X"),
    ]
