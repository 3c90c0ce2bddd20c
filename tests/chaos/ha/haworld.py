"""A pair whose parts die: two nodes on addresses of their own, PostgreSQL, Kafka and Mosquitto; the ways of a node to the database and to its partner can lose
what is sent."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import patience
from confluent_kafka.admin import AdminClient, NewTopic
from haapps import APP, NAME, ROWS
from hanode import ADDRESS
from nodes import Late, marked
from pairnodes import PairNode
from servers import asking
from servers.databases import Database, postgres
from servers.mosquitto import Mosquitto, mosquitto
from servers.ports import free_ports
from sqlalchemy import NullPool, create_engine, text
from wires import IN, OUT, Wires

from nadi.databases import Address

ASKED = 10.0  # seconds that a node has to answer
PASSWORD = secrets.token_hex(8)
KEPT = 5
"""Revisions. They are made when they are asked for, never by a clock (`harevisions`)."""
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""A JVM that lives for a minute is ready sooner without its second compiler."""
GROUP = "chaos"

NODE = """
wso2.carbon: {{id: {id}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, host: 127.0.0.1, port: {http}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, host: 127.0.0.1, port: {query}}}]}}
auth.configs:
  userManager:
    adminRole: admin
    userStore:
      users: [user: {{username: admin, password: {password}, roles: 1}}]
      roles: [role: {{id: 1, displayName: admin}}]
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      definition: {{configuration: {{jdbcUrl: "{jdbc}", username: "{user}", password: "{secret}"}}}}
state.persistence:
  enabled: true
  intervalInMin: 0
  revisionsToKeep: {kept}
  persistenceStore: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore
  config: {{datasource: WSO2_CLUSTER_DB, table: PERSISTENCE_TABLE}}
cluster.config:
  enabled: true
  groupId: {group}
  strategyConfig: {{datasource: WSO2_CLUSTER_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2, eventPollingInterval: 1000}}
deployment.config:
  type: ha
  eventSyncServer: {{host: 127.0.0.1, port: {sync}, advertisedHost: 127.0.0.1, advertisedPort: {public}}}
nadi: {{buckets: "1"}}
spark: {{master: "local[2,4]", driver.extraJavaOptions: "{jvm}"}}
"""


def host_of(number: int) -> str:
    """Where the sources of a node listen."""
    return f"127.0.2.{number + 1}"


@dataclass
class PairWorld:
    """What runs. `away` are nodes that were not started yet, or that a fault has ended and not started again."""

    folder: Path
    database: Database
    broker: Any
    mqtt: Mosquitto
    wires: Wires
    nodes: tuple[PairNode, PairNode]
    port: int
    """On which the source listens, at the address of the node that is active."""
    away: set[str] = field(default_factory=set)

    @property
    def addresses(self) -> list[str]:
        return [host_of(n) for n in range(len(self.nodes))]

    @property
    def url(self) -> str:
        """Of the database, for who is no node: its way is always whole."""
        return (
            f"postgresql://{self.database.user}:{quote(self.database.password, safe='')}"
            f"@127.0.0.1:{self.database.port}/test"
        )

    # ---- looking

    def seen(self, node: PairNode) -> dict[str, Any] | None:
        """The pair as a node sees it; None where it does not answer."""
        if node.id in self.away:
            return None
        with contextlib.suppress(httpx.HTTPError, OSError):
            answer = asking.get(f"{node.url}/ha", auth=("admin", PASSWORD), timeout=ASKED)
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
        return None

    def active(self) -> PairNode:
        """The active node, as soon as there is one."""
        found: list[PairNode] = []

        def there() -> bool:
            found[:] = [one for one in self.nodes if (seen := self.seen(one)) and seen["role"] == "active"]
            return len(found) == 1

        self.until(there, 120, "a node is active")
        return found[0]

    def other(self, node: PairNode) -> PairNode:
        return next(one for one in self.nodes if one is not node)

    def in_sync(self) -> bool:
        """Whether one is active and runs the app, and the other one has all of it."""
        roles = {one.id: seen for one in self.nodes if (seen := self.seen(one))}
        working = [one for one in self.nodes if roles.get(one.id, {}).get("role") == "active"]
        return (
            len(roles) == 2
            and len(working) == 1
            and all(seen["inSync"] for seen in roles.values())
            and working[0].status(NAME) == "active"
        )

    def until(self, holds: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until something holds. Errors: Late, also for a node that has ended by itself."""
        patience.until(holds, seconds, what, self.check, self.said)

    def check(self) -> None:
        """No node has ended by itself. Errors: Late."""
        for one in self.nodes:
            if one.id not in self.away and one.node.process.poll() is not None:
                raise Late(f"{one.id} ended with {one.node.process.returncode}\n{one.node.said()[-4_000:]}")

    def said(self) -> str:
        return "\n".join(f"==== {one.id}: {self.seen(one)}\n{one.node.said()[-3_000:]}" for one in self.nodes)

    # ---- doing

    def kill(self, node: PairNode, home: bool) -> bool:
        """`kill -9` of all processes of a node, all at once; with `home` its disk is lost, too. Whether it is: where the other node was too slow and is out of
        the in-sync set, nothing would be left of what only this disk has."""
        self.away.add(node.id)
        send(marked(node.node.mark), signal.SIGKILL)
        node.kill()
        lost = home and self.other(node).id in self.complete()  # now the dead node changes the set no more
        if lost:
            node.forget()
        return lost

    def complete(self) -> set[str]:
        """The nodes that have everything, as the database knows. A change that is under way is waited for."""
        engine = create_engine(Address(self.url).parsed, poolclass=NullPool)
        query = text("select members from nadi_pair_in_sync where group_id = :group for update")
        with engine.connect() as connection:
            members = connection.execute(query, {"group": GROUP}).scalar_one()
        return {id_ for id_, _store in json.loads(members)}

    def start(self, node: PairNode) -> None:
        """Start a node. Returns when it answers."""
        node.launch()
        self.away.discard(node.id)
        self.until(node.answers, 180, f"{node.id} answers")

    def lose_database(self, node: PairNode, *ways: str) -> None:
        """What goes these ways between a node and the database is lost; nothing for whole again."""
        self.wires.lose(f"{node.id} database", *ways)

    def lose_between(self, *directions: tuple[PairNode, PairNode]) -> None:
        """What the first node of each pair of nodes sends to the second one is lost; nothing for whole again."""
        for one in self.nodes:
            other = self.other(one)
            ways = ((IN,) if (other, one) in directions else ()) + ((OUT,) if (one, other) in directions else ())
            self.wires.lose(f"{one.id} sync", *ways)

    def deploy(self) -> None:
        text = APP.format(port=self.port, broker=self.broker.address, mqtt=self.mqtt.url, database=self.url)
        answer = self.nodes[0].ask("POST", "/siddhi-apps", content=text, headers={"content-type": "text/plain"})
        assert answer.status_code == 201, answer.text
        self.until(self.in_sync, 180, "the app runs, and both have it")

    def close(self) -> None:
        """Leave nothing running."""
        for one in self.nodes:
            if hasattr(one, "node"):
                send(marked(one.node.mark), signal.SIGCONT)
                one.kill()
        self.wires.close()


class Watch:
    """Asks both nodes for their roles and tokens, again and again: no token has two active nodes. What changes stands in the file `roles`, with seconds."""

    PAUSE = 0.5  # seconds

    def __init__(self, world: PairWorld) -> None:
        self._world = world
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.active: dict[int, set[str]] = {}
        """Token -> ids of the nodes that said that they are active under it."""
        self._said: dict[str, str] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(60)

    def wrong(self) -> list[str]:
        twice = {token: ids for token, ids in self.active.items() if len(ids) > 1}
        return [f"active under the same token: {twice}"] if twice else []

    def _run(self) -> None:
        began = time.monotonic()
        with (self._world.folder / "roles").open("w") as file:
            while not self._stopping.wait(self.PAUSE):
                for one in self._world.nodes:
                    seen = self._world.seen(one)
                    if seen and seen["role"] == "active":
                        self.active.setdefault(seen["token"], set()).add(one.id)
                    said = "does not answer" if seen is None else "{role}, in sync: {inSync}. {reason}".format(**seen)
                    if said != self._said.get(one.id):
                        self._said[one.id] = said
                        print(f"[{time.monotonic() - began:6.1f} s] {one.id}: {said}", file=file, flush=True)


def send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def pair_world(folder: Path, broker_module: Any) -> Iterator[PairWorld]:
    """A pair with the app deployed, ended with all its processes whatever happens. Errors: NotPossible of one of the servers."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(postgres())
        broker = broker_module.start(folder / "kafka")
        stack.callback(broker.stop)
        mqtt = mosquitto(folder / "mosquitto")
        stack.callback(mqtt.kill)
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic("in", num_partitions=2), NewTopic(ROWS, num_partitions=1)]
        for created in admin.create_topics(topics).values():
            created.result(60)
        world = _made(folder, database, broker, mqtt)
        stack.callback(world.close)
        for one in world.nodes:
            world.start(one)
        world.deploy()
        yield world


def _made(folder: Path, database: Database, broker: Any, mqtt: Mosquitto) -> PairWorld:
    wires, (port, *ports), nodes = Wires(), free_ports(1 + 2 * 5), []
    for n in range(2):
        name, (http, query, sync, public, db) = f"node-{n + 1}", ports[5 * n : 5 * n + 5]
        wires.to_worker(public, sync, f"{name} sync")
        wires.to_worker(db, database.port, f"{name} database")
        text = NODE.format(
            id=name,
            kept=KEPT,
            http=http,
            query=query,
            sync=sync,
            public=public,
            jdbc=f"jdbc:postgresql://127.0.0.1:{db}/test",
            user=database.user,
            secret=database.password,
            password=b64encode(PASSWORD.encode()).decode(),
            jvm=JVM,
            group=GROUP,
        )
        here = Path(__file__).parent
        command = (sys.executable, str(here / "hanode.py"))
        variables = {ADDRESS: host_of(n)}
        nodes.append(PairNode(name, folder / name, http, query, text, PASSWORD, command, variables))
    away = {one.id for one in nodes}
    return PairWorld(folder, database, broker, mqtt, wires, (nodes[0], nodes[1]), port, away)
