"""What is killed with -9, and brought back where the node does not do that itself."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodes
from nodes import Node

from nadi.io.natsserver import NatsServer

# The ingress is a part of the driver for now: it dies with it. A deck of 20 is one round of CI.
DECK = {
    "host": 4,
    "worker": 4,
    "journal": 3,
    "nats sink": 2,
    "broker": 2,
    "driver": 3,
    "jvm": 1,
    "node": 1,
}
CONF = {
    "buckets": 2,
    "hosts": 2,
    "batch.events": 200,
    "order.idle": 1_500,
    # a JVM that lives for a minute is ready sooner without its second compiler
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
DARKEST = 3.0  # seconds that the broker stays away at most


def deck(dice: random.Random) -> Iterator[str]:
    """Who is next, for ever; 20 in a row have every kind of victim."""
    while True:
        cards = [kind for kind, count in DECK.items() for _ in range(count)]
        dice.shuffle(cards)
        yield from cards


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@dataclass(slots=True)
class World:
    """Everything that runs. `nodes` are all that were started, the last one lives."""

    folder: Path
    apps: tuple[Path, ...]
    broker_module: Any
    broker: Any
    nats: NatsServer
    nodes: list[Node]
    brokers: list[Any]

    @property
    def node(self) -> Node:
        return self.nodes[-1]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def start_node(self) -> None:
        self.nodes.append(nodes.start(*self.apps, state=self.state, conf=CONF))

    def strike(self, kind: str, dice: random.Random) -> str:
        """Kill one of a kind and bring it back; -> what it was."""
        return _STRIKES[kind](self, dice)

    def close(self) -> None:
        """Leave nothing running."""
        for node in self.nodes:
            node.kill_tree()
            node.process.wait()
        for broker in self.brokers:
            broker.stop()
        self.nats.stop()


def _driver(world: World, _dice: random.Random) -> str:
    """The command alone; the next one starts while the rest of this one is still dying."""
    pid = world.node.process.pid
    world.node.kill_driver()
    world.start_node()
    return f"driver {pid}"


def _node(world: World, _dice: random.Random) -> str:
    pid = world.node.process.pid
    world.node.kill_tree()
    world.start_node()
    return f"all processes of node {pid}"


def _host(world: World, dice: random.Random) -> str:
    index = dice.randrange(2)
    pid = world.node.host(index)
    kill(pid)
    return f"host {index} {pid}"


def _one_of(world: World, dice: random.Random, fits: Callable[[str], bool]) -> tuple[int, str]:
    found = sorted((pid, text) for pid, text in world.node.commands().items() if fits(text))
    return dice.choice(found)


def _worker(world: World, dice: random.Random) -> str:
    pid, text = _one_of(
        world,
        dice,
        lambda text: "nadi.pipeline.daemon" in text or "pyspark.sql.worker" in text or "python_streaming" in text,
    )
    kill(pid)
    return f"Python worker {pid} ({' '.join(text.split()[1:])})"


def _jvm(world: World, _dice: random.Random) -> str:
    pid = min(pid for pid, text in world.node.commands().items() if "org.apache.spark.deploy.SparkSubmit" in text)
    kill(pid)
    return f"JVM {pid}"


def _journal(world: World, _dice: random.Random) -> str:
    pid = world.node.server()
    kill(pid)
    return f"NATS server of the node {pid}"


def _nats_sink(world: World, _dice: random.Random) -> str:
    pid = world.nats.pid
    kill(pid)
    return f"NATS server of the sink {pid}"


def _broker(world: World, dice: random.Random) -> str:
    pid = world.broker.guard.process.pid
    kill(pid)  # the broker dies with its guard
    world.broker.guard.wait(60)
    port = int(world.broker.address.split(":")[1])
    nodes.until(
        lambda: not _listens(port), 30
    )  # it is a moment behind its guard; the next one is not to be taken for it
    away = dice.uniform(0, DARKEST)
    time.sleep(away)  # part of the fault: for so long nobody answers
    world.broker = world.broker_module.start(world.folder / "kafka", port)
    world.brokers.append(world.broker)
    return f"broker {pid}, away for {away:.1f} s and its start"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


_STRIKES: dict[str, Callable[[World, random.Random], str]] = {
    "driver": _driver,
    "node": _node,
    "host": _host,
    "worker": _worker,
    "jvm": _jvm,
    "journal": _journal,
    "nats sink": _nats_sink,
    "broker": _broker,
}
