"""What is done to a cluster. Each function does one thing to its end: when it returns all parts are there again, or on their way.

fault = FAULTS["worker"](world, dice)       # what was done, for people
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
from clusternodes import ClusterNode
from clusterworld import ClusterWorld, send
from nodes import marked
from wires import IN, OUT

BEYOND = (10.0, 14.0)
"""Seconds after which a worker's lease (8 s) is over, and what it ran has been given to others."""
SOON = (0.0, 3.0)
LEADING = 60.0  # seconds within which there must be a leader again, on a machine that is busy
SHORT, LONG = 30.0, 4.0


def kill_leader(world: ClusterWorld, dice: random.Random) -> str:
    """The manager that leads."""
    return _killed(world, dice, [_leader(world)])


def kill_worker(world: ClusterWorld, dice: random.Random) -> str:
    """A worker."""
    return _killed(world, dice, [dice.choice(world.living())])


def kill_two(world: ClusterWorld, dice: random.Random) -> str:
    """Two workers at once."""
    return _killed(world, dice, dice.sample(world.living(), 2))


def kill_both(world: ClusterWorld, dice: random.Random) -> str:
    """The leader and a worker at once."""
    return _killed(world, dice, [_leader(world), dice.choice(world.living())])


def cut_off(world: ClusterWorld, dice: random.Random) -> str:
    """A worker reaches no manager, or no manager reaches it, or both; NATS and the database it does."""
    worker = dice.choice(world.living())
    ways = dice.choice(((OUT, IN), (OUT,), (IN,)))
    seconds = dice.uniform(*dice.choice((SOON, BEYOND, BEYOND)))
    world.wires.lose(worker.name, *ways)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        world.wires.lose(worker.name)
    return f"{worker.name} is cut off ({' and '.join(ways)}) for {seconds:.1f} s"


def pause_worker(world: ClusterWorld, dice: random.Random) -> str:
    """A worker stands still beyond its lease, and wakes up."""
    return _paused(dice.choice(world.living()), dice.uniform(*BEYOND))


def pause_leader(world: ClusterWorld, dice: random.Random) -> str:
    """The leader stands still until another one leads, and wakes up."""
    return _paused(_leader(world), dice.uniform(2.5, 6))


def restart_broker(world: ClusterWorld, dice: random.Random) -> str:
    """NATS dies and comes again."""
    seconds = dice.uniform(0, 5)
    world.kill_broker()
    time.sleep(seconds)  # part of the fault
    world.start_broker()
    return f"NATS is away for {seconds:.1f} s"


def stop_database(world: ClusterWorld, dice: random.Random) -> str:
    """The database is away: for half a minute, so that all leases end, or shortly."""
    assert world.database is not None
    nodes = (one for one in (*world.managers, *world.workers) if one.name not in world.away)
    world.answers(*nodes)  # one that is just starting ends where the database is not there
    seconds = dice.choice((30.0, dice.uniform(0.5, 5)))
    world.database.kill()
    time.sleep(seconds)  # this is the fault
    world.database.start()
    return f"the database is away for {seconds:.1f} s"


def kill_while_deploying(world: ClusterWorld, dice: random.Random) -> str:
    """A manager dies while another app is deployed by it; what was answered must hold."""
    name = f"small{dice.randrange(10**6)}"
    manager = dice.choice(world.managers)
    text, homes = world.small(name), dice.random() < 0.5
    answered = _deploys(manager, text, world, dice, homes)
    said = f"{manager.name} dies while it deploys {name}: {'done' if answered else 'no answer'}; " + _again(
        world, [manager], homes, after=dice.uniform(*SOON)
    )
    world.answers(manager)
    world.until(lambda: world.leader() is not None, LEADING, "a manager leads")
    _has(world, name, text, answered)
    return said


def _deploys(manager: ClusterNode, text: str, world: ClusterWorld, dice: random.Random, homes: bool) -> bool:
    """Ask a manager to deploy an app, and kill it meanwhile. Whether it answered that it has."""

    def ask() -> bool:
        with suppress(httpx.TransportError):
            return manager.ask("POST", "/siddhi-apps", content=text).status_code == 201
        return False

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        time.sleep(dice.uniform(0, 0.5))  # the moment of the kill
        world.kill(manager, homes=homes)
        return answer.result()


def _has(world: ClusterWorld, name: str, text: str, answered: bool) -> None:
    """The app is there if somebody was told so; at last it is, and then it is undeployed."""
    manager = world.manager()
    assert manager is not None
    said: list[int] = []

    def is_known() -> bool:
        said[:] = [manager.ask("GET", f"/siddhi-apps/{name}").status_code]
        return said[0] in (200, 404)  # anything else says that it does not know at the moment

    world.until(is_known, LEADING, f"{manager.name} says whether there is {name}")
    assert said == [200] or not answered, f"{name} was deployed, and is forgotten"
    world.until(
        lambda: manager.ask("POST", "/siddhi-apps", content=text).status_code in (201, 409), 60, f"{name} is deployed"
    )
    world.until(
        lambda: manager.ask("GET", f"/siddhi-apps/{name}/status").json() == {"status": "active"}, 120, f"{name} runs"
    )
    world.until(
        lambda: manager.ask("DELETE", f"/siddhi-apps/{name}").status_code in (200, 404), 60, f"{name} is undeployed"
    )


def join_worker(world: ClusterWorld, dice: random.Random) -> str:
    """A worker comes that was not there, is given something, and leaves again by being killed, or drained before."""
    (worker,) = world.spare
    world.spare.remove(worker)
    world.workers.append(worker)
    world.start(worker)
    try:
        world.answers(worker)
        time.sleep(dice.uniform(5, 20))  # what runs moves onto it once it has been there for a while
        drained = dice.random() < 0.5
        if drained:
            _drain(world, worker, True)
            world.until(lambda: worker.name not in world.placed().values(), 120, f"{worker.name} is empty")
        world.kill(worker, homes=True)
    finally:
        world.workers.remove(worker)
        world.spare.append(worker)
    if drained:
        _drain(world, worker, False)
    return f"{worker.name} joins and leaves, {'drained' if drained else 'killed'}"


def drain_worker(world: ClusterWorld, dice: random.Random) -> str:
    """A worker gives all away, and is used again."""
    worker = dice.choice(world.living())
    _drain(world, worker, True)
    world.until(lambda: worker.name not in world.placed().values(), 120, f"{worker.name} is empty")
    _drain(world, worker, False)
    return f"{worker.name} is drained"


def leave_worker(world: ClusterWorld, dice: random.Random) -> str:
    """A worker is stopped in order, and started again."""
    worker = dice.choice(world.living())
    return _left(world, worker, dice.uniform(*dice.choice((SOON, BEYOND))))


def roll_workers(world: ClusterWorld, dice: random.Random) -> str:
    """All workers are stopped in order and started again, one after the other, as an upgrade does."""
    order = dice.sample(world.living(), len(world.living()))
    for worker in order:
        _left(world, worker, 0.0)
        world.answers(worker)
    return f"{', '.join(one.name for one in order)} are stopped and started again, one after the other"


def _left(world: ClusterWorld, worker: ClusterNode, after: float) -> str:
    world.stop(worker)
    time.sleep(after)  # for so long it is away
    world.start(worker)
    return f"{worker.name} is stopped in order; there again after {after:.1f} s"


def _drain(world: ClusterWorld, worker: ClusterNode, on: bool) -> None:
    manager = world.manager()
    assert manager is not None
    way, wanted = f"/cluster/workers/{worker.name}/drain", {"on": str(on).lower()}
    world.until(
        lambda: manager.ask("POST", way, params=wanted).status_code in (200, 404), 60, f"{worker.name} drains: {on}"
    )


def _leader(world: ClusterWorld) -> ClusterNode:
    found: list[ClusterNode] = []

    def leads() -> bool:
        one = world.leader()
        found[:] = [] if one is None else [one]
        return bool(found)

    world.until(leads, LEADING, "a manager leads")
    return found[0]


def _killed(world: ClusterWorld, dice: random.Random, nodes: list[ClusterNode]) -> str:
    homes = dice.random() < 0.5
    world.kill(*nodes, homes=homes)
    return _again(world, nodes, homes, dice.uniform(*dice.choice((SOON, BEYOND))))


def _again(world: ClusterWorld, nodes: list[ClusterNode], homes: bool, after: float) -> str:
    time.sleep(after)  # for so long they are away
    world.start(*nodes)
    names = " and ".join(one.name for one in nodes)
    return f"{names} killed{', disk gone' if homes else ''}; there again after {after:.1f} s"


def _paused(node: ClusterNode, seconds: float) -> str:
    processes = marked(node.node.mark)
    send(processes, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # this is the fault
    finally:
        send(processes, signal.SIGCONT)
    return f"{node.name} stands still for {seconds:.1f} s"


Strike = Callable[[ClusterWorld, random.Random], str]

FAULTS: dict[str, Strike] = {
    "leader": kill_leader,
    "worker": kill_worker,
    "two": kill_two,
    "both": kill_both,
    "cut": cut_off,
    "pause": pause_worker,
    "asleep": pause_leader,
    "broker": restart_broker,
    "database": stop_database,
    "deploy": kill_while_deploying,
    "join": join_worker,
    "drain": drain_worker,
    "leave": leave_worker,
    "roll": roll_workers,
}


def deck(dice: random.Random, database: bool) -> Iterator[str]:
    """Kinds without end: each once, in a random order, then all again."""
    kinds = [kind for kind in FAULTS if database or kind != "database"]
    while True:
        yield from dice.sample(kinds, len(kinds))
