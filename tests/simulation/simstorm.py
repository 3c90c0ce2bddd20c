"""What goes wrong in a schedule, drawn from its seed: machines die, freeze and come back, links are cut, the database is away."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from simnet import BROKER, DATABASE, NOBODY, Weather

from nadi.cluster.messages import Drain, Move, Restart

if TYPE_CHECKING:
    from simworld import World

from simworld import STORM

LEAVES_WITHIN = 12_000
"""ms after which a worker that is stopped ends in any case."""


def plan(world: World) -> None:
    """Set the weather, and a time for each fault."""
    dice = Random(world.seed * 31 + 7)
    world.wires.weather = world._set_weather(weather(dice))
    for name in world.worker_names:
        world.machines[name].fails = 0.3 if dice.random() < 0.2 else 0.0
    for _ in range(2 + int(dice.random() * 8)):
        fault = FAULTS[int(dice.random() * len(FAULTS))]
        world.loop.after(1_000 + dice.random() * (STORM - 4_000), fault, world, Random(dice.random()), context=NOBODY)


def weather(dice: Random) -> Weather:
    """Mostly fine, now and then bad in one way or in several."""
    found = Weather()
    if dice.random() < 0.4:
        found.loss = dice.random() * 0.2
    if dice.random() < 0.4:
        found.repeat = dice.random() * 0.2
    if dice.random() < 0.3:
        found.slowest = dice.random() * 1_500
    if dice.random() < 0.3:
        found.straggler = dice.random() * 0.05
    if dice.random() < 0.4:
        found.store_loss = dice.random() * 0.15
    if dice.random() < 0.3:
        found.store_slowest = dice.random() * 1_200
    return found


def _later(world: World, ms: float, act: Callable[..., object], *args: object) -> None:
    world.loop.after(ms, act, *args, context=NOBODY)


def kill(world: World, dice: Random) -> None:
    """A machine's processes die, and are started again."""
    _kill(world, dice, [*world.machines])


def kill_worker(world: World, dice: Random) -> None:
    _kill(world, dice, world.worker_names)


def kill_leader(world: World, dice: Random) -> None:
    """Whoever leads dies."""
    _kill(
        world,
        dice,
        [name for name, m in world.managers.items() if m.term is not None and not world.machines[name].process.dead],
    )


def _kill(world: World, dice: Random, among: list[str]) -> None:
    if not among:
        return
    name = among[int(dice.random() * len(among))]
    if world.machines[name].process.dead:
        return
    world.kill(name)
    _later(world, dice.random() ** 2 * 15_000, _boot, world, name)


def _boot(world: World, name: str) -> None:
    if world.machines[name].process.dead:
        world.boot(name)


def pause(world: World, dice: Random) -> None:
    """A process, or a whole machine, stands still for a while."""
    names = [*world.machines]
    name, ms = names[int(dice.random() * len(names))], dice.random() ** 2 * 15_000
    world.pause(name, dice.random() < 0.5)
    _later(world, ms, world.resume, name)


def cut(world: World, dice: Random) -> None:
    """One link breaks, one way or both."""
    places = world.places
    one, other = (places[int(dice.random() * len(places))] for _ in range(2))
    links = world.reach(one, other)
    _cut(world, dice, links if dice.random() < 0.6 else links[:1])


def isolate(world: World, dice: Random) -> None:
    """A machine reaches nobody, or all but the broker, or all but the managers."""
    names = [*world.machines]
    name, kind = names[int(dice.random() * len(names))], dice.random()
    others = [place for place in world.places if place != name]
    if kind < 0.3:
        others.remove(BROKER)
    elif kind < 0.6:
        others = list(world.manager_names)
    _cut(world, dice, [link for other in others for link in world.reach(name, other)])


def split(world: World, dice: Random) -> None:
    """The machines fall into two halves; the database is with one of them."""
    sides = {place: dice.random() < 0.5 for place in world.places}
    _cut(world, dice, [(a, b) for a in world.places for b in world.places if sides[a] != sides[b]])


def _cut(world: World, dice: Random, links: list[tuple[str, str]]) -> None:
    world.says("cut", links)
    world.wires.cuts.update(links)
    _later(world, dice.random() ** 2 * 14_000, _mend, world, links)


def _mend(world: World, links: list[tuple[str, str]]) -> None:
    world.says("mend", links)
    world.wires.cuts.difference_update(links)


def database_away(world: World, dice: Random) -> None:
    """The database answers nobody."""
    world.says("database away")
    world.wires.weather.store_away = True
    _later(world, dice.random() * 8_000, _database_back, world)


def _database_back(world: World) -> None:
    world.says("database back")
    world.wires.weather.store_away = False


def cut_database(world: World, dice: Random) -> None:
    """One manager does not reach the database any more, or does not hear its answers."""
    names = world.manager_names
    name = names[int(dice.random() * len(names))]
    links = world.reach(DATABASE, name)
    _cut(world, dice, links if dice.random() < 0.5 else links[:1])


def cut_leader(world: World, dice: Random) -> None:
    """The leader does not reach the database for long, while workers reach it."""
    for name, manager in world.managers.items():
        if manager.term is not None and not world.machines[name].process.dead:
            links = world.reach(DATABASE, name)
            world.says("cut", links)
            world.wires.cuts.update(links)
            _later(world, 6_000 + dice.random() * 12_000, _mend, world, links)
            return


def crash_instance(world: World, dice: Random) -> None:
    """An instance dies."""
    names = world.worker_names
    world.machines[names[int(dice.random() * len(names))]].crash_one()


def drain(world: World, dice: Random) -> None:
    """Somebody drains a worker; it is used again later."""
    name = world.worker_names[int(dice.random() * len(world.worker_names))]
    world.user.drained[name] = None
    world.as_user(Drain(name))
    _later(world, 2_000 + dice.random() * 8_000, world.as_user, Drain(name, on=False))


def leave(world: World, dice: Random) -> None:
    """A worker is stopped in order, and started again later, as an upgrade does."""
    _leave(world, dice, world.worker_names[int(dice.random() * len(world.worker_names))])


def roll(world: World, dice: Random) -> None:
    """All workers are stopped in order and started again, one after the other, not always with a pause between them."""
    for n, name in enumerate(world.worker_names):
        _later(world, n * dice.random() * 3_000, _leave, world, Random(dice.random()), name)


def _leave(world: World, dice: Random, name: str) -> None:
    if not world.machines[name].process.dead:
        world.leave(name, LEAVES_WITHIN, lambda _said: _later(world, dice.random() * 3_000, _boot, world, name))


def move(world: World, dice: Random) -> None:
    """Somebody moves an instance."""
    names = sorted(world.watch.running)
    if names:
        world.as_user(Move(names[int(dice.random() * len(names))]))


def restart(world: World, dice: Random) -> None:
    """Somebody restarts an app."""
    names = sorted(world.user.desired)
    if names:
        world.as_user(Restart(names[int(dice.random() * len(names))]))


FAULTS: tuple[Callable[[World, Random], None], ...] = (
    kill, kill_worker, kill_leader, kill_leader, pause, pause, pause, cut, isolate, isolate, split, database_away, cut_database, cut_leader,
    crash_instance, drain, move, restart, leave, leave, roll,
)  # fmt: skip
