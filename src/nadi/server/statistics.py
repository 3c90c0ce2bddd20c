"""What a node measures of itself and of its apps, for those who ask over REST, and for its reporters.

node ── progress ──► note ──► meters, last minutes ◄── snapshot ── reporters, /metrics, pages
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import structlog

from nadi.metrics import AppProgress
from nadi.metrics.annotation import statistics_of
from nadi.metrics.appmeters import AppMeters
from nadi.metrics.filters import Shown
from nadi.metrics.lastminutes import LastMinutes, Point
from nadi.metrics.levels import Level, Levels
from nadi.metrics.names import CHANNELS, LATENCY, MetricName
from nadi.metrics.registry import Registry, Snapshot
from nadi.metrics.reporters.poll import Polling
from nadi.metrics.system import NodeGauges
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.spec import Engine

log = structlog.get_logger("nadi.metrics")

Starts = Callable[[Callable[[], Snapshot]], Polling]
"""Starts a reporter, which is given what makes a snapshot."""


@dataclass(slots=True)
class _Entered:
    """An app that the node has, or is about to get. `wanted` says of a whole name whether it has such a metric."""

    text: str
    wanted: Callable[[str], bool]
    meters: AppMeters
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Standing:
    """How an app stands where it runs: how much is measured of it, and for how long (ms) it has run; None where only its status says that."""

    level: Level = Level.OFF
    age: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """As `GET /statistics` has them: shares of 0 to 1."""

    process_cpu: float
    system_cpu: float
    load_average: float
    memory_usage: float


class Statistics:
    """See the module's text; of one node, from any thread. `options.levels` is what hosts are told; `reporters` are started while metrics are enabled;
    `shown` says which metrics there are."""

    def __init__(
        self,
        options: NodeOptions,
        registry: Registry,
        gauges: NodeGauges,
        reporters: Sequence[Starts] = (),
        enabled: bool = True,
        shown: Shown | None = None,
    ) -> None:
        self.levels: Levels = options.levels
        self._engine: Engine = import_module(options.engine)
        self._registry = registry
        self._gauges = gauges
        self._shown = Shown() if shown is None else shown
        self._starts = tuple(reporters)
        self._reporters: list[Polling] = []
        self._minutes = LastMinutes()
        self._apps: dict[str, _Entered] = {}
        self._switching = threading.RLock()
        self._reading = threading.Lock()
        self._enabled = enabled
        self._open = False
        self._feeds: list[Callable[[Registry, float], None]] = []
        self._is_there: Callable[[str], bool] = lambda _app: True
        self.levels.mute(not enabled)

    # ---- its life

    def start(self, is_there: Callable[[str], bool]) -> None:
        """Have reporters tell from now on, where metrics are enabled; of apps that are not there any more they do not."""
        with self._switching:
            self._is_there = is_there
            self._open = True
        self._settle()

    def close(self) -> None:
        """Reporters tell once more, and end."""
        with self._switching:
            self._open = False
        self._settle()

    def _settle(self) -> None:
        """Reporters are at work while they are to be. Those that end tell once more, for which they need the lock."""
        with self._switching:
            wanted = self._open and self._enabled
            ending: list[Polling] = []
            if not wanted:
                ending, self._reporters = self._reporters, []
            elif not self._reporters:
                self._reporters = [start(self.snapshot) for start in self._starts]
        for reporter in ending:
            reporter.close()

    def feed(self, feed: Callable[[Registry, float], None]) -> None:
        """Have something feed metrics of the node whenever they are told; it is called with the time (s)."""
        self._feeds.append(feed)

    # ---- apps

    def enter(self, text: AppText) -> None:
        """The node is about to get an app. One that comes again with the same text keeps its level. Errors: those of the text."""
        app = text.planned(self._engine)
        annotated = statistics_of(app.annotations)
        with self._switching:
            self._let_go()
            known = self._apps.get(app.name)
            if known is not None and known.text == text.text:
                return
            for notice in annotated.notices:
                log.info(notice, app=app.name)
            self._drop(app.name)
            wanted = self._wanted(annotated.includes)
            self._apps[app.name] = _Entered(text.text, wanted, AppMeters(app, wanted, self._registry))
            self.levels.set(app.name, annotated.level)

    def _wanted(self, includes: Callable[[str], bool]) -> Callable[[str], bool]:
        """Which metrics there are of an app: those that its text and the levels of names leave."""
        return lambda name: includes(name) and self._shown.of(name)

    def leave(self, name: str) -> None:
        """An app was undeployed: it begins with the level of its text when it comes again."""
        with self._switching:
            self._drop(name)

    def _let_go(self) -> None:
        """Forget apps that are not there any more."""
        with self._switching:
            for name in [name for name in self._apps if not self._is_there(name)]:
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._apps.pop(name, None)
        self.levels.forget(name)
        self._minutes.forget(name)
        self._registry.drop(lambda metric: metric.app == name)

    def note(self, progress: AppProgress) -> None:
        """What the node tells of an app."""
        self._minutes.note(progress, int(time.time()))
        entered = self._apps.get(progress.app)
        if entered is not None:
            with entered.lock:
                entered.meters.take(progress, self.levels.of(progress.app), time.monotonic())

    def asked(self, name: str, seconds: float) -> None:
        """An on-demand query was answered, which took so long."""
        entered = self._apps.get(name)
        metric = MetricName(name, "StoreQueries", "query", "", LATENCY)
        if entered is not None and self.levels.of(name) >= metric.level and entered.wanted(metric.full):
            self._registry.time(metric, [(seconds * 1000, 1)], time.monotonic())

    # ---- levels

    @property
    def is_enabled(self) -> bool:
        """Whether the node measures anything."""
        return self._enabled

    def enable(self, enabled: bool) -> bool:
        """Have the node measure, all its apps in detail, or nothing at all, and its reporters tell; whether that was otherwise before."""
        with self._switching:
            changed = self._enabled is not enabled
            self._enabled = enabled
            self.levels.mute(not enabled)
            for name in self._apps:
                self.levels.set(name, Level.DETAIL if enabled else Level.OFF)
        self._settle()
        return changed

    def level(self, name: str) -> Level:
        """What an app was given."""
        return self.levels.given(name)

    def standings_of(self, names: Collection[str]) -> Mapping[str, Standing]:
        """What apps were given, by name."""
        return {name: Standing(self.levels.given(name)) for name in names}

    def switch(self, name: str, level: Level) -> bool:
        """Give an app a level, from its next cut on; whether it had another one."""
        return self.levels.set(name, level)

    # ---- what there is to tell

    def snapshot(self) -> Snapshot:
        """All metrics now: those of the node, and of each app those of its level."""
        self._let_go()
        for feed in self._feeds:
            feed(self._registry, time.monotonic())
        with self._reading:
            gauges = self._gauges.read()
        return self._registry.snapshot(
            int(time.time() * 1000),
            time.monotonic(),
            self._is_told,
            gauges.items(),
        )

    def _is_told(self, name: MetricName) -> bool:
        if name.type == CHANNELS:  # of an app that has no level here
            return self._shown.of(name.full)
        return name.level <= self.levels.of(name.app) if name.app else self._shown.of(name.element)

    def worker_metrics(self) -> WorkerMetrics:
        """How the node is."""
        with self._reading:
            found = self._gauges.read()
        return WorkerMetrics(
            found.get("jvm.os.cpu.load.process", 0.0),
            found.get("jvm.os.cpu.load.system", 0.0),
            found.get("jvm.os.system.load.average", 0.0),
            found.get("jvm.memory.heap.usage", 0.0),
        )

    def last_minutes(self, name: str) -> list[Point]:
        """The last seconds of an app, one point each, up to now."""
        return self._minutes.of(name, int(time.time()))
