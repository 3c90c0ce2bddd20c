"""A node: everything that `nadi run` starts, and stops again, whatever way it ends.

node = Node([AppText(text)], NodeOptions(until_end=True), print)
report = node.run()             # node.request_stop() from a signal handler or another thread ends it between two batches
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from nadi.config.settings import KERNEL
from nadi.errors import error
from nadi.io import circuits
from nadi.io.contract import Ingress
from nadi.io.errorstores import note_store
from nadi.io.faultlog import FAULTS
from nadi.io.natsserver import NatsServer
from nadi.io.registry import SOURCES, source_kind
from nadi.kernel.columns.choosing import check_mode
from nadi.kernel.control import CONTROL
from nadi.metrics import AppProgress
from nadi.pipeline.classarchive import Later
from nadi.pipeline.compiling import Compiled, Compiling
from nadi.pipeline.hosting.hostclient import Hosts, hosts, hosts_folder, sweep
from nadi.pipeline.live import remove_live
from nadi.pipeline.node import AppExit, AppText, ExitReport, NodeOptions, make_spec, needed_outputs, node_lock, spread
from nadi.pipeline.profile import forget_profile
from nadi.pipeline.session import SessionOptions, driver_jvm, end_driver, java, start_session
from nadi.pipeline.slots import COPIES, with_slots
from nadi.pipeline.spec import AppSpec, Connectors, Engine
from nadi.pipeline.supervisor import RESTARTS, OnProgress, lost, supervise
from nadi.plan.nodes import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS_WITHIN = 15.0  # seconds for the JVM and its hosts to go
CRASHES = 5  # of the JVM in a row, without a batch between them


def _silent(_progress: object) -> None:
    """Where nobody wants to know."""


class Node:
    """One run of some apps on a state folder.

    `on_progress` is called from other threads, about twice a second per app and whenever the state of an app changes.
    """

    def __init__(self, apps: Sequence[AppText], options: NodeOptions, on_progress: OnProgress | None = None) -> None:
        self._texts = tuple(apps)
        self._options = options
        self._on_progress = on_progress or _silent
        self._last: dict[str, AppProgress] = {}
        self._stop = threading.Event()

    def _tell(self, progress: AppProgress) -> None:
        self._last[progress.app] = progress
        self._on_progress(progress)

    def request_stop(self) -> None:
        """Finish the batches under way, commit them and stop. Returns at once; safe in a signal handler."""
        self._stop.set()

    def run(self) -> ExitReport:
        """Run until all apps have ended; no process outlives the call.

        Errors: those of the apps' texts, options and state (nothing was started then), NODE_LOCKED, SPARK_NOT_STARTED, SERVER_NOT_STARTED. How each app
        ended is in the report.
        """
        properties = self._options.settings().of_kernels()  # wrong ones are refused before anything starts
        engine: Engine = import_module(self._options.engine)
        planned = [(text, engine.plan_app(text.text)) for text in self._texts]
        names = [app.name for _, app in planned]
        for name in names:
            if names.count(name) > 1:
                raise error("APP_TWICE", app=name)
        registry: Connectors = import_module(self._options.connectors)
        for _, app in planned:  # what is wrong with them is said before anything starts
            registry.connectors(app, "source")
            registry.connectors(app, "sink")
            check_mode(app, properties.get(KERNEL, "rows"))
            engine.make_kernel(
                app, needed_outputs(app), 0, {**properties, KERNEL: "rows"}
            )  # columns have loops to compile
        with node_lock(self._options.state), contextlib.ExitStack() as started:
            if properties.get(KERNEL, "rows") != "rows":
                self._compile([app for _, app in planned], started)
            return self._run(planned, registry, started)

    def _compile(self, apps: Sequence[App], started: contextlib.ExitStack) -> None:
        """Compile what runs on columns while all else starts."""

        def tell(app: str, what: str) -> None:
            self._tell(dataclasses.replace(self._last.get(app, AppProgress(app)), said=(what,)))

        compiling = Compiling([Compiled(app, needed_outputs(app)) for app in apps], tell)
        compiling.start()
        started.callback(compiling.close)

    def _run(
        self, planned: list[tuple[AppText, App]], registry: Connectors, started: contextlib.ExitStack
    ) -> ExitReport:
        options = self._options
        journal = self._journal([app for _, app in planned], registry, started)
        cores = os.cpu_count() or 1
        specs = spread([make_spec(text, app, options, cores, journal) for text, app in planned])
        for spec in specs:
            remove_live(spec.place.state)  # a killed node may have left it
            circuits.forget(spec.place.state)
            forget_profile(spec.place.state)
            note_store(spec.place.state, spec.open_errors(), spec.error_store)
        made = [
            ingress
            for spec, (_, app) in zip(specs, planned, strict=True)
            for ingress in _ingresses(spec, app, registry, started)
        ]
        for ingress in made:  # when all are known, as some share a server
            ingress.start()
        if options.master.startswith("local"):
            started.callback(Later(java(), options.state.resolve() / "logs").close)
        return self._through_crashes(specs)

    def _through_crashes(self, specs: Sequence[AppSpec]) -> ExitReport:
        """Run the apps on Spark; where its JVM dies, those that had not ended go on in a new one, from what is in their checkpoints."""
        ended: dict[str, AppExit] = {}
        tries, reached = 0, -1
        while True:
            left = [s for s in specs if s.app not in ended or lost(ended[s.app])]
            for result in self._on_spark(left).apps:
                ended[result.app] = result
            crashed = [e for e in ended.values() if lost(e)]
            at = sum(e.progress.batches for e in ended.values())
            tries, reached = (tries + 1, at) if at == reached else (1, at)
            if not crashed or self._stop.is_set() or tries >= CRASHES:
                return ExitReport(tuple(ended[s.app] for s in specs))
            for result in crashed:
                self._tell(dataclasses.replace(result.progress, state="waiting", said=()))
            self._stop.wait(RESTARTS.delay(tries) / 1000)

    def _on_spark(self, specs: Sequence[AppSpec]) -> ExitReport:
        options = self._options
        conf = options.spark()
        names = tuple(s.app for s in specs)
        slots = options.settings().slots
        master = with_slots(options.master, specs, options.persistence.enabled, slots)
        pools = (*names, COPIES)
        wanted = SessionOptions(master, options.state / "logs", conf, f"nadi {' '.join(names)}", pools)
        # what a query needs, and takes a while to load, while Java starts
        threading.Thread(target=import_module, args=("nadi.pipeline.kernelstage",), daemon=True).start()
        session = start_session(wanted, self._stop)
        jvm = driver_jvm(session)
        try:
            sweep()
            ready = hosts(max(s.hosts for s in specs), jvm)
            threading.Thread(target=_prepare, args=(ready,), daemon=True).start()
            return supervise(session, specs, options, self._stop, self._tell)
        finally:
            _end(jvm)

    def _journal(self, apps: Sequence[App], registry: Connectors, started: contextlib.ExitStack) -> str:
        """The URL of the journal's server: the one configured, an embedded one where an app needs it, or ""."""
        named = self._options.settings().journal_url
        if named or not any(needs_journal(app, registry) for app in apps):
            return named
        server = NatsServer(self._options.state.resolve() / "nats")
        server.start()
        started.callback(server.stop)
        return server.url


def needs_journal(app: App, registry: Connectors) -> bool:
    """Whether an input of the app is kept in the node's journal, or a topic of it is."""
    sources, sinks = registry.connectors(app, "source"), registry.connectors(app, "sink")
    kept = any(c.type == "inmemory" for c in (*sources, *sinks))
    return kept or any(c.type in SOURCES and source_kind(c.type).ingress is not None for c in sources)


def _ingresses(spec: AppSpec, app: App, registry: Connectors, started: contextlib.ExitStack) -> Iterator[Ingress]:
    """The ingresses of an app, which stop with what was started."""
    for connector in spec.sources(app):
        if connector.stream in (CONTROL, FAULTS):
            continue
        ingress = registry.make_ingress(connector, spec.place)
        if ingress is not None:
            started.callback(ingress.stop)
            yield ingress


def _prepare(ready: Hosts) -> None:
    """Start the hosts while Spark is still warming up; whoever needs one later finds it or starts it."""
    for index in range(ready.count):
        with contextlib.suppress(Exception):
            ready.call(index, {"op": "ping"})


def end_session(session: SparkSession, within: float = ENDS_WITHIN) -> None:
    """Stop Spark, its JVM and the hosts, and wait until they are gone; what is not after so many seconds is killed."""
    _end(driver_jvm(session), within)


def _end(jvm: int, within: float = ENDS_WITHIN) -> None:
    folder = hosts_folder(jvm)
    with contextlib.ExitStack() as watched:
        ends = [watched.enter_context(end) for file in folder.glob("*.alive") if (end := _end_of_host(file))]
        end_driver(within)
        until = time.monotonic() + within
        while any(folder.glob("*.alive")) and time.monotonic() < until:
            time.sleep(0.02)
        # a host removes its files and then gives its memory back, which takes a moment
        while ends and time.monotonic() < until:
            ended = select.select(ends, [], [], until - time.monotonic())[0]
            ends = [end for end in ends if end not in ended]
    with contextlib.suppress(OSError):
        folder.rmdir()


def _end_of_host(alive: Path) -> FileIO | None:
    """What becomes readable when the host that wrote its process id there has ended; None where the system has no such thing, or it has ended."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return FileIO(os.pidfd_open(int(alive.read_text())))
    return None


def run(apps: Sequence[AppText], options: NodeOptions, on_progress: OnProgress | None = None) -> ExitReport:
    """Run apps until each has ended; for one that can be stopped see `Node`."""
    return Node(apps, options, on_progress).run()
