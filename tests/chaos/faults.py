"""What is done to the world: a kill with -9 of one of its parts, or a stop. Of each it is seen that the part was there, ended, and was followed by another.

fault = strike("host", world, dice)
...
fault.look()            # now and then; what has been seen is in `gone` and `back`
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import nodes
from revisions import Asking
from world import Process, World

# The ingress is a part of the driver for now: it dies with it. A deck of 20 is one round of CI.
DECK = {
    "host": 4,
    "worker": 4,
    "journal": 2,
    "nats sink": 2,
    "broker": 2,
    "driver": 2,
    "jvm": 1,
    "node": 1,
    "revision": 1,
    "stop": 1,
}
DARKEST = 3.0  # seconds that the broker stays away at most
THERE_WITHIN = 300.0  # seconds: a part is struck once it is there, also while the node is still starting


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


def deck(dice: random.Random) -> Iterator[str]:
    """Who is next, for ever; 20 in a row have every kind of victim."""
    while True:
        cards = [kind for kind, count in DECK.items() for _ in range(count)]
        dice.shuffle(cards)
        yield from cards


def strike(kind: str, world: World, dice: random.Random, asking: Asking) -> Fault:
    """Do one of a kind, as soon as there is one to do it to."""
    if kind == "revision":
        return _revision(world, dice, asking)
    if kind in ENDS and dice.random() < MEETS_A_REVISION:
        asking.ask(dice.choice(asking.apps))
        time.sleep(dice.uniform(0, 2.0))  # the moment of the revision at which the next kill meets it
    return _STRIKES[kind](world, dice)


def _killed(kind: str, what: str, processes: Sequence[Process], another: Callable[[], bool]) -> Fault:
    """Kill processes. One that has ended by itself meanwhile is no fault: ProcessLookupError."""
    fault = Fault(kind, f"{what} {', '.join(str(p.pid) for p in processes)}", processes, another, time.monotonic())
    for process in processes:
        process.kill()
    return fault


def _one(world: World, dice: random.Random, fits: Callable[[str], bool]) -> Process:
    """One of the node's processes that fit, once there is one."""
    found: list[Process] = []

    def there() -> bool:
        found[:] = world.those(fits)
        return bool(found)

    world.node.until(there, THERE_WITHIN)
    return dice.choice(found)


def _command_killed(kind: str, world: World, dice: random.Random, fits: Callable[[str], bool], what: str) -> Fault:
    found: list[Fault] = []
    while not found:
        one = _one(world, dice, fits)
        before = {one, *world.those(fits)}
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself: that was no kill
            found.append(_killed(kind, what, [one], partial(_others, world, fits, before)))
    return found[0]


def _others(world: World, fits: Callable[[str], bool], than: Collection[Process]) -> bool:
    return any(process not in than for process in world.those(fits))


def _host(world: World, dice: random.Random) -> Fault:
    index = str(dice.randrange(2))

    def fits(text: str) -> bool:
        return "nadi.pipeline.executor.host" in text.split() and text.split()[-2] == index

    return _command_killed("host", world, dice, fits, f"host {index}")


def _worker(world: World, dice: random.Random) -> Fault:
    """A worker of a task, the daemon that forks them, or the process of a source or sink of Spark."""
    found: list[Fault] = []
    while not found:
        one = _one(world, dice, is_worker)
        with contextlib.suppress(ProcessLookupError):
            # who takes over its work may have been there before, idle; that work is done again is seen from the cuts
            found.append(_killed("worker", "Python worker", [one], lambda: bool(world.those(is_worker))))
    return found[0]


def is_worker(text: str) -> bool:
    """Whether a command line is that of a Python process of Spark. Settings in that of the JVM, and of what starts it, name them, too.

    >>> is_worker("python -m pyspark.daemon pyspark.worker"), is_worker("java --conf a=nadi.pipeline.daemon SparkSubmit")
    (True, False)
    """
    words = text.split()
    modules = [word for before, word in itertools.pairwise(words) if before == "-m"]
    kinds = ("nadi.pipeline.daemon", "pyspark.daemon", "pyspark.sql.worker", "python_streaming")
    return any(kind in module for module in modules for kind in kinds)


def _jvm(world: World, dice: random.Random) -> Fault:
    return _command_killed("jvm", world, dice, _is_jvm, "JVM")


def _is_jvm(text: str) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in text


def _journal(world: World, dice: random.Random) -> Fault:
    return _command_killed(
        "journal", world, dice, lambda text: text.split()[0].endswith("nats-server"), "NATS server of the node"
    )


def _driver(world: World, _dice: random.Random) -> Fault:
    """The command alone; the next one starts while the rest of this one is still dying."""
    return _restarted(world, "driver", [Process.of(world.node.process.pid)])


def _node(world: World, _dice: random.Random) -> Fault:
    """All processes, whatever they are doing."""
    struck = world.those(lambda _text: True)
    world.node.kill_tree()
    return _restarted(world, "node", struck)


def _restarted(world: World, kind: str, struck: Sequence[Process]) -> Fault:
    ended = world.node
    fault = Fault(
        kind, f"{kind}, process {ended.process.pid}", struck, lambda: bool(world.those(_is_jvm)), time.monotonic()
    )
    if ended.process.poll() is None:
        ended.kill_driver()
    assert ended.process.returncode == -signal.SIGKILL, f"it ended with {ended.process.returncode}\n{ended.said()}"
    world.start_node()
    return fault


def _stop(world: World, _dice: random.Random) -> Fault:
    """SIGTERM, as a service manager does: the node must end by itself, with status 0, and leave nothing behind."""
    node = world.node
    node.until(lambda: bool(world.those(_is_jvm)), THERE_WITHIN)  # before that its handler of signals may not be there
    struck = world.those(lambda _text: True)
    fault = Fault(
        "stop", f"stop of node {node.process.pid}", struck, lambda: bool(world.those(_is_jvm)), time.monotonic()
    )
    node.process.send_signal(signal.SIGTERM)
    status = node.wait()
    assert status == 0, f"a stop ended with status {status}\n{node.said()[-6_000:]}"
    node.gone()
    world.start_node()
    return fault


def _nats_sink(world: World, _dice: random.Random) -> Fault:
    nodes.until(lambda: bool(world.nats.pid), 60)
    one = Process.of(world.nats.pid)
    return _killed("nats sink", "NATS server of the sink", [one], lambda: world.nats.pid not in (0, one.pid))


def _broker(world: World, dice: random.Random) -> Fault:
    """The guard is killed and the broker dies with it; for a while nobody answers, then there is another one."""
    guard = world.broker.guard
    port = int(world.broker.address.split(":")[1])
    fault = _killed("broker", "broker", [Process.of(guard.process.pid)], lambda: _listens(port))
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


def _revision(world: World, dice: random.Random, asking: Asking) -> Fault:
    """The process that writes a revision; afterwards there is a newer one."""
    app = dice.choice(asking.apps)

    def fits(text: str) -> bool:
        asking.ask(app)  # for as long as there is no writer: who was asked before may have died
        return "nadi.pipeline.revision.revisionwriter" in text and f"/{app}/" in text

    found: list[Fault] = []
    while not found:
        one = _one(world, dice, fits)
        before = asking.newest(app)
        time.sleep(dice.uniform(0, 1.0))  # the moment of the writing
        with contextlib.suppress(ProcessLookupError):  # it was faster
            found.append(
                _killed("revision", f"writer of a revision of {app}", [one], partial(_newer, asking, app, before))
            )
    return found[0]


def _newer(asking: Asking, app: str, than: str) -> bool:
    asking.ask(app)
    return asking.newest(app) > than


ENDS = ("driver", "node", "jvm", "host", "worker")
MEETS_A_REVISION = 0.3  # the share of these that come while a revision is made
_STRIKES: dict[str, Callable[[World, random.Random], Fault]] = {
    "driver": _driver,
    "node": _node,
    "host": _host,
    "worker": _worker,
    "jvm": _jvm,
    "journal": _journal,
    "nats sink": _nats_sink,
    "broker": _broker,
    "stop": _stop,
}
