"""Workers of a cluster get another version of nadi, one after the other, while events come in: nothing is lost, nothing comes twice, and no lease has to end.

The other version is the same nadi under another name (NADI_RELEASE): what a worker says of itself is all that differs, nothing is decided by it.
"""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusternodes import Cluster, ClusterNode, cluster, rows
from servers import asking
from test_endtoend_distributed import by_device, deployed, events, expected

from nadi.config.release import VARIABLE, release

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW = "9.9.0"


class Sender:
    """Sends events one by one, each until it is taken, and remembers them. A request that is sent and not answered is none of an orderly stop."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/in"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.given: list[tuple[str, int]] = []
        self.problem: BaseException | None = None

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        number = 0
        try:
            while not self._stopping.wait(0.02):
                (one,) = events(number, 1)
                if self._taken(one):
                    self.given.append(one)
                    number += 1
        except BaseException as reason:
            self.problem = reason

    def _taken(self, one: tuple[str, int]) -> bool:
        try:
            answer = asking.post(self._url, json={"event": {"dev": one[0], "v": one[1]}}, timeout=60)
        except httpx.ConnectError:
            return False  # the source is on its way to another worker
        assert answer.status_code in (202, 503), answer.text
        return answer.status_code == 202


def versions(nodes: Cluster) -> dict[str, str]:
    found = nodes.manager.ask("GET", "/cluster/workers").json()
    return {one["id"]: one["version"] for one in found if one["state"] != "gone"}


def happened(nodes: Cluster) -> list[tuple[str, str]]:
    return [(one["kind"], one["subject"]) for one in nodes.manager.ask("GET", "/status/cluster").json()["events"]]


def stop(worker: ClusterNode) -> None:
    """As systemd does."""
    worker.node.process.send_signal(signal.SIGTERM)
    assert worker.node.wait() == 0
    worker.node.gone()


def makers(database: Path) -> set[str]:
    """Which versions have made cuts."""
    found: list[tuple[Any, ...]] = rows(database, "select cut from nadi_cuts")
    return {json.loads(text)["by"][0] for (text,) in found}


def test_workers_get_another_version_one_by_one_under_load_and_nothing_is_lost_or_doubled(tmp_path: Path):
    with cluster(tmp_path, workers=3) as nodes:
        text, port = deployed(nodes, tmp_path / "out.db")
        assert set(versions(nodes).values()) == {release()}
        with Sender(port) as sender:
            for worker in nodes.workers:
                nodes.until(lambda: len(by_device(tmp_path / "out.db")) > 0)
                stop(worker)
                assert "cluster: left; what ran here goes on elsewhere" in worker.node.said()
                nodes.until(lambda: nodes.is_active("Meters"))
                assert worker.name not in {row["id"] for row in nodes.instances("Meters").values()}
                worker.variables = {**worker.variables, VARIABLE: NEW}
                worker.start()
                worker.until_it_answers("/health/ready")
                assert versions(nodes)[worker.name] == NEW
            taken = len(sender.given)
            nodes.until(lambda: len(sender.given) > taken + 20)  # sources are there, whatever has moved
        assert set(versions(nodes).values()) == {NEW}
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, sender.given))
        what = happened(nodes)
        assert {of for kind, of in what if kind == "worker left"} == {worker.name for worker in nodes.workers}
        assert [of for kind, of in what if kind == "worker gone"] == []  # nobody's lease had to end
        assert makers(tmp_path / "shared" / "cuts.db") == {release(), NEW}


def test_a_worker_that_nobody_can_replace_is_drained_leaves_and_says_what_waits(tmp_path: Path):
    with cluster(tmp_path, workers=1) as nodes:
        text, port = deployed(nodes, tmp_path / "out.db")
        with Sender(port) as sender:
            nodes.until(lambda: len(sender.given) > 30)
        (worker,) = nodes.workers
        assert nodes.manager.ask("POST", f"/cluster/workers/{worker.name}/drain").status_code == 200
        stop(worker)
        assert "no other worker can run these now: Meters: " in worker.node.said()
        worker.start()
        worker.until_it_answers("/health/ready")
        assert nodes.manager.ask("POST", f"/cluster/workers/{worker.name}/drain?on=false").status_code == 200
        nodes.until(lambda: nodes.is_active("Meters"))
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, sender.given))
