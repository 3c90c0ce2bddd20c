"""All routes of a worker, as its OpenAPI documents have them: strangers are let through to few, and users without a permission to few more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from security_build import users_section
from servers import asking
from structlog.testing import capture_logs

from nadi.config.deployment import deployment_of
from nadi.server.home import open_home
from nadi.server.rest import page
from nadi.server.worker import Worker

STRANGERS = {
    "GET /health",
    "GET /health/ready",
    "GET /login/auth-type",
    "POST /login/{app}",
    "GET /login/callback/{app}",
    "POST /logout/{app}",
    "GET /logout/slo/{app}",
}
USERS = {"POST /stores/query", "POST /siddhi-apps/{app}/query", "POST /simulation/single"}
"""What takes a user, and no permission."""
QUESTIONS = {"POST /stores/query", "POST /siddhi-apps/{app}/query"}
"""What is a change by its text only."""
LOGINS = {"POST /login/{app}", "POST /logout/{app}"}
"""What has entries of its own in the audit log."""


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    """A client of each server of a worker; its node does not run."""
    content = {
        "auth.configs": users_section(vic="2"),
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": 0}]},
        "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": 0}]},
    }
    home: Path = tmp_path_factory.mktemp("home")
    worker = Worker(deployment_of(content), open_home(home), lambda _said: None)
    with ExitStack() as running:
        worker._simulator.start()
        running.callback(worker._simulator.close)
        running.callback(worker._door.identity.close)
        made = []
        for _what, _listener, server in worker._servers():
            server.start()
            running.callback(server.stop)
            base = f"http://127.0.0.1:{server.port}"
            made.append(running.enter_context(asking.client(base_url=base, timeout=30)))
        yield made


def routes_of(client: httpx.Client) -> dict[str, httpx.Request]:
    """A request to each route."""
    paths = client.get("/openapi.json", auth=("ada", "right")).json()["paths"]
    return {
        f"{method.upper()} {path}": client.build_request(method.upper(), re.sub(r"\{\w+\}", "x", path), json={})
        for path, methods in paths.items()
        for method in methods
    }


def test_strangers_are_let_through_to_what_is_open_and_to_nothing_else(clients: list[httpx.Client]):
    for client in clients:
        for name, request in routes_of(client).items():
            answer = client.send(request)
            if name not in STRANGERS:
                assert answer.status_code == 400, name
                assert "Authorization" in answer.text, name
        assert client.get("/openapi.json").status_code == 400
        assert client.get("/nothing").status_code == 400


def test_a_user_without_permissions_may_ask_and_nothing_else(clients: list[httpx.Client]):
    seen = set()
    for client in clients:
        for name, request in routes_of(client).items():
            seen.add(name)
            if name in STRANGERS | USERS:
                continue
            answer = client.send(request, auth=("vic", "right"))
            assert answer.status_code == 401, name
            assert "permission" in answer.text, name
            assert answer.headers["content-type"].startswith("text/plain"), name
    assert {"POST /siddhi-apps", "POST /permissions", "POST /stores/query"} <= seen


def test_whatever_is_more_than_a_question_is_in_the_audit_log(clients: list[httpx.Client]):
    seen = set()
    for client in clients:
        for name, request in routes_of(client).items():
            if name.startswith("GET ") or name in QUESTIONS | LOGINS:
                continue
            seen.add(name)
            with capture_logs() as logs:
                client.send(request, auth=("ada", "right"))
            noted = [(one["user"], one["path"]) for one in logs if one["event"] == "change"]
            assert noted == [("ada", request.url.path)], name
    assert {"POST /simulation/single", "DELETE /siddhi-apps/{app}", "PUT /statistics"} <= seen


def test_a_query_is_in_the_audit_log_where_it_changes_something(clients: list[httpx.Client]):
    for client, path, named in (
        (clients[-1], "/stores/query", {"appName": "X"}),
        (clients[0], "/siddhi-apps/X/query", {}),
    ):
        for text, changes in (("from T select a", False), ("delete T on T.a == 1", True), ("nonsense", False)):
            with capture_logs() as logs:
                client.post(path, json={**named, "query": text}, auth=("vic", "right"))
            noted = [(one["user"], one["about"]) for one in logs if one["event"] == "change"]
            assert noted == ([("vic", "query X")] if changes else []), text


def test_each_answer_says_what_a_browser_may_do_with_it(clients: list[httpx.Client]):
    for client in clients:
        for auth in (None, ("ada", "right"), ("ada", "wrong")):
            for path in ("/siddhi-apps", "/openapi.json", "/health", "/nothing"):
                headers = client.get(path, auth=auth).headers  # type: ignore[arg-type]  # None: no credentials
                assert headers["x-content-type-options"] == "nosniff", path
                assert headers["cache-control"] == "no-store", path
                assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'", path
                assert headers["referrer-policy"] == "no-referrer", path


def test_the_page_keeps_the_headers_that_it_chose(clients: list[httpx.Client]):
    found = clients[0].get("/")
    assert found.headers.get_list("content-security-policy") == [page.GUARDED["Content-Security-Policy"]]
    assert found.headers.get_list("cache-control") == ["no-cache"]


# ---- changes that want a permission (finding N5)

CHANGE = {"appName": "No", "query": "delete T on T.a == 1"}


@contextmanager
def served(folder: Path, **rest: bool) -> Iterator[list[httpx.Client]]:
    """The servers of a worker whose node does not run; vic has the role viewers, which has no permission."""
    auth = users_section(vic="2")
    content = {
        "auth.configs": {**auth, "restAPIAuthConfigs": rest},
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": 0}]},
        "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": 0}]},
    }
    worker = Worker(deployment_of(content), open_home(folder), lambda _said: None)
    with ExitStack() as running:
        running.callback(worker._door.identity.close)
        worker._simulator.start()
        running.callback(worker._simulator.close)
        made = []
        for _what, _listener, server in worker._servers():
            server.start()
            running.callback(server.stop)
            made.append(running.enter_context(asking.client(base_url=f"http://127.0.0.1:{server.port}", timeout=30)))
        yield made


def test_by_default_every_user_may_change_something_as_the_contract_has_it(tmp_path: Path):
    with served(tmp_path) as (api, query):
        assert query.post("/stores/query", json=CHANGE, auth=("vic", "right")).status_code == 404
        assert api.post("/simulation/single", content=b"{}", auth=("vic", "right")).status_code == 500


def test_where_changes_need_a_permission_a_user_without_it_asks_and_changes_nothing(tmp_path: Path):
    vic, ada = ("vic", "right"), ("ada", "right")
    with served(tmp_path, changesNeedPermission=True) as (api, query):
        assert (
            query.post("/stores/query", json={"appName": "No", "query": "from T select a"}, auth=vic).status_code == 404
        )
        refused = query.post("/stores/query", json=CHANGE, auth=vic)
        assert (refused.status_code, "siddhiApp.query.change" in refused.text) == (401, True)
        refused = api.post("/siddhi-apps/No/query", json=CHANGE, auth=vic)
        assert refused.status_code == 401
        refused = api.post("/simulation/single", content=b"{}", auth=vic)
        assert (refused.status_code, "simulator.single" in refused.text) == (401, True)
        for app, name in (("SAPP", "siddhiApp.query.change"), ("SIM", "simulator.single")):
            body = {"appName": app, "permissionString": name}
            assert api.post("/permissions", json=body, auth=ada).status_code == 200
            assert api.post("/permissions/roles/2?action=grant", json=body, auth=ada).status_code == 200
        assert query.post("/stores/query", json=CHANGE, auth=vic).status_code == 404
        assert api.post("/simulation/single", content=b"{}", auth=vic).status_code == 500
