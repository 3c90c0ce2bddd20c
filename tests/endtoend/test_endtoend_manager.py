"""A manager without workers: what it answers over REST."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusternodes import MANAGER, WORKER, Cluster, ClusterNode, cluster
from nodes import nadi
from servers import asking

APP = """@app:name('Doors')
define stream Quiet (a int);
@source(type = 'http', receiver.url = 'http://127.0.0.1:8899/in', @map(type = 'json'))
define stream Opened (door string);
@sink(type = 'log')
define stream Counts (door string, n long);
@dist(execGroup = 'counts', parallel = '2')
partition with (door of Opened)
begin
  from Opened select door, count() as n insert into Counts;
end;
"""
WINDOW = """@app:name('X') @source(type = 'http', receiver.url = 'http://127.0.0.1:8898/in', @map(type = 'json'))
define stream S (a int);
@dist(execGroup = 'a', parallel = '2') from S#window.length(3) select a insert into T;
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=0) as running:
        yield running


@pytest.fixture
def manager(nodes: Cluster) -> ClusterNode:
    return nodes.manager


@pytest.fixture
def doors(nodes: Cluster) -> Iterator[httpx.Response]:
    """What came of deploying the app; it is gone afterwards."""
    yield nodes.manager.ask("POST", "/siddhi-apps", content=APP)
    nodes.manager.ask("DELETE", "/siddhi-apps/Doors")


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/managers", 200, {"haStatus": "Active", "groupId": "test"}),
        ("/managers/isActive", 200, None),
        ("/managers/siddhi-apps", 200, None),
        ("/managers/siddhi-apps/Nope", 404, None),
        ("/managers/siddhi-apps-execution/Nope", 204, None),
        ("/managers/kafkaDetails/Nope", 204, None),
        ("/managers/roles?permissionSuffix=.view", 200, True),
        ("/resourceClusterWorkers", 200, 0),
        ("/resourceClusterWorkers/clusteredWorkerNodeDetails", 204, None),
        ("/siddhi-apps", 200, []),
        ("/siddhi-apps/Nope", 404, None),
        ("/siddhi-apps/Nope/status", 404, None),
        ("/nodeDetails/runTime", 200, None),
    ],
)
def test_a_path_of_the_contract_answers_as_it_says(manager: ClusterNode, path: str, status: int, body: Any):
    answer = manager.ask("GET", path)
    assert answer.status_code == status
    assert body is None or answer.json() == body


def test_an_app_without_workers_is_taken_and_waits_with_its_reason(manager: ClusterNode, doors: httpx.Response):
    assert doors.status_code == 201
    assert doors.headers["location"] == "siddhi-apps//Doors"
    reason = "0 of 1 workers are there (minResourceCount)"
    assert reason in doors.json()["message"]
    assert manager.ask("GET", "/siddhi-apps/Doors/status").json() == {"status": "inactive"}
    assert manager.ask("GET", "/siddhi-apps/Doors/details").json()["reason"] == reason
    assert manager.ask("GET", "/siddhi-apps?isActive=true").json() == []
    assert manager.ask("GET", "/siddhi-apps").json() == ["Doors"]


def test_its_instances_have_the_keys_of_the_contract(manager: ClusterNode, doors: httpx.Response):
    rows = manager.ask("GET", "/managers/siddhi-apps/Doors").json()
    assert [row["groupName"] for row in rows] == ["Doors-counts", "Doors-counts", "Doors-passthrough-Opened-1"]
    for row in rows:
        assert row["parentAppName"] == "Doors"
        assert row["appStatus"] == "waiting"
        assert "bootstrap.servers='nats://" in row["siddhiApp"]
        assert {"appName", "host", "port", "id", "state", "lastPingTimestamp", "failedPingAttempts"} <= row.keys()
    assert manager.ask("GET", "/managers/siddhi-apps-execution/Doors").text == APP
    assert manager.ask("GET", "/siddhi-apps/Doors").json() == {"content": APP}


def test_an_app_is_deployed_once_and_updated_then(manager: ClusterNode, doors: httpx.Response):
    assert manager.ask("POST", "/siddhi-apps", content=APP).status_code == 409
    before = manager.ask("GET", "/siddhi-apps/Doors/details").json()["version"]
    changed = APP.replace("count() as n", "count() + 1 as n")
    assert manager.ask("PUT", "/siddhi-apps", content=changed).status_code == 200
    assert manager.ask("GET", "/siddhi-apps/Doors").json() == {"content": changed}
    assert manager.ask("GET", "/siddhi-apps/Doors/details").json()["version"] == before + 1


def test_an_update_to_other_instances_waits_until_the_app_has_drained(manager: ClusterNode, doors: httpx.Response):
    answer = manager.ask("PUT", "/siddhi-apps", content=APP.replace("parallel = '2'", "parallel = '3'"))
    assert answer.status_code == 200
    assert "it waits: until all that runs of it has taken what it has" in answer.json()["message"]
    assert manager.ask("GET", "/siddhi-apps/Doors").json() == {"content": APP}


def test_an_app_is_undeployed(manager: ClusterNode, doors: httpx.Response):
    assert manager.ask("DELETE", "/siddhi-apps/Doors").status_code == 200
    assert manager.ask("GET", "/siddhi-apps").json() == []
    assert manager.ask("DELETE", "/siddhi-apps/Doors").status_code == 404
    assert manager.ask("POST", "/siddhi-apps", content=APP).status_code == 201


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("@app:name('X') from from", "SYNTAX"),
        ("define stream S (a int); from S select a insert into T;", "APP_NAME_MISSING"),
        (WINDOW, "DIST_WINDOW_OUTSIDE_PARTITION"),
        (
            "@app:name('X') @source(type='http', receiver.url='x') define stream S (a int); from S select a insert into T;",
            "OPTION_INVALID",
        ),
    ],
)
def test_an_app_that_cannot_be_is_refused_with_the_reason(manager: ClusterNode, text: str, condition: str):
    answer = manager.ask("POST", "/siddhi-apps", content=text)
    assert answer.status_code == 400
    assert answer.json()["code"] == 800101
    assert condition in answer.json()["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/resourceManager/heartbeat"),
        ("POST", "/cluster/messages"),
        ("POST", "/cluster/workers/w/drain"),
        ("GET", "/managers/siddhi-apps"),
        ("POST", "/siddhi-apps"),
    ],
)
def test_strangers_are_refused(manager: ClusterNode, method: str, path: str):
    assert asking.request(method, f"{manager.url}{path}", content=b"{}").status_code == 400
    assert asking.request(method, f"{manager.url}{path}", content=b"{}", auth=("admin", "admin")).status_code == 401
    if path in ("/resourceManager/heartbeat", "/cluster/messages"):
        signed = {"x-nadi-signature": f"{10**12}.aa.bb"}
        assert asking.request(method, f"{manager.url}{path}", content=b"{}", headers=signed).status_code == 401


def test_a_heartbeat_of_another_system_is_refused(manager: ClusterNode):
    assert manager.ask("POST", "/resourceManager/heartbeat", json={"id": "w"}).status_code == 400


def test_who_is_not_there_can_be_neither_drained_nor_moved(manager: ClusterNode):
    assert manager.ask("POST", "/cluster/workers/nobody/drain").status_code == 404
    assert manager.ask("POST", "/cluster/instances/nothing/move").status_code == 404


def test_the_commands_of_apps_work_against_a_manager(manager: ClusterNode, tmp_path: Path):
    file = tmp_path / "Doors.siddhi"
    file.write_text(APP)

    def app(*words: object) -> str:
        done = nadi("app", *words, "--url", manager.url, NADI_PASSWORD=manager.password)
        return done.stdout + done.stderr

    assert "it would run as Doors-" in app("deploy", file, "--dry-run")
    assert manager.ask("GET", "/siddhi-apps").json() == []
    assert "deployed" in app("deploy", file)
    assert "updated" in app("deploy", file)
    assert "minResourceCount" in app("list")
    assert "Doors: inactive" in app("show", "Doors")
    assert "Doors: restarting" in app("restart", "Doors")
    assert "no Siddhi App with the provided name: Windows" in app("restart", "Windows")
    assert '"appName": "Doors-counts-2"' in app("show", "Doors", "--json")
    assert "There is no worker with the id: w9" in app("drain", "w9")
    assert "Doors-counts-9" in app("move", "Doors-counts-9")
    assert "undeployed" in app("delete", "Doors")


def test_a_manager_that_is_stopped_gives_the_leadership_back_and_ends_cleanly(tmp_path: Path):
    with cluster(tmp_path, workers=0, managers=2) as nodes:
        leader = nodes.led()
        (other,) = (one for one in nodes.managers if one is not leader)
        assert other.ask("GET", "/managers").json()["haStatus"] == "pasive"
        assert other.ask("GET", "/managers/isActive").status_code == 404
        assert other.ask("POST", "/siddhi-apps", content=APP).status_code == 201
        leader.node.signal(signal.SIGTERM)
        assert leader.node.wait(60) == 0
        assert leader.node.said().rstrip().endswith("stopped")
        nodes.until(lambda: nodes.leader() is other)
        assert other.ask("GET", "/siddhi-apps").json() == ["Doors"], "apps are the cluster's, not a manager's"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("type: distributed", "type: ha"), "deployment.config.type"),
        (("natsServerUrl", "natsServer"), "deployment.config.natsServerUrl"),
        (("nats://127", "nats://u:p@127"), "deployment.config.natsServerUrl"),
        (
            ('natsServerUrl: "nats://127.0.0.1:1"', 'bootstrapURLs: "ssl://h:1?authorty=/a"'),
            "deployment.config.bootstrapURLs",
        ),
        (("datasource: SP_MGT_DB, heart", "datasource: OTHER, heart"), "cluster.config.strategyConfig.datasource"),
    ],
)
def test_a_manager_whose_file_cannot_be_says_so_and_does_not_start(tmp_path: Path, change: tuple[str, str], name: str):
    text = MANAGER.format(id="m", http=1, database="jdbc:sqlite:x.db", channels='natsServerUrl: "nats://127.0.0.1:1"')
    assert change[0] in text
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace(*change))
    done = nadi("manager", "--conf", file, "--home", tmp_path / "home")
    assert done.returncode == 1
    assert "INVALID_SETTING" in done.stderr
    assert name in done.stderr
    assert "u:p" not in done.stderr


@pytest.mark.parametrize("left_out", ["state", "cuts", "journal"])
def test_a_worker_that_shares_nothing_does_not_start(tmp_path: Path, left_out: str):
    manager = "{host: 127.0.0.1, port: 1, scheme: http}"
    own = {"state": "/tmp/s", "cuts": "sqlite:////tmp/c.db", "journal": "nats://127.0.0.1:1"}
    shared = "".join(f"  {name}: {{url: '{url}'}}\n" for name, url in own.items() if name != left_out)
    file = tmp_path / "deployment.yaml"
    file.write_text(WORKER.format(id="w", http=1, query=2, managers=manager) + f"nadi:\n{shared}")
    done = nadi("worker", "--conf", file, "--home", tmp_path / "home")
    assert done.returncode == 1
    assert f"nadi.{left_out}.url" in done.stderr
