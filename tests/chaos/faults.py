"""What is done to the world at a random moment: a kill with -9 of one of its parts, or a stop. Of each it is seen that the part was there, ended, and
was followed by another.

fault = kill_host(world, dice)
...
fault.look()            # now and then; what has been seen is in `gone` and `back`
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import nodes
from chaosapps import NAMES
from moments import THERE_WITHIN
from revisions import Asking
from world import Process, World

DARKEST = 3.0  # seconds that the broker stays away at most
LONGEST_PAUSE = 4.0  # seconds that a host stands still


@dataclass(slots=True)
class Fault:
    """Something that was done. `gone` and `back` are seconds after it at which it was seen that what was struck had ended, and that there was another one."""

    kind: str
    what: str
    struck: Sequence[Process]
    another: Callable[[], bool]
    at: float
    gone: float | None = None
    back: float | None = None

    def look(self) -> bool:
        """Whether both have been seen."""
        if self.gone is None and not any(process.alive() for process in self.struck):
            self.gone = time.monotonic() - self.at
        if self.gone is not None and self.back is None and self.another():
            self.back = time.monotonic() - self.at
        return self.back is not None

    def __str__(self) -> str:
        gone, back = ("not seen" if s is None else f"{s:.1f} s" for s in (self.gone, self.back))
        return f"{self.what}: gone {gone}, another {back}"


def killed(kind: str, what: str, processes: Sequence[Process], another: Callable[[], bool]) -> Fault:
    """Kill processes. One that has ended by itself meanwhile is no fault: ProcessLookupError."""
    fault = Fault(kind, f"{what} {', '.join(str(p.pid) for p in processes)}", processes, another, time.monotonic())
    for process in processes:
        process.kill()
    return fault


def one_of(world: World, dice: random.Random, fits: Callable[[str], bool]) -> Process:
    """One of the node's processes that fit, once there is one."""
    found: list[Process] = []

    def there() -> bool:
        found[:] = world.those(fits)
        return bool(found)

    world.node.until(there, THERE_WITHIN)
    return dice.choice(found)


def command_killed(kind: str, world: World, dice: random.Random, fits: Callable[[str], bool], what: str) -> Fault:
    """Kill one of the node's processes that fit."""
    while True:
        one = one_of(world, dice, fits)
        before = {one, *world.those(fits)}
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself: that was no kill
            return killed(kind, what, [one], partial(others, world, fits, before))


def others(world: World, fits: Callable[[str], bool], than: Collection[Process]) -> bool:
    """Whether there is a process that fits besides those."""
    return any(process not in than for process in world.those(fits))


def is_host(text: str) -> bool:
    """Whether a command line is that of a host, or of a child that it has forked."""
    return nodes.HOST in text.split()


def hosts_of(world: World) -> list[Process]:
    """The hosts without their children."""
    found = world.those(is_host)
    pids = {process.pid for process in found}
    return [process for process in found if process.parent not in pids]


def _host(world: World, dice: random.Random) -> tuple[Process, str]:
    """A host, and its index, once there is one."""
    while True:
        host = one_of(world, dice, is_host)
        with contextlib.suppress(KeyError):  # it has ended since
            return host, world.node.commands()[host.pid].split()[-2]


def host_killed(world: World, kind: str, what: str, host: Process, index: str) -> Fault:
    """Kill a host. Another one comes in its place, unless all apps go on in other hosts. Errors: ProcessLookupError where it has ended by itself."""

    def fits(text: str) -> bool:
        return is_host(text) and text.split()[-2] == index

    before, cuts = {host, *world.those(fits)}, [world.committed(app) for app in NAMES]

    def another() -> bool:
        go_on = all(world.committed(app) > cut + 1 for app, cut in zip(NAMES, cuts, strict=True))
        return go_on or others(world, fits, before)

    return killed(kind, what, [host], another)


def kill_host(world: World, dice: random.Random) -> Fault:
    """A host, or a child that it has forked."""
    while True:
        host, index = _host(world, dice)
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself: that was no kill
            return host_killed(world, "host", f"host {index}", host, index)


def pause_host(world: World, dice: random.Random) -> Fault:
    """A host stands still for a while, as where its machine has no memory: nobody is killed."""
    while True:
        one, index = _host(world, dice)
        with contextlib.suppress(ProcessLookupError):
            one.send(signal.SIGSTOP)
            fault = Fault("pause", f"host {index} {one.pid} stands still", (), lambda: True, time.monotonic())
            time.sleep(dice.uniform(0.5, LONGEST_PAUSE))  # this is the fault
            one.send(signal.SIGCONT)
            return fault


def kill_jvm(world: World, dice: random.Random) -> Fault:
    return command_killed("jvm", world, dice, is_jvm, "JVM")


def is_jvm(text: str) -> bool:
    """Whether a command line is that of a JVM of Spark."""
    return "org.apache.spark.deploy.SparkSubmit" in text


def kill_journal(world: World, dice: random.Random) -> Fault:
    return command_killed(
        "journal", world, dice, lambda text: text.split()[0].endswith("nats-server"), "NATS server of the node"
    )


def kill_driver(world: World, _dice: random.Random) -> Fault:
    """The command alone; the next one starts while the rest of this one is still dying."""
    return restarted(world, "driver", [Process.of(world.node.process.pid)], "driver")


def kill_node(world: World, kind: str, what: str) -> Fault:
    """All processes, whatever they are doing."""
    struck = world.those(lambda _text: True)
    world.node.kill_tree()
    return restarted(world, kind, struck, what)


def restarted(world: World, kind: str, struck: Sequence[Process], what: str) -> Fault:
    ended = world.node
    told = f"{what}, process {ended.process.pid}"
    fault = Fault(kind, told, struck, lambda: bool(world.those(is_jvm)), time.monotonic())
    if ended.process.poll() is None:
        ended.kill_driver()
    assert ended.process.returncode == -signal.SIGKILL, f"it ended with {ended.process.returncode}\n{ended.said()}"
    world.start_node()
    return fault


def stop_node(world: World, _dice: random.Random) -> Fault:
    """SIGTERM, as a service manager does: the node must end by itself, with status 0, and leave nothing behind."""
    node = world.node
    node.until(lambda: bool(world.those(is_jvm)), THERE_WITHIN)  # before that its handler of signals may not be there
    struck = world.those(lambda _text: True)
    fault = Fault(
        "stop", f"stop of node {node.process.pid}", struck, lambda: bool(world.those(is_jvm)), time.monotonic()
    )
    stopped(world, status=0)
    world.start_node()
    return fault


def stopped(world: World, status: int) -> None:
    """Stop the node and wait until nothing of it is left."""
    node = world.node
    node.process.send_signal(signal.SIGTERM)
    found = node.wait()
    assert found == status, f"a stop ended with status {found} instead of {status}\n{node.said()[-6_000:]}"
    node.gone()


def kill_nats_sink(world: World, _dice: random.Random) -> Fault:
    nodes.until(lambda: bool(world.nats.pid), 60)
    one = Process.of(world.nats.pid)
    return killed("nats sink", "NATS server of the sink", [one], lambda: world.nats.pid not in (0, one.pid))


def kill_broker(world: World, dice: random.Random) -> Fault:
    """The guard is killed and the broker dies with it; for a while nobody answers, then there is another one."""
    guard = world.broker.guard
    port = int(world.broker.address.split(":")[1])
    fault = killed("broker", "broker", [Process.of(guard.process.pid)], lambda: _listens(port))
    guard.wait(60)
    nodes.until(lambda: not _listens(port), 30)  # it is a moment behind its guard
    time.sleep(dice.uniform(0, DARKEST))  # part of the fault: for so long nobody answers
    world.start_broker()
    return fault


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def kill_writer(world: World, dice: random.Random, asking: Asking) -> Fault:
    """The process that writes a revision; afterwards there is a newer one."""
    app = dice.choice(asking.apps)

    def fits(text: str) -> bool:
        asking.ask(app)  # for as long as there is no writer: who was asked before may have died
        return "nadi.pipeline.revision.revisionwriter" in text and f"/{app}/" in text

    found: list[Fault] = []
    while not found:
        one = one_of(world, dice, fits)
        before = asking.newest(app)
        time.sleep(dice.uniform(0, 1.0))  # the moment of the writing
        with contextlib.suppress(ProcessLookupError):  # it was faster
            found.append(
                killed("revision", f"writer of a revision of {app}", [one], partial(_newer, asking, app, before))
            )
    return found[0]


def _newer(asking: Asking, app: str, than: str) -> bool:
    asking.ask(app)
    return asking.newest(app) > than
