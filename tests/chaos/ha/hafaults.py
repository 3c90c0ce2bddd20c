"""What is done to a pair. Each function does one thing to its end: when it returns all parts are there again, or on their way.

struck = FAULTS["active"](world, dice)
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from haworld import PairWorld, send
from nodes import marked
from pairnodes import PairNode
from wires import IN, OUT

LEASE = 2.0
SOON = (0.0, 1.5)
BEYOND = (2 * LEASE, 5 * LEASE)
"""Seconds after which a lease is over, and the work is with the partner."""
TAKEN = 60.0  # seconds within which the partner must be active


@dataclass(frozen=True, slots=True)
class Struck:
    """What was done, for people. `killed` is when the active node was dead (`time.monotonic`), or was asked to switch; 0 where another thing was done."""

    what: str
    killed: float = 0.0
    planned: bool = False


def kill_active(world: PairWorld, dice: random.Random) -> Struck:
    """The active node. It comes back when its partner goes on, or before that, and in half of the cases without its disk."""
    node = world.active()
    home, after = dice.random() < 0.5, dice.uniform(*dice.choice((SOON, BEYOND)))
    partner = world.other(node)
    home = world.kill(node, home)
    killed = time.monotonic()
    time.sleep(after)  # for so long it is away
    if home:  # an empty disk has nothing: its partner must be active first, else nothing shows that it is
        world.until(lambda: partner.answers("active"), TAKEN, f"{partner.id} takes over")
    world.start(node)
    return Struck(f"{node.id} (active) killed{', disk gone' if home else ''}; back after {after:.1f} s", killed)


def kill_passive(world: PairWorld, dice: random.Random) -> Struck:
    """The passive node."""
    node = world.other(world.active())
    home, after = dice.random() < 0.5, dice.uniform(*dice.choice((SOON, BEYOND)))
    home = world.kill(node, home)
    time.sleep(after)  # for so long it is away
    world.start(node)
    return Struck(f"{node.id} (passive) killed{', disk gone' if home else ''}; back after {after:.1f} s")


def pause_active(world: PairWorld, dice: random.Random) -> Struck:
    """The active node stands still beyond its lease, and wakes up."""
    return _paused(world.active(), "active", dice.uniform(*BEYOND))


def pause_passive(world: PairWorld, dice: random.Random) -> Struck:
    """The passive node stands still, and wakes up."""
    return _paused(world.other(world.active()), "passive", dice.uniform(*dice.choice((SOON, BEYOND))))


def cut_from_database(world: PairWorld, dice: random.Random) -> Struck:
    """A node does not reach the database, or hears nothing of it, or both do not."""
    active = world.active()
    nodes = dice.choice(([active], [active], [world.other(active)], list(world.nodes)))
    ways = dice.choice(((OUT, IN), (OUT,), (IN,)))
    seconds = dice.uniform(*dice.choice((SOON, BEYOND, BEYOND)))
    for node in nodes:
        world.lose_database(node, *ways)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        for node in nodes:
            world.lose_database(node)
    names = " and ".join(f"{one.id} ({'active' if one is active else 'passive'})" for one in nodes)
    return Struck(f"{names} cut from the database ({' and '.join(ways)}) for {seconds:.1f} s")


def cut_from_partner(world: PairWorld, dice: random.Random) -> Struck:
    """The nodes do not hear each other, or one does not hear the other one."""
    active = world.active()
    there, back = (active, world.other(active)), (world.other(active), active)
    name, directions = dice.choice((("both ways", (there, back)), ("from active", (there,)), ("to active", (back,))))
    seconds = dice.uniform(*dice.choice((SOON, BEYOND, BEYOND)))
    world.lose_between(*directions)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        world.lose_between()
    return Struck(f"the nodes are cut from each other ({name}) for {seconds:.1f} s")


def isolate_active(world: PairWorld, dice: random.Random) -> Struck:
    """The active node reaches neither the database nor its partner; senders, brokers and targets it does."""
    active = world.active()
    partner = world.other(active)
    seconds = dice.uniform(*BEYOND)
    world.lose_between((active, partner), (partner, active))
    world.lose_database(active, IN, OUT)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        world.lose_database(active)
        world.lose_between()
    return Struck(f"{active.id} (active) cut from the database and its partner for {seconds:.1f} s")


def restart_database(world: PairWorld, dice: random.Random) -> Struck:
    """PostgreSQL dies, or is stopped, and comes again."""
    kill, seconds = dice.random() < 0.5, dice.uniform(*dice.choice((SOON, BEYOND)))
    if kill:
        world.database.kill()
    else:
        world.database.stop()
    time.sleep(seconds)  # part of the fault
    world.database.start()
    return Struck(f"PostgreSQL {'killed' if kill else 'stopped'}, away for {seconds:.1f} s")


def switch(world: PairWorld, dice: random.Random) -> Struck:
    """A planned switch, asked for at either node."""
    active = world.active()
    partner = world.other(active)
    asker, asked = dice.choice((active, partner)), time.monotonic()

    def switched() -> bool:
        nonlocal asked
        if partner.answers("active"):  # a question that got no answer may have been heard
            return True
        asked = time.monotonic()
        answer = asker.ask("POST", "/ha/switch")
        assert answer.status_code in (200, 409, 503), f"{answer.status_code} {answer.text}"
        return answer.status_code == 200

    # it is refused as long as the partner could not go on at once
    world.until(switched, TAKEN, f"the work is switched to {partner.id}")
    world.until(lambda: partner.answers("active"), TAKEN, f"{partner.id} is active after a switch")
    return Struck(f"switched from {active.id} to {partner.id}", asked, planned=True)


def _paused(node: PairNode, role: str, seconds: float) -> Struck:
    processes = marked(node.node.mark)
    send(processes, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        send(processes, signal.SIGCONT)
    return Struck(f"{node.id} ({role}) stands still for {seconds:.1f} s")


Strike = Callable[[PairWorld, random.Random], Struck]

FAULTS: dict[str, Strike] = {
    "active": kill_active,
    "passive": kill_passive,
    "pause": pause_active,
    "asleep": pause_passive,
    "database": cut_from_database,
    "partner": cut_from_partner,
    "isolated": isolate_active,
    "restart": restart_database,
    "switch": switch,
}
OFTEN = ("active", "active")
"""These are there twice more, as they are what a pair is for."""


def deck(dice: random.Random) -> Iterator[str]:
    """Kinds without end: all of them, in a random order, then all again."""
    while True:
        yield from dice.sample([*FAULTS, *OFTEN], len(FAULTS) + len(OFTEN))
