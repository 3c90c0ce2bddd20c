"""Everything that runs while the dice kill it: the node with its apps, a Kafka broker, the NATS server of a sink."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodes
from holding import FOLDER
from nodes import Node

from nadi.config import Persistence
from nadi.config.deployment import read_deployment
from nadi.io.natsserver import NatsServer
from nadi.pipeline.progress import read_progress

PERSISTENCE = "state.persistence: {enabled: true, intervalInMin: 1, revisionsToKeep: 4}\n"
CONF = {
    "buckets": 3,  # more than hosts: two of them share a task
    "hosts": 2,
    "batch.events": 200,
    "handover.bytes": 0,  # events of these small batches stay in hosts, too: what is lost with them has to be read again
    "order.idle": 1_500,
    # a sink that waits for its broker holds a slot per task; the other app and the copy of a revision need theirs
    "spark.master": "local[4,4]",
    # a JVM that lives for a minute is ready sooner without its second compiler
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was alive. Its start is known, so that another one with its number is not taken for it."""

    pid: int
    start: str

    @staticmethod
    def of(pid: int) -> Process:
        """Errors: ProcessLookupError where there is none."""
        found = _stat(pid)
        if found is None:
            raise ProcessLookupError(pid)
        return Process(pid, found[1])

    def alive(self) -> bool:
        """Whether it has not ended; one that nobody has waited for has."""
        found = _stat(self.pid)
        return found is not None and found[0] not in "ZX" and found[1] == self.start

    def stopped(self) -> bool:
        """Whether it stands still."""
        found = _stat(self.pid)
        return found is not None and found[0] == "T" and found[1] == self.start

    @property
    def parent(self) -> int:
        """The process id of its parent; 0 where it has ended."""
        found = _stat(self.pid)
        return 0 if found is None else int(found[2])

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Errors: ProcessLookupError where it has ended."""
        os.kill(self.pid, number)


def _stat(pid: int) -> tuple[str, str, str] | None:
    """State, start and parent of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rfind(")") + 2 :].split()
    return fields[0], fields[19], fields[1]


@dataclass(slots=True)
class World:
    """`nodes` are all that were started, the last one lives. `pools`: apps of one bucket share a query."""

    folder: Path
    apps: tuple[Path, ...]
    broker_module: Any
    broker: Any
    nats: NatsServer
    pools: bool = True
    nodes: list[Node] = field(default_factory=list)
    brokers: list[Any] = field(default_factory=list)

    @property
    def node(self) -> Node:
        return self.nodes[-1]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def moments(self) -> Path:
        """Where the test asks processes of the node to hold."""
        return self.folder / "moments"

    def committed(self, app: str) -> int:
        """The last cut of which the node says that it is done."""
        progress = read_progress(self.state / app)
        return 0 if progress is None else progress.n

    @property
    def persistence(self) -> Persistence:
        return read_deployment(self._config).persistence

    @property
    def _config(self) -> Path:
        return self.folder / "deployment.yaml"

    def start_node(self) -> None:
        """Start the next node; the last one may still be dying."""
        self._config.write_text(PERSISTENCE)
        self.moments.mkdir(exist_ok=True)
        conf = {**CONF, "pools": str(self.pools).lower()}
        here = Path(__file__).parent
        command = (sys.executable, str(here / "chaosnode.py"))
        variables = {FOLDER: str(self.moments), "PYTHONPATH": str(here)}  # hosts find the engine there
        self.nodes.append(
            nodes.start(*self.apps, state=self.state, conf=conf, config=self._config, nadi=command, **variables)
        )

    def start_broker(self) -> None:
        """Start the broker again where it was."""
        port = int(self.broker.address.split(":")[1])
        self.broker = self.broker_module.start(self.folder / "kafka", port)
        self.brokers.append(self.broker)

    def those(self, fits: Callable[[str], bool]) -> list[Process]:
        """The node's processes whose command line fits."""
        found = []
        for pid, text in sorted(self.node.commands().items()):
            try:
                found += [Process.of(pid)] if fits(text) else []
            except ProcessLookupError:  # ended since
                continue
        return found

    def close(self) -> None:
        """Leave nothing running."""
        for node in self.nodes:
            node.kill_tree()
            node.process.wait()
        for broker in self.brokers:
            broker.stop()
        self.nats.stop()
