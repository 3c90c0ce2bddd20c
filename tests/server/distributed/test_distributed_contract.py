"""The REST APIs of a manager: each path with each code that the contract has for it, and the bodies."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from answers import check_answers
from restcluster import ADA, DAN, EVE, MON, OPS, VIC, FakeNode, RestCluster, measured, rest_cluster
from server_build import waits
from structlog.testing import capture_logs

from nadi.cluster.contract import StoreAway
from nadi.cluster.election import Elector
from nadi.cluster.messages import Heartbeat, Message, Unknown
from nadi.errors import error
from nadi.server.distributed.wire import request_body

pytestmark = pytest.mark.xdist_group("clustercontract")
"""One process runs all of them: at the end each code must have been answered."""

CONTRACT = {
    ("POST", "/resourceManager/heartbeat"): (200, 204, 301, 400, 401),
    ("GET", "/resourceManager/deployment"): (200, 401),
    ("GET", "/managers"): (200, 204, 400, 401, 403),
    ("GET", "/managers/isActive"): (200, 401, 403, 404),
    ("GET", "/managers/siddhi-apps"): (200, 401, 403),
    ("GET", "/managers/siddhi-apps/{app}"): (200, 401, 403, 404),
    ("GET", "/managers/siddhi-apps-execution/{app}"): (200, 204, 401, 403),
    ("GET", "/managers/kafkaDetails/{app}"): (200, 204, 401, 403),
    ("GET", "/managers/roles"): (200, 401),
    ("GET", "/resourceClusterWorkers"): (200, 401),
    ("GET", "/resourceClusterWorkers/clusteredWorkerNodeDetails"): (200, 204, 401),
    ("POST", "/siddhi-apps"): (201, 400, 401, 409, 503),
    ("PUT", "/siddhi-apps"): (200, 201, 400, 401, 503),
    ("GET", "/siddhi-apps"): (200, 400, 401, 503),
    ("GET", "/siddhi-apps/{app}"): (200, 401, 404),
    ("DELETE", "/siddhi-apps/{app}"): (200, 401, 404, 503),
    ("GET", "/siddhi-apps/{app}/status"): (200, 401, 404),
    ("GET", "/siddhi-apps/{app}/elements"): (200, 401, 404),
    ("POST", "/siddhi-apps/{app}/backup"): (401, 500),
    ("POST", "/siddhi-apps/{app}/restore"): (401, 500),
    ("DELETE", "/siddhi-apps/{app}/revisions"): (400, 401, 500),
    ("DELETE", "/siddhi-apps/revisions"): (400, 401, 500),
    ("GET", "/siddhi-apps/statistics"): (200, 401, 404),
    ("PUT", "/siddhi-apps/statistics"): (200, 400, 401, 503),
    ("PUT", "/siddhi-apps/{app}/statistics"): (200, 400, 401, 404, 503),
    ("GET", "/statistics"): (200, 401),
    ("PUT", "/statistics"): (200, 400, 401),
    ("GET", "/system-details"): (200, 401),
    ("GET", "/nodeDetails/runTime"): (200, 401),
    ("GET", "/health"): (200,),
}
"""The other codes of revisions are in tests/endtoend/test_endtoend_clusterrevisions."""

OWN = {
    ("GET", "/managers/siddhi-apps/{app}/channels"): (200, 401, 403, 404, 503),
    ("GET", "/siddhi-apps/{app}/revisions"): (200, 401, 404),
    ("GET", "/siddhi-apps/{app}/details"): (200, 401, 404),
    ("POST", "/siddhi-apps/{app}/restart"): (200, 401, 404, 503),
    ("POST", "/siddhi-apps/{app}/backup"): (401, 404, 500),
    ("POST", "/siddhi-apps/{app}/restore"): (401, 404, 500),
    ("DELETE", "/siddhi-apps/{app}/revisions"): (400, 401, 404, 500),
    ("DELETE", "/siddhi-apps/revisions"): (400, 401, 500),
    ("POST", "/siddhi-apps/{app}/query"): (400, 401, 404, 500),
    ("POST", "/stores/query"): (400, 401, 404, 500),
    ("POST", "/cluster/instances/{instance}/move"): (200, 401, 404, 503),
    ("POST", "/cluster/workers/{worker}/drain"): (200, 401, 404, 503),
    ("GET", "/cluster/workers"): (200, 401, 403),
    ("POST", "/cluster/messages"): (400, 401),
    ("GET", "/status/cluster"): (200, 204, 401, 403, 503),
    ("GET", "/status/cluster/apps/{app}/drawing"): (200, 401, 403, 404),
    ("GET", "/status/cluster/apps/{app}/channels"): (200, 401, 403, 404, 503),
    ("GET", "/health/ready"): (200,),
    ("GET", "/metrics"): (200, 401),
}
"""Paths of nadi's own."""

ELSEWHERE = re.compile(r"/(login|logout|permissions)(/|$)")
"""Tested in ../security: they are those of a worker."""

SOURCE = "@source(type='http', receiver.url='http://127.0.0.1:8899/in', @map(type='json'))"
TEXT = f"@App:name('Orders') {SOURCE} define stream In (a int); from In select a insert into Out;"
SAVED = {"type": "success", "message": "Siddhi App saved successfully and will be deployed in next deployment cycle"}
BEAT = Heartbeat("w9", "http://127.0.0.1:1", "0-a", 1, "NEW", False, (), (0, 0), 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module")
def cluster(home: Path, request: pytest.FixtureRequest) -> Iterator[RestCluster]:
    """A manager with one worker, `w1`."""
    with rest_cluster(home) as made:
        made.join("w1", measured)
        yield made
        check_answers(request, {**CONTRACT, **OWN}, made.seen)


@pytest.fixture(scope="module")
def bare(cluster: RestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCluster]:
    """A manager that is the only one, and has no worker; what it answers is noted with the rest."""
    with rest_cluster(tmp_path_factory.mktemp("bare"), clustered=False) as made:
        made.seen = cluster.seen
        yield made


@pytest.fixture(scope="module")
def passive(cluster: RestCluster, home: Path) -> Iterator[RestCluster]:
    """A second manager, which does not lead; what it answers is noted with the rest."""
    (home / "passive").mkdir()
    with rest_cluster(home / "passive", f"jdbc:sqlite:{home}/cluster.db", name="manager-2") as made:
        made.seen = cluster.seen
        yield made


@pytest.fixture(autouse=True)
def empty(cluster: RestCluster, bare: RestCluster) -> None:
    cluster.undeploy()
    bare.undeploy()


@pytest.fixture
def node(cluster: RestCluster) -> FakeNode:
    """What runs on the worker."""
    return cluster.workers["w1"].node


def coded(answer: httpx.Response, status: int, code: int, type_: str) -> str:
    """Checks `{code, type, message}`; -> the message."""
    assert answer.status_code == status
    body = answer.json()
    assert list(body) == ["code", "type", "message"]
    assert (body["code"], body["type"]) == (code, type_)
    return str(body["message"])


def not_found(answer: httpx.Response) -> None:
    assert answer.status_code == 404
    assert list(answer.json()) == ["type", "message"]
    assert answer.json()["type"] == "not-found"


# ---- nodes


def test_a_heartbeat_is_200_with_the_leader_301_where_another_one_leads_and_204_where_nobody_does(
    cluster: RestCluster, passive: RestCluster, monkeypatch: pytest.MonkeyPatch
):
    path, body = "/resourceManager/heartbeat", request_body(BEAT)
    taken = cluster.ask("POST", path, content=body)
    assert taken.status_code == 200
    found = taken.json()
    port = int(cluster.url.rpartition(":")[2])
    interface = {"httpsInterface": {"host": "127.0.0.1", "port": port}}
    assert found["leader"] == {**interface, "heartbeatInterval": 1000, "heartbeatMaxRetry": 6}
    assert found["joinedState"] == "NEW"
    moved = passive.ask("POST", path, content=body)
    assert moved.status_code == 301
    assert moved.json()["leader"] == interface
    with monkeypatch.context() as patched:
        patched.setattr(Elector, "leader", property(lambda _self: None))
        nobody = passive.ask("POST", path, content=body)
    assert (nobody.status_code, nobody.content) == (204, b"")
    coded(cluster.ask("POST", path, content=b"{}"), 400, 800101, "validation error")
    for there in (["w1", "w9"], ["w1"]):
        waits(lambda there=there: [one["nodeId"] for one in cluster.details()] == there)  # type: ignore[misc]


def test_a_worker_of_another_system_is_rejected_by_the_leader_in_the_words_of_the_contract(
    cluster: RestCluster, passive: RestCluster, monkeypatch: pytest.MonkeyPatch
):
    path = "/resourceManager/heartbeat"
    interface = {"host": "10.0.0.9", "port": 9443, "username": "admin", "password": "admin"}
    beat = {"id": "sp-1", "httpsInterface": interface, "state": "NEW", "isReceiverNode": False}
    answer = cluster.ask("POST", path, json=beat)
    assert (answer.status_code, answer.json()["joinedState"]) == (200, "REJECTED")
    assert "it is no worker of nadi" in answer.json()["reason"]
    assert "sp-1" not in {one["nodeId"] for one in cluster.details()}
    assert passive.ask("POST", path, json=beat).status_code == 301
    monkeypatch.setattr(Elector, "leader", property(lambda _self: None))
    assert passive.ask("POST", path, json=beat).status_code == 204


def test_a_message_that_is_none_is_400(cluster: RestCluster):
    coded(cluster.ask("POST", "/cluster/messages", content=b'{"kind": "No"}'), 400, 800101, "validation error")


def test_the_stub_of_the_contract_answers_as_it_does_there(cluster: RestCluster):
    answer = cluster.ask("GET", "/resourceManager/deployment")
    assert (answer.status_code, answer.text) == (200, "To be implement.")


# ---- what dashboards ask


def test_managers_is_200_with_who_leads_and_204_where_there_is_only_one(
    cluster: RestCluster, passive: RestCluster, bare: RestCluster
):
    assert cluster.ask("GET", "/managers").json() == {"haStatus": "Active", "groupId": "test"}
    assert passive.ask("GET", "/managers").json() == {"haStatus": "pasive", "groupId": "test"}
    answer = bare.ask("GET", "/managers")
    assert (answer.status_code, answer.content) == (204, b"")


def test_is_active_is_200_at_the_leader_and_404_elsewhere(cluster: RestCluster, passive: RestCluster):
    leads, follows = (one.ask("GET", "/managers/isActive") for one in (cluster, passive))
    assert (leads.status_code, follows.status_code) == (200, 404)
    assert leads.headers["content-type"].startswith("text/plain")


def test_instances_have_the_keys_of_the_contract(cluster: RestCluster, passive: RestCluster, node: FakeNode):
    cluster.deploy(TEXT)
    for one in (cluster, passive):
        (row,) = one.ask("GET", "/managers/siddhi-apps").json()
        (again,) = one.ask("GET", "/managers/siddhi-apps/Orders", "/managers/siddhi-apps/{app}").json()
        assert {**again, "lastPingTimestamp": 0} == {**row, "lastPingTimestamp": 0}
        at = node.running[row["appName"]]
        assert (row["parentAppName"], row["siddhiApp"], row["epoch"]) == ("Orders", at.text, at.epoch)
        assert (row["id"], row["host"], row["appStatus"], row["state"]) == ("w1", "127.0.0.1", "Active", "RUNNING")
        assert row["groupName"] == row["appName"].rpartition("-")[0]
        assert row["failedPingAttempts"] == 0
        assert one.ask(
            "GET", "/managers/siddhi-apps-execution/Orders", "/managers/siddhi-apps-execution/{app}"
        ).text == (TEXT)
        topics = one.ask("GET", "/managers/kafkaDetails/Orders", "/managers/kafkaDetails/{app}").json()
        assert [(t["appName"], t["sourceList"], t["sinkList"]) for t in topics] == [(row["appName"], [], [])]
        assert topics[0]["deployedHost"] == "127.0.0.1"


def test_topics_are_those_of_all_sources_and_sinks_on_kafka(cluster: RestCluster):
    brokers = "bootstrap.servers='b:9092', @map(type='json')"
    cluster.deploy(
        "@App:name('Topics') "
        f"@source(type='kafka', topic.list='one, two', group.id='g', threading.option='single.thread', {brokers}) define stream In (a int); "
        f"@sink(type='kafka', topic='out', {brokers}) @sink(type='log') define stream Out (a int); "
        "from In select a insert into Out;"
    )
    (topics,) = cluster.ask("GET", "/managers/kafkaDetails/Topics", "/managers/kafkaDetails/{app}").json()
    assert (topics["sourceList"], topics["sinkList"]) == (["one, two"], ["out"])


def test_what_no_app_has_is_404_204_or_a_sentence(cluster: RestCluster):
    assert cluster.ask("GET", "/managers/siddhi-apps").text == "There are no Siddhi apps deployed."
    for path, status in (("siddhi-apps", 404), ("siddhi-apps-execution", 204), ("kafkaDetails", 204)):
        answer = cluster.ask("GET", f"/managers/{path}/No", f"/managers/{path}/{{app}}")
        assert answer.status_code == status


def test_an_instance_that_lies_nowhere_waits(bare: RestCluster):
    bare.deploy(TEXT, active=False)
    (row,) = bare.ask("GET", "/managers/siddhi-apps").json()
    assert (row["id"], row["host"], row["port"], row["state"], row["appStatus"]) == (
        None, None, None, "WAITING", "waiting"
    )  # fmt: skip


def test_roles_say_whether_a_user_has_a_permission(cluster: RestCluster):
    for who, suffix, has in (
        (ADA, ".manage", True), (MON, ".view", True), (MON, ".manage", False), (DAN, ".viewer", True), (EVE, ".view", False)
    ):  # fmt: skip
        assert cluster.ask("GET", f"/managers/roles?permissionSuffix={suffix}", auth=who).json() is has


def test_workers_are_counted_and_listed_without_receivers_in_the_count(cluster: RestCluster):
    cluster.join("r1", receiver=True)
    assert cluster.ask("GET", "/resourceClusterWorkers").json() == 1
    rows = cluster.ask("GET", "/resourceClusterWorkers/clusteredWorkerNodeDetails").json()
    assert [(row["nodeId"], row["https_host"]) for row in rows] == [("r1", "127.0.0.1"), ("w1", "127.0.0.1")]
    assert all(isinstance(row["https_port"], int) for row in rows)
    cluster.leave("r1")


def test_workers_say_which_nadi_they_are(cluster: RestCluster):
    cluster.join("v1", version="1.2.3+mine")
    found = {row["id"]: row for row in cluster.ask("GET", "/cluster/workers").json()}
    assert (found["v1"]["version"], found["v1"]["state"], found["v1"]["instances"]) == ("1.2.3+mine", "there", 0)
    cluster.leave("v1")


def test_a_cluster_without_workers_counts_none_and_lists_nothing(bare: RestCluster):
    assert bare.ask("GET", "/resourceClusterWorkers").json() == 0
    answer = bare.ask("GET", "/resourceClusterWorkers/clusteredWorkerNodeDetails")
    assert (answer.status_code, answer.content) == (204, b"")


# ---- apps


def test_post_siddhi_apps_is_201_with_the_location_and_409_where_there_is_one(cluster: RestCluster):
    answer = cluster.ask("POST", "/siddhi-apps", content=TEXT, headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json(), answer.headers["location"]) == (201, SAVED, "siddhi-apps//Orders")
    again = cluster.ask("POST", "/siddhi-apps", content=TEXT)
    assert (again.status_code, list(again.json()), again.json()["type"]) == (409, ["type", "message"], "conflict")


def test_put_siddhi_apps_is_201_for_a_new_app_and_200_for_one_that_is_there(cluster: RestCluster):
    first = cluster.ask("PUT", "/siddhi-apps", content=TEXT)
    assert (first.status_code, first.json(), first.headers["location"]) == (201, SAVED, "siddhi-apps//Orders")
    again = cluster.ask("PUT", "/siddhi-apps", content=TEXT + " -- more")
    assert (again.status_code, again.json(), "location" in again.headers) == (200, SAVED, False)
    assert cluster.ask("GET", "/siddhi-apps/Orders", "/siddhi-apps/{app}").json() == {"content": TEXT + " -- more"}


def test_an_app_that_waits_is_taken_and_says_why(bare: RestCluster):
    answer = bare.ask("POST", "/siddhi-apps", content=TEXT)
    assert answer.status_code == 201
    assert answer.json()["message"].endswith("it waits: 0 of 1 workers are there (minResourceCount)")


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    "text",
    ["", "define stream In (a int);", "@App:name('X') define", b"\xff", b"@App:name('X')" + b"(" * 50_000],
    ids=["empty", "without a name", "torn", "no text", "brackets"],
)
def test_post_and_put_siddhi_apps_are_400_with_800101_for_a_text_that_cannot_run(
    cluster: RestCluster, method: str, text: str | bytes
):
    coded(cluster.ask(method, "/siddhi-apps", content=text), 400, 800101, "validation error")
    assert cluster.ask("GET", "/siddhi-apps").json() == []


def test_an_app_without_a_name_is_refused_with_the_words_of_the_contract(cluster: RestCluster):
    answer = cluster.ask("POST", "/siddhi-apps", content="define stream In (a int);")
    assert "Siddhi App name must be provided as @App:name('name')." in answer.json()["message"]


def test_a_dry_run_names_the_instances_and_changes_nothing(cluster: RestCluster):
    planned = cluster.ask("PUT", "/siddhi-apps?dryRun=true", content=TEXT).json()
    assert planned["app"] == "Orders"
    assert "Orders-" in planned["summary"]
    assert cluster.ask("GET", "/siddhi-apps").json() == []


def test_delete_siddhi_apps_is_200_and_empty_or_404(cluster: RestCluster, node: FakeNode):
    cluster.deploy(TEXT)
    gone = cluster.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}")
    assert (gone.status_code, gone.content) == (200, b"")
    not_found(cluster.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}"))
    waits(lambda: not node.running)


def test_get_siddhi_apps_is_200_with_an_array_of_names_of_all_of_active_or_of_inactive_ones(cluster: RestCluster):
    cluster.deploy(TEXT)
    asked = ("", "?isActive=", "?isActive=true", "?isActive=TRUE", "?isActive=false")
    found = [cluster.ask("GET", f"/siddhi-apps{given}").json() for given in asked]
    assert found == [["Orders"]] * 4 + [[]]


def test_status_and_details_say_whether_an_app_is_active_and_why_not(bare: RestCluster):
    bare.deploy(TEXT, active=False)
    status = bare.ask("GET", "/siddhi-apps/Orders/status", "/siddhi-apps/{app}/status")
    assert (status.status_code, status.json()) == (200, {"status": "inactive"})
    details = bare.ask("GET", "/siddhi-apps/Orders/details", "/siddhi-apps/{app}/details").json()
    assert (details["name"], details["status"]) == ("Orders", "inactive")
    assert details["reason"] == "0 of 1 workers are there (minResourceCount)"
    for path in ("", "/status", "/details", "/elements"):
        not_found(bare.ask("GET", f"/siddhi-apps/No{path}", f"/siddhi-apps/{{app}}{path}"))


def test_elements_are_the_edges_of_the_whole_app(cluster: RestCluster):
    cluster.deploy(TEXT, active=False)
    edges = cluster.ask("GET", "/siddhi-apps/Orders/elements", "/siddhi-apps/{app}/elements").json()
    assert {edge["inputStreamId"] for edge in edges} == {"http", "In"}


def test_an_instance_that_fails_says_why_and_a_restart_tries_it_at_once(cluster: RestCluster, node: FakeNode):
    node.fails = "there is no room"
    cluster.deploy(TEXT, active=False)
    details = "/siddhi-apps/Orders/details"
    waits(lambda: "there is no room" in cluster.ask("GET", details, "/siddhi-apps/{app}/details").json()["reason"])
    node.fails = ""
    restarted = cluster.ask("POST", "/siddhi-apps/Orders/restart", "/siddhi-apps/{app}/restart")
    assert (restarted.status_code, restarted.json()["message"]) == (200, "Siddhi App Orders is being restarted")
    waits(lambda: node.running)


def test_a_restart_is_200_and_its_instances_come_with_higher_epochs_or_404(cluster: RestCluster, node: FakeNode):
    cluster.deploy(TEXT)
    (before,) = node.running.values()
    assert cluster.ask("POST", "/siddhi-apps/Orders/restart", "/siddhi-apps/{app}/restart").status_code == 200
    waits(lambda: node.running and node.running[before.instance].epoch == before.epoch + 1)
    not_found(cluster.ask("POST", "/siddhi-apps/No/restart", "/siddhi-apps/{app}/restart"))


def test_without_a_store_an_app_has_no_revisions_and_none_can_be_made(cluster: RestCluster):
    cluster.deploy(TEXT)
    path = "/siddhi-apps/{app}/revisions"
    assert cluster.ask("GET", "/siddhi-apps/Orders/revisions", path).json() == []
    for method, what in (("POST", "backup"), ("POST", "restore"), ("DELETE", "revisions?enabledRedeployment=false")):
        route = f"/siddhi-apps/{{app}}/{what.partition('?')[0]}"
        answer = cluster.ask(method, f"/siddhi-apps/Orders/{what}", route)
        assert (answer.status_code, answer.json()["code"]) == (500, 800102)
        assert "there is no persistence store" in answer.json()["message"]
        not_found(cluster.ask(method, f"/siddhi-apps/No/{what}", route))
    not_found(cluster.ask("GET", "/siddhi-apps/No/revisions", path))
    assert cluster.ask("DELETE", "/siddhi-apps/Orders/revisions", path).status_code == 400
    assert cluster.ask("DELETE", "/siddhi-apps/revisions", "/siddhi-apps/revisions").status_code == 400
    every = "/siddhi-apps/revisions?enabledRedeployment=false"
    assert cluster.ask("DELETE", every, "/siddhi-apps/revisions").status_code == 500


def test_the_channels_of_an_app_without_any_are_an_empty_list(cluster: RestCluster):
    cluster.deploy(TEXT)
    path = "/managers/siddhi-apps/{app}/channels"
    answer = cluster.ask("GET", "/managers/siddhi-apps/Orders/channels", path)
    assert (answer.status_code, answer.json()) == (200, [])
    assert cluster.ask("GET", "/managers/siddhi-apps/No/channels", path).status_code == 404


def test_an_instance_moves_and_a_worker_is_drained_and_used_again(cluster: RestCluster, node: FakeNode):
    cluster.deploy(TEXT)
    (instance,) = node.running
    cluster.join("w2")
    other = cluster.workers["w2"].node
    route = "/cluster/instances/{instance}/move"
    assert cluster.ask("POST", route.replace("{instance}", instance), route).status_code == 200
    waits(lambda: instance in other.running)
    drain = "/cluster/workers/{worker}/drain"
    answer = cluster.ask("POST", drain.replace("{worker}", "w2"), drain)
    assert (answer.status_code, answer.json()["message"]) == (200, "w2 is being drained")
    waits(lambda: instance in node.running)
    again = cluster.ask("POST", drain.replace("{worker}", "w2") + "?on=false", drain)
    assert again.json()["message"] == "w2 is used again"
    not_found(cluster.ask("POST", drain.replace("{worker}", "w8"), drain))
    not_found(cluster.ask("POST", route.replace("{instance}", "No-1"), route))
    cluster.leave("w2")


def test_a_passive_manager_takes_what_users_ask_and_the_leader_does_it(
    cluster: RestCluster, passive: RestCluster, node: FakeNode
):
    assert passive.ask("POST", "/siddhi-apps", content=TEXT).status_code == 201
    waits(lambda: node.running)
    assert cluster.ask("GET", "/siddhi-apps").json() == passive.ask("GET", "/siddhi-apps").json() == ["Orders"]
    assert passive.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}").status_code == 200


# ---- statistics


def test_an_app_is_as_old_as_its_instance_that_has_run_longest(cluster: RestCluster, node: FakeNode):
    queries = " ".join(f"@dist(execGroup='{s}') from {s} select a insert into Out{s};" for s in "AB")
    sources = f"{SOURCE} define stream A (a int); {SOURCE.replace('8899', '8898')} define stream B (a int);"
    other = cluster.join("w2", measured).node
    cluster.deploy(f"@App:name('Split') {sources} {queries}")
    waits(lambda: node.running and other.running)
    now = time.time_ns() // 1_000_000
    node.began, other.began = now - 50_000, now - 5_000_000
    try:
        (row,) = cluster.ask("GET", "/siddhi-apps/statistics").json()
        assert 5_000_000 <= row["age"] < 5_100_000
        other.began = 0
        (row,) = cluster.ask("GET", "/siddhi-apps/statistics").json()
        assert 50_000 <= row["age"] < 150_000
    finally:
        node.began = 0
        cluster.undeploy()
        cluster.leave("w2")


def test_an_app_is_measured_where_its_instances_run(cluster: RestCluster, node: FakeNode):
    listed, route = "/siddhi-apps/statistics", "/siddhi-apps/{app}/statistics"
    path = route.replace("{app}", "Orders")
    assert cluster.ask("GET", listed).status_code == 404
    not_found(cluster.ask("PUT", path, route, json={"statsEnable": True}))
    cluster.deploy(TEXT)
    row = {"appName": "Orders", "status": "active", "age": 0, "isStatEnabled": "OFF"}
    assert cluster.ask("GET", listed).json() == [row]
    told = cluster.ask("PUT", path, route, json={"enabledStatLevel": "BASIC"}).json()["message"]
    assert told == "Successfully set the statistics level of Siddhi App Orders to BASIC"
    assert cluster.ask("GET", listed).json() == [{**row, "isStatEnabled": "BASIC"}]
    again = cluster.ask("PUT", path, route, json={"enabledStatLevel": "BASIC"}).json()["message"]
    assert again == "The statistics level of Siddhi App Orders is BASIC already"
    assert cluster.ask("PUT", listed, json={"statsEnable": True}).status_code == 200
    assert cluster.ask("GET", listed).json() == [{**row, "isStatEnabled": "DETAIL"}]
    assert cluster.ask("GET", f"{listed}?isActive=false").json() == []
    for where, of in ((path, route), (listed, listed)):
        coded(cluster.ask("PUT", where, of, json={}), 400, 800101, "validation error")
    order = node.running.pop("Orders-default-1")  # the worker has lost it, and the manager has not heard so yet
    try:
        for where, of in ((path, route), (listed, listed)):
            answer = cluster.ask("PUT", where, of, json={"statsEnable": False})
            assert "CLUSTER_UNDECIDED" in coded(answer, 503, 1, "error")
    finally:
        node.running[order.instance] = order


# ---- on-demand queries, whose answers test_distributed_questions compares


def test_a_query_is_400_where_it_is_none_404_where_no_app_runs_and_500_where_it_cannot_be_answered(
    cluster: RestCluster,
):
    cluster.deploy(TEXT)
    route, stores = "/siddhi-apps/{app}/query", "/stores/query"
    path = route.replace("{app}", "Orders")
    for body in ({}, {"query": " "}, {"query": 5}):
        assert cluster.ask("POST", path, route, json=body).status_code == 400
        assert cluster.ask("POST", stores, json={"appName": "Orders", **body}).status_code == 400
    query = {"query": "from T select a"}
    not_found(cluster.ask("POST", route.replace("{app}", "No"), route, json=query))
    coded(cluster.ask("POST", stores, json={"appName": "No", **query}), 404, 1, "error")
    for answer in (
        cluster.ask("POST", path, route, json=query),
        cluster.ask("POST", stores, json={"appName": "Orders", **query}),
    ):
        assert "INVALID_ON_DEMAND_QUERY" in coded(answer, 500, 1, "error")


# ---- the page, which test_distributed_page shows


def test_the_status_of_a_cluster_has_all_of_it_and_nothing_new_is_204(
    cluster: RestCluster, monkeypatch: pytest.MonkeyPatch
):
    cluster.deploy(TEXT)
    found = cluster.ask("GET", "/status/cluster").json()
    assert list(found) == ["mark", "group", "token", "node", "managers", "workers", "apps", "events"]
    (app,) = found["apps"]
    assert (app["name"], app["status"], app["waits"], app["reason"]) == ("Orders", "active", False, "")
    (instance,) = app["instances"]
    assert {name: instance[name] for name in ("worker", "state", "runs", "failures")} == {
        "worker": "w1", "state": "running", "runs": True, "failures": 0
    }  # fmt: skip
    assert {"id": "w1", "state": "there", "receiver": False, "instances": [instance["name"]]}.items() <= next(
        one for one in found["workers"] if one["id"] == "w1"
    ).items()
    assert {"kind": "app created", "subject": "Orders"}.items() <= found["events"][0].items()

    async def nothing(_mark: str) -> None:
        return None

    with monkeypatch.context() as patched:
        patched.setattr(cluster.manager._watch, "after", nothing)
        answer = cluster.ask("GET", "/status/cluster?after=x")
    assert (answer.status_code, answer.content) == (204, b"")


def test_an_app_is_drawn_and_its_channels_are_told_of_or_503_where_who_knows_is_away(cluster: RestCluster):
    cluster.deploy(TEXT)
    drawing, channels = (f"/status/cluster/apps/{{app}}/{what}" for what in ("drawing", "channels"))
    drawn = cluster.ask("GET", drawing.replace("{app}", "Orders"), drawing)
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert 'class="instance running" data-instance="Orders-default-1"' in drawn.text
    told = "/managers/siddhi-apps/{app}/channels"
    for route in (channels, told):
        assert cluster.ask("GET", route.replace("{app}", "Orders"), route).json() == []
    for route in (drawing, channels, told):
        not_found(cluster.ask("GET", route.replace("{app}", "No"), route))

    async def away(_app: str) -> None:
        raise error("CONNECTION_UNAVAILABLE", connector="the cut log", reason="it does not answer")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster.manager._upkeep._report, "of", away)
        for route in (channels, told):
            answer = cluster.ask("GET", route.replace("{app}", "Orders"), route)
            assert "CONNECTION_UNAVAILABLE" in coded(answer, 503, 1, "error")


def test_a_manager_without_persistence_lists_no_revisions_and_says_so_when_it_is_to_make_one(cluster: RestCluster):
    cluster.deploy(TEXT)
    revisions, every = "/siddhi-apps/{app}/revisions", "/siddhi-apps/revisions"
    not_found(cluster.ask("GET", revisions.replace("{app}", "No"), revisions))
    assert cluster.ask("GET", revisions.replace("{app}", "Orders"), revisions).json() == []
    for method, route, more in (
        ("POST", "/siddhi-apps/{app}/backup", ""),
        ("POST", "/siddhi-apps/{app}/restore", ""),
        ("DELETE", revisions, "?enabledRedeployment=false"),
        ("DELETE", every, "?enabledRedeployment=false"),
    ):
        answer = cluster.ask(method, route.replace("{app}", "Orders") + more, route)
        assert "state.persistence" in coded(answer, 500, 800102, "file processing error")
    for route in (revisions, every):  # an app that runs keeps its state
        coded(cluster.ask("DELETE", route.replace("{app}", "Orders"), route), 400, 800102, "file processing error")


# ---- what cannot be done now


def test_what_the_leader_did_not_take_is_503_with_when_to_ask_again(
    cluster: RestCluster, monkeypatch: pytest.MonkeyPatch
):
    cluster.deploy(TEXT)

    async def nobody(_asked: Message) -> Message:
        return Unknown("no manager leads now")

    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/siddhi-apps", {"content": TEXT.replace("Orders", "Other")}),
        ("PUT", "/siddhi-apps", {"content": TEXT + " -- more"}),
        ("DELETE", "/siddhi-apps/{app}", {}),
        ("POST", "/siddhi-apps/{app}/restart", {}),
        ("POST", "/cluster/instances/{instance}/move", {}),
        ("POST", "/cluster/workers/{worker}/drain", {}),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(cluster.manager._manager, "answer", nobody)
        for method, route, given in asked:
            path = route.replace("{app}", "Orders").replace("{instance}", "Orders-1").replace("{worker}", "w1")
            answer = cluster.ask(method, path, route, **given)
            assert "CLUSTER_UNDECIDED" in coded(answer, 503, 1, "error")
            assert answer.headers["retry-after"] == "1"


def test_a_database_that_is_away_is_503(cluster: RestCluster, monkeypatch: pytest.MonkeyPatch):
    async def away(*_kinds: object) -> None:
        raise StoreAway("it does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.manager._store, "read", away)
        for path in ("/siddhi-apps", "/status/cluster"):
            answer = cluster.ask("GET", path)
            assert "database is away" in coded(answer, 503, 1, "error")


# ---- the node


def test_the_statistics_of_a_manager_name_its_group_where_there_may_be_several(cluster: RestCluster, bare: RestCluster):
    assert cluster.ask("GET", "/statistics").json()["clusterID"] == "test"
    assert bare.ask("GET", "/statistics").json()["clusterID"] == "Single Node Deployments"


def test_the_manager_measures_itself(cluster: RestCluster):
    assert cluster.ask("GET", "/statistics").json()["runningStatus"] == "Reachable"
    body = {"statsEnable": True}
    assert cluster.ask("PUT", "/statistics", json=body).json()["code"] == 4
    assert set(cluster.ask("GET", "/statistics").json()["workerMetrics"]) == {
        "processCPU", "systemCPU", "loadAverage", "memoryUsage"
    }  # fmt: skip
    coded(cluster.ask("PUT", "/statistics", json={}), 400, 800101, "validation error")
    assert cluster.ask("GET", "/metrics").status_code == 200


def test_the_node_says_what_it_is(cluster: RestCluster):
    assert cluster.ask("GET", "/nodeDetails/runTime").text == "manager"
    assert cluster.ask("GET", "/system-details").json()["carbonId"] == "manager-1"
    assert cluster.ask("GET", "/health", auth=None).json() == {"status": "healthy"}
    assert cluster.ask("GET", "/health/ready", auth=None).json() == {"status": "ready", "leads": True}


# ---- who may

FREE = {("GET", "/health"), ("GET", "/health/ready")}
NODES = {"/resourceManager/heartbeat", "/resourceManager/deployment", "/cluster/messages"}


def of(route: str) -> str:
    return re.sub(r"\{\w+\}", "No", route)


def test_missing_credentials_are_400_and_wrong_ones_401(cluster: RestCluster):
    assert cluster.ask("GET", "/managers", auth=("ada", "wrong")).status_code == 401
    wrong = {"authorization": "Bearer nobody-has-it"}
    for method, route in {**CONTRACT, **OWN}.keys() - FREE:
        assert cluster.ask(method, of(route), route, auth=None).status_code == 400, (method, route)
        assert cluster.ask(method, of(route), route, auth=None, headers=wrong).status_code == 401, (method, route)


def test_a_missing_permission_is_403_for_what_shows_the_cluster_and_401_elsewhere(cluster: RestCluster):
    for method, route in {**CONTRACT, **OWN}.keys() - FREE:
        if route == "/managers/roles":  # asks what a user may do: every user may
            continue
        counts = route.startswith("/resourceClusterWorkers")
        shows = route.startswith(("/managers", "/status", "/cluster/workers")) and method == "GET"
        lacks = (
            [EVE]
            if shows or counts
            else [EVE, MON, VIC, OPS]
            if route in NODES
            else [EVE, MON]
            if method == "GET"
            else [EVE, VIC]
        )
        for who in [] if route.endswith("/query") else lacks:  # who is logged in may ask
            answer = cluster.ask(method, of(route), route, auth=who, json={"statsEnable": True})
            assert answer.status_code == (403 if shows else 401), (method, route, who)
        for who in [MON, DAN, VIC] if shows or counts or route.endswith("/query") else []:
            assert cluster.ask(method, of(route), route, auth=who).status_code not in (401, 403), (method, route, who)


def test_whatever_is_more_than_a_question_is_in_the_audit_log(cluster: RestCluster):
    for method, route in {**CONTRACT, **OWN}.keys() - FREE:
        if method == "GET" or route.endswith("/query"):
            continue
        with capture_logs() as logs:
            cluster.ask(method, of(route), route, json={})
        noted = [one["user"] for one in logs if one["event"] == "change" and one["path"] == of(route)]
        assert noted == ["ada"], (method, route)


# ---- nothing is left out


def test_each_path_of_the_manager_has_a_row(cluster: RestCluster):
    """A path that is new has to say here which codes it answers."""
    found = {(method, path) for method, path in cluster.routes() if not ELSEWHERE.match(path)}
    assert found == set({**CONTRACT, **OWN})
