"""Revisions of an app of a cluster, on real processes: made, kept, restored after nodes were killed; channels keep just what they need."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusternodes import Cluster, Ground, cluster, rows
from servers import asking
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
@app:name('Sums')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Given (dev string, v long, text string);
define stream Good (dev string, v long, text string);
@sink(type = 'rdbms', url = 'jdbc:sqlite:{database}', table.name = 'totals')
define stream Totals (dev string, v long, total long, n long);

@info(name = 'good') @dist(execGroup = 'filter')
from Given[v >= 0] select dev, v, text insert into Good;

@dist(execGroup = 'sums', parallel = '2')
partition with (dev of Good)
begin
  @info(name = 'sums')
  from Good select dev, v, sum(v) as total, count() as n insert into Totals;
end;
"""
KEPT = """
state.persistence:
  enabled: true
  intervalInMin: 0
  revisionsToKeep: 2
"""
DEVICES = 5
LONG = "x" * 2_000


def ground(folder: Path, channel_bytes: int = 1_000_000) -> Ground:
    return replace(Ground.in_folder(folder / "shared"), settings=KEPT, channel_bytes=channel_bytes)


def deployed(nodes: Cluster, database: Path) -> int:
    """The app, active; -> the port of its source."""
    (port,) = free_ports(1)
    text = APP.format(port=port, database=database)
    answer = nodes.manager.ask("POST", "/siddhi-apps", content=text, headers={"content-type": "text/plain"})
    assert answer.status_code == 201, answer.text
    nodes.until(lambda: nodes.is_active("Sums"))
    return port


class Feed:
    """Events, sent until each is taken. What came of an ambiguous answer is known by the numbers that are sent: each event has its own."""

    def __init__(self, nodes: Cluster, database: Path, port: int) -> None:
        self._nodes = nodes
        self._database = database
        self._url = f"http://127.0.0.1:{port}/in"
        self.sent = 0
        self.refused = 0

    def send(self, count: int, while_: Callable[[], bool] = lambda: True) -> None:
        until = self.sent + count
        while self.sent < until and while_():
            body = {"event": {"dev": f"d{self.sent % DEVICES}", "v": self.sent, "text": LONG}}
            try:
                answer = asking.post(self._url, json=body, timeout=60)
            except httpx.ConnectError:
                time.sleep(0.2)
                continue
            if answer.status_code == 503:
                self.refused += 1
                time.sleep(0.2)
                continue
            assert answer.status_code == 202, answer.text
            self.sent += 1

    def expected(self) -> list[tuple[str, int, int, int]]:
        found = []
        for device in range(DEVICES):
            total = 0
            for n, v in enumerate(range(device, self.sent, DEVICES), 1):
                total += v
                found.append((f"d{device}", v, total, n))
        return found

    def has_come(self) -> bool:
        """Whether each event is there once, in order, with the right sums."""
        return rows(self._database, "select dev, v, total, n from totals order by dev, n") == self.expected()

    def arrives(self) -> None:
        self._nodes.until(self.has_come)


def backup(nodes: Cluster) -> str:
    answer = nodes.manager.ask("POST", "/siddhi-apps/Sums/backup")
    assert answer.status_code == 201, answer.text
    return str(answer.json()["revision"])


def listed(nodes: Cluster) -> list[str]:
    answer = nodes.manager.ask("GET", "/siddhi-apps/Sums/revisions")
    assert answer.status_code == 200, answer.text
    return [row["revision"] for row in answer.json()]


def channel(nodes: Cluster) -> dict[str, Any]:
    answer = nodes.manager.ask("GET", "/managers/siddhi-apps/Sums/channels")
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()
    return dict(found)


def manifests(folder: Path) -> list[Path]:
    return sorted(
        path for path in (folder / "shared" / "state" / "siddhi-app-persistence").rglob("*__Sums-*") if path.is_file()
    )


def restored(nodes: Cluster, name: str = "") -> str:
    answer = nodes.manager.ask("POST", "/siddhi-apps/Sums/restore", params={"revision": name} if name else {})
    assert answer.status_code == 200, answer.text
    nodes.until(lambda: nodes.is_active("Sums"))
    return str(answer.json()["message"])


def test_revisions_are_made_restored_and_kept_while_nodes_die(tmp_path: Path) -> None:
    database = tmp_path / "out.db"
    with cluster(tmp_path, ground=ground(tmp_path)) as nodes:
        port = deployed(nodes, database)
        feed = Feed(nodes, database, port)
        made = []
        for _ in range(3):
            feed.send(60)
            feed.arrives()
            made.append(backup(nodes))
        assert listed(nodes) == made[1:], "two are kept"
        assert len(manifests(tmp_path)) == 2 * 3, "and nothing of the others"

        # what neither a reader nor a revision needs goes
        state = channel(nodes)
        assert state["keptFor"]["name"] == made[1]
        assert {reader["lagChunks"] for reader in state["readers"]} == {0}
        nodes.until(lambda: channel(nodes)["bytes"] < state["bytes"] * 0.8, 60)

        # an older one is restored: what came after it is taken once more, and nothing is doubled
        feed.send(20)
        assert made[1] in restored(nodes, made[1])
        feed.send(20)
        feed.arrives()

        # the newest one is damaged: the one before is used, and channels reach back to it
        newest = nodes.manager.ask("GET", "/siddhi-apps/Sums/revisions").json()[-1]
        name = newest["instances"]["Sums-sums-1"]["revision"]
        (damaged,) = (path for path in manifests(tmp_path) if path.name.startswith(name))
        damaged.write_bytes(damaged.read_bytes()[:20])
        answer = nodes.manager.ask("POST", "/siddhi-apps/Sums/restore", params={"revision": newest["revision"]})
        assert (answer.status_code, "cannot be read" in answer.text) == (500, True), answer.text
        assert made[1] in restored(nodes)
        feed.send(10)
        feed.arrives()

        # a worker dies while a revision is being made: there is none, and its parts go with the next one
        before = listed(nodes)
        lost = nodes.workers[1]
        threading.Timer(0.05, lost.end).start()
        answer = nodes.manager.ask("POST", "/siddhi-apps/Sums/backup")
        if answer.status_code != 201:  # it was in time
            assert listed(nodes) == before
        nodes.until(lambda: {row["id"] for row in nodes.instances("Sums").values()} == {nodes.workers[0].name})
        nodes.until(lambda: nodes.is_active("Sums"))
        feed.send(10)
        feed.arrives()

        # the leader dies while a revision is being made
        killed = threading.Thread(target=_asked_in_vain, args=(nodes,))
        killed.start()
        time.sleep(0.3)
        nodes.manager.node.kill_tree()
        killed.join()
        nodes.managers[0].start()
        nodes.managers[0].until_it_answers("/health/ready")
        nodes.until(lambda: nodes.is_active("Sums"))
        last = backup(nodes)
        assert listed(nodes)[-1] == last
        assert len(listed(nodes)) == 2
        assert len(manifests(tmp_path)) == 2 * 3
        restored(nodes)
        feed.send(10)
        feed.arrives()

        answer = nodes.manager.ask("DELETE", "/siddhi-apps/Sums/revisions")
        assert answer.status_code == 400
        answer = nodes.manager.ask("DELETE", "/siddhi-apps/Sums/revisions", params={"enabledRedeployment": "false"})
        assert (answer.status_code, listed(nodes), manifests(tmp_path)) == (200, [], [])


def _asked_in_vain(nodes: Cluster) -> None:
    with suppress(httpx.TransportError):
        nodes.manager.ask("POST", "/siddhi-apps/Sums/backup")
