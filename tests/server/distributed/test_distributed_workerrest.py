"""The REST API of a worker of a cluster: what it has of a worker that lives alone, and what it leaves to managers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from restworker import ADA, EVE, PORTS, rest_worker
from security_build import users_section

from nadi.config.deployment import deployment_of
from nadi.server.distributed.workerserver import ClusterWorker
from nadi.server.home import open_home

MANAGERS = [{"host": "10.0.0.1", "port": 9543}, {"host": "10.0.0.2", "port": 9543}]
SHARED = {"state": {"url": "/tmp/x"}, "journal": {"url": "nats://127.0.0.1:1"}, "cuts": {"url": "sqlite:////tmp/x.db"}}
SIMULATOR = "/simulation"
"""Only a worker that lives alone has a simulator."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The REST server of a worker that no manager has taken."""
    content = {
        **PORTS,
        "auth.configs": users_section(eve="4"),
        "deployment.config": {"type": "distributed", "resourceManagers": MANAGERS},
        "nadi": {"cluster": {"secret": "s" * 40}, **SHARED},
    }
    home = open_home(tmp_path_factory.mktemp("worker") / "home")
    worker = ClusterWorker(deployment_of(content), home, lambda _: None, lambda _: None)
    server = next(server for what, _, server in worker._servers() if what == "REST API")
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        server.stop()
        worker._door.identity.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/siddhi-apps/Orders/backup"),
        ("POST", "/siddhi-apps/Orders/restore"),
        ("POST", "/siddhi-apps/Orders/restore?revision=1__Orders"),
        ("GET", "/siddhi-apps/Orders/revisions"),
        ("DELETE", "/siddhi-apps/Orders/revisions"),
        ("DELETE", "/siddhi-apps/revisions?enabledRedeployment=false"),
    ],
)
def test_a_worker_of_a_cluster_says_which_managers_to_ask_for_revisions(api: httpx.Client, method: str, path: str):
    answer = api.request(method, path, auth=ADA)
    assert (answer.status_code, answer.json()["code"]) == (403, 800101)
    told = answer.json()["message"]
    assert "REVISIONS_FROM_MANAGER" in told
    assert "https://10.0.0.1:9543" in told
    assert "https://10.0.0.2:9543" in told
    assert api.request(method, path, auth=EVE).status_code == 401


def test_a_worker_of_a_cluster_has_the_paths_of_one_that_lives_alone(api: httpx.Client, tmp_path: Path):
    with rest_worker(tmp_path / "home") as alone:
        wanted = {
            (method, path)
            for client, method, path in alone.routes()
            if client is alone.api and not path.startswith(SIMULATOR)
        }
    paths = api.get("/openapi.json", auth=ADA).json()["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert wanted - found == set()
