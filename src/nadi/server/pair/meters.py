"""`org.wso2.ha.sending.throughput` and `org.wso2.ha.receiving.throughput`: what this node sends to its partner, and gets from it, in records of event sync."""

from __future__ import annotations

from nadi.eventsync.counters import Counters
from nadi.metrics.names import MetricName
from nadi.metrics.registry import Registry

SENDING = MetricName.of_node("org.wso2.ha.sending.throughput")
RECEIVING = MetricName.of_node("org.wso2.ha.receiving.throughput")


class SyncMeters:
    """Feeds the two meters with what has been counted since they were fed last."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._sent = self._received = 0

    def __call__(self, registry: Registry, now: float) -> None:
        """`now` in seconds."""
        sent, received = self._counters.sent_records, self._counters.received_records
        registry.mark(SENDING, sent - self._sent, now)
        registry.mark(RECEIVING, received - self._received, now)
        self._sent, self._received = sent, received
