"""A simulated node: its clocks, its disk, its process, and what an app does there: it takes events, makes cuts of them, and gives outputs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pairdisk import CUTS, Disk, content_of, slot_of
from pairlink import Peer, SimLink
from simloop import Process
from simmachine import MachineClock
from simnet import NOBODY, FarStore

from nadi.cluster.leases import Candidate
from nadi.cluster.pair import PairNode, PairSettings
from nadi.errors import NadiError
from nadi.eventsync.contract import Hello
from nadi.replica.contract import JournalAppend, Record, Statements

if TYPE_CHECKING:
    from pairworld import PairWorld

SUBJECTS = ("s1", "s2")
CUTS_EVERY = 800
PUBLISHES_EVERY = 600.0
WARMS = 1_500.0  # ms from the start of a process until it could go on at once
RECEIVER = "receiver"


class PairMachine:
    """`node` and `duties` are those of the process that runs now."""

    node: PairNode
    duties: SimDuties

    def __init__(self, name: str, world: PairWorld, dice: Random) -> None:
        self.name, self.world, self.dice = name, world, dice
        self.clock = MachineClock(world.loop, 1 + (dice.random() - 0.5) * 0.018, dice.random() * 1e9)
        self.wall_error = self.wall_true = int((dice.random() - 0.5) * 120_000)
        self.settings = PairSettings()
        self.version = self.runs = "1"  # that is installed, and that runs
        self.process = Process(name)
        self.frozen = False
        self.starts = 0
        self.disk = self.empty()
        self.peer: Peer | None = None  # the session that it follows in

    def empty(self) -> Disk:
        return Disk(f"{self.name}-{int(self.dice.random() * 1e12):x}")

    def boot(self) -> None:
        self.starts += 1
        self.runs = self.version
        self.process = Process(self.name)
        self.process.context.run(self._boot)

    def _boot(self) -> None:
        world = self.world
        me = Candidate(self.name, f"{int(1e6 + world.loop.ms):013d}-{self.starts}", self.name)
        store = FarStore(self.name, world.database, world.loop, world.wires, self.settings.answers_within)
        self.duties = SimDuties(self)
        self.peer = None
        self.node = PairNode(
            me, self.settings, self.clock, self.wall, store, self.disk, SimLink(world, self), self.duties, self.describe
        )  # fmt: skip
        world.loop.spawn(self.process, self.node.run())

    @property
    def serves(self) -> bool:
        """Whether it takes events."""
        return self.starts > 0 and not self.process.dead and self.duties.open

    @property
    def asks(self) -> bool:
        """Whether it waits for the database to let it take over."""
        return self.node._taking

    def wall(self) -> int:
        return int(1_700_000_000_000 + self.world.loop.ms + self.wall_error)

    def describe(self) -> Hello:
        return Hello("", "", "", 0, self.runs, "1", "s", dict(self.disk.apps))

    def writes(self, record: Record) -> None:
        """A service takes it, durably."""
        self.world.watch.wrote(self.disk, slot_of(record), content_of(record), self.name)

    def kill(self) -> None:
        self.process.dead = True
        self.frozen = False
        self.duties.gone()
        if self.peer is not None:
            self.peer.pipe.end()

    def pause(self, all_of_it: bool) -> None:
        self.process.paused, self.frozen = True, all_of_it

    def resume(self) -> None:
        if self.process.paused:
            self.frozen = False
            self.world.loop.resume(self.process)


@dataclass(eq=False, slots=True)
class Publisher:
    """What gives outputs: a process of its own, which goes on while the node's is paused."""

    machine: PairMachine
    epoch: int
    name: str
    over: bool = False

    def publish(self) -> None:
        machine, world = self.machine, self.machine.world
        if self.over:
            return
        world.loop.after(PUBLISHES_EVERY, self.publish, context=NOBODY)
        if machine.frozen or not world.wires.carries(machine.name, RECEIVER):
            return
        if not world.watch.receives(self.epoch, self.name, machine.disk.cuts(), world.loop.ms):
            self.over = True


class SimDuties:
    """Implements `nadi.eventsync.contract.Duties`."""

    def __init__(self, machine: PairMachine) -> None:
        self.machine = machine
        self.open = False
        self.activations = 0
        self.publisher: Publisher | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.locks: dict[str, asyncio.Lock] = {}
        self.warm_at = machine.world.loop.ms + WARMS

    def waits(self) -> str:
        return "Spark starts" if self.machine.world.loop.ms < self.warm_at else ""

    async def activate(self, token: int) -> None:
        machine, disk = self.machine, self.machine.disk
        world, dice = machine.world, machine.dice
        self.activations += 1
        if machine.peer is not None:
            machine.peer.end()  # nothing is held back any more from now on
        lossy = machine.name in world.promoted
        await machine.clock.sleep(int(10 + dice.random() ** 2 * 300))
        if lossy:
            # First: where this one held something back, the other one may have written something else, and that is lost.
            world.promoted.discard(machine.name)
            world.watch.lose(disk)
            world.doom(machine)
        for _number, record in sorted(disk.held.items()):
            machine.writes(record)
        disk.held.clear()
        world.says("active", machine.name, token)
        disk.apps.setdefault("A", "d1")  # the first one of a pair is given it
        if self.has_right():  # one that stood still meanwhile may have lost it: nobody takes what it gives
            world.watch.begins(disk, machine.name)
        self.locks = {subject: asyncio.Lock() for subject in SUBJECTS}
        name = f"{machine.name}/{machine.starts}/{self.activations}"
        self.publisher = Publisher(machine, token, name)
        self._task(self._cuts())
        await machine.clock.sleep(int(10 + dice.random() ** 2 * 600))
        self.open = True
        NOBODY.run(self.publisher.publish)

    def has_right(self) -> bool:
        term = self.machine.node.term
        return term is not None and term.right.valid(self.machine.clock.now())

    def hurry(self) -> None:
        """Its app begins in a moment."""

    async def deactivate(self, gentle: bool) -> None:
        machine = self.machine
        self.open = False
        if gentle:
            for lock in self.locks.values():
                async with lock:
                    await machine.clock.sleep(1)
        for task in list(self.tasks):
            task.cancel()
        await machine.clock.sleep(int(5 + machine.dice.random() ** 2 * 400))
        self.gone()
        machine.world.says("passive", machine.name)

    def gone(self) -> None:
        if self.publisher is not None:
            self.publisher.over = True

    def _task(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.machine.world.loop.spawn(self.machine.process, work)  # type: ignore[arg-type]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # ---- the app -----------------------------------------------------------------------------------------------------

    def take(self, event: str, answer: object) -> None:
        """A request of a client."""
        if self.open:
            self._task(self._take(event, answer))

    async def _take(self, event: str, answer: object) -> None:
        machine, world = self.machine, self.machine.world
        subject = SUBJECTS[int(machine.dice.random() * len(SUBJECTS))]
        try:
            async with self.locks[subject]:
                await self.write(JournalAppend("S", b"", subject, machine.disk.next(subject), {}, event.encode()))
        except NadiError as reason:
            world.says("refused", reason.condition)
            return
        answer()  # type: ignore[operator]

    async def _cuts(self) -> None:
        """One cut after the other, of what the journal has."""
        machine = self.machine
        while True:
            disk = machine.disk
            text = " ".join(f"{subject}:{disk.next(subject) - 1}" for subject in SUBJECTS)
            try:
                await self.write(Statements(disk.next(CUTS), [(text, b"")]))
            except NadiError as reason:
                machine.world.says("no cut", reason.condition)
            await machine.clock.sleep(CUTS_EVERY)

    async def write(self, record: Record) -> None:
        """As writers do: prepared, written, confirmed. One that ends in between leaves it to the service to say whether it has it."""
        machine = self.machine
        ticket = await machine.node.prepare(record)
        try:
            luck = machine.dice.random()
            await machine.clock.sleep(int(1 + luck**8 * 400))
            if luck < 0.03:
                raise NoDisk
            machine.writes(record)
            if luck > 0.9:
                await machine.clock.sleep(int(luck * 40))
        except NoDisk:
            machine.node.abandon(ticket)
            await self.write(record)  # the same place again
            return
        except asyncio.CancelledError:
            has = machine.disk.services.get(slot_of(record)) == content_of(record)
            (machine.node.confirm if has else machine.node.abandon)(ticket)
            raise
        machine.node.confirm(ticket)


class NoDisk(Exception):
    """The local write failed."""
