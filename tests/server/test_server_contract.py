"""The REST APIs of apps, node and on-demand queries: each path with each code that the contract has, and the body to the letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from answers import check_answers
from restworker import ADA, EVE, OPS, VIC, RestWorker, rest_worker
from server_build import waits

from nadi.pipeline.ondemand import Found

pytestmark = pytest.mark.xdist_group("contract")
"""One process runs all of them: at the end each code must have been answered."""

CONTRACT = {
    ("POST", "/siddhi-apps"): (201, 400, 401, 409, 500),
    ("PUT", "/siddhi-apps"): (200, 201, 400, 401, 500),
    ("GET", "/siddhi-apps"): (200, 400, 401),
    ("GET", "/siddhi-apps/{app}"): (200, 401, 404),
    ("DELETE", "/siddhi-apps/{app}"): (200, 401, 404, 500),
    ("GET", "/siddhi-apps/{app}/status"): (200, 401, 404),
    ("GET", "/siddhi-apps/statistics"): (200, 401, 404),
    ("PUT", "/siddhi-apps/{app}/statistics"): (200, 400, 401, 404),
    ("PUT", "/siddhi-apps/statistics"): (200, 400, 401),
    ("GET", "/siddhi-apps/{app}/elements"): (200, 401, 404),
    ("POST", "/siddhi-apps/{app}/backup"): (401, 404),
    ("POST", "/siddhi-apps/{app}/restore"): (401, 404),
    ("DELETE", "/siddhi-apps/{app}/revisions"): (401, 404),
    ("DELETE", "/siddhi-apps/revisions"): (200, 401),
    ("GET", "/statistics"): (200, 401),
    ("PUT", "/statistics"): (200, 400, 401),
    ("GET", "/system-details"): (200, 401),
    ("GET", "/nodeDetails/runTime"): (200, 401),
    ("GET", "/health"): (200,),
    ("POST", "/stores/query"): (200, 400, 401, 404, 500),
}
"""The other codes of revisions are in test_server_revisions, those of `/simulation` in simulation/test_simulation_rest, of `/login`, `/logout` and
`/permissions` in security/."""

TEXT = "@App:name('Orders') define stream In (a int); from In select a insert into Out;"
SAVED = {"type": "success", "message": "Siddhi App saved successfully and will be deployed in next deployment cycle"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RestWorker]:
    with rest_worker(tmp_path_factory.mktemp("contract")) as made:
        yield made
        check_answers(request, CONTRACT, made.seen)


@pytest.fixture(autouse=True)
def empty(worker: RestWorker) -> None:
    worker.undeploy()


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


# ---- deploying


def test_post_siddhi_apps_is_201_with_the_location(worker: RestWorker):
    answer = worker.ask("POST", "/siddhi-apps", content=TEXT, headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json(), answer.headers["location"]) == (201, SAVED, "siddhi-apps//Orders")
    assert (worker.home / "deployment/siddhi-files/Orders.siddhi").read_text() == TEXT


def test_post_siddhi_apps_is_409_conflict_where_there_is_one(worker: RestWorker):
    worker.deploy("Orders")
    answer = worker.ask("POST", "/siddhi-apps", content=TEXT)
    assert answer.status_code == 409
    assert list(answer.json()) == ["type", "message"]
    assert answer.json()["type"] == "conflict"
    assert "Out" not in (worker.home / "deployment/siddhi-files/Orders.siddhi").read_text()


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(
    "text",
    ["", "define stream In (a int);", "@App:name('X') define", b"\xff", b"\x00", b"@App:name('X')" + b"(" * 50_000],
    ids=["empty", "without a name", "torn", "no text", "nothing", "brackets"],
)
def test_post_and_put_siddhi_apps_are_400_with_800101_for_a_text_that_cannot_run(
    worker: RestWorker, method: str, text: str | bytes
):
    assert coded(worker.ask(method, "/siddhi-apps", content=text), 400, 800101, "validation error")
    assert worker.ask("GET", "/siddhi-apps").json() == []


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_post_and_put_siddhi_apps_are_500_with_800102_where_the_file_cannot_be_written(worker: RestWorker, method: str):
    folder = worker.home / "deployment/siddhi-files"
    folder.rename(folder.with_name("aside"))
    try:
        assert coded(worker.ask(method, "/siddhi-apps", content=TEXT), 500, 800102, "file processing error")
    finally:
        folder.with_name("aside").rename(folder)


def test_put_siddhi_apps_is_201_for_a_new_app_and_200_for_one_that_is_there(worker: RestWorker):
    first = worker.ask("PUT", "/siddhi-apps", content=TEXT)
    assert (first.status_code, first.json(), first.headers["location"]) == (201, SAVED, "siddhi-apps//Orders")
    again = worker.ask("PUT", "/siddhi-apps", content=TEXT + " -- more")
    assert (again.status_code, again.json(), "location" in again.headers) == (200, SAVED, False)


def test_delete_siddhi_apps_is_200_and_empty_or_404(worker: RestWorker):
    worker.deploy("Orders")
    gone = worker.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}")
    assert (gone.status_code, gone.content) == (200, b"")
    not_found(worker.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}"))


def test_delete_siddhi_apps_is_500_with_800102_where_the_file_cannot_be_removed(
    worker: RestWorker, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    worker.deploy("Orders")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        answer = worker.ask("DELETE", "/siddhi-apps/Orders", "/siddhi-apps/{app}")
    assert coded(answer, 500, 800102, "file processing error")


# ---- looking


def test_get_siddhi_apps_is_200_with_an_array_of_names_of_all_of_active_or_of_inactive_ones(worker: RestWorker):
    worker.deploy("Orders")
    worker.put_file("Wrong", "@App:name('Other') define stream In (a int);")
    waits(lambda: "Wrong" in worker.ask("GET", "/siddhi-apps").json())
    asked = ("", "?isActive=", "?isActive=%20", "?isActive=true", "?isActive=false", "?isActive=TRUE")
    answers = [worker.ask("GET", f"/siddhi-apps{query}") for query in asked]
    assert [answer.status_code for answer in answers] == [200] * 6
    both = ["Orders", "Wrong"]
    assert [answer.json() for answer in answers] == [both, both, both, ["Orders"], ["Wrong"], ["Orders"]]
    assert worker.ask("GET", "/siddhi-apps/Wrong/status", "/siddhi-apps/{app}/status").json() == {"status": "inactive"}


def test_get_siddhi_app_is_200_with_its_text_or_404(worker: RestWorker):
    worker.ask("PUT", "/siddhi-apps", content=TEXT)
    waits(lambda: worker.ask("GET", "/siddhi-apps").json() == ["Orders"])
    assert worker.ask("GET", "/siddhi-apps/Orders", "/siddhi-apps/{app}").json() == {"content": TEXT}
    not_found(worker.ask("GET", "/siddhi-apps/No", "/siddhi-apps/{app}"))


def test_get_status_is_200_or_404(worker: RestWorker):
    worker.deploy("Orders")
    answer = worker.ask("GET", "/siddhi-apps/Orders/status", "/siddhi-apps/{app}/status")
    assert (answer.status_code, answer.json()) == (200, {"status": "active"})
    not_found(worker.ask("GET", "/siddhi-apps/No/status", "/siddhi-apps/{app}/status"))


def test_get_elements_is_200_with_an_array_or_404(worker: RestWorker):
    worker.deploy("Orders", "define stream In (a int); from In select a insert into Out;")
    answer = worker.ask("GET", "/siddhi-apps/Orders/elements", "/siddhi-apps/{app}/elements")
    assert (answer.status_code, [one["inputStreamId"] for one in answer.json()]) == (200, ["In"])
    not_found(worker.ask("GET", "/siddhi-apps/No/elements", "/siddhi-apps/{app}/elements"))


def test_revisions_of_an_app_that_is_not_there_are_404_and_those_of_none_200(worker: RestWorker):
    for method, path in (("POST", "backup"), ("POST", "restore"), ("DELETE", "revisions")):
        not_found(worker.ask(method, f"/siddhi-apps/No/{path}", f"/siddhi-apps/{{app}}/{path}"))
    answer = worker.ask("DELETE", "/siddhi-apps/revisions")
    assert (answer.status_code, list(answer.json())) == (200, ["type", "message"])


# ---- statistics


def test_get_statistics_of_apps_is_200_with_four_fields_each_or_404_where_there_are_no_apps(worker: RestWorker):
    not_found(worker.ask("GET", "/siddhi-apps/statistics"))
    worker.deploy("Orders")
    answer = worker.ask("GET", "/siddhi-apps/statistics")
    assert answer.status_code == 200
    (row,) = answer.json()
    assert list(row) == ["appName", "status", "age", "isStatEnabled"]
    assert (row["appName"], row["status"], row["isStatEnabled"]) == ("Orders", "active", "OFF")
    assert isinstance(row["age"], int)
    assert worker.ask("GET", "/siddhi-apps/statistics?isActive=false").json() == []
    assert worker.ask("GET", "/siddhi-apps/statistics?isActive=true").json() == [{**row, "age": ANY}]


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ({"statsEnable": True}, "DETAIL"),
        ({"statsEnable": False}, "OFF"),
        ({"enabledStatLevel": "BASIC"}, "BASIC"),
        ({"statsEnable": True, "enabledStatLevel": "BASIC"}, "BASIC"),
    ],
)
def test_put_statistics_of_an_app_is_200_also_when_nothing_changes_or_404(
    worker: RestWorker, body: dict[str, Any], level: str
):
    worker.deploy("Orders")
    for path, route in (
        ("/siddhi-apps/Orders/statistics", "/siddhi-apps/{app}/statistics"),
        ("/siddhi-apps/Orders/statistics", "/siddhi-apps/{app}/statistics"),
        ("/siddhi-apps/statistics", ""),
    ):
        answer = worker.ask("PUT", path, route, json=body)
        assert (answer.status_code, answer.json()["type"], list(answer.json())) == (200, "success", ["type", "message"])
        assert worker.ask("GET", "/siddhi-apps/statistics").json()[0]["isStatEnabled"] == level
    not_found(worker.ask("PUT", "/siddhi-apps/No/statistics", "/siddhi-apps/{app}/statistics", json=body))
    coded(
        worker.ask("PUT", "/siddhi-apps/Orders/statistics", "/siddhi-apps/{app}/statistics", json={}),
        400,
        800101,
        "validation error",
    )
    coded(worker.ask("PUT", "/siddhi-apps/statistics", json={}), 400, 800101, "validation error")


def test_an_app_that_is_undeployed_and_comes_again_has_no_level(worker: RestWorker):
    for _ in range(2):
        worker.deploy("Orders")
        assert worker.ask("GET", "/siddhi-apps/statistics").json()[0]["isStatEnabled"] == "OFF"
        worker.ask("PUT", "/siddhi-apps/Orders/statistics", "/siddhi-apps/{app}/statistics", json={"statsEnable": True})
        worker.undeploy()


def test_get_statistics_of_the_node_is_200_with_the_fields_of_the_contract(worker: RestWorker):
    answer = worker.ask("GET", "/statistics")
    assert answer.status_code == 200
    body = answer.json()
    wanted = {
        "runningStatus",
        "isStatsEnabled",
        "clusterID",
        "lastSyncTime",
        "lastSnapshotTime",
        "osName",
        "isInSync",
        "message",
    }
    assert set(body) - {"workerMetrics"} == wanted
    assert "haStatus" not in body
    assert (body["runningStatus"], body["clusterID"], body["lastSyncTime"]) == (
        "Reachable",
        "Single Node Deployments",
        "n/a",
    )


def test_put_statistics_of_the_node_is_200_and_says_whether_it_was_so_already(worker: RestWorker):
    worker.ask("PUT", "/statistics", json={"statsEnable": False})
    said = [worker.ask("PUT", "/statistics", json={"statsEnable": on}) for on in (True, True, False, False)]
    assert [answer.json() for answer in said] == [
        {"code": 4, "type": "ok", "message": text}
        for text in (
            "Successfully enabled the metrics.",
            "Metrics are enabled already.",
            "Successfully disabled the metrics.",
            "Metrics are disabled already.",
        )
    ]
    assert worker.ask("GET", "/statistics").json()["message"] == "Metrics are disabled."
    assert worker.ask("PUT", "/statistics", json={"statsEnable": 5}).status_code == 400


# ---- the node


def test_get_system_details_is_200_with_the_fields_of_the_contract(worker: RestWorker):
    answer = worker.ask("GET", "/system-details")
    assert answer.status_code == 200
    assert list(answer.json()) == [
        "carbonId", "javaRuntimeName", "javaVMVersion", "javaVMVendor", "javaHome", "javaVersion", "osName", "osVersion",
        "userHome", "userTimezone", "userName", "userCountry", "repoLocation", "serverStartTime",
    ]  # fmt: skip
    assert all(isinstance(value, str) for value in answer.json().values())


def test_get_node_details_is_200_with_the_profile_as_a_plain_text(worker: RestWorker):
    answer = worker.ask("GET", "/nodeDetails/runTime")
    assert (answer.status_code, answer.text) == (200, "worker")
    assert answer.headers["content-type"].startswith("text/plain")


def test_get_health_is_200_for_everybody_while_the_node_is_not_ready(worker: RestWorker):
    answer = worker.ask("GET", "/health", auth=None)
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})
    starting = worker.api.get("/health/ready")
    assert (starting.status_code, starting.json()["status"], starting.headers["retry-after"]) == (503, "starting", "1")


# ---- on-demand queries


def query(worker: RestWorker, **body: Any) -> httpx.Response:
    return worker.ask("POST", "/stores/query", json=body)


def test_post_query_is_200_with_records_and_their_details_where_they_are_asked_for(
    worker: RestWorker, monkeypatch: pytest.MonkeyPatch
):
    worker.deploy("Orders", "define table T (a string, b int);")
    found = Found(("a", "b", "x"), [("x", 1, 0.5), (None, 2, float("nan"))], ("string", "int", "double"))
    monkeypatch.setattr(worker.worker._apps, "ask", lambda _app, _query: found)
    records = [["x", 1, 0.5], [None, 2, "nan"]]
    plain = query(worker, appName="Orders", query="from T select a, b")
    assert (plain.status_code, plain.json()) == (200, {"records": records})
    assert query(worker, appName=" Orders ", query="from T select a, b", details=False).json() == {"records": records}
    details = [
        {"name": "a", "dataType": "STRING"},
        {"name": "b", "dataType": "INT"},
        {"name": "x", "dataType": "DOUBLE"},
    ]
    detailed = query(worker, appName="Orders", query="from T select a, b", details=True)
    assert detailed.json() == {"records": records, "details": details}


def test_post_query_is_200_without_records_for_a_change(worker: RestWorker, monkeypatch: pytest.MonkeyPatch):
    worker.deploy("Orders", "define table T (a string);")
    monkeypatch.setattr(worker.worker._apps, "ask", lambda _app, _query: None)
    assert query(worker, appName="Orders", query="delete T on T.a == 'x'").json() == {"records": []}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"appName": "Orders"},
        {"appName": "Orders", "query": " "},
        {"query": "from T select a"},
        {"appName": "\t", "query": "from T select a"},
        {"appName": 5, "query": "from T select a"},
        {"appName": "Orders", "query": ["x"]},
        [],
        "x",
        None,
    ],
)
def test_post_query_is_400_with_code_1_for_an_empty_or_wrong_query_or_name(worker: RestWorker, body: Any):
    worker.deploy("Orders", "define table T (a string);")
    coded(worker.ask("POST", "/stores/query", json=body), 400, 1, "error")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[" * 1_000_000, b'{"appName":' * 100_000, b'{"query": ' + b"9" * 5_000],
    ids=["empty", "torn", "no text", "brackets", "objects", "digits"],
)
def test_post_query_is_400_with_code_1_for_what_is_no_json(worker: RestWorker, content: bytes):
    answer = worker.ask("POST", "/stores/query", content=content, headers={"content-type": "application/json"})
    coded(answer, 400, 1, "error")


def test_post_query_is_404_with_code_1_where_no_active_app_has_the_name(worker: RestWorker):
    worker.put_file("Wrong", "@App:name('Other') define stream In (a int);")
    waits(lambda: worker.ask("GET", "/siddhi-apps").json() == ["Wrong"])
    for name in ("No", "Wrong", "../Wrong", "Wrong.siddhi"):
        coded(query(worker, appName=name, query="from T select a"), 404, 1, "error")


def test_post_query_is_500_with_code_1_where_it_cannot_be_answered(worker: RestWorker):
    worker.deploy("Orders", "define table T (a string);")  # its state has nobody who would answer
    assert coded(query(worker, appName="Orders", query="from"), 500, 1, "error").startswith("Cannot query: ")


# ---- who may


def test_a_missing_permission_is_401_with_a_plain_text_and_looking_takes_either(worker: RestWorker):
    looks = [(m, p) for m, p in CONTRACT if m == "GET" and p not in ("/health", "/siddhi-apps/{app}/elements")]
    changes = [(m, p) for m, p in CONTRACT if m != "GET" and p != "/stores/query"] + [
        ("GET", "/siddhi-apps/{app}/elements")
    ]
    for method, route in looks + changes:
        path = route.replace("{app}", "No")
        refused = [EVE] if (method, route) in looks else [EVE, VIC]
        for who in refused:
            answer = worker.ask(method, path, route, auth=who, json={"statsEnable": True})
            assert answer.status_code == 401, (method, route, who)
            assert answer.headers["content-type"].startswith("text/plain")
            assert "SAPP siddhiApp.manage" in answer.text
        for who in [VIC, OPS] if (method, route) in looks else [OPS]:
            assert worker.ask(method, path, route, auth=who, json={"statsEnable": True}).status_code != 401


def test_missing_and_malformed_credentials_are_400_and_wrong_ones_401(worker: RestWorker):
    for path in ("/siddhi-apps", "/stores/query"):
        method = "GET" if path == "/siddhi-apps" else "POST"
        assert worker.ask(method, path, auth=None).status_code == 400
        for header in ("Digest x", "Basic !", "Bearer"):
            assert worker.ask(method, path, auth=None, headers={"authorization": header}).status_code == 400
        wrong = worker.ask(method, path, auth=("ada", "wrong"))
        assert (wrong.status_code, wrong.headers["content-type"][:10]) == (401, "text/plain")


class _Any:
    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ANY = _Any()


def test_each_path_of_the_worker_is_in_a_contract_that_is_tested(worker: RestWorker):
    """A path that is new has to say here where its codes are tested."""
    elsewhere = re.compile(r"/(simulation|login|logout|permissions)(/|$)|/siddhi-apps/\{app\}/errors")
    own = {
        "/health/ready", "/metrics", "/status/apps", "/siddhi-apps/{app}/details", "/siddhi-apps/{app}/restart",
        "/siddhi-apps/{app}/query",
    }  # fmt: skip
    known = {path for _method, path in CONTRACT} | own
    assert {path for _client, _method, path in worker.routes() if not elsewhere.match(path)} == known
    assert ADA
