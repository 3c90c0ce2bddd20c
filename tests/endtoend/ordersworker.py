"""A running `nadi worker` with an app of orders, and what is asked of both."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from pathlib import Path
from typing import Any

import httpx
from nodes import COMMAND, MARK, Node, environment
from workernode import free_ports

ORDERS = """@App:name('Orders')
@source(type='http', receiver.url='http://127.0.0.1:{port}/orders', @map(type='json'))
define stream In (symbol string, volume long);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (symbol string, total long);
define table Last (symbol string, volume long);
@info(name='sums') from In#window.length(100) select symbol, sum(volume) as total group by symbol insert into Out;
@info(name='last') from In select symbol, volume update or insert into Last on Last.symbol == symbol;
"""
CONF = """
wso2.carbon: {{id: node-1, ports: {{offset: 0}}}}
wso2.transport.http:
  listenerConfigurations: [{{id: a, port: {http}}}, {{id: b, port: {https}, scheme: https}}]
siddhi.stores.query.api:
  listenerConfigurations: [{{id: q, port: {query}}}]
wso2.artifact.deployment: {{updateInterval: 1}}
spark: {{master: "local[2,4]"}}
"""


class Worker:
    """A running `nadi worker` and what is asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.out = folder, folder / "home", folder / "out.jsonl"
        self.ports = dict(zip(("http", "https", "query", "orders", "more"), free_ports(5), strict=True))
        self.password = ""
        (folder / "deployment.yaml").write_text(CONF.format(**self.ports))
        self.node = self.started()

    def started(self) -> Node:
        mark, screen = secrets.token_hex(8), self.folder / "screen"
        command = [*COMMAND, "worker", "--conf", str(self.folder / "deployment.yaml"), "--home", str(self.home)]
        with screen.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**{MARK: mark}),
            )
        node = Node(process, mark, self.home / "state", screen)
        node.until(self.is_ready)
        if made := re.search(r"the password (\S+)", node.said()):
            self.password = made[1]
        return node

    def is_ready(self) -> bool:
        try:
            return httpx.get(self.url("/health/ready")).status_code == 200
        except httpx.TransportError:
            return False

    def url(self, path: str, kind: str = "http") -> str:
        return f"http://127.0.0.1:{self.ports[kind]}{path}"

    def ask(self, method: str, path: str, kind: str = "http", **given: Any) -> httpx.Response:
        return httpx.request(method, self.url(path, kind), auth=("admin", self.password), timeout=60, **given)

    def text(self, **changes: str) -> str:
        text = ORDERS.format(port=self.ports["orders"], out=self.out)
        for old, new in changes.items():
            text = text.replace(old, new)
        return text

    def active(self, app: str) -> bool:
        return bool(self.ask("GET", f"/siddhi-apps/{app}/status").json() == {"status": "active"})

    def feed(self, symbol: str, volume: int) -> None:
        body = {"event": {"symbol": symbol, "volume": volume}}
        assert httpx.post(self.url("/orders", "orders"), json=body).status_code == 202

    def totals(self) -> list[int]:
        if not self.out.exists():
            return []
        return [json.loads(line)["event"]["total"] for line in self.out.read_text().splitlines()]

    def query(self, query: str, **given: Any) -> httpx.Response:
        return self.ask("POST", "/stores/query", "query", json={"appName": "Orders", "query": query, **given})
