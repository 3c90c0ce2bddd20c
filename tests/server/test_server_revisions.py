"""The paths of revisions and elements: what they answer, to the letter. What revisions do is in tests/endtoend."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_build import FakeHost, FakePreparation, served

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.metrics import AppProgress
from nadi.pipeline.node import NodeOptions
from nadi.server.appfiles import AppFiles
from nadi.server.apps import AppNotThere
from nadi.server.deployer import Deployer
from nadi.server.preparation import AppPreparation
from nadi.server.rest import elements, revisions
from nadi.server.rest.application import make_routes
from nadi.server.revisions import AppRevisions

REVISION = "1700000000000__A"


class FakeRevisions(AppRevisions):
    """Has an app `A`; `problem` is what goes wrong. Notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.problem: NadiError | None = None

    def note(self, name: str, *asked: Any) -> None:
        self.asked.append((*asked, name))
        if name not in ("A", "*"):
            raise AppNotThere
        if self.problem is not None:
            raise self.problem

    def backup(self, name: str) -> str:
        self.note(name, "backup")
        return REVISION

    def restore(self, name: str, revision: str = "", reset: bool = False) -> str:
        self.note(name, "restore", revision, reset)
        return revision or REVISION

    def clear(self, name: str, redeploy: bool) -> None:
        self.note(name, "clear", redeploy)

    def clear_all(self, redeploy: bool) -> None:
        self.note("*", "clear", redeploy)


@pytest.fixture
def kept() -> FakeRevisions:
    return FakeRevisions()


@pytest.fixture
def client(kept: FakeRevisions) -> Iterator[httpx.Client]:
    with served(make_routes("test", [revisions.routes(kept)])) as made:
        yield made


def test_post_backup_is_201_with_the_revision(client: httpx.Client):
    answer = client.post("/siddhi-apps/A/backup")
    assert (answer.status_code, answer.json()) == (201, {"revision": REVISION})


def test_post_restore_is_200_with_the_last_revision_or_the_one_that_is_named(client: httpx.Client, kept: FakeRevisions):
    last = client.post("/siddhi-apps/A/restore")
    assert (last.status_code, last.json()) == (
        200,
        {"type": "success", "message": "State restored to last revision for Siddhi App :A"},
    )
    named = client.post("/siddhi-apps/A/restore", params={"revision": REVISION})
    assert named.json()["message"] == f"State restored to revision {REVISION} for Siddhi App :A"
    client.post("/siddhi-apps/A/restore", params={"reset": "true"})
    assert kept.asked == [
        ("restore", "", False, "A"),
        ("restore", REVISION, False, "A"),
        ("restore", "", True, "A"),
    ]


@pytest.mark.parametrize(
    ("flag", "redeploys"), [(None, True), ("true", True), ("", True), ("false", False), ("no", False)]
)
def test_delete_revisions_redeploys_where_the_flag_is_absent_or_true(
    client: httpx.Client, kept: FakeRevisions, flag: str | None, redeploys: bool
):
    params = {} if flag is None else {"enabledRedeployment": flag}
    for path in ("/siddhi-apps/A/revisions", "/siddhi-apps/revisions"):
        answer = client.delete(path, params=params)
        assert (answer.status_code, answer.json()["type"]) == (200, "success")
    assert kept.asked == [("clear", redeploys, "A"), ("clear", redeploys, "*")]


PATHS = [("POST", "backup"), ("POST", "restore"), ("DELETE", "revisions")]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_an_app_that_is_not_there_is_404_not_found(client: httpx.Client, method: str, path: str):
    answer = client.request(method, f"/siddhi-apps/No/{path}")
    assert (answer.status_code, answer.json()) == (
        404,
        {"type": "not-found", "message": "There is no Siddhi App with the provided name: No"},
    )


@pytest.mark.parametrize(("method", "path"), [*PATHS, ("DELETE", "../revisions")])
def test_what_cannot_be_done_is_500_with_the_code_800102(
    client: httpx.Client, kept: FakeRevisions, method: str, path: str
):
    kept.problem = error("NO_PERSISTENCE_STORE", reason="none")
    answer = client.request(method, f"/siddhi-apps/{path[3:]}" if path.startswith("..") else f"/siddhi-apps/A/{path}")
    assert (answer.status_code, answer.json()) == (
        500,
        {"code": 800102, "type": "file processing error", "message": "there is no persistence store: none"},
    )


def test_a_node_whose_turn_as_the_active_one_has_ended_answers_503_as_it_does_elsewhere(
    client: httpx.Client, kept: FakeRevisions
):
    kept.problem = error("NOT_ACTIVE", reason="its term has ended")
    answer = client.post("/siddhi-apps/A/backup")
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, 1, "1")


def test_an_app_without_an_enabled_persistence_store_has_no_revisions(tmp_path: Path):
    files = AppFiles(tmp_path, 1_000)
    files.write("A", "one")
    deployer = Deployer(files, FakePreparation(), 3_600.0)
    deployer.first()
    made = AppRevisions(NodeOptions(tmp_path, persistence=Persistence()), deployer, FakeHost())  # type: ignore[arg-type]
    for call in (made.backup, made.restore, lambda name: made.clear(name, True), lambda _name: made.clear_all(True)):
        with pytest.raises(NadiError, match="NO_PERSISTENCE_STORE"):
            call("A")
    with pytest.raises(AppNotThere):
        made.backup("B")


class FakeApps:
    """Has an app `A` with a variable."""

    def __init__(self, folder: Path) -> None:
        files = AppFiles(folder, 1_000)
        files.write("A", "@App:name('A') define stream S (a int); from S[a > ${LEAST}] select a insert into T;")
        self._deployer = Deployer(files, FakePreparation(), 3_600.0)
        self._deployer.first()

    def status(self, name: str) -> object:
        return self._deployer.status(name)


def test_get_elements_is_200_with_an_array_and_404_for_an_app_that_is_not_there(tmp_path: Path):
    preparation = AppPreparation(NodeOptions(tmp_path), {"LEAST": "4711"})
    made = elements.routes(FakeApps(tmp_path), preparation, lambda text: text.replace("4711", "***"))  # type: ignore[arg-type]
    with served(make_routes("test", [made])) as client:
        found = client.get("/siddhi-apps/A/elements")
        assert found.status_code == 200
        (edge,) = found.json()
        assert (edge["inputStreamId"], edge["outputStreamId"], edge["queryName"]) == ("S", "T", "query")
        assert edge["outputStreamSiddhiApp"] == "define stream T (a int)"
        assert "4711" not in found.text  # it is secret
        missing = client.get("/siddhi-apps/B/elements")
        assert (missing.status_code, missing.json()["type"]) == (404, "not-found")


@pytest.fixture
def deploying(tmp_path: Path) -> Iterator[tuple[FakeHost, Deployer, AppRevisions]]:
    """A host where an app `A` hangs while it is deployed."""
    files, host = AppFiles(tmp_path, 1_000), FakeHost()
    files.write("A", "hangs")
    deployer = Deployer(files, FakePreparation(), 3_600.0)
    deployer.start(host)
    try:
        deployer.look()
        options = NodeOptions(tmp_path / "state", persistence=Persistence(enabled=True))
        yield host, deployer, AppRevisions(options, deployer, host)  # type: ignore[arg-type]
    finally:
        host.free.set()
        deployer.close()


def test_a_backup_of_an_app_that_is_being_deployed_waits_until_it_runs(
    deploying: tuple[FakeHost, Deployer, AppRevisions], monkeypatch: pytest.MonkeyPatch
):
    host, _, made = deploying
    monkeypatch.setattr("nadi.server.revisions.ask_for", lambda _folder, _within: REVISION)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(made.backup, "A")
        early = wait([asked], 0.2).done
        host.free.set()
        assert asked.result(100.0) == REVISION
    assert not early


def test_a_backup_does_not_wait_for_an_app_that_waits_for_something_else(
    deploying: tuple[FakeHost, Deployer, AppRevisions],
):
    host, deployer, made = deploying
    host.free.set()
    deployer.settled("A", 100.0)
    deployer.note(AppProgress("A", "starting", awaits="the database of 'T'"))
    with pytest.raises(NadiError, match="APP_NOT_RUNNING"):
        made.backup("A")


def test_finding_n4_an_app_without_the_revision_is_not_stopped(deploying: tuple[FakeHost, Deployer, AppRevisions]):
    host, deployer, made = deploying
    host.free.set()
    deployer.settled("A", 100.0)
    for revision in ("", "1700000000000__A"):
        with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
            made.restore("A", revision)
    assert host.asked == [("add", "A")]
