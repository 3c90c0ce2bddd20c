"""What is done at a moment of the work that the test has chosen: a process of the node stands still there (`holding`), and then something dies, or
another one goes on in its place.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import time
from collections.abc import Callable

import chaosengine
from chaosapps import NAMES
from faults import Fault, host_killed, hosts_of, is_jvm, kill_node, killed, one_of, restarted, stopped
from holding import AT_MOVES, AT_RECORDS
from moments import ANSWERS_WITHIN, THERE_WITHIN, Refused, asked, caught, come, want
from world import Process, World

from nadi.pipeline.cutting import cutlogs
from nadi.pipeline.live import read_live


def at_delta(world: World, dice: random.Random, moment: str) -> Fault:
    """A host, or its whole node, with half of a cut's deltas on the disk or with all of them."""
    app = dice.choice(NAMES)
    victim = dice.choice(("host", "host", "node"))
    held = caught(world, moment, app)
    what = f"{victim} at a {moment} of {app}"
    return (
        kill_node(world, moment, what)
        if victim == "node"
        else host_killed(world, moment, what, held, _index(world, held))
    )


def at_base(world: World, dice: random.Random) -> Fault:
    """Who writes a base: a child, its host, or the whole node. Of the small app hosts write them within a cut."""
    app = dice.choice(NAMES)
    victim = dice.choice(("child", "host", "node"))
    held = caught(world, "base", app)
    what = f"{victim} at a base of {app}"
    if victim == "node":
        return kill_node(world, "base", what)
    hosts = {process.pid: process for process in hosts_of(world)}
    host = hosts.get(held.parent, held)
    if victim == "host" or host is held:
        return host_killed(world, "base", what, host, _index(world, host))
    before = _bases_of(world, app)
    return killed("base", what, [held], lambda: bool(_bases_of(world, app) - before))


def _bases_of(world: World, app: str) -> set[str]:
    return {path.name for path in (world.state / app / "log").glob("b-*")}


def at_record(world: World, dice: random.Random) -> Fault:
    """The node's command, or the whole node, about to write the commit record of a cut, half-way through it, or when it is written."""
    app, moment = dice.choice(NAMES), dice.choice(AT_RECORDS)
    victim = dice.choice(("driver", "node"))
    held = caught(world, moment, app)
    what = f"{victim} at '{moment}' of {app}"
    return kill_node(world, "record", what) if victim == "node" else restarted(world, "record", [held], what)


def zombie(world: World, dice: random.Random) -> Fault:
    """A host, and at times its JVM, stands still in the middle of a cut until another epoch has gone on; then it goes on, and is late."""
    app, moment = dice.choice(NAMES), dice.choice(("half delta", "delta"))
    with_jvm = dice.random() < 0.5
    held = caught(world, moment, app)
    jvm = one_of(world, dice, is_jvm)
    what = f"zombie {held.pid} of {app} at a {moment}{' with its JVM' if with_jvm else ''}"
    fault = Fault("zombie", what, [held, jvm], lambda: bool(world.those(is_jvm)), time.monotonic())
    before = world.committed(app)
    if with_jvm:
        jvm.send(signal.SIGSTOP)
        world.node.kill_driver()
        world.start_node()
    else:
        jvm.kill()
    world.node.until(lambda: world.committed(app) > before, THERE_WITHIN)
    for process in (held, jvm) if with_jvm else (held,):
        process.send(signal.SIGCONT)
        time.sleep(dice.uniform(0, 1.0))  # in which it does what it was about to do
    return fault


def takeover(world: World, dice: random.Random) -> Fault:
    """Somebody else takes an app over while a batch of it is under way: this node commits nothing more of it, says so, and its other apps stop well."""
    app, moment = dice.choice(NAMES), dice.choice(("delta", "record"))
    node, said = world.node, len(world.node.said())
    held = caught(world, moment, app)
    live = read_live(world.state / app)
    assert live is not None, f"{app} makes a cut and is not said to be running"
    # `read_live` lets in what this process has imported by itself.
    assert live.spec.engine == chaosengine.__name__
    struck = world.those(lambda _text: True)
    what = f"{app} taken over at a {moment}"
    fault = Fault("takeover", what, struck, lambda: bool(world.those(is_jvm)), time.monotonic())
    cutlogs.take_over(live.spec)
    before = cutlogs.open_commit_log(live.spec).recovered()
    held.send(signal.SIGCONT)
    node.until(lambda: f"{app}: failed" in node.said()[said:], THERE_WITHIN)
    stopped(world, status=1)
    after = cutlogs.open_commit_log(live.spec).recovered()
    assert after == before, f"{app} was taken over, and its old run has made {after} of {before}"
    assert "[CUT_FENCED]" in node.said()[said:], node.said()[-6_000:]
    world.start_node()
    return fault


def _index(world: World, host: Process) -> str:
    return world.node.commands()[host.pid].split()[-2]


def full(world: World, dice: random.Random) -> Fault:
    """The disk is full in the middle of the deltas of a cut: its group waits, and tries again."""
    app = asked(world, "full", [dice.choice(NAMES)])
    cut = world.committed(app)
    return Fault(
        "full", f"the disk is full in a delta of {app}", (), lambda: world.committed(app) > cut, time.monotonic()
    )


def move(world: World, dice: random.Random) -> Fault:
    """An app goes to another query, or to other hosts; at one of the steps the node's command, the whole node or a host may die."""
    step, victim = dice.choice(AT_MOVES), dice.choice(("nobody", "host", "driver", "node"))
    if victim == "nobody":
        app = asked(world, "move", dice.sample(NAMES, len(NAMES)))
        return Fault("move", f"{app} moves", (), _goes_on_elsewhere(world, app), time.monotonic())
    held = None
    while held is None:
        want(world, step, "")
        app = asked(world, "other hosts" if step == "raised" else "move", dice.sample(NAMES, len(NAMES)))
        held = come(world, step)
    hosts = hosts_of(world)
    if victim == "host" and not hosts:  # what died before has not been replaced yet
        victim = "driver"
    what = f"{victim} at '{step}' of {app}"
    if victim == "node":
        return kill_node(world, "move", what)
    if victim == "driver":
        return restarted(world, "move", [held], what)
    try:
        host = dice.choice(hosts)
        return host_killed(world, "move", what, host, _index(world, host))
    finally:
        held.send(signal.SIGCONT)


def twice(world: World, dice: random.Random) -> Fault:
    """Two hosts have one bucket: one stands still in the middle of a cut until others have the app and have gone on; then it goes on, too."""
    moment = dice.choice(("half delta", "delta"))
    for app in itertools.cycle(
        dice.sample(NAMES, len(NAMES))
    ):  # those cannot move for which no hosts are left: who has them can
        held = caught(world, moment, app)
        done = _goes_on_elsewhere(world, app)
        try:
            asked(world, "other hosts", [app], ANSWERS_WITHIN)
            world.node.until(done, THERE_WITHIN)
        except Refused:
            continue
        finally:
            with contextlib.suppress(ProcessLookupError):  # it was seen to hang, which takes 30 s, and replaced
                held.send(signal.SIGCONT)
        what = f"{app} twice: host {held.pid} stood still at a {moment} until others had gone on"
        return Fault("twice", what, (), lambda: True, time.monotonic())
    raise AssertionError("a cycle has no end")


def _goes_on_elsewhere(world: World, app: str) -> Callable[[], bool]:
    """Whether another run of an app than that of now has committed a cut."""
    epoch, cut = _epoch(world, app), world.committed(app)
    return lambda: _epoch(world, app) > epoch and world.committed(app) > cut


def _epoch(world: World, app: str) -> int:
    live = read_live(world.state / app)
    return 0 if live is None else live.spec.epoch
