"""Managers and workers on the machine's clock and a real database, in one process: what the simulator has instead of both is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from servers.emptydatabase import EmptyDatabase

from nadi.cluster.changes import digest_of
from nadi.cluster.contract import Haste, NoAnswer
from nadi.cluster.leases import Candidate
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.manager import Manager
from nadi.cluster.messages import Delete, Deploy, Done, Message, Metrics, Order, PartText
from nadi.cluster.rows import Epoch
from nadi.cluster.settings import Election, Timing, WorkerSettings
from nadi.cluster.sqlstore import SqlStore
from nadi.cluster.worker import Worker

ELECTION = Election(interval=400, polling=400)
TIMING = Timing(interval=500, stop_within=200)


@dataclass
class Wire:
    """A network within a process."""

    served: dict[str, Callable[[Message], Awaitable[Message]]] = field(default_factory=dict)

    async def ask(self, address: str, message: Message, within: int) -> Message:
        if address not in self.served:
            raise NoAnswer("nobody is there")
        try:
            async with asyncio.timeout(within / 1000):
                return await self.served[address](message)
        except TimeoutError:
            raise NoAnswer("late") from None


@dataclass
class Machine:
    """Notes what would run."""

    name: str
    changed: asyncio.Event
    incarnation: str = "1"
    running: dict[str, Order] = field(default_factory=dict)

    async def start(self, order: Order) -> None:
        self.running[order.instance] = order
        self.changed.set()

    async def stop(self, instance: str, haste: Haste) -> None:
        self.running.pop(instance, None)
        self.changed.set()

    def metrics(self) -> Metrics:
        return Metrics(cpu=0.5)

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self.ended = ended


class Together:
    def __init__(self, database: EmptyDatabase) -> None:
        self.wire, self.clock, self.changed = Wire(), MachineClock(), asyncio.Event()
        self.stores: list[SqlStore] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.managers: dict[str, Manager] = {}
        self.machines: dict[str, Machine] = {}
        for name in ("m1", "m2"):
            store = SqlStore(database.address, "sp")
            store.open()
            self.stores.append(store)
            me = Candidate(name, f"{name}-1", name)
            self.managers[name] = Manager(me, self.clock, store, self.wire, ELECTION, TIMING)
            self._run(name, self.managers[name])
        for name in ("w1", "w2"):
            self.machines[name] = Machine(name, self.changed)
            settings = WorkerSettings(name, name, ("m1", "m2"), retry=300)
            self._run(name, Worker(settings, self.clock, self.wire, self.machines[name]))

    def _run(self, name: str, node: Any) -> None:
        self.wire.served[name] = node.answer
        self.tasks[name] = asyncio.create_task(node.run())

    async def kill(self, name: str) -> None:
        del self.wire.served[name]
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until what runs is so."""
        async with asyncio.timeout(100):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def runs(self) -> dict[str, str]:
        """The digest of the text that each instance has. Not its epoch: one that a busy machine let wait for too long is started again, with the next."""
        return {name: order.digest for machine in self.machines.values() for name, order in machine.running.items()}

    def epochs(self) -> dict[str, int]:
        return {name: order.epoch for machine in self.machines.values() for name, order in machine.running.items()}

    async def asked(self, write: Deploy | Delete, of: str) -> tuple[str, int]:
        """What was done, and the version; asked again while nobody leads."""
        while not isinstance(answer := await self.wire.ask(of, write, 5_000), Done):
            await asyncio.sleep(0.05)
        return answer.what, answer.version

    async def close(self) -> None:
        for name in list(self.wire.served):
            await self.kill(name)
        for store in self.stores:
            store.close()


@asynccontextmanager
async def together(database: EmptyDatabase) -> AsyncIterator[Together]:
    made = Together(database)
    try:
        yield made
    finally:
        await made.close()


def test_a_cluster_runs_what_it_is_given_on_a_real_database(database: EmptyDatabase) -> None:
    app = Deploy("A", "app A", tuple(PartText(f"A-g-{n}", "A-g", "text") for n in (1, 2)))

    text, changed = digest_of("text"), digest_of("changed")

    async def walk() -> None:
        async with together(database) as found:
            store = found.stores[1]
            assert await found.asked(app, "m2") == ("created", 1)
            await found.until(lambda: found.runs() == {"A-g-1": text, "A-g-2": text})
            assert {len(machine.running) for machine in found.machines.values()} == {1}
            before = found.epochs()
            leader = next(name for name, manager in found.managers.items() if manager.term is not None)
            other = {"m1": "m2", "m2": "m1"}[leader]
            await found.kill(leader)
            again = Deploy("A", "app A 2", (*app.parts[:1], PartText("A-g-2", "A-g", "changed")))
            assert await found.asked(again, other) == ("updated", 2)
            await found.until(lambda: found.runs() == {"A-g-1": text, "A-g-2": changed})
            after = found.epochs()
            assert after["A-g-1"] >= before["A-g-1"]
            assert after["A-g-2"] > before["A-g-2"]
            assert await found.asked(Delete("A"), other) == ("deleted", 3)
            await found.until(lambda: found.runs() == {})
            kept = {row.instance: row.epoch for row in (await store.read(Epoch)).all(Epoch)}
            assert kept.pop("app:A") == 3
            assert kept.keys() == after.keys()
            assert all(kept[name] >= after[name] for name in after)

    asyncio.run(walk())
