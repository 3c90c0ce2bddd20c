"""A cluster of real processes: one manager, two workers, NATS, a database; an app of two groups, deployed over REST, fed and right."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusternodes import Cluster, ClusterNode, cluster, rows
from servers import asking
from servers.ports import free_ports

from nadi.testing.app import AppUnderTest

pytestmark = [pytest.mark.spark]

APP = """
@app:name('Meters')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Readings (dev string, v long);
define stream Good (dev string, v long);
@sink(type = 'rdbms', url = 'jdbc:sqlite:{database}', table.name = 'totals')
define stream Totals (dev string, v long, total long, n long);

@info(name = 'good') @dist(execGroup = 'filter')
from Readings[v >= 0] select dev, v insert into Good;

@dist(execGroup = 'sums', parallel = '2')
partition with (dev of Good)
begin
  @info(name = 'sums')
  from Good select dev, v, sum(v) as total, count() as n insert into Totals;
end;
"""
DEVICES = 7


def events(start: int, count: int) -> list[tuple[str, int]]:
    return [(f"d{n % DEVICES}", n if n % 5 else -n) for n in range(start, start + count)]


def expected(app: str, given: list[tuple[str, int]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each device, as the same app gives them in one process."""
    whole = AppUnderTest(app)
    for one in given:
        whole.send("Readings", [list(one)])
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in whole.rows("Totals"):
        found.setdefault(str(row[0]), []).append(row)
    return found


def by_device(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows(database, "select dev, v, total, n from totals order by dev, n"):
        found.setdefault(row[0], []).append(row)
    return found


def send(port: int, given: list[tuple[str, int]]) -> None:
    for one in given:
        body = {"event": {"dev": one[0], "v": one[1]}}
        answer = asking.post(f"http://127.0.0.1:{port}/in", json=body, timeout=60)
        assert answer.status_code == 202, answer.text


def send_on(port: int, given: list[tuple[str, int]]) -> None:
    """Send each event until it is taken: its source may be on the way to another worker, and refuses connections then."""
    for one in given:
        body = {"event": {"dev": one[0], "v": one[1]}}
        while True:
            try:
                answer = asking.post(f"http://127.0.0.1:{port}/in", json=body, timeout=60)
            except httpx.ConnectError:
                time.sleep(0.2)
                continue
            assert answer.status_code in (202, 503), answer.text
            if answer.status_code == 202:
                break
            time.sleep(0.2)


def worker_of(nodes: Cluster, instance: str) -> ClusterNode:
    """The worker that an instance is on."""
    return next(one for one in nodes.workers if one.name == nodes.instances("Meters")[instance]["id"])


def kill(node: ClusterNode) -> None:
    """As a power cut does: all its processes, and what is on its disk."""
    node.node.kill_tree()
    shutil.rmtree(node.folder / "home")


def deployed(nodes: Cluster, database: Path) -> tuple[str, int]:
    """The app, active; -> its text and the port of its source."""
    (port,) = free_ports(1)
    text = APP.format(port=port, database=database)
    answer = nodes.manager.ask("POST", "/siddhi-apps", content=text, headers={"content-type": "text/plain"})
    assert answer.status_code == 201, answer.text
    nodes.until(lambda: nodes.is_active("Meters"))
    return text, port


def test_an_app_of_two_groups_on_two_workers_gives_what_it_gives_in_one_process(tmp_path: Path):
    with cluster(tmp_path) as nodes:
        from_deploying_to_undeploying(nodes, tmp_path / "out.db")


@pytest.mark.slow
def test_an_app_with_channels_on_kafka_gives_what_it_gives_in_one_process(tmp_path: Path, broker_module: Any):
    try:
        broker = broker_module.start(tmp_path / "kafka")
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    try:
        with cluster(tmp_path, kafka=broker.address) as nodes:
            from_deploying_to_undeploying(nodes, tmp_path / "out.db")
    finally:
        broker.stop()


def from_deploying_to_undeploying(nodes: Cluster, database: Path) -> None:
    """The life of an app: it is deployed, runs on both workers, gives the right rows, goes, comes again with nothing of its first life, and goes."""
    text, port = deployed(nodes, database)
    found = nodes.instances("Meters")
    assert set(found) == {"Meters-filter-1", "Meters-sums-1", "Meters-sums-2"}
    assert found["Meters-sums-1"]["id"] != found["Meters-sums-2"]["id"], "instances of a group are apart"
    given = events(0, 60)
    send(port, given)
    wanted = expected(text, given)
    nodes.until(lambda: by_device(database) == wanted)
    assert nodes.manager.ask("POST", "/siddhi-apps", content=text).status_code == 409
    undeploy(nodes)
    for worker in nodes.workers:
        assert asking.get(f"{worker.url}/siddhi-apps").status_code == 400
        refused = worker.ask("POST", "/siddhi-apps", content=text)
        assert refused.status_code == 403
        assert "APPS_FROM_MANAGER" in refused.json()["message"]
    database.unlink()
    text, port = deployed(nodes, database)
    send(port, given)
    nodes.until(lambda: by_device(database) == wanted)
    undeploy(nodes)


def undeploy(nodes: Cluster) -> None:
    """Have the app end everywhere."""
    assert nodes.manager.ask("DELETE", "/siddhi-apps/Meters").status_code == 200
    assert nodes.manager.ask("GET", "/siddhi-apps").json() == []
    nodes.until(lambda: all(worker.ask("GET", "/siddhi-apps").json() == [] for worker in nodes.workers))


@pytest.mark.slow
def test_what_ran_on_a_worker_that_is_killed_under_load_goes_on_elsewhere_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
):
    with cluster(tmp_path) as nodes:
        text, port = deployed(nodes, tmp_path / "out.db")
        taking = worker_of(nodes, "Meters-filter-1")
        (other,) = (one for one in nodes.workers if one is not taking)
        moved = [name for name, row in nodes.instances("Meters").items() if row["id"] == other.name]
        assert moved, "each worker has an instance"
        before = {name: row["epoch"] for name, row in nodes.instances("Meters").items()}
        given = events(0, 150)
        send(port, given[:60])
        kill(other)
        send(port, given[60:])
        wanted = expected(text, given)
        nodes.until(lambda: by_device(tmp_path / "out.db") == wanted)
        after = nodes.instances("Meters")
        assert {after[name]["id"] for name in moved} == {taking.name}
        assert all(after[name]["epoch"] > before[name] for name in moved)


@pytest.mark.slow
def test_a_source_moves_from_a_worker_that_is_killed_and_back_when_that_is_drained(tmp_path: Path):
    with cluster(tmp_path) as nodes:
        text, port = deployed(nodes, tmp_path / "out.db")
        given = events(0, 120)
        send(port, given[:40])
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, given[:40]))
        gone = worker_of(nodes, "Meters-filter-1")
        kill(gone)
        send_on(port, given[40:80])
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, given[:80]))
        gone.start()  # with an empty home
        gone.until_it_answers()
        (left,) = (one for one in nodes.workers if one is not gone)
        assert nodes.manager.ask("POST", f"/cluster/workers/{left.name}/drain").status_code == 200
        nodes.until(lambda: {row["id"] for row in nodes.instances("Meters").values()} == {gone.name})
        send_on(port, given[80:])
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, given))


@pytest.mark.slow
def test_a_leader_that_is_killed_is_followed_by_another_one_and_what_runs_goes_on(tmp_path: Path):
    with cluster(tmp_path, managers=2) as nodes:
        leader = nodes.led()
        (other,) = (one for one in nodes.managers if one is not leader)
        database, (port,) = tmp_path / "out.db", free_ports(1)
        text = APP.format(port=port, database=database)
        assert other.ask("POST", "/siddhi-apps", content=text).status_code == 201, "whichever manager is asked"
        nodes.until(lambda: nodes.is_active("Meters"))
        given = events(0, 60)
        send(port, given[:30])
        before = nodes.instances("Meters")
        kill(leader)
        nodes.until(lambda: nodes.leader() is other)
        send(port, given[30:])
        nodes.until(lambda: by_device(database) == expected(text, given))
        after = nodes.instances("Meters")
        assert {n: (r["id"], r["epoch"]) for n, r in after.items()} == {
            n: (r["id"], r["epoch"]) for n, r in before.items()
        }
        assert other.ask("GET", "/managers").json()["haStatus"] == "Active"
        nodes.until(lambda: nodes.is_active("Meters"))
        assert other.ask("DELETE", "/siddhi-apps/Meters").status_code == 200
        nodes.until(lambda: all(worker.ask("GET", "/siddhi-apps").json() == [] for worker in nodes.workers))


@pytest.mark.slow
def test_a_worker_that_sleeps_beyond_its_lease_and_wakes_up_doubles_nothing(tmp_path: Path):
    with cluster(tmp_path) as nodes:
        text, port = deployed(nodes, tmp_path / "out.db")
        taking = worker_of(nodes, "Meters-filter-1")
        (sleeper,) = (one for one in nodes.workers if one is not taking)
        given = events(0, 200)
        send(port, given[:60])
        processes = sleeper.node.processes()
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            send(port, given[60:120])
            nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, given[:120]))
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
        send(port, given[120:])
        nodes.until(lambda: by_device(tmp_path / "out.db") == expected(text, given))
        nodes.until(lambda: nodes.is_active("Meters"))
        assert by_device(tmp_path / "out.db") == expected(text, given)
