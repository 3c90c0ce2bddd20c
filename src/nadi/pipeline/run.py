"""A node: everything that `nadi run` starts, and stops again, whatever way it ends.

node = Node([AppText(text)], NodeOptions(until_end=True), print)
report = node.run()             # node.request_stop() from a signal handler or another thread ends it between two batches
node.add(AppText(another))      # from another thread, while it runs; node.remove("Another")
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from nadi.config.settings import KERNEL
from nadi.errors import NadiError, error
from nadi.io.readiness import end_of, readable
from nadi.metrics import AppProgress, Said
from nadi.metrics.measured import NOTHING
from nadi.pipeline.admission import Admission, Admitted, Planned
from nadi.pipeline.classarchive import Later
from nadi.pipeline.earlyhosts import early_hosts
from nadi.pipeline.hosting.hostclient import Hosts, hosts, hosts_folder, is_gone, sweep
from nadi.pipeline.node import AppExit, AppText, ExitReport, NodeOptions, host_count, needed_outputs, node_lock
from nadi.pipeline.nodesocket import NodeSocket
from nadi.pipeline.queries import query_names
from nadi.pipeline.revision.atrest import let_go, put_revision
from nadi.pipeline.revision.restore import Planned as Updates
from nadi.pipeline.revision.revisions import withheld
from nadi.pipeline.roster import Roster
from nadi.pipeline.session import SessionOptions, driver_jvm, end_driver, java, start_session
from nadi.pipeline.slots import with_slots
from nadi.pipeline.spec import AppSpec, Engine
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervised import RESTARTS, OnProgress
from nadi.pipeline.supervisor import Supervisor, supervise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger("nadi.pipeline")

ENDS_WITHIN = 15.0  # seconds for the JVM and its hosts to go
PATIENCE = 0.05  # seconds that a thread waits for the interpreter before it asks for it
CRASHES = 5  # of the JVM in a row, without a batch between them


def _title(apps: Sequence[str]) -> str:
    """What Spark calls the node."""
    return f"nadi {' '.join(apps)}" if len(apps) <= 5 else f"nadi, {len(apps)} apps"


def _silent(_progress: object) -> None:
    """Where nobody wants to know."""


class Node:
    """One run of some apps on a state folder. Apps can be added and removed while it runs (`add`, `remove`; also from other processes, by
    `nadi.pipeline.nodesocket`).

    `on_progress` is called from other threads, about twice a second per app and whenever the state of an app changes.
    """

    def __init__(
        self,
        apps: Sequence[AppText],
        options: NodeOptions,
        on_progress: OnProgress | None = None,
        refused: Callable[[str, NadiError], object] | None = None,
    ) -> None:
        """`refused` hears of each app that cannot run, and why; the others do. Without it, none does."""
        self._texts = tuple(apps)
        self._options = options
        self._on_progress = on_progress or _silent
        self._refused = refused
        self._stop = StopRequest()
        self._roster = Roster(options.state)
        self._servers = contextlib.ExitStack()  # what all apps have in common
        self._admission = Admission(options, self._say, self._servers)
        self._admitting = threading.Lock()
        self._opened = threading.Event()  # apps are taken, or never will be
        self._jvm: int | None = None
        self._waits = "Spark starts"
        self._expected: tuple[AppText, ...] = ()
        self._ready: Hosts | None = None
        self._rehearsing = threading.Lock()

    def request_stop(self) -> None:
        """Finish the batches under way, commit them and stop. Returns at once; safe in a signal handler."""
        self._stop.set()

    def run(self) -> ExitReport:
        """Run until all apps have ended; no process outlives the call.

        Errors: those of the apps' texts, options and state (nothing was started then), NODE_LOCKED, SPARK_NOT_STARTED, SERVER_NOT_STARTED. How each app
        ended is in the report.
        """
        with contextlib.ExitStack() as started:
            started.enter_context(_patient_threads())
            started.callback(self._opened.set)
            started.callback(self._end)
            planned = [self._admission.planned(text) for text in self._texts]
            names = [one.app.name for one in planned]
            for name in names:
                if names.count(name) > 1:
                    raise error("APP_TWICE", app=name)
            started.enter_context(node_lock(self._options.state))
            started.enter_context(self._servers)
            compiling = self._admission.compiling(planned)  # while all else starts
            if compiling is not None:
                started.callback(compiling.close)
            started.callback(self._roster.close)
            for admitted in self._admitted(planned):
                self._roster.enter(admitted)
                self._roster.start(admitted.spec.app)
            if self._options.master.startswith("local"):
                started.callback(Later(java(), self._options.state.resolve() / "logs").close)
            started.enter_context(NodeSocket(self._options.state, self.add, self.remove))
            started.callback(self._end)  # who waits hears it before the socket is closed
            self._opened.set()
            return self._through_crashes()

    def _admitted(self, planned: Sequence[Planned]) -> list[Admitted]:
        """The apps that the node begins with: all of them, or, where somebody hears of those that cannot run, the others."""
        refused = self._refused
        if refused is None:
            for one in planned:
                self._admission.update(one)
            return self._admission.admit(planned, [])
        fit = []
        for one in planned:
            try:
                self._admission.update(one)
            except NadiError as reason:
                refused(one.app.name, reason)
            else:
                fit.append(one)
        try:
            return self._admission.admit(fit, [])
        except NadiError:
            admitted: list[Admitted] = []
            for one in fit:
                try:
                    admitted += self._admission.admit([one], [each.spec for each in admitted])
                except NadiError as reason:
                    refused(one.app.name, reason)
            return admitted

    def _end(self) -> None:
        """Take no app any more."""
        self._roster.end()
        with self._admitting:  # who was letting one in has given up
            pass

    # ---- apps that enter and leave

    def add(self, text: AppText, wanted: Callable[[], bool] = lambda: True) -> AppProgress:
        """Run another app, too, and wait until a query carries it or it waits for another attempt; -> its progress. Its sources listen as soon as it has
        entered, and what they take waits in the journal while its queries are compiled and Spark starts. From any thread; before `run` has begun it waits
        for that. `wanted` is asked before it starts whether it still is to: who removes it meanwhile may come too early.

        Errors: those of its text and state, APP_RUNS, NODE_STOPPING, SERVER_NOT_STARTED, APP_NOT_ON_NODE where it was removed meanwhile (nothing has changed
        then); what it ended
        with at once.
        """
        self._opened.wait()
        planned = self._admission.planned(text)
        name = planned.app.name
        with self._admitting:
            if self._stop.is_set():
                raise error("NODE_STOPPING", folder=self._options.state)
            self._roster.free(name)
            self._admission.update(planned)
            (admitted,) = self._admission.admit([planned], self._roster.specs())
            compiling = self._admission.compiling_behind(planned)
            if compiling is not None:
                admitted.held.callback(compiling.close)
            self._roster.enter(admitted)
        if compiling is not None and compiling.is_needed:
            self._await(name, "its queries are compiled")
            compiling.wait()  # a host that compiled would hold up the apps that it has
        self._await(name, self._waits or "a query of Spark takes it in")
        if not wanted():
            self._roster.drop(name)
        self._roster.start(name)
        return self._roster.until_carried(name)

    def expect(self, texts: Sequence[AppText]) -> None:
        """Have the hosts load what apps need that may be added soon. Takes seconds; before Spark is up, or again, it is done then. From any thread."""
        with self._rehearsing:
            self._expected = tuple(texts)
            if self._ready is not None:
                self._rehearse(self._ready)

    def _rehearse(self, ready: Hosts) -> None:
        """What goes wrong there goes wrong when the app comes, and is told then."""
        engine: Engine = import_module(self._options.engine)
        columns = self._options.settings().of_kernels().get(KERNEL, "rows") != "rows"
        for text in self._expected:
            try:
                app = text.planned(engine)
                told = {"op": "rehearse", "text": app.text, "outputs": needed_outputs(app), "columns": columns}
                for index in range(ready.count):
                    ready.call(index, told)
            except Exception as reason:
                log.info("what an app needs was not loaded before it came", reason=str(reason))

    def break_off(self) -> None:
        """End all processes that work for the apps, at once: what is being written stops where it is. Apps that were not removed go on in new ones, from what
        they have committed. From any thread."""
        jvm = self._jvm
        if jvm is not None:
            kill_processes(jvm)

    @property
    def waits(self) -> str:
        """What an app that is added now would wait for: "Spark starts". "" where it would begin at once."""
        return self._waits if self._opened.is_set() else "the node starts"

    @property
    def is_open(self) -> bool:
        """Whether it takes apps."""
        return self._opened.is_set() and not self._stop.is_set()

    def plan_update(self, text: AppText) -> Updates | None:
        """What would become of the state of an app that gets this text; None where nothing changes. From any thread. Errors: those of text and state."""
        return self._admission.plan_update(self._admission.planned(text))

    def remove(self, name: str, revision: bool = True) -> AppExit:
        """Stop an app between two cuts, as the end of the node does, and let go of it; what it has on the disk stays. -> how it ended. From any thread.
        `revision`: whether one is made of where it stops, if the node makes any.

        Errors: APP_NOT_ON_NODE, NODE_STOPPING.
        """
        self._opened.wait()
        if revision:
            return self._roster.leave(name)
        with withheld(self._roster.folder_of(name)):
            return self._roster.leave(name)

    # ---- the state of an app that was removed and will be added again

    def restore(self, text: AppText, revision: str = "", reset: bool = False) -> str:
        """Put a revision ("": the newest good one) into an app that is not on this node now; -> its name. From any thread.

        Errors: APP_RUNS, NODE_STOPPING, those of `nadi.pipeline.revision.atrest.put_revision`; then the app goes on as it was.
        """
        planned = self._admission.planned(text)
        with self._at_rest(planned.app.name):
            return put_revision(planned.text, planned.app, self._options, self._admission.journal_for, revision, reset)

    def let_go(self, text: AppText) -> str:
        """Empty the state of an app that is not on this node now; its inputs go on where they stood. -> its name. From any thread. Errors: as `restore`."""
        planned = self._admission.planned(text)
        with self._at_rest(planned.app.name):
            let_go(planned.text, planned.app, self._options, self._admission.journal_for)
        return planned.app.name

    @contextlib.contextmanager
    def _at_rest(self, name: str) -> Iterator[None]:
        """While an app is not on this node, and cannot enter it. Errors: APP_RUNS, NODE_STOPPING."""
        self._opened.wait()
        with self._admitting:
            if self._stop.is_set():
                raise error("NODE_STOPPING", folder=self._options.state)
            self._roster.free(name)
            yield

    # ---- Spark

    def _tell(self, progress: AppProgress) -> None:
        self._roster.note(progress)
        self._on_progress(progress)

    def _await(self, app: str, what: str) -> None:
        """Tell what an app waits for that has entered."""
        self._tell(dataclasses.replace(self._roster.shown(app), awaits=what, said=(), measured=NOTHING))

    def _say(self, app: str, what: str) -> None:
        self._tell(dataclasses.replace(self._roster.shown(app), said=(Said(what),), measured=NOTHING))

    def _through_crashes(self) -> ExitReport:
        """Run the apps on Spark; where its JVM dies, those that had not ended go on in a new one, from what they have committed."""
        tries, reached = 0, -1
        while True:
            self._on_spark(self._roster.given())
            at = self._roster.batches()
            tries, reached = (tries + 1, at) if at == reached else (1, at)
            stays = self._options.stays and not self._stop.is_set()
            if self._stop.is_set() or tries >= CRASHES or not self._roster.goes_on(stays):
                return self._roster.report()
            for progress in self._roster.crashed():
                self._tell(dataclasses.replace(progress, state="waiting", crashed=False, said=(), measured=NOTHING))
            self._stop.wait(RESTARTS.delay(tries) / 1000)

    def _on_spark(self, specs: Sequence[AppSpec]) -> None:
        options = self._options
        settings, names = options.settings(), [s.app for s in specs]
        master = with_slots(options.master, len(specs), settings.slots)
        count, conf = host_count(settings, os.cpu_count() or 1), options.spark()
        if options.cluster:  # where there is nobody yet whom this process could ask for a host
            conf |= early_hosts(conf, count)
        wanted = SessionOptions(master, options.state / "logs", conf, _title(names), query_names(names))
        session = start_session(wanted, self._stop)
        self._jvm = jvm = driver_jvm(session)
        try:
            sweep()
            ready = hosts(count, jvm)

            def made(supervisor: Supervisor) -> None:
                # hosts say hello to the coordinator, which has its socket now
                if not options.cluster:  # there executors have them
                    threading.Thread(target=self._prepare, args=(ready, supervisor), daemon=True).start()
                else:
                    self._waits = ""
                self._roster.carried_by(supervisor)

            supervise(session, specs, options, self._stop, self._tell, moved=self._roster.moved, made=made)
        finally:
            self._ready, self._waits = None, "Spark starts again"
            self._roster.carried_by(None)
            self._jvm = None
            _end(jvm)

    def _prepare(self, ready: Hosts, supervisor: Supervisor) -> None:
        """Start the hosts while Spark is still warming up; whoever needs one later finds it or starts it. On standby, the query that apps share, too."""
        for index in range(ready.count):
            with contextlib.suppress(Exception):
                ready.call(index, {"op": "ping"})
        if self._options.standby:
            try:
                supervisor.warm(ready.count)
            except Exception as reason:  # an app that comes starts it, and is told why it cannot
                log.warning("the query that apps share did not start before them", reason=str(reason))
        with self._rehearsing:
            self._rehearse(ready)
            if self._jvm == ready.jvm:
                self._ready, self._waits = ready, ""


@contextlib.contextmanager
def _patient_threads() -> Iterator[None]:
    """Many threads of a node wait for files and sockets, and need the interpreter for a moment only. By default one that waits for it wakes every 5 ms: with
    100 busy apps that was most of what the node did."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def end_session(session: SparkSession, within: float = ENDS_WITHIN) -> None:
    """Stop Spark, its JVM and the hosts, and wait until they are gone; what is not after so many seconds is killed."""
    _end(driver_jvm(session), within)


def kill_processes(jvm: int, within: float = ENDS_WITHIN) -> None:
    """Kill a JVM and its hosts, and wait until they are gone."""
    hosts = [int(text) for file in hosts_folder(jvm).glob("*.alive") if (text := _read(file)).isdecimal()]
    ends = []
    for process in (*hosts, jvm):
        with contextlib.suppress(OSError):
            end = end_of(process)
            ends += [] if end is None else [end]
            os.kill(process, signal.SIGKILL)
    until = time.monotonic() + within
    left = list(ends)
    while left and time.monotonic() < until:
        ended = readable(left, until - time.monotonic())
        left = [end for end in left if end not in ended]
    for end in ends:
        end.close()


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""  # it has ended by itself


def _end(jvm: int, within: float = ENDS_WITHIN) -> None:
    folder = hosts_folder(jvm)
    with contextlib.ExitStack() as watched:
        ends = [watched.enter_context(end) for file in folder.glob("*.alive") if (end := _end_of_host(file))]
        end_driver(within)
        until = time.monotonic() + within
        while any(map(_lives, folder.glob("*.alive"))) and time.monotonic() < until:
            time.sleep(0.02)
        # a host removes its files and then gives its memory back, which takes a moment
        while ends and time.monotonic() < until:
            ended = readable(ends, until - time.monotonic())
            ends = [end for end in ends if end not in ended]
    with contextlib.suppress(OSError):
        folder.rmdir()


def _lives(alive: Path) -> bool:
    """Whether the host that wrote its process id there has not ended: one that was killed has left its files."""
    try:
        return not is_gone(int(alive.read_text()))
    except (OSError, ValueError):
        return False


def _end_of_host(alive: Path) -> FileIO | None:
    """What becomes readable when the host that wrote its process id there has ended; None where the system has no such thing, or it has ended."""
    with contextlib.suppress(OSError, ValueError):
        return end_of(int(alive.read_text()))
    return None


def run(apps: Sequence[AppText], options: NodeOptions, on_progress: OnProgress | None = None) -> ExitReport:
    """Run apps until each has ended; for one that can be stopped see `Node`."""
    return Node(apps, options, on_progress).run()
