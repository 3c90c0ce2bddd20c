"""A running `nadi worker` with a deployment.yaml of the test's own, and what is asked of it."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from nodes import COMMAND, MARK, Node, environment

LISTENERS = """
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, port: {query}}}]}}
spark: {{master: "local[2,4]"}}
"""


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


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
        mark, screen = secrets.token_hex(8), self.folder / "screen"
        command = [*COMMAND, "worker", "--conf", str(self.folder / "deployment.yaml"), "--home", str(self.home)]
        with screen.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**{MARK: mark}, **self.variables),
            )
        self.node = Node(process, mark, self.home / "state", screen)
        self.node.until(self.is_ready)
        if made := re.search(r"the password (\S+)", self.node.said()):
            self.password = made[1]

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.http}/health/ready").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.http}/siddhi-apps{path}"
        return httpx.request(method, url, auth=("admin", self.password), timeout=300, **given)

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
