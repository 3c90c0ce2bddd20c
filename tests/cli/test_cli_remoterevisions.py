"""`nadi app revisions|backup|restore` against what answers like a manager, or a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from nadi.cli import remote
from nadi.cli.remote import Remote
from nadi.errors import NadiError
from nadi.io.httpserver import HttpServer
from nadi.server.rest.answers import coded, message
from nadi.server.rest.application import make_routes

OF_CLUSTER = {
    "revision": "1700000000000__A",
    "made": 1_700_000_000_000,
    "fits": False,
    "instances": {"A-g-1": {}, "A-g-2": {}},
}
OF_WORKER = {"revision": "1700000060000__A", "made": 1_700_000_060_000, "cut": 9}


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def server(asked: list[str]) -> Iterator[Remote]:
    found = APIRouter(prefix="/siddhi-apps/{app}")

    @found.get("/revisions")
    async def listed(app: str) -> Any:
        return [OF_CLUSTER, OF_WORKER]

    @found.post("/backup")
    async def backup(app: str) -> Response:
        return JSONResponse({"revision": f"7__{app}"}, 201) if app == "A" else coded(500, 1, "w is gone")

    @found.post("/restore")
    async def restore(app: str, revision: str = "newest") -> Response:
        asked.append(revision)
        return message(200, f"restored {revision}")

    made = HttpServer(make_routes("m", [found]), "127.0.0.1", 0)  # bare: nothing of it is logged on the screen
    made.start()
    yield Remote(f"http://127.0.0.1:{made.port}", "admin", "secret")
    made.stop()


def test_revisions_are_listed_for_people_and_for_tools(server: Remote, capsys: pytest.CaptureFixture[str]):
    assert remote.show_revisions(server, "A", as_json=False) == 0
    shown = capsys.readouterr().out
    assert "1700000000000__A" in shown
    assert "2 instances" in shown
    assert "cut 9" in shown
    assert remote.show_revisions(server, "A", as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == [OF_CLUSTER, OF_WORKER]


def test_a_backup_prints_its_name_and_what_fails_is_told(server: Remote, capsys: pytest.CaptureFixture[str]):
    assert remote.backup(server, "A") == 0
    assert capsys.readouterr().out == "7__A\n"
    with pytest.raises(NadiError, match="w is gone"):
        remote.backup(server, "B")


def test_a_restore_names_a_revision_or_leaves_it_to_the_server(server: Remote, asked: list[str]):
    remote.restore(server, "A", "7__A")
    remote.restore(server, "A", "")
    assert asked == ["7__A", "newest"]
