"""Connections between two simulated nodes, and a session over one: in order and without loss as long as they last. A cut way holds everything up, until it is
mended or the connection has had enough of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pairdisk import content_of, slot_of
from simnet import NOBODY

from nadi.eventsync.contract import Hello, PartnerRefuses, SessionOver
from nadi.replica.contract import Record

if TYPE_CHECKING:
    from pairmachine import PairMachine
    from pairworld import PairWorld

AGAIN = 250.0
"""ms after which what a cut way did not carry is tried again."""


class Pipe:
    """A connection. What arrives is handled in the process that it was meant for."""

    def __init__(self, world: PairWorld, one: PairMachine, other: PairMachine) -> None:
        self.world, self.ends = world, (one, other)
        self.processes = (one.process, other.process)
        self.last = [0.0, 0.0]
        self.on_the_way: tuple[deque[Callable[[], None]], ...] = (deque(), deque())  # by the end that has sent it
        self.broken = False
        self.told: list[Callable[[], None] | None] = [None, None]
        self.patience = 2_500 + world.wires.dice.random() * 6_000

    def carry(self, end: int, deliver: Callable[[], None]) -> None:
        """From this end to the other one."""
        wires, loop = self.world.wires, self.world.loop
        at = max(self.last[end], loop.ms + wires.delay(wires.weather.slowest))
        self.last[end] = at + 0.001
        self.on_the_way[end].append(deliver)
        loop.after(at - loop.ms, self._arrive, end, loop.ms, context=NOBODY)

    def _arrive(self, end: int, since: float) -> None:
        if self.broken:
            return
        loop, source, target = self.world.loop, self.ends[end].name, self.ends[1 - end].name
        if not self.world.wires.carries(source, target):
            if loop.ms - since > self.patience:
                self.end()
            else:
                loop.after(AGAIN, self._arrive, end, since, context=NOBODY)
        elif self.processes[1 - end].dead:
            self.end()
        else:
            self.processes[1 - end].context.run(loop.call_soon, self._deliver, end)

    def _deliver(self, end: int) -> None:
        """The oldest that is on its way, whatever has arrived: a loop takes what waits for a paused process in any order, and what a cut held up comes late."""
        self.on_the_way[end].popleft()()

    def end(self) -> None:
        """Both ends hear of it, as soon as they can."""
        if self.broken:
            return
        self.broken = True
        for process, told in zip(self.processes, self.told):
            if told is not None and not process.dead:
                process.context.run(self.world.loop.call_soon, told)


@dataclass(slots=True)
class SimLink:
    """Implements `nadi.eventsync.contract.Link`."""

    world: PairWorld
    machine: PairMachine

    async def open(self, address: str, mine: Hello) -> SimSession:
        other = self.world.machines[address]
        session = SimSession(self.world, self.machine, other, mine.token)
        try:
            session.partner = await session.ask(lambda peer: peer.greets(mine))
        except BaseException:
            session.pipe.end()
            raise
        return session


class SimSession:
    """Implements `nadi.eventsync.contract.Session`."""

    partner: Hello

    def __init__(self, world: PairWorld, mine: PairMachine, other: PairMachine, token: int) -> None:
        self.world, self.mine, self.other, self.token = world, mine, other, token
        self.pipe = Pipe(world, mine, other)
        self.peer = Peer(world, other, self.pipe)
        self.pipe.told[0] = self._over
        self.waiting: list[asyncio.Future[Any]] = []
        self.number = 0
        self.synchronous = False

    def _over(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.done():
                one.set_exception(SessionOver("the connection broke"))

    def tell(self, act: Callable[[Peer], Any], in_order: bool = True) -> asyncio.Future[Any]:
        """Have the other end do something. The future has what it says."""
        answered: asyncio.Future[Any] = self.world.loop.create_future()
        answered.add_done_callback(_heard)
        if self.pipe.broken:
            answered.set_exception(SessionOver("the connection is broken"))
            return answered
        self.waiting.append(answered)

        def back(said: Any) -> None:
            self.pipe.carry(1, lambda: self._answered(answered, said))

        self.pipe.carry(0, lambda: self.peer.handle(act, back, in_order))
        return answered

    def _answered(self, answered: asyncio.Future[Any], said: Any) -> None:
        if answered in self.waiting:
            self.waiting.remove(answered)
        if answered.done():
            return
        if isinstance(said, Exception):
            answered.set_exception(said)
        else:
            answered.set_result(said)

    async def ask(self, act: Callable[[Peer], Any], in_order: bool = True) -> Any:
        return await self.tell(act, in_order)

    copying = False
    """What is sent never waits here for what is copied."""

    # ---- the contract ------------------------------------------------------------------------------------------------

    async def catch_up(self) -> Hello:
        await self.ask(lambda peer: peer.standing())
        services, apps = dict(self.mine.disk.services), dict(self.mine.disk.apps)
        found: Hello = await self.ask(lambda peer: peer.restore(services, apps))
        return found

    async def send(self, record: Record) -> int:
        self.number += 1
        number = self.number
        told = self.tell(lambda peer: peer.log(number, record))
        if self.synchronous:
            await told
        elif self.pipe.broken:
            raise SessionOver("the connection is broken")
        return number

    def confirm(self, number: int) -> None:
        self.tell(lambda peer: peer.confirm(number))

    def abandon(self, number: int) -> None:
        self.tell(lambda peer: peer.abandon(number))

    async def equal(self) -> None:
        await self.ask(lambda peer: peer.complete(self.token))
        self.synchronous = True

    async def beat(self) -> str:
        return str(await self.ask(lambda peer: peer.promise(self.token), in_order=False))

    async def hand_over(self) -> None:
        await self.ask(lambda peer: peer.take(self.token))

    async def close(self) -> None:
        self.pipe.end()


def _heard(answered: asyncio.Future[Any]) -> None:
    """Nobody may wait for it: that is no fault."""
    if not answered.cancelled():
        answered.exception()


class Peer:
    """The passive end: what it is told it does in order, and says when it is on its disk."""

    def __init__(self, world: PairWorld, machine: PairMachine, pipe: Pipe) -> None:
        self.world, self.machine, self.disk, self.pipe = world, machine, machine.disk, pipe
        self.token = 0
        self.restored = False
        self.confirmed: set[int] = set()
        self.queue: list[tuple[Callable[[Peer], Any], Callable[[Any], None]]] = []
        self.working = False

    def handle(self, act: Callable[[Peer], Any], back: Callable[[Any], None], in_order: bool) -> None:
        if not in_order:
            self.world.loop.spawn(self.machine.process, self._do(act, back))
            return
        self.queue.append((act, back))
        if not self.working:
            self.working = True
            self.world.loop.spawn(self.machine.process, self._work())

    async def _work(self) -> None:
        while self.queue:
            await self._do(*self.queue.pop(0))
        self.working = False

    async def _do(self, act: Callable[[Peer], Any], back: Callable[[Any], None]) -> None:
        try:
            back(await act(self))
        except PartnerRefuses as refusal:
            back(refusal)
        except SessionOver:
            return

    async def _write(self, most: float = 4.0) -> None:
        await self.machine.clock.sleep(int(1 + self.world.wires.dice.random() ** 3 * most))

    async def greets(self, active: Hello) -> Hello:
        before = self.machine.peer
        if before is not None:
            before.end()
        mine = self.machine.node.passive.greets(active)
        if not self.machine.node.passive.fits(active):
            self.machine.node.passive.over(active.token)
            return mine
        self.token = active.token
        self.machine.peer = self
        self.world.sessions += 1
        self.pipe.told[1] = self.end
        self.disk.held.clear()
        return mine

    def end(self) -> None:
        if self.machine.peer is self:
            self.machine.peer = None
            self.machine.node.passive.over(self.token)
            self.pipe.end()

    def _lasts(self) -> None:
        if self.machine.peer is not self:
            raise SessionOver("the session is over")

    def _follows(self) -> None:
        """The node still follows, and goes on to: each answer promises it."""
        self._lasts()
        if not self.machine.node.passive.promises(self.token):
            raise PartnerRefuses(self.machine.node.beats.highest.token)

    async def log(self, number: int, record: Record) -> None:
        await self._write()
        self._lasts()
        held = self.disk.held
        for before in [n for n, other in held.items() if slot_of(other) == slot_of(record) and n not in self.confirmed]:
            del held[before]
        held[number] = record
        self._follows()

    async def confirm(self, number: int) -> None:
        self._follows()
        self.confirmed.add(number)
        if self.restored:
            self._apply()

    async def abandon(self, number: int) -> None:
        self._follows()
        self.disk.held.pop(number, None)

    def _apply(self) -> None:
        for number in sorted(self.confirmed & self.disk.held.keys()):
            record = self.disk.held.pop(number)
            self.machine.writes(record)
        self.confirmed.clear()

    async def standing(self) -> None:
        self._follows()
        await self._write(60)

    async def restore(self, services: dict[Any, str], apps: dict[str, str]) -> Hello:
        """Slowly, and not all at once: whoever looks in between finds neither what was nor what will be."""
        self._follows()
        self.disk.services = {slot: text for n, (slot, text) in enumerate(services.items()) if n % 2}
        await self._write(900)
        self._follows()
        self.disk.services, self.disk.apps = dict(services), dict(apps)
        self.disk.doomed = self.world.machines[self.other].disk.doomed
        self.restored = True
        self._apply()
        return self.machine.node.passive.hello()

    @property
    def other(self) -> str:
        return "n2" if self.machine.name == "n1" else "n1"

    async def complete(self, token: int) -> None:
        self._follows()
        self.machine.node.passive.complete(token)

    async def promise(self, token: int) -> str:
        if self.pipe is None:
            raise SessionOver("the session is over")
        if not self.machine.node.passive.promises(token):
            raise PartnerRefuses(self.machine.node.beats.highest.token)
        return self.machine.node.passive.waits()

    async def take(self, token: int) -> None:
        self._follows()
        self.machine.node.passive.takes_over(token)


__all__ = ["Peer", "Pipe", "SimLink", "SimSession", "content_of"]
