"""The instances that a worker runs on its node: what `nadi.cluster` needs of a machine.

An instance ends between two cuts; one that does not so in time is ended with all processes that work for apps, and the others go on in new ones. There is much
time for it (`PATIENCE`), but where the lease of the worker is nearly over.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from nadi.cluster.contract import Haste, StartFailed
from nadi.cluster.messages import Metrics, Order
from nadi.errors import NadiError, error
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.deployer import ACTIVE, INACTIVE, AppStatus
from nadi.server.distributed.membership import incarnation

PATIENCE = 20.0  # seconds that an instance has to end by itself
GENTLE = 2 / 3  # the part of what is left of a lease that it has; the rest is for ending it by force
AT_A_TIME = 8  # instances that are started
OVER = ("failed", "finished", "stopped")

log = structlog.get_logger("nadi.server")


class Host(Protocol):
    """What runs apps: `nadi.pipeline.run.Node`."""

    def add(self, text: AppText, wanted: Callable[[], bool]) -> AppProgress: ...
    def remove(self, name: str, revision: bool = True) -> object: ...
    def break_off(self) -> None: ...


class Preparation(Protocol):
    """What a text goes through before the node gets it: `nadi.server.preparation.AppPreparation`."""

    def name_of(self, text: str) -> str: ...
    def filled(self, text: str, file: str = "") -> AppText: ...


@dataclass(slots=True)
class _Instance:
    """An instance that was ordered. `wanted`: it is to run; `over`: it has ended by itself."""

    order: Order
    wanted: bool = True
    over: bool = False
    reason: str = ""
    since: int = 0
    progress: AppProgress = field(default_factory=lambda: AppProgress(""))


def _begins_where_it_stood(text: AppText, revision: str, since: int) -> None:
    """Errors: NO_PERSISTENCE_STORE."""
    raise error("NO_PERSISTENCE_STORE", reason="this worker keeps no revisions")


class InstanceNode:
    """Implements `nadi.cluster.contract.Node`, in the event loop in which it is first used; `note` may be called from any thread."""

    def __init__(
        self,
        host: Host,
        preparation: Preparation,
        entered: Callable[[AppText], object],
        measured: Callable[[], Metrics] = Metrics,
        begins: Callable[[AppText, str, int], object] = _begins_where_it_stood,
    ) -> None:
        """`entered` hears of each text before it runs; `begins` puts a revision in place of its state where an order says so (`Order.revision`, `since`)."""
        self.incarnation = incarnation()
        self._host = host
        self._preparation = preparation
        self._entered = entered
        self._measured = measured
        self._begins = begins
        self._instances: dict[str, _Instance] = {}
        self._lock = threading.Lock()
        self._starts = ThreadPoolExecutor(AT_A_TIME, "start")
        self._stops = ThreadPoolExecutor(64, "stop")  # none waits for another one
        self._ended: Callable[[str, int, str], None] = lambda _instance, _epoch, _reason: None
        self._drained: Callable[[str, int], None] = lambda _instance, _epoch: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self._ended, self._drained = ended, drained

    def metrics(self) -> Metrics:
        return self._measured()

    def hush(self) -> None:
        """The node is about to end: that its instances do is nothing to tell."""
        self._closed = True

    def close(self) -> None:
        """The node has ended."""
        self._closed = True
        self._starts.shutdown(wait=False, cancel_futures=True)
        self._stops.shutdown(wait=False, cancel_futures=True)

    async def start(self, order: Order) -> None:
        self._loop = asyncio.get_running_loop()
        found = _Instance(order)
        with self._lock:
            self._instances[order.instance] = found
        await self._loop.run_in_executor(self._starts, self._start, found)

    def _start(self, found: _Instance) -> None:
        order = found.order
        try:
            assert order.text is not None  # an order that is started has one
            name = self._preparation.name_of(order.text)
            if name != order.instance:
                raise StartFailed(f"the text of instance '{order.instance}' is that of '{name}'")
            filled = self._preparation.filled(order.text, f"{name}.siddhi")
            text = replace(filled, owner=order.epoch, home=order.home, heritage=order.heritage, drains=order.drain)
            if order.revision:
                self._begins(text, order.revision, order.since)
            self._entered(text)
            self._host.add(text, lambda: found.wanted)
        except NadiError as reason:
            if not found.wanted:
                return  # it was stopped meanwhile, and that is why
            log.warning("instance not started", app=order.instance, epoch=order.epoch, reason=str(reason))
            found.over, found.reason = True, str(reason)
            raise StartFailed(str(reason)) from reason
        found.since = time.time_ns() // 1_000_000
        log.info("instance started", app=order.instance, epoch=order.epoch, drains=order.drain)
        self._look(found)  # it may have come to its end already

    async def stop(self, instance: str, haste: Haste) -> None:
        loop = self._loop = asyncio.get_running_loop()
        with self._lock:
            found = self._instances.get(instance)
            if found is None:
                return
            found.wanted = False
        removing = loop.run_in_executor(self._stops, self._remove, instance)
        if not await _ends(removing, haste):
            log.warning("instance did not stop in time: all processes of apps are ended", app=instance)
            await loop.run_in_executor(self._stops, self._host.break_off)
        await removing
        with self._lock:
            self._instances.pop(instance, None)
        log.info("instance stopped", app=instance, epoch=found.order.epoch)

    def _remove(self, instance: str) -> None:
        try:
            self._host.remove(instance, revision=False)
        except NadiError as reason:
            if reason.condition not in ("APP_NOT_ON_NODE", "NODE_STOPPING"):
                raise

    # ---- what the node tells

    def note(self, progress: AppProgress) -> None:
        """What is told of an instance."""
        with self._lock:
            found = self._instances.get(progress.app)
            if found is None:
                return
            found.progress = progress
        self._look(found)

    def _look(self, found: _Instance) -> None:
        """Tell the worker where an instance has ended by itself."""
        state, crashed = found.progress.state, found.progress.crashed  # what crashed goes on here, with its epoch
        with self._lock:
            if state not in OVER or crashed or not found.wanted or found.over or not found.since:
                return
            found.over, found.reason = True, found.progress.last_error or state
        loop, order = self._loop, found.order
        if loop is None or self._closed:
            return
        if order.drain and state == "finished":
            self._stops.submit(self._let_go, found, loop)
        else:
            _call(loop, self._ended, order.instance, order.epoch, found.reason)

    def _let_go(self, found: _Instance, loop: asyncio.AbstractEventLoop) -> None:
        """An instance has drained: the node has nothing of it any more."""
        order = found.order
        self._remove(order.instance)
        with self._lock:
            if self._instances.get(order.instance) is found:
                del self._instances[order.instance]
        log.info("instance has drained", app=order.instance, epoch=order.epoch)
        if not self._closed:
            _call(loop, self._drained, order.instance, order.epoch)

    def folder_of(self, name: str) -> str:
        """What the folder of an instance is called in the node's state folder."""
        with self._lock:
            found = self._instances.get(name)
            return name if found is None else found.order.home or name

    # ---- for people

    def statuses(self) -> list[AppStatus]:
        """All instances, by name."""
        with self._lock:
            return [_status(name, found) for name, found in sorted(self._instances.items())]

    def status(self, name: str) -> AppStatus | None:
        """One instance."""
        with self._lock:
            found = self._instances.get(name)
            return None if found is None else _status(name, found)

    def starting(self) -> list[str]:
        """Those that nobody knows of yet whether they will run."""
        with self._lock:
            return [name for name, found in sorted(self._instances.items()) if not found.since and not found.over]


def _call(loop: asyncio.AbstractEventLoop, told: Callable[..., object], *given: object) -> None:
    """Have something called in the loop of the worker; nobody hears it where that has ended, and with it the worker."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(told, *given)


async def _ends(removing: asyncio.Future[None], haste: Haste) -> bool:
    """Whether an instance ends by itself in the time that it has."""
    hurried = asyncio.ensure_future(haste.begun.wait())
    try:
        await asyncio.wait((removing, hurried), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done() and not removing.done():
            await asyncio.wait((removing,), timeout=GENTLE * haste.within / 1000)
    finally:
        hurried.cancel()
    return removing.done()


def _status(name: str, found: _Instance) -> AppStatus:
    runs = bool(found.since) and not found.over and found.wanted and found.progress.state != "waiting"
    reason = "" if runs else found.reason or found.progress.last_error
    return AppStatus(name, found.order.text or "", ACTIVE if runs else INACTIVE, reason, found.since, found.progress)
