"""What goes wrong in a schedule of the pair, drawn from its seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from pairmachine import RECEIVER
from pairworld import CLIENT, STORM, PairWorld
from simnet import DATABASE, NOBODY, Weather

from nadi.cluster.pair.membership import members_of
from nadi.cluster.rows import InSync

if TYPE_CHECKING:
    from pairmachine import PairMachine


def plan(world: PairWorld) -> None:
    """Set the weather, and a time for each fault."""
    dice = Random(world.seed * 37 + 11)
    world.wires.weather = weather(dice)
    world.says(world.wires.weather)
    for _ in range(1 + int(dice.random() * 7)):
        fault = FAULTS[int(dice.random() * len(FAULTS))]
        world.loop.after(2_000 + dice.random() * (STORM - 3_000), fault, world, Random(dice.random()), context=NOBODY)


def weather(dice: Random) -> Weather:
    """Mostly fine."""
    found = Weather()
    if dice.random() < 0.3:
        found.slowest = dice.random() * 700
    if dice.random() < 0.3:
        found.store_loss = dice.random() * 0.15
    if dice.random() < 0.4:
        found.store_slowest = dice.random() * (
            1_400 if dice.random() < 0.5 else 6_000
        )  # some are made after nobody waits
    return found


def _later(world: PairWorld, ms: float, act: Callable[..., object], *args: object) -> None:
    world.loop.after(ms, act, *args, context=NOBODY)


def _one(world: PairWorld, dice: Random) -> PairMachine:
    """Either node; rather the active one."""
    machines = list(world.machines.values())
    active = [m for m in machines if m.starts and not m.process.dead and m.node.term is not None]
    return active[0] if active and dice.random() < 0.6 else machines[int(dice.random() * 2)]


def kill(world: PairWorld, dice: Random) -> None:
    """A process dies, in some cases with its disk, and comes back."""
    machine = _one(world, dice)
    if machine.starts:
        world.kill(machine, dice.random() < 0.4 and spare(world, machine))
        _later(world, dice.random() ** 2 * 9_000, world.boot, machine)


def spare(world: PairWorld, machine: PairMachine) -> bool:
    """Whether the other disk has everything: a pair does not survive the loss of the only one."""
    row, other = world.database.rows.get((InSync, ("sp",))), world.other(machine)
    return isinstance(row, InSync) and other.disk.store in {m.store for m in members_of(row)}


def kill_both(world: PairWorld, dice: Random) -> None:
    for machine in world.machines.values():
        if machine.starts:
            world.kill(machine, loses_disk=False)
            _later(world, dice.random() * 6_000, world.boot, machine)


def pause(world: PairWorld, dice: Random) -> None:
    """A process, or a whole machine, stands still for a while."""
    machine = _one(world, dice)
    if not machine.starts or machine.process.dead or machine.process.paused:
        return
    world.says("pause", machine.name)
    machine.pause(dice.random() < 0.5)
    _later(world, 300 + dice.random() ** 2 * 7_000, machine.resume)


def _cut(world: PairWorld, dice: Random, one: str, other: str, ms: float) -> None:
    links = [(one, other), (other, one)]
    luck = dice.random()
    cut = links if luck < 0.5 else links[:1] if luck < 0.75 else links[1:]
    world.says("cut", cut)
    world.wires.cuts.update(cut)
    _later(world, ms, world.wires.cuts.difference_update, cut)


def cut_partners(world: PairWorld, dice: Random) -> None:
    """The nodes do not hear each other, or only one way."""
    _cut(world, dice, "n1", "n2", dice.random() ** 2 * 9_000)


def cut_database(world: PairWorld, dice: Random) -> None:
    """One node does not reach the database."""
    _cut(world, dice, _one(world, dice).name, DATABASE, dice.random() ** 2 * 9_000)


def cut_outside(world: PairWorld, dice: Random) -> None:
    """One node does not reach the receiver, or no client."""
    _cut(world, dice, _one(world, dice).name, RECEIVER if dice.random() < 0.5 else CLIENT, dice.random() * 5_000)


def isolate(world: PairWorld, dice: Random) -> None:
    """A node reaches neither the other one nor the database; but, mostly, the receiver and the clients."""
    machine, ms = _one(world, dice), 1_000 + dice.random() * 8_000
    for place in (world.other(machine).name, DATABASE):
        _cut(world, dice, machine.name, place, ms)


def database_away(world: PairWorld, dice: Random) -> None:
    world.says("database away")
    world.wires.weather.store_away = True
    _later(world, dice.random() * 8_000, _database_back, world)


def _database_back(world: PairWorld) -> None:
    world.says("database back")
    world.wires.weather.store_away = world.restoring


def database_old(world: PairWorld, dice: Random) -> None:
    """The database is restored from a copy of some time before."""
    copy = dict(world.database.rows)
    _later(world, 500 + dice.random() * 6_000, _restoring, world, copy)


def _restoring(world: PairWorld, copy: dict[object, object]) -> None:
    """That takes more than a second, which is what tokens count."""
    if world.restoring:
        return
    world.restoring = world.wires.weather.store_away = True
    _later(world, 1_200, _restored, world, copy)


def _restored(world: PairWorld, copy: dict[object, object]) -> None:
    world.says("database restored")
    world.restoring = world.wires.weather.store_away = False
    key = (InSync, ("sp",))
    before, after = world.database.rows.get(key), copy.get(key)
    if not isinstance(before, InSync):
        return
    world.database.rows = dict(copy)  # type: ignore[arg-type]
    if not isinstance(after, InSync) or after.members != before.members:
        world.watch.amnesia = world.forgot = True


def switch(world: PairWorld, dice: Random) -> None:
    """Somebody has the other node go on."""
    machine = _one(world, dice)
    if machine.starts and not machine.process.dead:
        world.as_person(world.waited(machine, machine.node.switch()), f"switch {machine.name}")


def leave(world: PairWorld, dice: Random) -> None:
    """A node is stopped in order, and started again."""
    machine = _one(world, dice)
    if machine.starts and not machine.process.dead:
        world.as_person(_left(world, machine, dice), f"leave {machine.name}")


async def _left(world: PairWorld, machine: PairMachine, dice: Random) -> None:
    process = machine.process
    await world.waited(machine, machine.node.leave())
    if machine.process is process and not process.dead:
        world.kill(machine, loses_disk=False)
        await world.rest(dice.random() * 3_000)
        world.boot(machine)


def promote(world: PairWorld, dice: Random) -> None:
    """Somebody promotes a node, whether that is wise or not."""
    machine = _one(world, dice)
    if machine.starts and not machine.process.dead:
        world.promote(machine)


def clock(world: PairWorld, dice: Random) -> None:
    """A wall clock is set wrong, by up to two minutes or by hours."""
    machine = _one(world, dice)
    machine.wall_error = int((dice.random() - 0.5) * (200_000 if dice.random() < 0.5 else 1e8))
    _later(world, 2_000 + dice.random() * 6_000, setattr, machine, "wall_error", machine.wall_true)


def upgrade(world: PairWorld, dice: Random) -> None:
    """A node comes back with another version for a while."""
    machine = _one(world, dice)
    if machine.starts and not machine.process.dead:
        world.kill(machine, loses_disk=False)
        machine.version = "2"
        _later(world, dice.random() * 2_000, world.boot, machine)


FAULTS: tuple[Callable[[PairWorld, Random], None], ...] = (
    kill, kill, kill, kill, kill_both, pause, pause, pause, cut_partners, cut_partners, cut_partners, cut_database, cut_database, cut_outside,
    isolate, isolate, database_away, database_away, database_old, switch, switch, leave, promote, clock, upgrade,
)  # fmt: skip
