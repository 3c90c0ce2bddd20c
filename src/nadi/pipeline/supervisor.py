"""Runs apps on the queries of a node: opens their groups, starts them again with back-off when they fail, stops them between two cuts.

    report = supervise(session, specs, options, stop, tell)

Apps enter and leave while the others go on (`Supervisor.add`, `Supervisor.remove`).

A failure has a name. Those that time can cure (an input or target that is away, a host that died) are tried again for ever, with the state visible in the
progress; what Spark or a host reports without a name is tried again a few times; every other named condition ends the app, and no other one. When the JVM
itself is gone, its apps end with SPARK_GONE and the node starts them in another one (`run.py`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from nadi.config.ownership import make_folders
from nadi.io.readiness import HasFileno, end_of, readable
from nadi.io.waker import Waker
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.schedule import Schedule
from nadi.pipeline.coordinator.tasks import no_work
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.node import AppExit, AppProgress, AppText, ExitReport, NodeOptions
from nadi.pipeline.places import OwnHosts
from nadi.pipeline.queries import Queries, StartQuery
from nadi.pipeline.query import start_query
from nadi.pipeline.session import driver_jvm, driver_lost, driver_machine
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervised import MakeCuts, OnProgress, Shared, Supervised, lost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEARTBEAT = 5.0  # seconds after which all apps are looked at should nobody ring
LOST_WITHIN = 5.0  # seconds within which a JVM that does not answer is seen to have ended
WARM = 5  # batches: the fifth one takes a tenth of the first one
WORKERS = 1_000  # threads at most, for what takes long: an app needs one while it is opened, moved and stopped; they are made when needed

OnMove = Callable[[str, AppExit | None], object]
"""Is told of an app that a query has begun to carry (None), and of one that has ended."""

__all__ = ["AppExit", "AppProgress", "AppText", "ExitReport", "NodeOptions", "lost", "supervise"]


def _unheard(_app: str, _ended: AppExit | None) -> None:
    """Where nobody wants to know."""


class Supervisor:
    """All apps of a node, in the thread that calls `run`. Other threads may add and remove some."""

    def __init__(
        self,
        session: SparkSession,
        specs: Sequence[AppSpec],
        options: NodeOptions,
        stop: StopRequest,
        tell: OnProgress,
        start: StartQuery = start_query,
        make_cuts: MakeCuts = CutMaker,
        moved: OnMove = _unheard,
    ) -> None:
        self._stop, self._stays, self._moved = stop, options.stays, moved
        settings = options.settings()
        self._shares = settings.share_queries()
        self._several = options.stays or len(specs) > 1  # from the second app on, also when one is left
        jvm, logs = driver_jvm(session), options.state.resolve() / "logs"
        make_folders(logs)  # hosts that Java starts write there
        door = (driver_machine(session), options.token) if options.cluster else None
        spares, within = None if options.cluster else (jvm, logs), settings.host_within / 1000 or math.inf
        self._coordinator = Coordinator(hosts_folder(jvm), door, spares, within)
        self._own = OwnHosts(hosts_folder(jvm), jvm)
        self._schedule = Schedule[Supervised | None]()  # None: all of them
        self._over_bell = Waker()
        self._queries = Queries(session, self._coordinator, logs, self._ring_all, start)
        self._workers = ThreadPoolExecutor(WORKERS, "app")
        self._lock = threading.Lock()
        self._over = False
        self._results: dict[str, AppExit | None] = {spec.app: None for spec in specs}
        self._carried: set[str] = set()
        self._shared = Shared(
            session,
            jvm,
            self._coordinator,
            self._queries,
            self._workers,
            options,
            stop,
            tell,
            make_cuts,
            self._sharing,
            self._is_shared,
            lambda: len(self._apps),
            self._own,
        )
        self._apps: list[Supervised] = []
        self._apps = [self._make(spec) for spec in specs]
        threading.Thread(target=self._await_end, args=(jvm,), name="supervisor-bell", daemon=True).start()

    def _make(self, spec: AppSpec) -> Supervised:
        def ring() -> None:
            self._schedule.ring(made)

        made = Supervised(spec, self._shared, ring)
        ring()
        return made

    def _ring_all(self) -> None:
        self._schedule.ring(None)

    def _await_end(self, jvm: int) -> None:
        """In a thread of its own: ring when the node is asked to stop, and when the JVM has ended."""
        with ExitStack() as held:
            awaited: list[HasFileno] = [self._stop]
            with suppress(ProcessLookupError):  # then, or where nothing tells of its end, it is seen at a heartbeat
                if (end := end_of(jvm)) is not None:
                    awaited.append(held.enter_context(end))
            while awaited:
                found = readable([self._over_bell, *awaited])
                if self._over_bell in found:
                    break
                awaited = [one for one in awaited if one not in found]
                self._ring_all()
        self._over_bell.close()

    def run(self) -> ExitReport:
        """Until all have ended; where the node stays, until it is asked to stop."""
        try:
            while not self._is_over():
                self._step(self._schedule.next(HEARTBEAT))
        finally:
            self._close()
        return ExitReport(tuple(result for result in self._results.values() if result is not None))

    def add(self, spec: AppSpec) -> bool:
        """Run another app, too; False where this supervisor has ended, or is about to. No app of this name runs."""
        with self._lock:
            if self._over:
                return False
            self._several = True
            self._results[spec.app] = None
            self._apps = [*self._apps, self._make(spec)]
        return True

    def warm(self, hosts: int) -> None:
        """Have the query that apps share run, with so many hosts, before there is an app; takes a while. Errors: SPARK_FAILED, whatever Spark reports."""
        running = self._queries.keep()
        for _ in range(WARM):
            if not running.run.warm(no_work(hosts)):
                return

    def remove(self, name: str) -> None:
        """Have an app stop between two cuts, and let go of it. Returns at once; one that has ended is let go of."""
        with self._lock:
            found = [app for app in self._apps if app.spec.app == name]
            if not found:
                self._results.pop(name, None)
        for app in found:
            app.leave()

    def _is_shared(self) -> bool:
        return self._several

    def _sharing(self) -> bool:
        return self._shares and self._several

    def _is_over(self) -> bool:
        """Whether nothing is left to do; from then on no app is taken."""
        stays = self._stays and not self._stop.is_set() and not driver_lost()
        with self._lock:
            self._over = not self._apps and not stays
            return self._over

    def _step(self, rung: Sequence[Supervised | None]) -> None:
        """Have those that rang go on; all of them where nobody did for long, or it concerns all."""
        gone = driver_lost()
        apps = self._apps if gone or not rung or None in rung else [app for app in rung if app is not None]
        if gone:
            for app in apps:
                app.lose()
        with _jvm_may_end():
            if not driver_lost():
                self._look_at_queries()
            now = time.monotonic()
            for app in apps:
                app.step(now)
        for app in apps:
            self._note(app)
            if app.result is None:
                self._schedule.at(app.due(time.monotonic()), app)

    def _note(self, app: Supervised) -> None:
        """Tell of an app that has begun to run, and let go of one that has ended."""
        name, ended = app.spec.app, app.result
        if ended is None:
            if app.entered and name not in self._carried:
                self._carried.add(name)
                self._moved(name, None)
            return
        with self._lock:
            if app not in self._apps:
                return  # it had ended when it rang
            self._apps = [other for other in self._apps if other is not app]
            self._carried.discard(name)
            if app.leaving:
                self._results.pop(name, None)
            else:
                self._results[name] = ended
            alone = not self._apps
        self._schedule.forget(app)
        app.close()
        if app.query is not None and not alone and not self._stop.is_set() and not driver_lost():
            self._workers.submit(self._queries.release, app.query)
        self._moved(name, ended)

    def _look_at_queries(self) -> None:
        for running, failure in self._queries.look():
            for group in running.run.groups:
                group.fail(failure)

    def _close(self) -> None:
        for app in self._apps:
            app.close()
        with _jvm_may_end():
            if not driver_lost():
                self._queries.close()
        self._coordinator.close()
        self._own.close()
        self._over_bell.ring()
        self._workers.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _jvm_may_end() -> Iterator[None]:
    """For what asks the JVM: that it dies meanwhile is no failure of who asks, the next step finds it gone."""
    try:
        yield
    except Exception:
        if not driver_lost(LOST_WITHIN):
            raise


def supervise(
    session: SparkSession,
    specs: Sequence[AppSpec],
    options: NodeOptions,
    stop: StopRequest,
    tell: OnProgress,
    start: StartQuery = start_query,
    make_cuts: Callable[[AppSpec], CutMaker] = CutMaker,
    moved: OnMove = _unheard,
    made: Callable[[Supervisor], object] = lambda _supervisor: None,
) -> ExitReport:
    """Run all apps until each has ended; `start` makes a query and `make_cuts` what makes the cuts of an app (benchmarks have others). Who adds and removes
    apps is given the supervisor as soon as it is `made`."""
    try:
        supervisor = Supervisor(session, specs, options, stop, tell, start, make_cuts, moved)
        made(supervisor)
        return supervisor.run()
    except BaseException:
        stop.set()  # Spark goes away now: that is no failure to recover from
        raise
