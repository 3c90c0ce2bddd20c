"""A machine of the simulated cluster: its clock, the partial apps that run there, and what kills, pauses and restarts it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from simcheck import Watch
from simloop import Loop, Process
from simnet import BROKER, NOBODY, Wires

from nadi.cluster.contract import Haste, StartFailed
from nadi.cluster.messages import Metrics, Order
from nadi.io.wallclock import WallClock

PUBLISHES_EVERY = 900.0
STOP_WITHIN = 1_400
PATIENCE = 6_000  # ms that an instance may take to end where there is no hurry


@dataclass(slots=True)
class MachineClock:
    """Implements `nadi.cluster.contract.Clock`: it starts anywhere and is a little fast or slow."""

    loop: Loop
    rate: float
    offset: float

    def now(self) -> int:
        return int(self.offset + self.loop.ms * self.rate)

    async def sleep(self, ms: int) -> None:
        done = self.loop.create_future()
        timer = self.loop.after(ms / self.rate, _wake, done)
        try:
            await done
        finally:
            timer.cancel()


def _wake(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for what comes first."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class Publisher:
    """An instance that runs: it publishes with its epoch, and ends when the receiver refuses it. It goes on while the worker's process is paused, unless all of
    the machine is."""

    __slots__ = ("digest", "drains", "epoch", "heritage", "home", "instance", "machine", "name", "timer")

    def __init__(self, machine: Machine, order: Order, name: str) -> None:
        self.machine, self.instance, self.epoch, self.digest, self.name = (
            machine,
            order.instance,
            order.epoch,
            order.digest,
            name,
        )
        self.home, self.heritage, self.drains = order.home, order.heritage, order.drain
        machine.watch.started(self)
        self._wait(0.0)
        if self.drains:
            machine.loop.after(50 + machine.dice.random() ** 2 * 4_000, self.drain, context=NOBODY)

    def _wait(self, ms: float) -> None:
        self.timer = self.machine.loop.after(ms, self.publish, context=NOBODY)

    def publish(self) -> None:
        machine = self.machine
        self._wait(PUBLISHES_EVERY)
        if machine.frozen:
            return
        machine.watch.published(self)
        if machine.wires.carries(machine.name, BROKER) and not machine.watch.accepts(self):
            machine.ended(self, "a higher epoch was accepted")

    def drain(self) -> None:
        """It has taken all that it had."""
        if self.machine.frozen:
            self.machine.loop.after(500, self.drain, context=NOBODY)
        elif self.machine.runs.get(self.instance) is self:
            self.machine.drained(self)

    def end(self) -> None:
        self.timer.cancel()
        self.machine.watch.ended(self)


class Machine:
    """Implements `nadi.cluster.contract.Node` for the worker on it (managers only use its clock)."""

    def __init__(self, name: str, loop: Loop, dice: Random, wires: Wires, watch: Watch) -> None:
        self.name, self.loop, self.dice, self.wires, self.watch = name, loop, dice, wires, watch
        self.clock = MachineClock(loop, 1 + (dice.random() - 0.5) * 0.018, dice.random() * 1e9)
        self.wall = dice.random() * 60_000  # how wrong its calendar is
        self.calendar = WallClock(lambda: int(1_700_000_000_000 + self.wall + loop.ms))
        self.process = Process(name)
        self.starts = 0
        self.incarnation = ""
        self.frozen = False  # all of the machine is paused
        self.resumed = -1e9
        self.fails = 0.0  # the chance that an instance cannot be started
        self._running: dict[str, Publisher] = {}
        self._told: Callable[[str, int, str], None] | None = None
        self._told_drained: Callable[[str, int], None] | None = None

    def boot(self) -> Process:
        """A new process; what ran before has ended."""
        self.starts += 1
        self.process = Process(self.name)
        self.incarnation = f"{int(1e6 + self.wall + self.loop.ms):013d}-{self.starts}-{int(self.dice.random() * 1e6)}"
        self._told = self._told_drained = None
        return self.process

    def kill(self) -> None:
        self.process.dead = True
        self.frozen = False
        for publisher in list(self._running.values()):
            publisher.end()
        self._running.clear()

    def pause(self, all_of_it: bool) -> None:
        self.process.paused, self.frozen = True, all_of_it

    def resume(self) -> None:
        if self.process.paused:
            self.resumed, self.frozen = self.loop.ms, False
            self.loop.resume(self.process)

    # ---- the contract ------------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        await self.clock.sleep(int(20 + self.dice.random() ** 2 * 900))
        if self.dice.random() < self.fails:
            raise StartFailed("no luck")
        self._running[order.instance] = Publisher(self, order, f"{self.name}/{self.incarnation}/{self.loop.steps}")

    async def stop(self, instance: str, haste: Haste) -> None:
        luck = self.dice.random()
        if self.dice.random() < 0.1:  # what it is about takes long
            await _first(self.clock.sleep(int(self.dice.random() * PATIENCE)), haste.begun.wait())
        await self.clock.sleep(STOP_WITHIN if luck < 0.2 else int(10 + luck**2 * (STOP_WITHIN - 10)))
        found = self._running.pop(instance, None)
        if found is not None:
            found.end()

    def metrics(self) -> Metrics:
        return Metrics(cpu=0.1)

    def watch_ends(self, told: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self._told, self._told_drained = told, drained

    def drained(self, publisher: Publisher) -> None:
        """An instance has drained; the worker is told."""
        del self._running[publisher.instance]
        self.watch.drained(publisher)
        publisher.end()
        told = self._told_drained
        if told is not None:
            self.loop.after(0, told, publisher.instance, publisher.epoch, context=self.process.context)

    def ended(self, publisher: Publisher, reason: str) -> None:
        """An instance ends by itself; the worker is told, as soon as its process can hear it."""
        if self._running.get(publisher.instance) is not publisher:
            return
        del self._running[publisher.instance]
        publisher.end()
        if self._told is not None:
            self.loop.after(0, self._told, publisher.instance, publisher.epoch, reason, context=self.process.context)

    def crash_one(self) -> None:
        """One of its instances dies."""
        if self._running and not self.process.paused:
            names = sorted(self._running)
            self.ended(self._running[names[int(self.dice.random() * len(names))]], "it crashed")

    @property
    def runs(self) -> dict[str, Publisher]:
        return self._running


@dataclass(slots=True)
class NodeOf:
    """The machine as `nadi.cluster.contract.Node`, for one process on it."""

    machine: Machine
    incarnation: str

    async def start(self, order: Order) -> None:
        await self.machine.start(order)

    async def stop(self, instance: str, haste: Haste) -> None:
        await self.machine.stop(instance, haste)

    def metrics(self) -> Metrics:
        return self.machine.metrics()

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self.machine.watch_ends(ended, drained)
