"""All routes of a worker, as its OpenAPI documents have them: strangers are let through to few, and users without a permission to few more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from security_build import users_section

from nadi.config.deployment import deployment_of
from nadi.server.home import open_home
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
        running.callback(worker._identity.close)
        made = []
        for _what, _listener, server in worker._servers():
            server.start()
            running.callback(server.stop)
            base = f"http://127.0.0.1:{server.port}"
            made.append(running.enter_context(httpx.Client(base_url=base, timeout=30)))
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
