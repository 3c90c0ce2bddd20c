"""A cluster as users have it: a manager and workers as processes of their own, a NATS server, a database; looked at from outside, and killed."""

from __future__ import annotations

import re
import secrets
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from nodes import COMMAND, MARK, Node, environment, until
from servers import asking
from servers.ports import free_ports

from nadi.io.natsserver import binary

SECRET = secrets.token_hex(24)
MANAGER = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
wso2.datasources:
  dataSources:
    - {{name: SP_MGT_DB, definition: {{configuration: {{jdbcUrl: "{database}"}}}}}}
cluster.config:
  enabled: true
  groupId: test
  strategyConfig: {{datasource: SP_MGT_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2, eventPollingInterval: 1000}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {http}}}
  heartbeatInterval: 2000
  heartbeatMaxRetry: 2
  datasource: SP_MGT_DB
  {channels}
"""
WORKER = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, port: {query}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {http}}}
  leaderRetryInterval: 1000
  resourceManagers: [{managers}]
"""
SHARED = """
spark: {spark}
nadi:
  cluster: {{secret: {secret}, channelBytes: {most}}}
  state: {{url: "{state}"}}
  cuts: {{url: "{cuts}"}}
  journal: {{url: "{nats}"}}
  connector: {{folders: /}}
{settings}"""


@dataclass(frozen=True)
class Ground:
    """What a cluster stands on: the URLs of state, cuts and the managers' database, the Spark of its nodes and more settings as YAML, variables of their
    processes; how large channels may get."""

    state: str
    cuts: str
    database: str
    spark: str = '{master: "local[2,4]"}'
    settings: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    channel_bytes: int = -1

    @classmethod
    def in_folder(cls, folder: Path) -> Ground:
        """All of it in a folder of this machine."""
        return cls(f"{folder}/state", f"sqlite:///{folder}/cuts.db", f"jdbc:sqlite:{folder}/cluster.db")


@dataclass
class ClusterNode:
    """A manager or a worker."""

    name: str
    command: str
    folder: Path
    http: int
    configuration: str
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    password: str = ""
    node: Node = field(init=False)

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        file, screen, mark = self.folder / "deployment.yaml", self.folder / "screen", secrets.token_hex(8)
        file.write_text(self.configuration)
        file.chmod(0o600)
        with screen.open("ab") as out:
            process = subprocess.Popen(
                [*COMMAND, self.command, "--conf", str(file), "--home", str(self.folder / "home")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**self.variables, **{MARK: mark}),
            )
        self.node = Node(process, mark, self.folder / "home" / "state", screen)

    def until_it_answers(self, path: str = "/health") -> None:
        self.node.until(lambda: self._answers(path))
        if made := re.findall(r"with the password (\S+)", self.node.said()):
            self.password = made[-1]  # one that begins with an empty home has another one

    def _answers(self, path: str) -> bool:
        with suppress(httpx.TransportError):
            return asking.get(f"{self.url}{path}").status_code == 200
        return False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        return asking.request(method, f"{self.url}{path}", auth=("admin", self.password), timeout=60, **given)

    def end(self) -> None:
        self.node.kill_tree()
        self.node.process.wait()


@dataclass
class Cluster:
    """Running nodes."""

    folder: Path
    nats: str
    managers: list[ClusterNode]
    workers: list[ClusterNode]

    @property
    def manager(self) -> ClusterNode:
        """The first one, or the one that is left."""
        return next(one for one in self.managers if one.node.process.poll() is None)

    def leader(self) -> ClusterNode | None:
        """Who says that it leads."""
        for one in self.managers:
            with suppress(httpx.TransportError):
                if one.ask("GET", "/managers/isActive").status_code == 200:
                    return one
        return None

    def led(self) -> ClusterNode:
        """Who leads, as soon as somebody does."""
        found: list[ClusterNode] = []

        def there() -> bool:
            found[:] = [one for one in [self.leader()] if one is not None]
            return bool(found)

        self.until(there)
        return found[0]

    def said(self) -> str:
        return "\n".join(f"==== {one.name}\n{one.node.said()}" for one in (*self.managers, *self.workers))

    def until(self, holds: Any, seconds: float = 240) -> None:
        until(holds, seconds, self.said)

    def instances(self, app: str) -> dict[str, dict[str, Any]]:
        """The instances of an app, by name."""
        answer = self.manager.ask("GET", f"/managers/siddhi-apps/{app}")
        return {row["appName"]: row for row in answer.json()} if answer.status_code == 200 else {}

    def is_active(self, app: str) -> bool:
        return bool(self.manager.ask("GET", f"/siddhi-apps/{app}/status").json() == {"status": "active"})


def nats_server(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A NATS server that any client may use, as one of a cluster is."""
    folder.mkdir(exist_ok=True)
    file = folder / "nats.conf"
    file.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 8MB\njetstream {{ store_dir: "{folder}/data", sync_interval: always }}\n'
    )
    with (folder / "screen").open("ab") as out:
        return subprocess.Popen([binary(), "-c", str(file)], stdout=out, stderr=out)


def with_entrance(text: str, ports: Sequence[int]) -> str:
    """The configuration of a node that takes messages for http sources at a port, if one is given."""
    for port in ports:
        text = text.replace("cluster: {secret", f'cluster: {{entrance: "http://127.0.0.1:{port}", secret')
    return text


@contextmanager
def cluster(
    folder: Path,
    workers: int = 2,
    managers: int = 1,
    kafka: str = "",
    ground: Ground | None = None,
    entrances: Sequence[int] = (),
) -> Iterator[Cluster]:
    """A cluster, ended with all its processes whatever happens; its channels are on NATS, or on Kafka at an address. It shares a folder, if nothing is said.

    `entrances` are the ports at which nodes take messages for http sources, of managers first."""
    nats_port, *ports = free_ports(1 + managers + 2 * workers)
    nats = f"nats://127.0.0.1:{nats_port}"
    (folder / "shared").mkdir(mode=0o700)
    on = ground or Ground.in_folder(folder / "shared")
    shared = SHARED.format(
        secret=SECRET,
        state=on.state,
        cuts=on.cuts,
        nats=nats,
        spark=on.spark,
        settings=on.settings,
        most=on.channel_bytes,
    )
    channels = f'bootstrapURLs: "{kafka}"' if kafka else f'natsServerUrl: "{nats}"'
    leading, made = [], []
    for n in range(managers):
        name, http = f"manager-{n + 1}", ports.pop()
        text = MANAGER.format(id=name, http=http, database=on.database, channels=channels) + shared
        text = with_entrance(text, entrances[n : n + 1])
        leading.append(ClusterNode(name, "manager", folder / name, http, text, on.variables))
    known = ", ".join(f"{{host: 127.0.0.1, port: {one.http}, scheme: http}}" for one in leading)
    for n in range(workers):
        name, http, query = f"worker-{n + 1}", ports.pop(), ports.pop()
        text = WORKER.format(id=name, http=http, query=query, managers=known) + shared
        text = with_entrance(text, entrances[managers + n : managers + n + 1])
        made.append(ClusterNode(name, "worker", folder / name, http, text, on.variables))
    with ExitStack() as stack:
        server = nats_server(folder / "nats", nats_port)
        stack.callback(server.wait)
        stack.callback(server.kill)
        for one in (*leading, *made):
            one.start()
            stack.callback(one.end)
        for one in leading:
            one.until_it_answers("/health/ready")
        for one in made:
            one.until_it_answers()
            one.until_it_answers("/health/ready")  # a manager has taken it
        yield Cluster(folder, nats, leading, made)


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """What a table of SQLite has; nothing before it is there."""
    if not database.exists():
        return []
    connection = sqlite3.connect(database, timeout=30)
    try:
        return connection.execute(query).fetchall()
    except sqlite3.OperationalError as reason:
        if "no such table" in str(reason):
            return []
        raise
    finally:
        connection.close()
