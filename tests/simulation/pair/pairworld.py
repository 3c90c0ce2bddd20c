"""A whole pair from a seed: two nodes, a database, a receiver, clients that send events, an operator, and what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from random import Random
from typing import Any

from paircheck import Watch
from pairdisk import content_of
from pairmachine import PairMachine
from simcheck import Broken
from simloop import Loop, Process
from simnet import NOBODY, Database, Network, Weather, Wires
from simworld import Outcome, hash_of

from nadi.cluster.pair import Role
from nadi.cluster.pair.membership import members_of
from nadi.cluster.rows import InSync, Lease
from nadi.errors import NadiError

STORM = 14_000.0
"""ms in which things go wrong."""
CALM = 60_000.0
"""ms afterwards within which the pair has to be in order again."""
OPERATOR = 9_000.0
"""ms without an active node after which somebody looks."""
CLIENT = "client"


class PairWorld:
    """One pair."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.loop = Loop(Random(seed + 1))
        self.trace = hashlib.sha256()
        self.watch = Watch()
        self.wires = Wires(Random(seed + 2), Weather())
        self.database = Database(lambda: int(1_700_000_000_000 + self.loop.ms))
        self.database.committed = self._committed
        self.net = Network(self.loop, self.wires, lambda name: 1.0)
        self.machines = {name: PairMachine(name, self, Random(hash_of(seed, name))) for name in ("n1", "n2")}
        self.asked: set[str] = set()  # nodes that somebody has promoted
        self.promoted: set[str] = set()  # those of them that have taken over so, and not begun yet
        self.sent = 0
        self.dooms = Counter[str]()  # how often a promotion went over what a node has
        self.sessions = 0  # that have begun
        self.restoring = False  # the database
        self.forgot = False  # the database, at any time, who was in the set
        self.person = Process("person")
        self.busy: set[str] = set()

    def says(self, *what: object) -> None:
        """Something happened; the hash over all of it is what a replay must repeat."""
        self.trace.update(repr((round(self.loop.ms, 3), *what)).encode())

    def _committed(self, rows: Any, change: Any) -> None:
        self.says(change)
        self.watch.committed(rows, change)
        for row in change.put:
            before = rows.get((Lease, ("sp",)))
            if isinstance(row, Lease) and row.owner and (not isinstance(before, Lease) or row.token != before.token):
                self._taken(rows.get((InSync, ("sp",))), self.machines[row.owner], row.holder)

    def _taken(self, sync: Any, machine: PairMachine, holder: str) -> None:
        """Somebody takes over: out of the set, or because it was promoted, or because the database has forgotten who was in it."""
        asks = not machine.process.dead and machine.node.me.incarnation == holder and machine.asks
        if asks and not machine.disk.whole:  # promoted or not: nobody begins to make its copy while it asks
            self.watch.broken(f"{machine.name} takes over with half a copy")
        if self.watch.amnesia:
            self.watch.amnesia = False
            self.promoted.add(machine.name)
            return
        if not isinstance(sync, InSync) or (machine.name, machine.disk.store) in {
            (m.id, m.store) for m in members_of(sync)
        }:
            if not machine.disk.whole and not machine.process.dead and machine.node.me.incarnation == holder:
                self.watch.broken(f"{machine.name} takes over while its copy is being made")
        elif machine.name in self.asked:
            self.promoted.add(machine.name)
        elif not machine.process.dead and machine.node.me.incarnation == holder:
            self.watch.broken(f"{machine.name} takes over, and the in-sync set is {sync.members}")

    def other(self, machine: PairMachine) -> PairMachine:
        return self.machines["n2" if machine.name == "n1" else "n1"]

    def doom(self, machine: PairMachine) -> None:
        """What the other node has, and acknowledges, does not count any more, until it is made equal."""
        other = self.other(machine)
        other.disk.doomed = True
        self.dooms[other.name] += 1

    # ---- clients -------------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """One event, to either node: whoever is active takes it. It is never sent again."""
        self.loop.after(150 + self.dice.random() * 500, self.send, context=NOBODY)
        self.sent += 1
        event = f"e{self.sent}"
        for machine in self.machines.values():
            if not machine.serves:
                continue
            self._request(machine, event)
            return

    def _request(self, machine: PairMachine, event: str) -> None:
        def answered() -> None:
            if not machine.disk.doomed:
                self._all_have(machine, event)
                dooms = self.dooms[machine.name]
                self.net.carry(machine.name, CLIENT, lambda: self._acknowledged(machine.name, dooms, event))

        def arrives() -> None:
            if not machine.process.dead:
                machine.process.context.run(self.loop.call_soon, machine.duties.take, event, answered)

        self.net.carry(CLIENT, machine.name, arrives)

    def _all_have(self, machine: PairMachine, event: str) -> None:
        """Whoever the in-sync set names beside this node has what this one acknowledges: it may take over at any time. A copy of the database from before names
        others, until the node that has more sees that; and where this node is not named itself, the other one was promoted."""
        row = self.database.rows.get((InSync, ("sp",)))
        named = {member.store for member in members_of(row if isinstance(row, InSync) else None)}
        other = self.other(machine).disk
        if self.forgot or not named >= {machine.disk.store, other.store}:
            return
        if event not in {*other.events(), *map(content_of, other.held.values())}:
            self.watch.broken(f"{machine.name} acknowledges {event}, which {other.store} lacks, and that is in the set")

    def _acknowledged(self, who: str, dooms: int, event: str) -> None:
        if dooms != self.dooms[who]:
            return  # a promotion has gone over it while the answer was on its way
        self.says("acknowledged", event)
        self.watch.acknowledged[event] = None
        self.watch.last_acknowledged = self.loop.ms

    # ---- faults --------------------------------------------------------------------------------------------------------

    def boot(self, machine: PairMachine) -> None:
        if machine.process.dead or not machine.starts:
            self.says("boot", machine.name)
            machine.boot()

    def kill(self, machine: PairMachine, loses_disk: bool) -> None:
        if machine.process.dead:
            return
        self.says("kill", machine.name, loses_disk)
        machine.kill()
        if loses_disk:
            machine.disk = machine.empty()

    def as_person(self, work: Any, name: str) -> None:
        self.busy.add(name)
        self.person.context.run(self.loop.spawn, self.person, self._did(work, name))

    async def _did(self, work: Any, name: str) -> None:
        try:
            await work
        except NadiError as reason:
            self.says("refused", name, reason.condition)
        finally:
            self.busy.discard(name)

    # ---- the course of things --------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        from pairstorm import plan

        try:
            for machine in self.machines.values():
                self.loop.after(self.dice.random() * 3_000, self.boot, machine, context=NOBODY)
            NOBODY.run(self.send)
            NOBODY.run(plan, self)
            self.loop.run_until(STORM, self.watch.check)
            NOBODY.run(self._mend)
            ended = self._settle()
            self.says("end")
            return Outcome(self.seed, self.trace.hexdigest(), self.loop.steps, ended)
        finally:
            self.loop.finish()

    def _mend(self) -> None:
        self.says("calm")
        self.wires.cuts.clear()
        self.wires.weather = Weather(store_away=self.restoring)
        for machine in self.machines.values():
            machine.resume()
            machine.wall_error = machine.wall_true
            machine.version = "1"
            if machine.runs == "2":
                self.kill(machine, loses_disk=False)
            self.boot(machine)

    def _settle(self) -> float:
        calm, until, looked = 0, self.loop.ms + CALM, self.loop.ms
        missing = "nothing was looked at"
        while self.loop.ms < until:
            self.loop.run_until(self.loop.ms + 1_000, self.watch.check)
            missing = self.missing()
            calm = 0 if missing else calm + 1
            if calm == 3:
                self._ended()
                return self.loop.ms
            if any(m.serves for m in self.machines.values()):
                looked = self.loop.ms
            elif self.loop.ms - looked > OPERATOR:
                looked = self.loop.ms
                NOBODY.run(self._operate)
        raise Broken(f"not in order {CALM / 1000:.0f} s after the last fault: {missing}")

    def _operate(self) -> None:
        """Nobody is active: somebody promotes the node that has most, and starts the other one again."""
        best = max(self.machines.values(), key=lambda m: (m.disk.whole, len(m.disk.services), m.name))
        self.says("operator", best.name)
        if not best.disk.whole:
            self.kill(best, loses_disk=True)
            self.boot(best)
            return
        self.promote(best)
        other = self.other(best)
        if other.node.beats.alarm is not None:
            self.kill(other, loses_disk=False)
            self.boot(other)

    def promote(self, machine: PairMachine) -> None:
        self.as_person(self.waited(machine, self._promoted(machine)), f"promote {machine.name}")

    async def waited(self, machine: PairMachine, work: Any) -> None:
        """Work in a node's process, for which somebody waits, but not longer than the process lives."""
        process = machine.process
        task: asyncio.Task[None] = self.loop.create_task(work, context=process.context.copy())
        while not task.done() and not process.dead:
            await self.rest(200)
        if task.done():
            task.result()

    async def rest(self, ms: float) -> None:
        done = self.loop.create_future()
        self.loop.after(ms, lambda: done.done() or done.set_result(None), context=NOBODY)
        await done

    async def _promoted(self, machine: PairMachine) -> None:
        """In its process: it says what would be lost, and is told to go on. Somebody waits, but not for a node that has died."""
        self.asked.add(machine.name)
        await machine.node.promote(accept_loss=False)
        await machine.node.promote(accept_loss=True)

    def missing(self) -> str:
        """What is not in order; "" where all is."""
        roles = {name: machine.node.status for name, machine in self.machines.items()}
        active = [name for name, status in roles.items() if status.role is Role.ACTIVE]
        passive = [name for name, status in roles.items() if status.role is Role.PASSIVE]
        if len(active) != 1 or len(passive) != 1:
            return f"the nodes are {roles}"
        if not all(status.in_sync for status in roles.values()):
            return f"not in sync: {roles}"
        alarms = [alarm for status in roles.values() for alarm in status.alarms]
        if alarms:
            return f"{alarms[0]}"
        row = self.database.rows.get((InSync, ("sp",)))
        stores = {machine.disk.store for machine in self.machines.values()}
        if not isinstance(row, InSync) or {member.store for member in members_of(row)} != stores:
            return f"the in-sync set is {row}"
        if self.busy:
            return f"somebody waits: {self.busy}"
        late = self.loop.ms - 3_000
        if self.watch.last_acknowledged < late or self.watch.last_received < late:
            return "nothing is acknowledged, or nothing is received"
        return ""

    def _ended(self) -> None:
        """Both have everything."""
        one, other = (machine.disk for machine in self.machines.values())
        for machine in self.machines.values():
            held = set(map(content_of, machine.disk.held.values()))
            lacks = [e for e in self.watch.acknowledged if e not in {*machine.disk.events(), *held}]
            if lacks:
                raise Broken(f"{machine.name} is in sync and lacks {lacks[:3]}")
        if one.store == other.store:
            raise Broken("both have one store")
        active = next(machine for machine in self.machines.values() if machine.serves)
        self.watch.complete(active.disk, active.name)
        self.watch.check()
