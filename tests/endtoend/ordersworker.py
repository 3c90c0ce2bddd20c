"""A running `nadi worker` with an app of orders, and what is asked of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from nodes import Node, lines
from servers import asking
from servers.ports import free_ports
from workernode import is_ready, started

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
        self.folder, self.home, self.out = folder, folder / "home", folder / "home" / "files" / "out.jsonl"
        self.ports = dict(zip(("http", "https", "query", "orders", "more"), free_ports(5), strict=True))
        self.password = ""
        (folder / "deployment.yaml").write_text(CONF.format(**self.ports))
        self.node = self.started()

    def started(self) -> Node:
        node, made = started(self.folder, self.ports["http"], {}, adding=False)
        self.password = made or self.password
        return node

    def is_ready(self) -> bool:
        return is_ready(self.ports["http"])

    def url(self, path: str, kind: str = "http") -> str:
        return f"http://127.0.0.1:{self.ports[kind]}{path}"

    def ask(self, method: str, path: str, kind: str = "http", **given: Any) -> httpx.Response:
        return asking.request(method, self.url(path, kind), auth=("admin", self.password), timeout=60, **given)

    def text(self, **changes: str) -> str:
        text = ORDERS.format(port=self.ports["orders"], out=self.out)
        for old, new in changes.items():
            text = text.replace(old, new)
        return text

    def active(self, app: str) -> bool:
        return bool(self.ask("GET", f"/siddhi-apps/{app}/status").json() == {"status": "active"})

    def feed(self, symbol: str, volume: int) -> None:
        body = {"event": {"symbol": symbol, "volume": volume}}
        assert asking.post(self.url("/orders", "orders"), json=body).status_code == 202

    def totals(self) -> list[int]:
        return [json.loads(line)["event"]["total"] for line in lines(self.out)]

    def query(self, query: str, **given: Any) -> httpx.Response:
        return self.ask("POST", "/stores/query", "query", json={"appName": "Orders", "query": query, **given})


@contextmanager
def working(folder: Path) -> Iterator[Worker]:
    """A worker, which is ended with all its processes whatever happens."""
    made = Worker(folder)
    try:
        yield made
    finally:
        made.node.kill_tree()
        made.node.process.wait()
