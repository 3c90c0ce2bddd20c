"""Names of metrics, as dashboards of WSO2 Stream Processor know them, and from which level on there is each of them.

    org.wso2.siddhi.SiddhiApps.<app>.Siddhi.<Type>.<element>[.<function>].<metric>

Names of nadi's own have the same form, with the types `App`, `Inputs` and, at a manager, `Channels`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.metrics.levels import Level

PREFIX = "org.wso2.siddhi.SiddhiApps"
LATENCY, THROUGHPUT, MEMORY = "latency", "throughput", "memory"
CHANNELS = "Channels"

_DETAIL = frozenset(
    {
        ("Streams", THROUGHPUT),
        ("Trigger", THROUGHPUT),
        ("Queries", LATENCY),
        ("Windows", LATENCY),
        ("Windows", THROUGHPUT),
        ("Aggregations", LATENCY),
        ("Aggregations", THROUGHPUT),
        ("SourceMappers", LATENCY),
        ("SinkMappers", LATENCY),
        ("StoreQueries", LATENCY),
    }
)


@dataclass(frozen=True, slots=True, order=True)
class MetricName:
    """One metric. Those of the node have no app and no type: `element` is the whole name.

    >>> MetricName("Orders", "Tables", "Last", "insert", LATENCY).full
    'org.wso2.siddhi.SiddhiApps.Orders.Siddhi.Tables.Last.insert.latency'
    >>> MetricName.of_node("jvm.threads.count").full
    'jvm.threads.count'
    """

    app: str
    type: str
    element: str
    function: str
    metric: str

    @staticmethod
    def of_node(name: str) -> MetricName:
        """A metric of the node."""
        return MetricName("", "", name, "", "")

    @property
    def full(self) -> str:
        """The whole name."""
        if not self.app:
            return self.element
        parts = (PREFIX, self.app, "Siddhi", self.type, self.element, self.function, self.metric)
        return ".".join(part for part in parts if part)

    @property
    def level(self) -> Level:
        """The level of its app from which on it is there."""
        return Level.DETAIL if (self.type, self.metric) in _DETAIL else Level.BASIC
