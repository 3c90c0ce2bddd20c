"""A cluster whose parts die: two managers, three workers, NATS, a database; each part can be ended, cut off, paused and started again."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import patience
from clusterapps import APP, INSTANCES, NAME, SMALL
from clusternodes import SECRET, ClusterNode, nats_server
from nodes import Late, marked
from servers import asking
from servers.databases import Database, NotPossible, postgres
from servers.ports import free_ports
from wires import Wires

MANAGERS, WORKERS, SPARE = 2, 3, 1
"""`SPARE` workers are not there at the beginning."""
STOPPED = 90.0  # seconds that a worker has to end in order
PASSWORD = secrets.token_hex(8)
"""Of the managers: one that dies while it makes a user has told nobody the password."""
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""A JVM that lives for a minute is ready sooner without its second compiler."""

COMMON = """
nadi:
  cluster: {{secret: {secret}}}
  state: {{url: "{folder}/state"}}
  cuts: {{url: "{database}"}}
  journal: {{url: "{nats}"}}
  connector: {{folders: /}}
  variables: {{HOST: {host}, PORT: "{port}", SINK: "{sink}"}}
"""
MANAGER = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
auth.configs:
  userManager:
    adminRole: admin
    userStore:
      users: [user: {{username: admin, password: {password}, roles: 1}}]
      roles: [role: {{id: 1, displayName: admin}}]
wso2.datasources:
  dataSources:
    - {{name: SP_MGT_DB, definition: {{configuration: {{jdbcUrl: "{database}"}}}}}}
cluster.config:
  enabled: true
  groupId: chaos
  strategyConfig: {{datasource: SP_MGT_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2, eventPollingInterval: 1000}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {public}}}
  heartbeatInterval: 2000
  heartbeatMaxRetry: 2
  datasource: SP_MGT_DB
  natsServerUrl: "{nats}"
"""
WORKER = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, port: {query}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {public}}}
  leaderRetryInterval: 1000
  resourceManagers: [{managers}]
spark: {{master: "local[1,4]", driver.extraJavaOptions: "{jvm}"}}
"""


@dataclass
class ClusterWorld:
    """What runs. `database` is None where it is SQLite, which cannot be away. A node that is not there has no living process."""

    folder: Path
    nats: str
    database: Database | None
    url: str
    """Of the database."""
    port: int
    """On which the source listens, at the address of the worker that it is on."""
    wires: Wires
    managers: list[ClusterNode]
    workers: list[ClusterNode]
    spare: list[ClusterNode]
    broker: subprocess.Popen[bytes] | None = None
    away: set[str] = field(default_factory=set)
    """Nodes that a fault has ended and not started again yet."""

    @property
    def nodes(self) -> list[ClusterNode]:
        return [*self.managers, *self.workers, *self.spare]

    @property
    def addresses(self) -> list[str]:
        """Where the source may listen."""
        return [host_of(n) for n in range(WORKERS + SPARE)]

    def living(self) -> list[ClusterNode]:
        return [one for one in self.workers if one.name not in self.away]

    def manager(self) -> ClusterNode | None:
        """One that answers."""
        return next((one for one in self.managers if one.name not in self.away), None)

    def leader(self) -> ClusterNode | None:
        """Who says that it leads."""
        for one in self.managers:
            if one.name not in self.away:
                with contextlib.suppress(httpx.TransportError):
                    if one.ask("GET", "/managers/isActive").status_code == 200:
                        return one
        return None

    # ---- starting and ending

    def start_broker(self) -> None:
        self.broker = nats_server(self.folder / "nats", int(self.nats.rpartition(":")[2]))

    def kill_broker(self) -> None:
        assert self.broker is not None
        self.broker.kill()
        self.broker.wait()
        self.broker = None

    def kill(self, *nodes: ClusterNode, homes: bool) -> None:
        """`kill -9` of all processes of nodes, all at once; with `homes` their disks are gone, too."""
        self.away.update(one.name for one in nodes)
        found = {pid for one in nodes for pid in marked(one.node.mark)}
        send(found, signal.SIGKILL)
        for one in nodes:
            one.end()
            if homes:
                shutil.rmtree(one.folder / "home", ignore_errors=True)  # it may not have been made yet

    def stop(self, worker: ClusterNode) -> None:
        """SIGTERM to a worker, which ends in order, with all its processes. One that a round before has started is waited for: before it listens to signals,
        there is no order to end in."""
        self.answers(worker)
        self.away.add(worker.name)
        worker.node.process.terminate()
        assert worker.node.wait(STOPPED) == 0, f"{worker.name} has not ended in order\n{worker.node.said()}"
        worker.node.gone()

    def start(self, *nodes: ClusterNode) -> None:
        """Start nodes. Returns at once."""
        for one in nodes:
            one.start()
            self.away.discard(one.name)

    def until(self, holds: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until something holds. Errors: Late, also for a node that has ended by itself."""
        patience.until(holds, seconds, what, self.check, self.said)

    def check(self) -> None:
        """No node has ended by itself. Errors: Late."""
        for one in (*self.managers, *self.workers):
            if one.name not in self.away and one.node.process.poll() is not None:
                raise Late(f"{one.name} ended with {one.node.process.returncode}\n{one.node.said()[-4_000:]}")

    def answers(self, *nodes: ClusterNode) -> None:
        """Wait until nodes answer, and have been taken."""
        for one in nodes:
            one.until_it_answers()
        for one in nodes:
            self.until(
                lambda one=one: asking.get(f"{one.url}/health/ready").status_code == 200, 120, f"{one.name} is ready"
            )  # type: ignore[misc]

    # ---- the app

    def deploy(self) -> None:
        manager = self.managers[0]
        answer = manager.ask("POST", "/siddhi-apps", content=APP, headers={"content-type": "text/plain"})
        assert answer.status_code == 201, answer.text
        self.until(self.is_active, 180, "the app is active")

    def is_active(self) -> bool:
        """Whether each instance runs on a worker that is there."""
        manager = self.manager()
        assert manager is not None
        if manager.ask("GET", f"/siddhi-apps/{NAME}/status").json() != {"status": "active"}:
            return False
        there = {one.name for one in self.living()}
        placed = self.placed()
        return set(placed) == set(INSTANCES) and set(placed.values()) <= there

    def placed(self) -> dict[str, str]:
        """Instance -> worker. Errors: httpx.HTTPStatusError, where the manager cannot say: then it is not so that nothing runs."""
        manager = self.manager()
        assert manager is not None
        answer = manager.ask("GET", f"/managers/siddhi-apps/{NAME}")
        return {row["appName"]: row["id"] for row in answer.raise_for_status().json()}

    def small(self, name: str) -> str:
        """The text of another app."""
        (port,) = free_ports(1)
        return SMALL.format(name=name, port=port)

    def said(self) -> str:
        return "\n".join(f"==== {one.name}\n{one.node.said()[-3_000:]}" for one in (*self.managers, *self.workers))

    def close(self) -> None:
        """Leave nothing running."""
        for one in self.nodes:
            if hasattr(one, "node"):
                send(marked(one.node.mark), signal.SIGCONT)
                one.end()
        if self.broker is not None:
            self.kill_broker()
        self.wires.close()


def host_of(number: int) -> str:
    """Each worker has an address of its own, as on machines of its own: a source that moves listens elsewhere."""
    return f"127.0.1.{number + 1}"


def send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _url(database: Database) -> str:
    return f"postgresql://{database.user}:{quote(database.password, safe='')}@127.0.0.1:{database.port}/test"


def of_app(url: str) -> str:
    """Where the app writes to: with SQLite into a file of its own, as apps do not reach the node's."""
    return url.replace("cluster.db", "app.db")


@contextlib.contextmanager
def _database(folder: Path) -> Iterator[tuple[Database | None, str]]:
    """PostgreSQL where it is installed, else SQLite."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(postgres())
        except NotPossible:
            yield None, f"sqlite:///{folder}/shared/cluster.db"
            return
        yield server, _url(server)


@contextlib.contextmanager
def cluster_world(folder: Path) -> Iterator[ClusterWorld]:
    """A cluster with the app deployed, ended with all its processes whatever happens."""
    (folder / "shared").mkdir(mode=0o700)
    wires = Wires()
    with contextlib.ExitStack() as stack, _database(folder) as (database, url):
        world = _made(folder, database, url, wires)
        stack.callback(world.close)
        world.start_broker()
        world.start(*world.managers, *world.workers)
        for one in world.managers:
            one.until_it_answers("/health/ready")
        world.answers(*world.workers)
        world.deploy()
        yield world


def _made(folder: Path, database: Database | None, url: str, wires: Wires) -> ClusterWorld:
    nats_port, port, *ports = free_ports(2 + 2 * MANAGERS + 3 * (WORKERS + SPARE))
    nats = f"nats://127.0.0.1:{nats_port}"

    def common(host: str) -> str:
        return COMMON.format(
            secret=SECRET, folder=folder / "shared", database=url, sink=of_app(url), nats=nats, host=host, port=port
        )

    managers, workers, known = [], [], []
    for n in range(MANAGERS):
        name, http, public = f"manager-{n + 1}", ports.pop(), ports.pop()
        wires.to_manager(public, http)
        known.append(f"{{host: 127.0.0.1, port: {public}, scheme: http}}")
        encoded = b64encode(PASSWORD.encode()).decode()
        text = MANAGER.format(id=name, http=http, public=public, database=url, nats=nats, password=encoded)
        managers.append(ClusterNode(name, "manager", folder / name, http, text + common(host_of(n)), password=PASSWORD))
    for n in range(WORKERS + SPARE):
        name, http, public, query = f"worker-{n + 1}", ports.pop(), ports.pop(), ports.pop()
        wires.to_worker(public, http, name)
        text = WORKER.format(id=name, http=http, public=public, query=query, managers=", ".join(known), jvm=JVM)
        workers.append(ClusterNode(name, "worker", folder / name, http, text + common(host_of(n))))
    return ClusterWorld(folder, nats, database, url, port, wires, managers, workers[:WORKERS], workers[WORKERS:])
