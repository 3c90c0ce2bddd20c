"""Two nodes of a pair on this machine: real `nadi worker` processes with a coordination database, fed over the http source of whichever is active."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from nodes import COMMAND, MARK, Node, environment, until
from servers import asking
from servers.ports import free_ports

CONFIGURATION = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, host: 127.0.0.1, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, host: 127.0.0.1, port: {query}}}]}}
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      definition: {{type: RDBMS, configuration: {{jdbcUrl: "{database}", username: "{user}", password: "{password}"}}}}
cluster.config:
  enabled: true
  groupId: orders
  coordinationStrategyClass: org.wso2.carbon.cluster.coordinator.rdbms.RDBMSCoordinationStrategy
  strategyConfig: {{datasource: WSO2_CLUSTER_DB, heartbeatInterval: {interval}, heartbeatMaxRetry: 2, eventPollingInterval: 1000}}
deployment.config:
  type: ha
  eventSyncServer: {{host: 127.0.0.1, port: {sync}, advertisedHost: 127.0.0.1, advertisedPort: {sync}}}
nadi: {{buckets: "2", connector: {{folders: /}}}}
spark: {{master: "local[2,4]"}}
"""


@dataclass
class PairNode:
    """One of the two."""

    id: str
    folder: Path
    http: int
    query: int
    text: str
    password: str = ""
    command: Sequence[str] = COMMAND
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the environment of its processes."""
    node: Node = field(init=False, repr=False)

    def start(self) -> None:
        """Start it, or start it again; it answers when this returns."""
        self.launch()
        self.node.until(self.answers)
        self.note_password()

    def launch(self) -> None:
        """Start it. Returns at once."""
        self.folder.mkdir(exist_ok=True)
        file, screen, mark = self.folder / "deployment.yaml", self.folder / "screen", secrets.token_hex(8)
        file.write_text(self.text)
        file.chmod(0o600)
        with screen.open("ab") as out:
            process = subprocess.Popen(
                [*self.command, "worker", "--conf", str(file), "--home", str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**{MARK: mark}, **self.variables),
            )
        self.node = Node(process, mark, self.home / "state", screen)

    def note_password(self) -> None:
        """Look for the password that it said when it made one; it has said it when it answers."""
        if made := re.findall(r"with the password (\S+)", self.node.said()):
            self.password = made[-1]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    @property
    def is_there(self) -> bool:
        return hasattr(self, "node") and self.node.process.poll() is None

    def answers(self, role: str = "") -> bool:
        """Whether it answers, and has a role, if one is named."""
        with suppress(httpx.TransportError):
            return (
                asking.get(f"{self.url}/health", params={"role": role} if role else {}, timeout=10).status_code == 200
            )
        return False

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        return asking.request(method, f"{self.url}{path}", auth=("admin", self.password), timeout=120, **given)

    def seen(self) -> dict[str, Any]:
        """The pair as this node sees it."""
        found: dict[str, Any] = self.ask("GET", "/ha").json()
        return found

    def status(self, app: str) -> str:
        return str(self.ask("GET", f"/siddhi-apps/{app}/status").json().get("status"))

    def kill(self) -> None:
        """`kill -9` of all its processes."""
        self.node.kill_tree()
        self.node.process.wait()

    def forget(self) -> None:
        """Its disk is lost."""
        shutil.rmtree(self.home)


@dataclass
class Pair:
    """Both of them."""

    nodes: tuple[PairNode, PairNode]

    def said(self) -> str:
        return "\n".join(f"==== {one.id}\n{one.node.said()[-20_000:]}" for one in self.nodes)

    def until(self, holds: Any, seconds: float = 120) -> None:
        until(holds, seconds, self.said)

    def active(self) -> PairNode:
        """The active one, as soon as there is one."""
        found: list[PairNode] = []

        def there() -> bool:
            found[:] = [one for one in self.nodes if one.is_there and one.answers("active")]
            return bool(found)

        self.until(there)
        return found[0]

    def other(self, node: PairNode) -> PairNode:
        return next(one for one in self.nodes if one is not node)

    def in_sync(self) -> None:
        """Wait until both have the same, and the active one says so."""
        self.until(lambda: self.active().seen()["inSync"])


@contextmanager
def pair(
    folder: Path, database: str = "", user: str = "", password: str = "", interval: int = 1_000, extra: str = ""
) -> Iterator[Pair]:
    """A pair, ended with all its processes whatever happens; the first node is started first. Without a database it decides in a file of SQLite."""
    ports = free_ports(6)
    url = database or f"jdbc:sqlite:{folder}/cluster.db"
    made = []
    for n, name in enumerate(("node-1", "node-2")):
        http, query, sync = ports[3 * n : 3 * n + 3]
        text = CONFIGURATION.format(
            id=name, http=http, query=query, sync=sync, database=url, user=user, password=password, interval=interval
        )
        made.append(PairNode(name, folder / name, http, query, text + extra))
    with ExitStack() as stack:
        for one in made:
            stack.callback(_ended, one)
            one.start()
        yield Pair((made[0], made[1]))


def _ended(node: PairNode) -> None:
    if hasattr(node, "node"):
        node.kill()


def feed(port: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send events to an http source, one after the other; -> those that were acknowledged."""
    taken = []
    with asking.client(timeout=30) as client:
        for row in rows:
            with suppress(httpx.TransportError):
                if client.post(f"http://127.0.0.1:{port}/in", json={"event": row}).is_success:
                    taken.append(row)
    return taken
