"""A manager in this process, with its REST server, and workers that run nothing: every path of it, without Spark and without a broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import APIRouter
from security_build import users_section
from server_build import waits
from servers import asking
from servers.ports import free_port

from nadi.cluster.contract import Haste, StartFailed
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.messages import Message, Metrics, Order
from nadi.cluster.settings import WorkerSettings
from nadi.cluster.worker import Worker
from nadi.config.deployment import deployment_of
from nadi.io.httpserver import HttpServer
from nadi.metrics.levels import Level
from nadi.server.deployer import ACTIVE, AppStatus
from nadi.server.distributed.loopthread import LoopThread
from nadi.server.distributed.managerserver import ClusterManager
from nadi.server.distributed.membership import incarnation
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.nodeentrance import OF_WORKERS, NodeEntrance
from nadi.server.distributed.nodekeys import NodeKey
from nadi.server.home import open_home
from nadi.server.rest import nodemessages, statistics
from nadi.server.rest.application import make_routes
from nadi.server.statistics import Standing

SECRET = "s" * 40
ADA, VIC, OPS, EVE, MON, DAN = ((name, "right") for name in ("ada", "vic", "ops", "eve", "mon", "dan"))
"""An administrator; users with the permission to look at apps, to change them, with none, and to monitor."""


class FakeNode:
    """Implements `nadi.cluster.contract.Node`: notes what would run. `fails` refuses what is started, with the reason; `began` is since when (ms) all
    runs, as the worker says."""

    def __init__(self) -> None:
        self.incarnation = incarnation()
        self.running: dict[str, Order] = {}
        self.fails = ""
        self.began = 0
        self.ended: Callable[[str, int, str], None] = lambda _instance, _epoch, _reason: None

    async def start(self, order: Order) -> None:
        if self.fails:
            raise StartFailed(self.fails)
        self.running[order.instance] = order

    async def stop(self, instance: str, haste: Haste) -> None:
        self.running.pop(instance, None)

    def metrics(self) -> Metrics:
        return Metrics(0.25, 0.125, 0.5)

    def watch(self, ended: Callable[[str, int, str], None], drained: Callable[[str, int], None]) -> None:
        self.ended = ended


More = Callable[[FakeNode], APIRouter]


class MeasuredInstances:
    """The instances of a worker as `/siddhi-apps/statistics` asks for them, and how much is measured of each."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.levels: dict[str, Level] = {}

    def statuses(self) -> list[AppStatus]:
        return [AppStatus(name, "", ACTIVE, since=self._node.began) for name in self._node.running]

    def status(self, name: str) -> AppStatus | None:
        return AppStatus(name, "", ACTIVE) if name in self._node.running else None

    def standings_of(self, names: Collection[str]) -> dict[str, Standing]:
        return {name: Standing(self.levels.get(name, Level.OFF)) for name in names}

    def switch(self, name: str, level: Level) -> bool:
        before, self.levels[name] = self.levels.get(name, Level.OFF), level
        return before is not level


def measured(node: FakeNode) -> APIRouter:
    """The routes of statistics of a worker."""
    found = MeasuredInstances(node)
    return statistics.app_routes(found, found)  # type: ignore[arg-type]


class FakeWorker:
    """A worker by nadi's own modules, on a node that runs nothing; `more` makes routes of its REST API besides those of messages."""

    def __init__(
        self, name: str, manager: str, more: More | None = None, receiver: bool = False, version: str = ""
    ) -> None:
        self.name, self.node, key = name, FakeNode(), NodeKey(SECRET)
        answers = nodemessages.worker_answers(self._answer)
        others = [] if more is None else [more(self.node)]
        routes = make_routes("worker", [nodemessages.message_routes(answers), *others])
        entrance = NodeEntrance(routes, answers, key, routes, OF_WORKERS)
        self._server = HttpServer(entrance, "127.0.0.1", free_port())
        self._network = HttpNetwork(key, {}, None)
        settings = WorkerSettings(
            name, f"http://127.0.0.1:{self._server.port}", (manager,), receiver, retry=200, version=version
        )
        self._worker = Worker(settings, MachineClock(), self._network, self.node)
        self._problems: list[BaseException] = []
        self._loop = LoopThread(self._life, self._problems.append)

    def start(self) -> None:
        self._server.start()
        self._loop.start()

    def close(self) -> None:
        self._loop.close()
        self._server.stop()
        assert not self._problems

    def leave(self) -> None:
        """End in order: nobody waits for the end of its lease."""
        self._loop.submit(self._worker.leave(60_000)).result()
        self.close()

    def crash(self, instance: str, reason: str) -> None:
        """End an instance, as one that falls over does."""
        self._loop.submit(self._crash(instance, reason)).result()

    async def _crash(self, instance: str, reason: str) -> None:
        self.node.ended(instance, self.node.running.pop(instance).epoch, reason)

    async def _life(self) -> None:
        try:
            await self._worker.run()
        finally:
            await self._network.close()

    async def _answer(self, asked: Message) -> Message:
        return await asyncio.wrap_future(self._loop.submit(self._worker.answer(asked)))


@dataclass
class RestCluster:
    """A manager and what it answered, as (method, path, status)."""

    manager: ClusterManager
    url: str
    client: httpx.Client
    workers: dict[str, FakeWorker] = field(default_factory=dict)
    seen: set[tuple[str, str, int]] = field(default_factory=set)

    def ask(self, method: str, path: str, route: str = "", auth: Any = ADA, **given: Any) -> httpx.Response:
        """An answer; `route` is the path with the names of what varies, where something does."""
        answer = self.client.request(method, path, auth=auth, **given)
        self.seen.add((method, route or path.partition("?")[0], answer.status_code))
        return answer

    def join(self, name: str, more: More | None = None, receiver: bool = False, version: str = "") -> FakeWorker:
        """Start a worker, and wait until it is taken."""
        made = self.workers[name] = FakeWorker(name, self.url, more, receiver, version)
        made.start()
        waits(lambda: name in {one["nodeId"] for one in self.details()})
        return made

    def details(self) -> list[dict[str, Any]]:
        """The workers as the manager shows them."""
        answer = self.client.get("/resourceClusterWorkers/clusteredWorkerNodeDetails", auth=ADA)
        return list(answer.json()) if answer.status_code == 200 else []

    def leave(self, name: str) -> None:
        """Have a worker leave, and wait until the manager shows it no more."""
        self.workers.pop(name).leave()
        waits(lambda: name not in {one["nodeId"] for one in self.details()})

    def deploy(self, text: str, active: bool = True) -> None:
        answer = self.client.put("/siddhi-apps", content=text, auth=ADA)
        assert answer.status_code in (200, 201), answer.text
        name = text.split("'")[1]
        if active:
            waits(lambda: self.client.get(f"/siddhi-apps/{name}/status", auth=ADA).json() == {"status": "active"})

    def undeploy(self) -> None:
        """All apps."""
        for name in self.client.get("/siddhi-apps", auth=ADA).json():
            self.client.delete(f"/siddhi-apps/{name}", auth=ADA)
        waits(lambda: not any(worker.node.running for worker in self.workers.values()))

    def routes(self) -> list[tuple[str, str]]:
        """All routes, as the OpenAPI document has them: method, path."""
        paths = self.client.get("/openapi.json", auth=ADA).json()["paths"]
        return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@contextmanager
def rest_cluster(
    folder: Path, database: str = "", clustered: bool = True, nats: str = "nats://127.0.0.1:1", name: str = "manager-1"
) -> Iterator[RestCluster]:
    """Runs a manager; workers join it. Two with one database are of one cluster. Leases are long, as a busy machine may let all of it stand still."""
    port, database = free_port(), database or f"jdbc:sqlite:{folder}/cluster.db"
    content = {
        "wso2.carbon": {"id": name},
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": port}]},
        "wso2.datasources": {
            "dataSources": [{"name": "SP_MGT_DB", "definition": {"configuration": {"jdbcUrl": database}}}]
        },
        "cluster.config": {
            "enabled": clustered,
            "groupId": "test",
            "strategyConfig": {"datasource": "SP_MGT_DB", "heartbeatInterval": 10_000, "eventPollingInterval": 1000},
        },
        "deployment.config": {
            "type": "distributed",
            "httpInterface": {"host": "127.0.0.1", "port": port},
            "heartbeatInterval": 1000,
            "heartbeatMaxRetry": 6,
            "datasource": "SP_MGT_DB",
            "natsServerUrl": nats,
        },
        "auth.configs": users_section(vic="2", ops="3", eve="4", mon="5", dan="6"),
        "nadi": {"cluster": {"secret": SECRET}},
    }
    content["auth.configs"]["userManager"]["userStore"]["roles"] += [
        {"role": {"id": "5", "displayName": "watchers"}},
        {"role": {"id": "6", "displayName": "monitors"}},
    ]
    problems: list[BaseException] = []
    manager = ClusterManager(deployment_of(content), open_home(folder / "home"), lambda _: None, lambda _: None)

    def run() -> None:
        try:
            manager.run()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="manager")
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as running:
        client = running.enter_context(asking.client(base_url=url, timeout=60))
        thread.start()
        running.callback(thread.join)
        running.callback(manager.request_stop)
        made = RestCluster(manager, url, client)
        waits(lambda: problems or _answers(client))
        assert not problems
        grants = (
            ("SAPP", "siddhiApp.view", 2),
            ("SAPP", "siddhiApp.manage", 3),
            ("MON", "mon.view", 5),
            ("MON", "MON.viewer", 6),
        )
        for app, text, role in grants:
            body = {"appName": app, "permissionString": text}
            assert client.post("/permissions", json=body, auth=ADA).status_code == 200
            assert client.post(f"/permissions/roles/{role}?action=grant", json=body, auth=ADA).status_code == 200
        try:
            yield made
        finally:
            for worker in made.workers.values():
                worker.close()
    assert not problems


def _answers(client: httpx.Client) -> bool:
    """Whether it leads."""
    try:
        return client.get("/health/ready").status_code == 200
    except httpx.TransportError:
        return False
