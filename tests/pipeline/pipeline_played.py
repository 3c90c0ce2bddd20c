"""A whole node without Spark: the supervisor, its coordinator and real host processes; threads of the test do for each query what Java does.

with PlayedNode(folder, patch, {"A": text, "B": text}) as node:
    node.put("A", 1)                          # an event into the app's input
    node.until(lambda: node.out("A") == [1])

The process of the test plays the JVM, so hosts are those of `hosts_of_this_process`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from pipeline_bucket import gone, host_pid
from pipeline_testlog import committed

from nadi.metrics import AppProgress
from nadi.pipeline import queries, supervised, supervisor
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.hosting import lane
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.lane import RECEIPT, LaneClient, LaneFailure, Op, Row, decode_rows, encode_bodies
from nadi.pipeline.live import Live, read_live
from nadi.pipeline.node import ExitReport, NodeOptions, node_lock, spread
from nadi.pipeline.query import QueryPlan
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest

HOSTS = 2
WITHIN = 60.0  # seconds, for whatever is waited for
ATTEMPTS = 6  # as in Hosts.java


class PlayedQuery:
    """What Java does for one query, batch by batch, in a thread of its own. Tasks run side by side; who loses a host starts another one and asks again."""

    def __init__(self, plan: QueryPlan, hosts: Hosts) -> None:
        self._plan = plan
        self._hosts = hosts
        self._failure: Exception | None = None
        self._stopped = False
        self.batches: list[int] = []  # how many tasks each had
        self.lastProgress = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    def awaitTermination(self) -> None:  # noqa: N802
        self._thread.join()

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        self._stopped = True

    def _run(self) -> None:
        try:
            self._batches()
        except Exception as reason:
            self._failure = reason

    def _batches(self) -> None:
        at, name = 0, self._plan.run
        with suppress(LaneFailure), LaneClient(self._plan.coordinator) as java, ThreadPoolExecutor(16) as slots:
            while not self._stopped:
                end = lane.decode_number(java.ask(Op.LATEST, lane.encode_latest(name, at)))
                if end == at:
                    return
                tasks = lane.decode_partitions(java.ask(Op.PLAN, lane.encode_plan(name, at, end)))
                self.batches.append(len(tasks))
                rows = [row for told in slots.map(self._read, tasks) for row in told]
                receipts = [bytes(row.body) for row in rows if row.host == RECEIPT]
                spread: dict[int, list[bytes]] = {}
                for row in rows:
                    if row.host != RECEIPT:
                        spread.setdefault(row.host, []).append(bytes(row.body))
                receipts += slots.map(self._write, spread.items())
                java.ask(Op.COMMIT, lane.encode_commit(name, end - 1, receipts))
                at = end

    def _read(self, task: lane.Partition) -> list[Row]:
        def ask(host: LaneClient) -> list[Row]:
            return [row for frame in host.frames(Op.READ, task.request) for row in decode_rows(bytes(frame))]

        return self._asked(task.host, ask)

    def _write(self, given: tuple[int, list[bytes]]) -> bytes:
        return self._asked(given[0], lambda host: host.ask(Op.WRITE, encode_bodies(given[1])))

    def _asked(self, index: int, ask: Callable[[LaneClient], Any]) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._hosts.call(index, {"op": "ping"})  # starts it where it is not there
                with LaneClient(hosts_folder(os.getpid()) / f"{index}.lane") as host:
                    return ask(host)
            except OSError:
                if attempt == ATTEMPTS or self._stopped:
                    raise
                time.sleep(0.02)
        raise AssertionError


_NONE: Mapping[str, str] = {}


class PlayedNode:
    """Apps by their names; a text has `{folder}` where its files are. Its input is the file `in-<name>`, its sink the folder `out-<name>`."""

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        apps: Mapping[str, str],
        engine: str = "pipeline_orders",
        conf: Mapping[str, str] = _NONE,
    ) -> None:
        self.folder = folder
        self.hosts = Hosts(os.getpid(), HOSTS)
        self.queries: dict[str, list[PlayedQuery]] = {}
        self.shown: dict[str, AppProgress] = {}
        self.report: ExitReport | None = None
        self._supervisors: list[supervisor.Supervisor] = []
        self._stop = StopRequest()
        self._play(patch)
        state = folder / "state"
        options = NodeOptions(state, conf=conf, engine=engine, connectors="pipeline_testlog")
        specs = spread([self._spec(name, text, engine) for name, text in apps.items()])
        self._thread = threading.Thread(target=self._supervise, args=(specs, options))

    def _play(self, patch: pytest.MonkeyPatch) -> None:
        for module in (supervisor, supervised):
            patch.setattr(module, "driver_lost", lambda _within=0.0: False)
        patch.setattr(supervisor, "driver_jvm", lambda _session: os.getpid())
        patch.setattr(queries, "own_session", lambda session, _pool: session)

    def _spec(self, name: str, text: str, engine: str) -> AppSpec:
        state = self.folder / "state" / name
        state.mkdir(parents=True)
        (self.folder / f"in-{name}").touch()
        text = text.format(folder=self.folder, name=name)
        more: dict[str, Any] = {
            "outputs": ("Out",),
            "connectors": "pipeline_testlog",
            "engine": engine,
            "order_idle": 0,
        }
        orders = {"orders": str(self.folder / f"orders-{name}")}
        return AppSpec(name, text, str(state), hosts=HOSTS, properties=orders, **more)

    def _start(self, _session: Any, plan: QueryPlan) -> Any:
        made = PlayedQuery(plan, self.hosts)
        self.queries.setdefault(plan.name, []).append(made)
        return made

    def _supervise(self, specs: list[AppSpec], options: NodeOptions) -> None:
        def tell(progress: AppProgress) -> None:
            self.shown[progress.app] = progress

        with node_lock(options.state):
            session: Any = SimpleNamespace(version="4.0")
            self.report = supervisor.supervise(
                session, specs, options, self._stop, tell, self._start, made=self._supervisors.append
            )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for left in (*self.folder.glob("hold-*"), *self.folder.glob("orders-*")):
            left.unlink(missing_ok=True)
        self._stop.set()
        self._thread.join(WITHIN)
        players = [query for several in self.queries.values() for query in several]
        for query in players:
            query.stop()
        self._kill_hosts()
        for query in players:  # one that asked a host may have started it again, and keeps its connection
            query.awaitTermination()
        self._kill_hosts()
        self.hosts.close()
        for process in self.hosts._started:
            process.wait()
        shutil.rmtree(hosts_folder(os.getpid()), ignore_errors=True)
        assert not self._thread.is_alive()

    def _kill_hosts(self) -> None:
        for index in self.up():
            pid = self.pid(index)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                assert gone(pid)

    # ---- what tests do and see

    def stop(self) -> None:
        """Ask the node to stop."""
        self._stop.set()

    def remove(self, name: str) -> None:
        """Undeploy an app while the others go on."""
        self._supervisors[0].remove(name)

    @property
    def coordinator(self) -> Coordinator:
        """That of the node, once there is one."""
        self.until(lambda: bool(self._supervisors))
        return self._supervisors[0]._coordinator

    def ended(self) -> dict[str, str]:
        """How its apps ended, once they have."""
        self._thread.join(WITHIN)
        assert self.report is not None
        return {ended.app: ended.state for ended in self.report.apps}

    def put(self, name: str, *numbers: int) -> None:
        """Events for the input of an app, in one write."""
        path = self.folder / f"in-{name}"
        at = len(path.read_text().splitlines())
        with path.open("a") as out:
            out.write("".join(f"{1_000 + at + i}\t{json.dumps([n])}\n" for i, n in enumerate(numbers)))

    def order(self, name: str, what: str) -> None:
        """What the kernels of an app do from now on (`pipeline_orders`)."""
        fresh = self.folder / f"order.{name}"
        fresh.write_text(what)
        fresh.replace(self.folder / f"orders-{name}")

    def out(self, name: str) -> list[object]:
        """What an app has committed, in order."""
        return [row["total"] for row in committed(self.folder / f"out-{name}")]

    def live(self, name: str) -> Live | None:
        """How an app runs; None where it does not just now."""
        return read_live(self.folder / "state" / name)

    def host_of(self, name: str) -> int:
        """The number of the host that serves it; -1 where it does not run just now."""
        found = self.live(name)
        return -1 if found is None else found.spec.host_of(0)

    def up(self) -> list[int]:
        """The hosts whose files are there."""
        return [int(path.stem) for path in hosts_folder(os.getpid()).glob("*.alive")]

    def pid(self, index: int) -> int | None:
        """The process of a host."""
        return host_pid(self.hosts, index)

    def until(self, holds: Callable[[], bool], also: Callable[[], object] = lambda: None) -> None:
        """Wait until it holds; meanwhile do something else again and again."""
        end = time.monotonic() + WITHIN
        while not holds():
            assert self._thread.is_alive(), self.report
            assert time.monotonic() < end, self.shown
            also()
            time.sleep(0.01)
