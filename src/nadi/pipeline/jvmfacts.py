"""What Spark's JVM tells of itself, by the names that gauges of a node have. Asked when somebody reports, and at no other time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from nadi.pipeline.session import driver_lost

FRESH = 1.0  # seconds for which an answer is good: several reporters may ask at once


class JvmFacts:
    """From any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: Mapping[str, float] = {}
        self._at = float("-inf")

    def __call__(self) -> Mapping[str, float]:
        """The gauges; none where there is no JVM, or it is ending."""
        with self._lock:
            now = self._clock()
            if now - self._at >= FRESH:
                self._known, self._at = _facts(), now
            return self._known


def _facts() -> Mapping[str, float]:
    from pyspark import SparkContext

    if driver_lost():
        return {}
    try:
        return _told(SparkContext._jvm.java.lang.management.ManagementFactory)
    except Exception:
        if driver_lost(1.0):
            return {}
        raise


def _told(factory: Any) -> dict[str, float]:
    memory, classes, threads = factory.getMemoryMXBean(), factory.getClassLoadingMXBean(), factory.getThreadMXBean()
    found: dict[str, float] = {
        "jvm.class-loading.loaded.total": classes.getTotalLoadedClassCount(),
        "jvm.class-loading.loaded.current": classes.getLoadedClassCount(),
        "jvm.class-loading.unloaded.total": classes.getUnloadedClassCount(),
        "jvm.threads.count": threads.getThreadCount(),
        "jvm.threads.daemon.count": threads.getDaemonThreadCount(),
    }
    total: dict[str, float] = {}
    for part, usage in (("heap", memory.getHeapMemoryUsage()), ("non-heap", memory.getNonHeapMemoryUsage())):
        values = {
            "init": usage.getInit(),
            "used": usage.getUsed(),
            "max": usage.getMax(),
            "committed": usage.getCommitted(),
        }
        found |= _memory(part, values)
        # -1: there is no bound
        total = {name: total.get(name, 0) + max(0, value) for name, value in values.items()}
    found |= _memory("total", total)
    for collector in factory.getGarbageCollectorMXBeans():
        name = "-".join(str(collector.getName()).split())
        found[f"jvm.gc.{name}.count"] = collector.getCollectionCount()
        found[f"jvm.gc.{name}.time"] = collector.getCollectionTime()
    return found


def _memory(part: str, values: Mapping[str, float]) -> dict[str, float]:
    """The gauges of a part of the memory; `usage` is the share of its bound, or of what the JVM has taken where it has none."""
    bound = values["max"] if values["max"] > 0 else values["committed"]
    usage = values["used"] / bound if bound else 0.0
    return {f"jvm.memory.{part}.{name}": value for name, value in {**values, "usage": usage}.items()}
