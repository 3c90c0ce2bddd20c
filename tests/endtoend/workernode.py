"""A running `nadi worker` with a deployment.yaml of the test's own, and what is asked of it."""

from __future__ import annotations

import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from nodes import COMMAND, MARK, Node, environment
from servers import asking
from servers.ports import free_ports

LISTENERS = """
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, port: {query}}}]}}
spark: {{master: "local[2,4]"}}
"""


def started(folder: Path, port: int, variables: Mapping[str, str], adding: bool = True) -> tuple[Node, str]:
    """A worker with the deployment.yaml of a folder, which serves REST on this port, once it is ready; the password that it made, if it made one. What it says
    goes into the file `screen`, behind what one before it has said (`adding`), or instead of that."""
    home, mark, screen = folder / "home", secrets.token_hex(8), folder / "screen"
    command = [*COMMAND, "worker", "--conf", str(folder / "deployment.yaml"), "--home", str(home)]
    with screen.open("ab" if adding else "wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=environment(**{MARK: mark}, **variables),
        )
    node = Node(process, mark, home / "state", screen)
    node.until(lambda: is_ready(port))
    made = re.search(r"the password (\S+)", node.said())
    return node, "" if made is None else made[1]


def is_ready(port: int) -> bool:
    """Whether a worker that serves REST on this port is there."""
    try:
        return asking.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200
    except httpx.TransportError:
        return False


@dataclass
class WorkerNode:
    """See the module's text. `configuration` is what its deployment.yaml has beside its listeners."""

    folder: Path
    configuration: str
    variables: dict[str, str] = field(default_factory=dict)
    password: str = ""
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        self.http, self.stores = free_ports(2)
        file = self.folder / "deployment.yaml"
        file.write_text(LISTENERS.format(http=self.http, query=self.stores) + self.configuration)
        file.chmod(0o600)
        self.start()

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self) -> None:
        """Start it, or start it again, and wait until it is ready."""
        self.node, made = started(self.folder, self.http, self.variables)
        self.password = made or self.password

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.http}/siddhi-apps{path}"
        return asking.request(method, url, auth=("admin", self.password), timeout=300, **given)

    def deploy(self, app: str, text: str) -> None:
        assert self.ask("POST", "", content=text).status_code == 201
        self.node.until(lambda: self.active(app))

    def active(self, app: str) -> bool:
        return bool(self.ask("GET", f"/{app}/status").json() == {"status": "active"})


@contextmanager
def working(folder: Path, configuration: str, **variables: str) -> Iterator[WorkerNode]:
    """A worker, which is ended with all its processes whatever happens."""
    made = WorkerNode(folder, configuration, variables)
    try:
        yield made
    finally:
        made.node.kill_tree()
        made.node.process.wait()
