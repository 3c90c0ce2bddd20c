"""A pair on one machine: it runs an app, loses its active node, and goes on; the lost node comes back with an empty disk, and the work is switched back to it.

python examples/ha/run.py             # two nodes, PostgreSQL (or SQLite); Ctrl-C ends all of it
python examples/ha/run.py --once      # ends by itself; exit status 1 where a reading is lost or counted twice
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))

from databases import Database, some_database  # noqa: E402
from narration import pause, say, until  # noqa: E402
from nodes import Node, free_ports  # noqa: E402
from stage import perform  # noqa: E402

APP = HERE / "meters.siddhi"
METERS = ("north", "south", "east", "west")
EACH = 60  # readings between two events of the story

NODE = """
wso2.carbon: {{id: {name}}}
wso2.transport.http: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {port}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: default, host: 127.0.0.1, port: {query}}}]}}
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      definition: {{configuration: {{jdbcUrl: "{jdbc}", username: "{user}", password: "{password}"}}}}
cluster.config:
  enabled: true
  groupId: example
  strategyConfig: {{datasource: WSO2_CLUSTER_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2}}
deployment.config:
  type: ha
  eventSyncServer: {{host: 127.0.0.1, port: {sync}}}
nadi: {{connector: {{folders: "{output.parent}"}}, variables: {{SOURCE_PORT: "{source}", OUTPUT: "{output}"}}}}
spark: {{master: "local[2,4]"}}
"""


@dataclass
class Story:
    """The pair, and what its app was given."""

    nodes: tuple[Node, Node]
    source: int
    output: Path
    sent: int = 0

    def tell(self) -> bool:
        """All of it; whether the result is right."""
        first = self.active()
        second = next(one for one in self.nodes if one is not first)
        until(lambda: self.in_sync(first), "both nodes have the same")
        say(f"{first.name} is active; {second.name} is passive, and has all that it needs to go on.")
        self.deploy(second)
        until(lambda: self.state(first) == "active", "the app runs")
        say(f"The app Meters was given to {second.name}, which passed it on. It runs on {first.name}.")
        self.feed(EACH)
        until(lambda: self.in_sync(first), "the partner has compiled the app")
        begun = time.monotonic()
        first.kill()
        say(f"kill -9 {first.name}.")
        say(f"{second.name} is active, and goes on where {first.name} was: {self.goes_on(second, begun)}.")
        self.feed(EACH - 1)
        shutil.rmtree(first.folder)
        first.start()
        until(lambda: self.in_sync(second), "both nodes have the same again")
        say(f"{first.name} has come back with an empty disk. It is passive, and has caught up.")
        begun = time.monotonic()
        self.asked(second, "POST", "/ha/switch")
        say(f"nadi ha switch: {first.name} is active again: {self.goes_on(first, begun)}.")
        self.feed(EACH - 1)
        return self.compare()

    def goes_on(self, node: Node, begun: float) -> str:
        """Wait until a node does the work; -> how long that took."""
        until(lambda: self.is_active(node), f"{node.name} does the work")
        active = time.monotonic() - begun
        self.feed(1)
        until(lambda: len(self.rows()) >= self.sent, "a result comes out again")
        return f"after {active:.1f} s, and its first result came after {time.monotonic() - begun:.1f} s"

    def active(self) -> Node:
        found: Node = until(lambda: next((one for one in self.nodes if self.is_active(one)), None), "a node is active")
        return found

    def is_active(self, node: Node) -> bool:
        answer = node.ask("GET", "/health?role=active")
        return answer is not None and answer.status_code == 200

    def in_sync(self, node: Node) -> bool:
        """Whether both have the same, and the passive one could go on at once."""
        answer = node.ask("GET", "/ha")
        found = {} if answer is None or not answer.is_success else answer.json()
        return bool(found.get("inSync")) and not found["unready"]

    def state(self, node: Node) -> str:
        answer = node.ask("GET", "/siddhi-apps/Meters/status")
        return "" if answer is None else str(answer.json().get("status"))

    def deploy(self, node: Node) -> None:
        self.asked(node, "POST", "/siddhi-apps", content=APP.read_text())

    def asked(self, node: Node, method: str, path: str, **given: str) -> None:
        answer = node.ask(method, path, **given)
        if answer is None or not answer.is_success:
            raise SystemExit(f"{method} {path}: {'no answer' if answer is None else answer.text}")

    def feed(self, number: int) -> None:
        """Send readings, each until it is acknowledged."""
        with httpx.Client(timeout=60) as client:
            for _ in range(number):
                body = {"event": {"meter": METERS[self.sent % len(METERS)], "kwh": 1.0}}
                until(lambda body=body: self._is_taken(client, body), "a reading is taken")
                self.sent += 1
        if number > 1:
            say(f"{self.sent} readings have been sent and taken.")

    def _is_taken(self, client: httpx.Client, body: dict[str, Any]) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return client.post(f"http://127.0.0.1:{self.source}/readings", json=body).is_success
        return False

    def compare(self) -> bool:
        until(lambda: len(self.rows()) >= self.sent, "all readings are counted")
        last = {row["meter"]: row["readings"] for row in self.rows()}
        right = len(self.rows()) == self.sent and sum(last.values()) == self.sent
        told = "each once" if right else "which is not what was sent!"
        say(
            f"{len(self.rows())} rows have come out, and the totals have counted {sum(last.values())} readings: {told}."
        )
        return right

    def rows(self) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [json.loads(line)["event"] for line in lines]


@contextlib.contextmanager
def story(folder: Path) -> Iterator[Story]:
    """Everything started; all of it is ended, whatever happens."""
    with ExitStack() as running:
        database = running.enter_context(some_database(folder))
        say(f"The database that decides who is active is {database.kind}.")
        source, *ports = free_ports(7)
        output = folder / "totals.jsonl"
        made = []
        for n, name in enumerate(("node-1", "node-2")):
            node = _node(folder, name, ports[3 * n : 3 * n + 3], database, source, output)
            running.callback(node.end)
            node.start()
            made.append(node)
        yield Story((made[0], made[1]), source, output)
        say("Everything is being ended.")


def _node(folder: Path, name: str, ports: list[int], database: Database, source: int, output: Path) -> Node:
    port, query, sync = ports
    text = NODE.format(
        name=name, port=port, query=query, sync=sync, jdbc=database.jdbc, user=database.user, password=database.password,
        source=source, output=output,
    )  # fmt: skip
    return Node(name, "worker", folder / name, port, text)


def run(folder: Path, once: bool) -> bool:
    """Tell the story; whether its result is right."""
    with story(folder) as told:
        right = told.tell()
        if not once:
            page = told.active()
            say(f"Look at {page.url} (user admin, password {page.password}). Ctrl-C ends everything.")
            while all(one.lives for one in told.nodes):
                pause(1)
        return right


def main() -> int:
    options = argparse.ArgumentParser(description="A pair on one machine, which loses its active node.")
    options.add_argument("--once", action="store_true", help="end when the story is told")
    once = options.parse_args().once
    return perform("pair", lambda folder: run(folder, once))


if __name__ == "__main__":
    sys.exit(main())
