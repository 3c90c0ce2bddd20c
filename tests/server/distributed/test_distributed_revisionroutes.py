"""Revisions of apps over REST: the leader makes them, other managers pass on, and what cannot be done says why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from servers import asking
from starlette.responses import JSONResponse, Response

from nadi.cluster.contract import StoreAway
from nadi.cluster.messages import PartState
from nadi.errors import error
from nadi.io.httpserver import HttpServer
from nadi.pipeline.revision.trial import Told
from nadi.server.apps import AppNotThere
from nadi.server.distributed.apprevisions import Kept
from nadi.server.rest import clusterchannels, clusterrevisions, instancestates
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts


class Manager:
    """One that leads, or not, with an app A of one revision."""

    def __init__(self, leading: bool = True, fails: Exception | None = None) -> None:
        self.leading = leading
        self.fails = fails
        self.done: list[str] = []
        self.passed: list[tuple[str, str]] = []

    @property
    def revisions(self) -> Manager:
        return self

    def leads(self) -> bool:
        return self.leading

    async def pass_on(self, method: str, target: str) -> Response | None:
        self.passed.append((method, target))
        return JSONResponse({"by": "the leader"}, 201)

    def asked(self, work: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        return work

    def _note(self, what: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.done.append(what)

    def of(self, app: str) -> list[Kept]:
        self._note(f"of {app}")
        return [Kept("7__A", 70, 2, True, (PartState("A-g-1", "7__A-g-1", "d", 3, (("C", "P", 0, 1),)),))]

    async def backup(self, app: str) -> str:
        self._note(f"backup {app}")
        return "8__A"

    async def restore(self, app: str, name: str = "") -> str:
        self._note(f"restore {app} {name}")
        return name or "7__A"

    async def clear(self, app: str) -> None:
        self._note(f"clear {app}")

    async def clear_all(self) -> None:
        self._note("clear all")


@contextmanager
def serving(*routers: Any) -> Iterator[Callable[..., httpx.Response]]:
    server = HttpServer(guarded(make_routes("manager", routers), None, Attempts(), ()), "127.0.0.1", 0)
    server.start()
    try:
        yield lambda method, path: asking.request(method, f"http://127.0.0.1:{server.port}{path}", timeout=30)
    finally:
        server.stop()


@contextmanager
def managed(manager: Manager) -> Iterator[Callable[..., httpx.Response]]:
    with serving(clusterrevisions.routes(manager)) as ask:
        yield ask


def test_the_leader_lists_makes_restores_and_deletes():
    manager = Manager()
    with managed(manager) as ask:
        (row,) = ask("GET", "/siddhi-apps/A/revisions").json()
        made = ask("POST", "/siddhi-apps/A/backup")
        restored = ask("POST", "/siddhi-apps/A/restore?revision=7__A")
        cleared = ask("DELETE", "/siddhi-apps/A/revisions?enabledRedeployment=false")
        all_cleared = ask("DELETE", "/siddhi-apps/revisions?enabledRedeployment=false")
    instances = {"A-g-1": {"revision": "7__A-g-1", "cut": 3}}
    assert row == {"revision": "7__A", "made": 70, "version": 2, "fits": True, "instances": instances}
    assert (made.status_code, made.json()) == (201, {"revision": "8__A"})
    assert (restored.status_code, "7__A" in restored.json()["message"]) == (200, True)
    assert (cleared.status_code, all_cleared.status_code) == (200, 200)
    assert manager.done == ["of A", "backup A", "restore A 7__A", "clear A", "clear all"]


def test_another_manager_passes_on_once():
    manager = Manager(leading=False)
    with managed(manager) as ask:
        answer = ask("POST", "/siddhi-apps/A/restore?revision=7__A")
        assert (answer.status_code, answer.json()) == (201, {"by": "the leader"})
        assert manager.passed == [("POST", "/siddhi-apps/A/restore?revision=7__A&forwarded=1")]
        ask("POST", "/siddhi-apps/A/backup?forwarded=1")
    assert len(manager.passed) == 1
    assert manager.done == ["backup A"], "who is asked so and does not lead says so by itself"


def test_a_state_is_not_emptied_by_the_way():
    manager = Manager()
    with managed(manager) as ask:
        for path in ("/siddhi-apps/A/revisions", "/siddhi-apps/revisions?enabledRedeployment=true"):
            assert ask("DELETE", path).status_code == 400
    assert manager.done == []


@pytest.mark.parametrize(
    ("fails", "status"),
    [
        (AppNotThere(), 404),
        (StoreAway("slow"), 503),
        (error("CLUSTER_UNDECIDED", reason="nobody leads"), 503),
        (error("REVISION_FAILED", app="A", reason="w is gone"), 500),
        (error("NO_PERSISTENCE_STORE", reason="none"), 500),
    ],
)
def test_what_cannot_be_done_says_why(fails: Exception, status: int):
    with managed(Manager(fails=fails)) as ask:
        answer = ask("POST", "/siddhi-apps/A/backup")
        assert answer.status_code == status
        assert ("Retry-After" in answer.headers) == (status == 503)
        assert answer.json()["message"]


@pytest.mark.parametrize(
    ("fails", "status"), [(None, 200), (AppNotThere(), 404), (StoreAway("slow"), 503), (error("CUT_LOG_MISMATCH", folder="f", last=1, known=2), 503)]
)  # fmt: skip
def test_channels_are_told_by_any_manager(fails: Exception | None, status: int):
    async def of(app: str) -> list[dict[str, Any]]:
        if fails is not None:
            raise fails
        return [{"channel": f"{app}_Good"}]

    with serving(clusterchannels.routes(of)) as ask:
        answer = ask("GET", "/managers/siddhi-apps/A/channels")
    assert answer.status_code == status
    if status == 200:
        assert answer.json() == [{"channel": "A_Good"}]


def untried(_text: str, _home: str, _heritage: str) -> Told:
    raise AssertionError("nobody asks for a trial")


def test_a_worker_makes_the_revision_of_an_instance():
    def backup(instance: str) -> str:
        if instance != "A-g-1":
            raise AppNotThere
        return "7__A-g-1"

    def fails(_instance: str) -> str:
        raise error("REVISION_FAILED", app="A-g-1", reason="the disk is full")

    with serving(instancestates.routes(backup, untried)) as ask:
        assert ask("POST", "/cluster/instances/A-g-1/backup").json() == {"revision": "7__A-g-1"}
        assert ask("POST", "/cluster/instances/B-g-1/backup").status_code == 404
    with serving(instancestates.routes(fails, untried)) as ask:
        answer = ask("POST", "/cluster/instances/A-g-1/backup")
    assert (answer.status_code, "the disk is full" in answer.json()["message"]) == (500, True)
