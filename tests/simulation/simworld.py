"""A whole cluster from a seed: managers, workers, a database, users who deploy and delete, and what goes wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from simcheck import Broken, Watch
from simloop import Loop, Process
from simmachine import Machine, NodeOf
from simnet import BROKER, DATABASE, NOBODY, Database, FarStore, Network, Weather, Wires

from nadi.cluster.changes import digest_of
from nadi.cluster.contract import NoAnswer
from nadi.cluster.leases import Candidate
from nadi.cluster.manager import Manager
from nadi.cluster.messages import Delete, Deploy, Done, Drain, Message, PartText, Write
from nadi.cluster.rows import Actual, App, AppChange, Drained, Part, Placement, Waiting
from nadi.cluster.settings import Election, Placing, Timing, WorkerSettings
from nadi.cluster.worker import Worker

STORM = 24_000.0
"""ms in which things go wrong."""
CALM = 90_000.0
"""ms afterwards within which everything has to be in order again."""
LATEST = 16_000.0
"""ms after which no message is under way any more."""
TIMING = Timing(steady=3_000, backoff_most=8_000)


@dataclass(slots=True)
class Outcome:
    """What a schedule did. `trace` is a hash over all that happened."""

    seed: int
    trace: str
    steps: int
    ended: float


@dataclass(slots=True)
class User:
    """Someone who deploys and deletes apps, and knows what was acknowledged."""

    desired: dict[str, Deploy] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    drained: dict[str, None] = field(default_factory=dict)
    busy: int = 0


class World:
    """One cluster."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.loop = Loop(Random(seed + 1))
        self.trace = hashlib.sha256()
        self.watch = Watch(lambda: self.loop.ms)
        self.wires = Wires(Random(seed + 2), Weather())
        self.database = Database(lambda: int(1_700_000_000_000 + self.loop.ms))
        self.database.committed = self._committed
        self.net = Network(
            self.loop, self.wires, lambda name: self.machines[name].clock.rate if name in self.machines else 1.0
        )
        self.machines: dict[str, Machine] = {}
        self.managers: dict[str, Manager] = {}
        self.workers: dict[str, Worker] = {}
        self.user = User()
        self.user_process = Process("user")
        self.manager_names = [f"m{n}" for n in range(1, 2 + int(self.dice.random() * 3))]
        self.worker_names = [f"w{n}" for n in range(1, 3 + int(self.dice.random() * 3))]
        algorithm = self._one_of(["round-robin", "least-cpu", "weight"])
        self.placing = Placing(algorithm, least=2 if len(self.worker_names) > 2 and self.dice.random() < 0.5 else 1)
        self.election = Election(group="sp")

    def _one_of(self, what: list[str]) -> str:
        return what[int(self.dice.random() * len(what))]

    def says(self, *what: object) -> None:
        """Something happened; the hash over all of it is what a replay must repeat."""
        self.trace.update(repr((round(self.loop.ms, 3), *what)).encode())

    def _committed(self, rows: object, change: object) -> None:
        self.says(change)
        self.watch.committed(rows, change)  # type: ignore[arg-type]

    # ---- machines ------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        for name in (*self.manager_names, *self.worker_names):
            self.machines[name] = Machine(name, self.loop, Random(hash_of(self.seed, name)), self.wires, self.watch)
            self.boot(name)

    def boot(self, name: str) -> None:
        self.says("boot", name)
        machine = self.machines[name]
        process = machine.boot()
        process.context.run(self._boot, name, machine, process)

    def _boot(self, name: str, machine: Machine, process: Process) -> None:
        if name.startswith("m"):
            store = FarStore(name, self.database, self.loop, self.wires)
            me = Candidate(name, machine.incarnation, name)
            manager = Manager(me, machine.clock, store, self.net.at(name), self.election, TIMING, self.placing)
            self.managers[name] = manager
            self.net.served[name] = (process, manager.answer)
            self.loop.spawn(process, manager.run())
            return
        receiver = name == "w3" and self.seed % 4 == 0
        settings = WorkerSettings(name, name, tuple(self.manager_names), receiver, retry=3_000)
        node = NodeOf(machine, machine.incarnation)
        worker = Worker(settings, machine.clock, self.net.at(name), node, machine.calendar.agree)
        self.workers[name] = worker
        self.net.served[name] = (process, worker.answer)
        self.loop.spawn(process, worker.run())

    def kill(self, name: str) -> None:
        self.says("kill", name)
        self.machines[name].kill()

    def leave(self, name: str, within: int, left: Callable[[bool], None] = lambda _said: None) -> None:
        """A worker leaves in order, and its process ends then; `left` hears whether the leader has said that it may."""
        self.says("leave", name)
        process, worker = self.machines[name].process, self.workers[name]

        async def leave() -> None:
            said = await worker.leave(within)
            self.loop.call_soon(self._left, name, process, said is not None, left, context=NOBODY)

        process.context.run(self.loop.spawn, process, leave())

    def _left(self, name: str, process: Process, said: bool, left: Callable[[bool], None]) -> None:
        if process.dead:
            return  # it was killed at that very moment
        self.says("left", name, said)
        if said:
            self.watch.left(self.machines[name])
        self.kill(name)
        left(said)

    def pause(self, name: str, all_of_it: bool) -> None:
        if not self.machines[name].process.dead:
            self.says("pause", name, all_of_it)
            self.machines[name].pause(all_of_it)

    def resume(self, name: str) -> None:
        self.says("resume", name)
        self.machines[name].resume()

    # ---- users ---------------------------------------------------------------------------------------------------------

    async def ask(self, write: Write) -> None:
        """Ask any manager until one says that it is done."""
        self.user.busy += 1
        link, dice = self.net.at("user"), self.wires.dice
        if isinstance(write, Deploy | Delete):
            write = self._meant(write)
        if isinstance(write, Delete):
            self.watch.deletable.add(write.name)
        while True:
            answer = await self._asked(
                link.ask(self.manager_names[int(dice.random() * len(self.manager_names))], write, 6_000)
            )
            if isinstance(answer, Done):
                break
            await self._rest(300 + dice.random() * 700)
        self.says("done", answer)
        if answer.what == "stale" and isinstance(write, Deploy) and write.base is not None:  # it has become another one
            self.user.busy -= 1
            await self.ask(replace(write, after=None, base=None))
            return
        if answer.what == "stale":
            self.watch.found.append(Broken(f"{write} was found stale: {answer}"))
        if isinstance(write, Deploy | Delete):
            self.user.versions[write.name] = answer.version
        self._acknowledged(write)
        self.user.busy -= 1

    def _meant(self, write: Deploy | Delete) -> Deploy | Delete:
        """A write for the app as it is now: one that is there drains before it becomes another one."""
        write = replace(write, after=self.user.versions.get(write.name, 0))
        there = self.database.rows.get((App, (write.name,)))
        if isinstance(write, Delete):
            return write
        if not isinstance(there, App):
            return replace(write, parts=tuple(replace(p, home=f"{p.instance}~{write.after}") for p in write.parts))
        changing = (AppChange, (write.name,)) in self.database.rows
        before = {r.instance: r for r in self.database.rows.values() if isinstance(r, Part) and r.app == write.name}
        same = before.keys() == {part.instance for part in write.parts}
        if same and not changing and hash_of(write.text) % 3 == 0:
            parts = (
                replace(p, home=before[p.instance].home, heritage=before[p.instance].heritage) for p in write.parts
            )
            return replace(write, parts=tuple(parts), generation=there.generation)
        generation = f"{write.after}"
        homes = ",".join(sorted(part.home for part in before.values()))
        parts = (replace(p, home=f"{p.instance}~{generation}", heritage=homes) for p in write.parts)
        return replace(write, parts=tuple(parts), generation=generation, base=there.version)

    def as_user(self, write: Write) -> None:
        self.loop.spawn(self.user_process, self.ask(write))

    async def _asked(self, asking: object) -> Message | None:
        try:
            return await asking  # type: ignore[misc,no-any-return]
        except NoAnswer:
            return None

    async def _rest(self, ms: float) -> None:
        done = self.loop.create_future()
        self.loop.after(ms, lambda: done.done() or done.set_result(None))
        await done

    def _acknowledged(self, write: Write) -> None:
        """What was acknowledged is in the database at that moment."""
        if isinstance(write, Deploy):
            kind = App if write.base is None else AppChange
            row = self.database.rows.get((kind, (write.name,)))
            if row is None:
                row = self.database.rows.get((App, (write.name,)))  # it has become that one already
            if not isinstance(row, App | AppChange) or row.digest != digest_of(write.text):
                self.watch.found.append(Broken(f"the app {write.name} was acknowledged and is not in the database"))
            self.user.desired[write.name] = write
        elif isinstance(write, Delete):
            if (App, (write.name,)) in self.database.rows:
                self.watch.found.append(Broken(f"the app {write.name} was deleted and is in the database"))
            self.user.desired.pop(write.name, None)
            self.watch.deletable.discard(write.name)

    async def use(self, name: str, dice: Random) -> None:
        """One user's life with one app: deployed, changed, deleted, deployed again."""
        await self._rest(dice.random() * 8_000)
        version = 0
        for _ in range(1 + int(dice.random() * 4)):
            version += 1
            if dice.random() < 0.25 and name in self.user.desired:
                await self.ask(Delete(name))
            else:
                await self.ask(app_of(name, version, dice))
            await self._rest(dice.random() * 9_000)
        if name not in self.user.desired and dice.random() < 0.7:
            await self.ask(app_of(name, version + 1, dice))

    # ---- the course of things --------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        try:
            self.build()
            self.user_process.context.run(self._people)
            NOBODY.run(self._plan_storm)
            NOBODY.run(self._audit)
            self.loop.run_until(STORM, self.watch.check)
            self._calm()
            ended = self._settle()
            self.says("end")
            return Outcome(self.seed, self.trace.hexdigest(), self.loop.steps, ended)
        finally:
            self.loop.finish()

    def _people(self) -> None:
        for n in range(1 + int(self.dice.random() * 3)):
            self.loop.spawn(self.user_process, self.use(f"A{n}", Random(hash_of(self.seed, n))))

    def _audit(self) -> None:
        """No app is forgotten, at any time: each instance lies somewhere, or its app waits."""
        self.loop.after(700, self._audit)
        rows = self.database.rows
        for row in list(rows.values()):
            if not isinstance(row, Part) or (Drained, (row.instance,)) in rows:
                continue
            if (Placement, (row.instance,)) not in rows and (Waiting, (row.app,)) not in rows:
                self.watch.found.append(Broken(f"{row.instance} lies nowhere, and {row.app} does not wait"))

    def _plan_storm(self) -> None:
        from simstorm import plan

        plan(self)

    def _calm(self) -> None:
        """Everything that was broken is repaired."""
        self.says("calm")
        self.wires.cuts.clear()
        self.wires.weather = self._set_weather(Weather())
        for name in self.user.drained:  # once no request to drain can come late any more
            self.user_process.context.run(self.loop.after, LATEST, self.as_user, Drain(name, on=False))
        for name, machine in self.machines.items():
            machine.fails = 0.0
            if machine.process.dead:
                self.boot(name)
            elif machine.process.paused:
                self.resume(name)

    def _set_weather(self, weather: Weather) -> Weather:
        self.says(weather)
        return weather

    def _settle(self) -> float:
        """Wait until all is in order, and stays so; what is missing then is what the schedule found."""
        calm, until = 0, self.loop.ms + CALM
        missing = "nothing was looked at"
        if self.user.drained:
            self.loop.run_until(self.loop.ms + LATEST, self.watch.check)
        while self.loop.ms < until:
            self.loop.run_until(self.loop.ms + 1_000, self.watch.check)
            missing = self.missing()
            calm = 0 if missing else calm + 1
            if calm == 3:
                return self.loop.ms
        raise Broken(f"not in order {CALM / 1000:.0f} s after the last fault: {missing}")

    def missing(self) -> str:
        """What is not as users want it; "" where all is."""
        if self.user.busy:
            return "a user waits for an answer"
        rows = self.database.rows.values()
        apps = {row.name: row for row in rows if isinstance(row, App)}
        if {n: r.digest for n, r in apps.items()} != {n: digest_of(d.text) for n, d in self.user.desired.items()}:
            return f"the database has the apps {sorted(apps)}, users want {sorted(self.user.desired)}"
        waiting = [row for row in rows if isinstance(row, Waiting)]
        if waiting:
            return f"{waiting[0]}"
        wanted = {part.instance: (app.name, part) for app in self.user.desired.values() for part in app.parts}
        if {row.instance for row in rows if isinstance(row, Part)} != wanted.keys():
            return "the database has other instances than users want"
        said = {row.instance: (row.worker, row.epoch, row.state) for row in rows if isinstance(row, Actual)}
        runs = {name: (w, p.epoch, "running") for name, where in self.watch.running.items() for w, p in where.items()}
        if said != runs:
            return f"the database says that {said} is so, and it is {runs}"
        placed = {row.instance: row for row in rows if isinstance(row, Placement)}
        if placed.keys() != wanted.keys():
            return f"placed are {sorted(placed)}, wanted are {sorted(wanted)}"
        return self._not_running(wanted, placed)

    def _not_running(self, wanted: dict[str, tuple[str, PartText]], placed: dict[str, Placement]) -> str:
        running = {name: where for name, where in self.watch.running.items() if where}
        if running.keys() != wanted.keys():
            return f"running are {sorted(running)}, wanted are {sorted(wanted)}"
        for instance, (_app, part) in sorted(wanted.items()):
            row, where = placed[instance], running[instance]
            if not row.wanted or list(where) != [row.worker]:
                return f"{instance} runs on {sorted(where)}, the database has {row}"
            found = where[row.worker]
            if found.epoch != row.epoch or found.digest != digest_of(part.text):
                return f"{instance} runs with epoch {found.epoch}, the database has {row}"
            if self.loop.ms - self.watch.receiver.last.get(instance, -1e9) > 3_000:
                return f"nothing of {instance} is accepted"
        return ""

    def reach(self, source: str, target: str) -> list[tuple[str, str]]:
        """Both ways between two places."""
        return [(source, target), (target, source)]

    @property
    def places(self) -> list[str]:
        return [*self.machines, DATABASE, BROKER]


def app_of(name: str, version: int, dice: Random) -> Deploy:
    """An app of some groups; a later version shares instances with the one before, or not."""
    parts = []
    for group in range(1 + int(dice.random() * 2)):
        changed = version if dice.random() < 0.5 else 0
        for n in range(1 + int(dice.random() * 2)):
            receiver = group == 0 and dice.random() < 0.3
            parts.append(
                PartText(f"{name}-g{group}-{n + 1}", f"{name}-g{group}", f"text {name} {group} {changed}", receiver)
            )
    return Deploy(name, f"{name} {version}", tuple(parts))


def hash_of(*what: object) -> int:
    """A number that is the same in every process (`hash` is not)."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:6], "big")


__all__ = ["Outcome", "World", "app_of"]
