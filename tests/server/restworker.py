"""The REST servers of a worker whose node is a fake: every path of them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from security_build import users_section
from server_build import FakeHost, waits
from servers import asking

from nadi.config.deployment import deployment_of
from nadi.server.home import open_home
from nadi.server.measuredhost import MeasuredHost
from nadi.server.worker import Worker

PORTS = {
    "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": 0}]},
    "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": 0}]},
}
ADA, VIC, OPS, EVE = (("ada", "right"), ("vic", "right"), ("ops", "right"), ("eve", "right"))
"""An administrator; users with the permission to look, to change, and with none (`granted` gives them)."""


@dataclass
class RestWorker:
    """Two servers; what they answered is noted as (method, path, status)."""

    worker: Worker
    host: FakeHost
    api: httpx.Client
    query: httpx.Client
    seen: set[tuple[str, str, int]] = field(default_factory=set)

    @property
    def home(self) -> Path:
        return self.worker._home.folder

    def ask(self, method: str, path: str, route: str = "", auth: Any = ADA, **given: Any) -> httpx.Response:
        """An answer; `route` is the path with the names of what varies, where something does."""
        client = self.query if path.startswith("/stores") else self.api
        answer = client.request(method, path, auth=auth, **given)
        self.seen.add((method, route or path.partition("?")[0], answer.status_code))
        return answer

    def deploy(self, name: str, text: str = "define stream In (a int);") -> None:
        assert self.api.put("/siddhi-apps", content=f"@App:name('{name}') {text}", auth=ADA).status_code in (200, 201)
        waits(lambda: self.api.get(f"/siddhi-apps/{name}/status", auth=ADA).json() == {"status": "active"})

    def put_file(self, name: str, text: str) -> None:
        """Put a file into the folder of apps, and have it looked at."""
        (self.home / f"deployment/siddhi-files/{name}.siddhi").write_text(text)
        self.worker._deployer.look()

    def undeploy(self) -> None:
        """All apps."""
        for name in self.api.get("/siddhi-apps", auth=ADA).json():
            self.api.delete(f"/siddhi-apps/{name}", auth=ADA)
        waits(lambda: self.api.get("/siddhi-apps", auth=ADA).json() == [])

    def routes(self) -> list[tuple[httpx.Client, str, str]]:
        """All routes, as the OpenAPI documents have them: client, method, path."""
        return [
            (client, method.upper(), path)
            for client in (self.api, self.query)
            for path, methods in client.get("/openapi.json", auth=ADA).json()["paths"].items()
            for method in methods
        ]


@contextmanager
def rest_worker(folder: Path, **content: Any) -> Iterator[RestWorker]:
    """Runs it."""
    auth = {"auth.configs": users_section(vic="2", ops="3", eve="4")}
    worker = Worker(deployment_of({**PORTS, **auth, **content}), open_home(folder), lambda _said: None)
    host, clients = FakeHost(), []
    with ExitStack() as running:
        running.callback(worker._door.identity.close)
        worker._statistics.start(lambda name: worker._apps.status(name) is not None)
        running.callback(worker._statistics.close)
        worker._deployer.start(MeasuredHost(host, worker._statistics))
        running.callback(worker._deployer.close)
        worker._simulator.start()
        running.callback(worker._simulator.close)
        for _what, _listener, server in worker._servers():
            server.start()
            running.callback(server.stop)
            base = f"http://127.0.0.1:{server.port}"
            clients.append(running.enter_context(asking.client(base_url=base, timeout=60)))
        made = RestWorker(worker, host, *clients)
        for app, text, role in (
            ()
            if "auth.configs" in content
            else (
                ("SAPP", "siddhiApp.view", 2),
                ("SAPP", "siddhiApp.manage", 3),
                ("SIM", "simulator.view", 2),
                ("SIM", "simulator.manage", 3),
            )
        ):
            body = {"appName": app, "permissionString": text}
            assert made.api.post("/permissions", json=body, auth=ADA).status_code == 200
            assert made.api.post(f"/permissions/roles/{role}?action=grant", json=body, auth=ADA).status_code == 200
        yield made
