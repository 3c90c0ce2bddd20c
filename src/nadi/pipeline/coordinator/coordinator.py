"""The coordinator of a node: looks at the groups that ring, hands their cuts to the queries that carry them, and commits what comes back.

    inputs ring ──► schedule ──► one thread ──► workers: cuts ──► queries ◄── Java: next batch?, tasks?, commit

Java asks over a Unix socket (`nadi.pipeline.hosting.lane`). A group that is slow, whose inputs are away or whose sinks wait holds up a worker of its own and
nobody else. Nothing polls: where no input rings and no timer is due, all of this sleeps.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from nadi.config.settings import KERNEL as KERNEL_OF_APPS
from nadi.errors import error
from nadi.pipeline.coordinator.group import PENDING_LOOK, Group, Stage
from nadi.pipeline.coordinator.hostwatch import HostWatch
from nadi.pipeline.coordinator.run import QueryRun
from nadi.pipeline.coordinator.schedule import Schedule
from nadi.pipeline.coordinator.watchdog import WITHIN
from nadi.pipeline.hosting import lane
from nadi.pipeline.hosting.atwork import KERNEL, app_of
from nadi.pipeline.hosting.doors import Door
from nadi.pipeline.hosting.seats import Seat
from nadi.pipeline.hosting.standby import FIRST_AFTER, Standby
from nadi.pipeline.hosting.turns import Turns

Spares = tuple[int, Path]
"""The process of a node's JVM, and the folder with the logs of its hosts: what it takes to have a process stand by."""
WORKERS = 1_000  # threads at most: one for each group that is looked at or commits; they are made when needed


class Coordinator:
    """Works from its making to `close`. `folder` is for its socket, private to the user. On a cluster it has a door besides, (name of this machine, token), at
    which hosts ring. A kernel that is at one cut for more than `within` seconds is taken for one that loops."""

    def __init__(
        self,
        folder: Path,
        door: tuple[str, str] | None = None,
        spares: Spares | None = None,
        within: float = WITHIN,
    ) -> None:
        self.socket = folder / lane.COORDINATOR
        self._schedule: Schedule[Group | None] = Schedule()
        self._runs: dict[str, QueryRun] = {}
        self._of: dict[Group, QueryRun] = {}
        self._seats: dict[tuple[str, str], dict[int, Seat]] = {}
        self._lock = threading.Lock()
        self._count = itertools.count(1)
        self._over = False
        self._standby = None if spares is None else Standby(folder, *spares, self._needs)
        self._workers = ThreadPoolExecutor(WORKERS, "group")
        self._turns = Turns()
        self._hosts = HostWatch(folder, self._died, self._patience, within)
        self._server = lane.LaneServer(self.socket, self._answer)
        self._door = None if door is None else Door(*door, self._rung)
        self._bell = str(self.socket) if self._door is None else self._door.bell
        self._thread = threading.Thread(target=self._watch, name="coordinator", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; groups are closed by who opened them."""
        self._over = True
        self._hosts.close()
        if self._standby is not None:
            self._standby.close()
        for run in list(self._runs.values()):
            run.end()
        self._schedule.ring(None)
        self._thread.join()
        self._server.close()
        if self._door is not None:
            self._door.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    # ---- queries and groups

    def begin_run(self, name: str, spread: bool) -> QueryRun:
        """A run of a query that is about to start."""
        run = QueryRun(f"{next(self._count)}", name, spread, self._work, self._look, self._bell)
        with self._lock:
            self._runs[run.name] = run
        return run

    def end_run(self, run: QueryRun) -> None:
        """Its query is over."""
        run.end()
        with self._lock:
            self._runs.pop(run.name, None)

    def enter(self, group: Group, run: QueryRun) -> None:
        """Have a run of a query carry a group from now on."""
        self._hosts.admit(group.spec.id)
        with self._lock:
            self._of[group] = run
            group.sit(self._seats.setdefault((group.spec.state, group.spec.group), {}))
            several = len(self._of) > 1
        if several and self._standby is not None:
            self._standby.want(FIRST_AFTER)
        run.enter(group)
        group.wake(partial(self.ring, group))
        self.ring(group)

    def leave(self, group: Group) -> None:
        """Let a group go."""
        with self._lock:
            run = self._of.pop(group, None)
        self._schedule.forget(group)
        if run is not None:
            run.leave(group)

    def computes(self, group: Group) -> bool:
        """Whether a kernel of a group computes now, or its hosts have died of the cut that is under way: nobody knows whether either comes to an end."""
        return group.crashed or self._hosts.computes(group.spec.id)

    def abandon(self, group: Group) -> None:
        """Let go of a group whose kernel comes to no end: nothing is asked of it any more, and the host in which it computes is killed."""
        self.leave(group)
        self._hosts.leave(group.spec.id)

    def ring(self, group: Group) -> None:
        """Something may have come for a group. Cheap, from any thread."""
        group.rung = True
        if group.stage is Stage.IDLE:
            self._schedule.ring(group)

    def _work(self, call: Callable[..., None], *given: object) -> Future[None]:
        """Have a worker do something for a group, in its turn."""
        return self._workers.submit(self._turns.take, call, *given)

    # ---- looking

    def _watch(self) -> None:
        """The one thread: sends workers to the groups that rang, or whose time has come."""
        while not self._over:
            for group in self._schedule.next():
                run = None if group is None else self._of.get(group)
                if group is None or run is None:
                    continue
                if group.stage is Stage.READY:
                    run.ready(group)
                else:
                    self._work(self._look, group)

    def _look(self, group: Group) -> None:
        """Make the next cut of a group, or see to it that somebody looks again."""
        if group.stage is Stage.READY:  # a host is still at its cut: it rings, if it lives
            self._schedule.at(group.look_at, group)
            return
        while True:
            if group.look():
                run = self._of.get(group)
                if run is not None:
                    run.ready(group)
                return
            if group.stage is not Stage.IDLE or group.halted:
                return
            if not group.rung:  # what rang while it was looked at may have been missed
                self._schedule.at(group.look_at, group)
                return

    # ---- Java's questions

    def _answer(self, request: lane.Request) -> bytes:
        """One request over the lane."""
        if request.op is lane.Op.LATEST:
            name, start = lane.decode_latest(request.payload)
            return lane.encode_number(self._run(name).latest(start, request.gone))
        if request.op is lane.Op.PLAN:
            name, _start, end = lane.decode_plan(request.payload)
            return lane.encode_partitions(self._run(name).tasks(end))
        if request.op is lane.Op.COMMIT:
            name, _batch, receipts = lane.decode_commit(request.payload)
            self._run(name).commit(receipts)
            return b""
        if request.op is lane.Op.WAKE:
            self._wake(bytes(request.payload).decode())
            return b""
        if request.op is lane.Op.HELLO:
            self._hosts.attend(request)
            return b""
        raise error("HOST_FAILED", operation=request.op.name, reason="the coordinator does not do that")

    def _rung(self, request: lane.Request) -> bytes:
        """What is asked at the door."""
        if request.op is not lane.Op.WAKE:
            raise ValueError(f"the coordinator is not asked for {request.op.name} from elsewhere")
        return self._answer(request)

    def _run(self, name: str) -> QueryRun:
        with self._lock:
            found = self._runs.get(name)
        if found is None:
            raise error("SPARK_FAILED", app=name, reason="its run is over", log="")
        return found

    def _wake(self, app: str) -> None:
        """A host has done what it had told as pending."""
        with self._lock:
            found = [(group, run) for group, run in self._of.items() if group.spec.id == app]
        for group, run in found:
            group.woken = True
            run.ready(group)

    def _patience(self, note: str) -> float:
        """How many times the usual time a kernel may take for what a note says; a cut that was tried, so that each of its messages comes to an end, as long as
        it takes."""
        with self._lock:
            return max((group.patience(note) for group in self._of if group.spec.id == app_of(note)), default=1.0)

    def _needs(self) -> list[dict[str, Any]]:
        """What hosts load for the apps that run."""
        with self._lock:
            specs = [group.spec for group in self._of]
        return [
            {"text": s.text, "outputs": s.outputs, "columns": s.properties.get(KERNEL_OF_APPS, "rows") != "rows"}
            for s in specs
        ]

    def _died(self, host: int, at_work: tuple[str, ...], looped: bool) -> None:
        """A host has ended: what it told as pending is asked again, of the next one; those that were at work in it are noted. Who is suspected is not asked
        for where others are served, too: it is on its way to hosts of its own."""
        with self._lock:
            found = [(group, run) for group, run in self._of.items() if host in group.spec.served_by]
        computing = {app_of(note) for note in at_work if note.startswith(KERNEL)}
        for group, _ in found:
            if group.spec.id in at_work:
                group.crash(at_work, computing == {group.spec.id}, looped)
        if self._standby is not None and any(host < group.spec.hosts for group, _ in found):
            self._standby.take(host)
        for group, run in found:
            group.woken = True
            if group.is_suspect:
                self._schedule.at(time.monotonic() + PENDING_LOOK, group)
            else:
                run.ready(group)
