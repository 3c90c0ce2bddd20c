"""The nodes of the example: what their files say, how they are started, asked, killed and ended."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
from narration import pause

from nadi.io.natsserver import binary, free_port

MANAGERS, WORKERS = 2, 3
END = 40.0  # seconds that a node has to end by itself

MANAGER = """
wso2.carbon: {{id: {name}}}
wso2.transport.http: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {port}}}]}}
wso2.datasources:
  dataSources:
    - name: SP_MGT_DB
      definition: {{configuration: {{jdbcUrl: "{jdbc}", username: "{user}", password: "{password}"}}}}
cluster.config:
  enabled: true
  groupId: example
  strategyConfig: {{datasource: SP_MGT_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {port}}}
  heartbeatInterval: 2000
  heartbeatMaxRetry: 2
  natsServerUrl: "{nats}"
"""
WORKER = """
wso2.carbon: {{id: {name}}}
wso2.transport.http: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {port}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {query}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {port}}}
  leaderRetryInterval: 1000
  resourceManagers: [{managers}]
spark: {{master: "local[2,4]"}}
"""
SHARED = """
nadi:
  cluster: {{secret: {secret}}}
  state: {{url: "{folder}/state"}}
  cuts: {{url: "{cuts}"}}
  journal: {{url: "{nats}"}}
  connector: {{folders: /}}
  variables: {{SOURCE_PORT: "{source}", DATABASE: "{url}", DATABASE_USER: "{user}", DATABASE_PASSWORD: "{password}"}}
"""


class Database(Protocol):
    """Where nodes keep what they agree on."""

    @property
    def jdbc(self) -> str: ...
    @property
    def with_user(self) -> str: ...
    @property
    def of_app(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str: ...


def free_ports(number: int) -> list[int]:
    """Ports that nobody has now, and that the system gives to no connection that goes out: some are listened on much later."""
    found: set[int] = set()
    while len(found) < number:
        found.add(free_port())
    return list(found)


@dataclass
class Node:
    """A manager or a worker: a process with a home, which it may lose with its machine."""

    name: str
    command: str
    folder: Path
    port: int
    text: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir()
        file = self.folder / "deployment.yaml"
        file.touch(mode=0o600)
        file.write_text(self.text)
        words = [sys.executable, "-m", "nadi", self.command, "--conf", str(file), "--home", str(self.folder / "home")]
        with (self.folder / "screen").open("wb") as screen:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=screen, stderr=screen, start_new_session=True
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def password(self) -> str:
        """Of the user `admin`, which the node made when it started first, and said then."""
        found = re.search(r"the password (\S+)", (self.folder / "screen").read_text(errors="replace"))
        return found[1] if found else ""

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, method: str, path: str, **given: str) -> httpx.Response | None:
        """An answer; None where there is none now."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.request(method, f"{self.url}{path}", auth=("admin", self.password), timeout=60, **given)  # type: ignore[arg-type]
        return None

    def kill(self) -> None:
        """As a power cut does: what the node has started ends with it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """As `kill` does it, but with time to finish."""
        if self.process is None:
            return
        if self.lives:
            self.process.terminate()
            try:
                self.process.wait(END)
            except subprocess.TimeoutExpired:
                self.process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what a killed node may have left
        self.process.wait()


@dataclass
class Cluster:
    """All nodes."""

    managers: list[Node]
    workers: list[Node]
    source: str

    @property
    def nodes(self) -> list[Node]:
        return [*self.managers, *self.workers]

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    @property
    def manager(self) -> Node:
        """One that lives: they all answer the same."""
        return next(one for one in self.managers if one.lives)

    def ask(self, method: str, path: str, **given: str) -> httpx.Response:
        answer = self.manager.ask(method, path, **given)
        if answer is None:
            raise SystemExit(f"{self.manager.name} does not answer; {self.manager.folder}/screen has what it said")
        return answer

    def leader(self) -> Node | None:
        """Who says that it leads."""
        for one in self.managers:
            answer = one.ask("GET", "/managers/isActive") if one.lives else None
            if answer is not None and answer.status_code == 200:
                return one
        return None

    def is_ready(self) -> bool:
        """Whether somebody leads, and all workers have come."""
        for node in self.nodes:
            if not node.lives:
                raise SystemExit(f"{node.name} has ended: {(node.folder / 'screen').read_text(errors='replace')}")
        answers = [node.ask("GET", "/health/ready") for node in self.nodes]
        return self.leader() is not None and all(one is not None and one.status_code == 200 for one in answers)

    def is_active(self) -> bool:
        """Whether all of the app runs."""
        return bool(self.ask("GET", "/siddhi-apps/Meters/status").json() == {"status": "active"})

    def places(self) -> dict[str, str]:
        """The worker of each instance of the app."""
        rows = self.ask("GET", "/managers/siddhi-apps/Meters").json()
        return {row["appName"]: row["id"] for row in rows if row["id"]}

    def wait(self) -> None:
        """Until somebody ends the example."""
        while True:
            pause(1)


@contextlib.contextmanager
def cluster(folder: Path, database: Database) -> Iterator[Cluster]:
    """Nodes and NATS, started; all of them are ended, whatever happens."""
    nats_port, source, *ports = free_ports(2 + MANAGERS + 2 * WORKERS)
    nats, secret = f"nats://127.0.0.1:{nats_port}", secrets.token_hex(24)
    (folder / "shared").mkdir(mode=0o700)
    shared = SHARED.format(
        secret=secret, folder=folder / "shared", cuts=database.with_user, nats=nats, source=source, url=database.of_app,
        user=database.user, password=database.password,
    )  # fmt: skip
    managers, workers = [], []
    for n in range(MANAGERS):
        name, port = f"manager-{n + 1}", ports.pop()
        text = MANAGER.format(
            name=name, port=port, jdbc=database.jdbc, user=database.user, password=database.password, nats=nats
        )
        managers.append(Node(name, "manager", folder / name, port, text + shared))
    known = ", ".join(f"{{host: 127.0.0.1, port: {one.port}, scheme: http}}" for one in managers)
    for n in range(WORKERS):
        name, port = f"worker-{n + 1}", ports.pop()
        text = WORKER.format(name=name, port=port, query=ports.pop(), managers=known)
        workers.append(Node(name, "worker", folder / name, port, text + shared))
    made = Cluster(managers, workers, f"http://127.0.0.1:{source}/readings")
    with ExitStack() as running:
        running.enter_context(_nats(folder / "nats", nats_port))
        for node in made.nodes:
            running.callback(node.end)
            node.start()
        yield made


@contextlib.contextmanager
def _nats(folder: Path, port: int) -> Iterator[None]:
    """A NATS server with JetStream, which writes to the disk before it acknowledges."""
    folder.mkdir()
    file = folder / "nats.conf"
    file.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 8MB\njetstream {{ store_dir: "{folder}/data", sync_interval: always }}\n'
    )
    with (folder / "screen").open("wb") as screen:
        server = subprocess.Popen([binary(), "-c", str(file)], stdout=screen, stderr=screen, start_new_session=True)
    try:
        yield
    finally:
        server.terminate()
        server.wait()
