"""The nodes of the suite `ha`: two workers of a pair on this machine, with PostgreSQL, and one that is alone."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.checkouts import Checkout
from bench.children import ROOT, ChildFailedError
from bench.posts import settings_text
from bench.processtree import kill_all
from bench.publicnode import PublicNode, TooSlowError
from nadi.io.natsserver import free_port

ANSWERS_WITHIN, READY_WITHIN = 120.0, 300.0
LOOK = 0.02
WORKER = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {rest}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: 0}}]}}
"""
PAIR = """
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      definition: {{configuration: {{jdbcUrl: "{jdbc}", username: "{user}", password: "{password}"}}}}
cluster.config:
  enabled: true
  groupId: bench
  strategyConfig: {{datasource: WSO2_CLUSTER_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2}}
deployment.config:
  type: ha
  eventSyncServer: {{host: 127.0.0.1, port: {sync}}}
"""
REVISIONS = """
state.persistence:
  enabled: true
  intervalInMin: 1
  revisionsToKeep: 2
  persistenceStore: org.wso2.carbon.streaming.integrator.core.persistence.FileSystemPersistenceStore
  config: {{location: "{revisions}"}}
"""


@dataclass
class BenchNode:
    """A worker, which may be killed and started again. `cores`: those that its processes may use; none: all."""

    id: str
    folder: Path
    checkout: Checkout
    rest: int
    cores: frozenset[int] = frozenset()
    password: str = ""
    starts: int = 0
    node: PublicNode = field(init=False)
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.rest}", timeout=120)

    def start(self) -> None:
        """It answers when this returns."""
        self.starts += 1
        command = ["worker", "--conf", str(self.folder / "deployment.yaml"), "--home", str(self.folder / "home")]
        with on_cores(self.cores):
            self.node = PublicNode(self.checkout, self.folder / f"run-{self.starts}", [], command=command)
        self.node.until(lambda: self.ask("GET", "/health") is not None or None, ANSWERS_WITHIN, "answer")
        if not self.password:
            self.password = self.node.password

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response | None:
        with contextlib.suppress(httpx.TransportError):
            return self.client.request(method, path, auth=("admin", self.password), **given)
        return None

    @property
    def is_active(self) -> bool:
        answer = self.ask("GET", "/health?role=active")
        return answer is not None and answer.status_code == 200

    def is_ready(self) -> bool:
        """Whether it is active, and its partner could go on at once."""
        answer = self.ask("GET", "/ha")
        told = {} if answer is None or not answer.is_success else answer.json()
        return bool(told.get("inSync")) and not told["unready"]

    def deploy(self, text: str) -> None:
        """Errors: ChildFailedError."""
        answer = self.ask("POST", "/siddhi-apps", content=text)
        if answer is None or not answer.is_success:
            raise ChildFailedError(f"{self.id} did not take the app: {'' if answer is None else answer.text}")

    def kill(self) -> None:
        """`kill -9` of all its processes."""
        kill_all(self.node.folder)
        self.node.end()

    def end(self) -> None:
        self.client.close()
        if hasattr(self, "node"):
            self.node.end()


@dataclass
class BenchPair:
    """Both of them; the first one was started first."""

    nodes: tuple[BenchNode, BenchNode]

    def active(self) -> BenchNode:
        """Who is active now, or soon. Errors: TooSlowError."""
        return self.until(lambda: next((one for one in self.nodes if one.is_active), None), "active node")

    def other(self, node: BenchNode) -> BenchNode:
        return next(one for one in self.nodes if one is not node)

    def ready(self) -> BenchNode:
        """Wait until the passive one could go on at once; -> the active one. Errors: TooSlowError."""
        return self.until(lambda: next((one for one in self.nodes if one.is_active and one.is_ready()), None), "pair")

    def until(self, look: Callable[[], Any], what: str) -> Any:
        limit = time.monotonic() + READY_WITHIN
        while (found := look()) is None:
            if time.monotonic() > limit:
                raise TooSlowError(f"no {what} within {READY_WITHIN:.0f} s")
            time.sleep(LOOK)
        return found


@contextlib.contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """What this thread starts in the block stays on these cores; none: wherever it likes."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def coordination(folder: Path) -> Iterator[dict[str, str]]:
    """The database that decides who is active: PostgreSQL, or a file of SQLite where that is not installed."""
    tests = str(ROOT / "tests")
    if tests not in sys.path:
        sys.path.insert(0, tests)
    from servers import databases

    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(databases.postgres())
            found = {"jdbc": server.jdbc, "user": server.user, "password": server.password}
        except databases.NotPossible:
            found = {"jdbc": f"jdbc:sqlite:{folder}/cluster.db", "user": "", "password": ""}
        yield found


@contextlib.contextmanager
def alone(checkout: Checkout, folder: Path, conf: dict[str, str], cores: frozenset[int]) -> Iterator[BenchNode]:
    """A worker without a partner. Errors: ChildFailedError."""
    node = _node(checkout, folder, "alone", WORKER, conf, cores, {})
    with contextlib.ExitStack() as stack:
        stack.callback(node.end)
        node.start()
        yield node


@contextlib.contextmanager
def pair(
    checkout: Checkout,
    folder: Path,
    conf: dict[str, str],
    cores: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset()),
    revisions: bool = False,
) -> Iterator[BenchPair]:
    """Two workers, of which the first one is active. Errors: ChildFailedError, TooSlowError."""
    folder.mkdir(parents=True)
    text = WORKER + PAIR
    if revisions:
        (folder / "revisions").mkdir(mode=0o700)
        text += REVISIONS
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(coordination(folder))
        made = []
        for n, name in enumerate(("node-1", "node-2")):
            node = _node(
                checkout,
                folder / name,
                name,
                text,
                conf,
                cores[n],
                {**database, "revisions": str(folder / "revisions")},
            )
            stack.callback(node.end)
            node.start()
            made.append(node)
            if n == 0:
                node.node.until(lambda node=node: node.is_active or None, READY_WITHIN, "active node")
        yield BenchPair((made[0], made[1]))


def _node(
    checkout: Checkout,
    folder: Path,
    name: str,
    text: str,
    conf: dict[str, str],
    cores: frozenset[int],
    places: dict[str, str],
) -> BenchNode:
    folder.mkdir(parents=True)
    rest = free_port()
    file = folder / "deployment.yaml"
    file.touch(mode=0o600)
    file.write_text(
        text.format(id=name, rest=rest, sync=free_port(), **places)
        + settings_text({"nadi.connector.folders": "/", **conf})
    )
    return BenchNode(name, folder, checkout, rest, cores)
