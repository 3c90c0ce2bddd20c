"""What Prometheus may read of a node: for tests of what asks for it."""

from __future__ import annotations

import re

from nadi.metrics.names import LATENCY, MEMORY, THROUGHPUT, MetricName
from nadi.metrics.registry import Registry
from nadi.metrics.reporters.exposition import COMMON, OWN, families
from nadi.metrics.system import NodeGauges

JVM = {"jvm.memory.heap.used": 1.0}
SELECTOR = re.compile(r"\b((?:nadi|jvm)_[a-z_]+)(\{[^}]*\})?")


def exposed() -> dict[str, set[str]]:
    """The labels of each series that there may be, by name."""
    registry = Registry()
    app = "A"
    for metric, add in ((THROUGHPUT, registry.mark), (LATENCY, None), (MEMORY, None)):
        name = MetricName(app, "Sources", "In", "http", metric)
        if add is not None:
            add(name, 1, 0.0)
        elif metric == LATENCY:
            registry.time(name, [(1.0, 1)], 0.0)
        else:
            registry.gauge(name, 1)
    for (kind, element, metric), family in OWN.items():
        name = MetricName(app, kind, element or "In", "", metric)
        registry.gauge(name, 1) if family.kind == "gauge" else registry.mark(name, 1, 0.0)
    told = registry.snapshot(0, 1.0, lambda _name: True, NodeGauges(lambda: JVM).read().items())
    found: dict[str, set[str]] = {}
    for family in families(told):
        for sample in family.samples:
            found.setdefault(sample.name, {"instance", "job"}).update(sample.labels)
    assert {family.name for family in COMMON.values()} <= {family.name for family in families(told)}
    return found
