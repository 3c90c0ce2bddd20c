"""What people do with a cluster of real processes: they ask an app, restart it, look at its page; one manager, two workers, NATS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clusternodes import Cluster, cluster
from nodes import nadi
from servers import asking
from servers.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
@app:name('Desk')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/in', @map(type = 'json'))
define stream Calls (agent string, minutes long);
@primaryKey('agent') define table Agents (agent string, team string);
define window Lately (agent string, minutes long) length(1000);
define stream Long (agent string, minutes long);

@dist(execGroup = 'lately') from Calls select agent, minutes insert into Lately;
@dist(execGroup = 'teams', parallel = '1')
from Calls join Agents on Calls.agent == Agents.agent select Calls.agent as agent, Agents.team as team insert into Known;
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def records(nodes: Cluster, query: str) -> list[list[Any]]:
    answer = nodes.manager.ask("POST", "/siddhi-apps/Desk/query", json={"query": query})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["records"])


def test_an_app_is_asked_changed_restarted_and_seen_at_a_manager(nodes: Cluster):
    (port,) = free_ports(1)
    assert nodes.manager.ask("POST", "/siddhi-apps", content=APP.format(port=port)).status_code == 201
    nodes.until(lambda: nodes.is_active("Desk"))
    asked_and_changed(nodes, port)
    restarted(nodes)
    assert records(nodes, "from Agents select team, count() as n group by team order by team") == [["a", 2], ["b", 1]]
    seen(nodes)


def asked_and_changed(nodes: Cluster, port: int) -> None:
    for agent, team in (("ada", "a"), ("bob", "a"), ("eve", "c")):
        assert records(nodes, f"select '{agent}' as agent, '{team}' as team insert into Agents") == []
    assert records(nodes, "update Agents set Agents.team = 'b' on Agents.agent == 'eve'") == []
    calls = [(agent, n) for n in range(10) for agent in ("ada", "bob", "eve")]
    for agent, minutes in calls:
        body = {"event": {"agent": agent, "minutes": minutes}}
        assert asking.post(f"http://127.0.0.1:{port}/in", json=body, timeout=60).status_code == 202
    total = "from Lately select agent, sum(minutes) as total group by agent order by agent"
    nodes.until(lambda: records(nodes, total) == [["ada", 45], ["bob", 45], ["eve", 45]])
    refused = nodes.manager.ask("POST", "/siddhi-apps/Desk/query", json={"query": "from Nothing select a"})
    assert (refused.status_code, "INVALID_ON_DEMAND_QUERY" in refused.json()["message"]) == (500, True)


def restarted(nodes: Cluster) -> None:
    before = {name: row["epoch"] for name, row in nodes.instances("Desk").items()}
    done = nadi("app", "restart", "Desk", "--url", nodes.manager.url, NADI_PASSWORD=nodes.manager.password)
    assert "Desk: restarting" in done.stdout
    nodes.until(lambda: nodes.is_active("Desk") and all(
        row["epoch"] > before[name] for name, row in nodes.instances("Desk").items()
    ))  # fmt: skip


def seen(nodes: Cluster) -> None:
    """What the page asks for, of workers that run something."""
    page = nodes.manager.ask("GET", "/status/cluster").json()
    assert [app["status"] for app in page["apps"]] == ["active"]
    assert {worker["id"] for worker in page["workers"] if worker["state"] == "there"} == {"worker-1", "worker-2"}
    assert all(isinstance(worker["cpu"], float) for worker in page["workers"])
    channels = nodes.manager.ask("GET", "/status/cluster/apps/Desk/channels").json()
    assert {producer["instance"] for channel in channels for producer in channel["producers"]} == {
        "Desk-passthrough-Calls-1-1"
    }
    assert nodes.manager.ask("GET", "/", follow_redirects=True).text.startswith("<!doctype html>")
