"""What load balancers, dashboards and people ask a node of a pair, and what the passive node passes on to the active one. The node is made up."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from security_build import Clock, local_identity, users_section
from starlette.responses import JSONResponse
from structlog.testing import capture_logs

from nadi.cluster.contract import NoAnswer
from nadi.errors import NadiError, error
from nadi.server.distributed.wire import Answer
from nadi.server.pair.activenode import OF_PAIRS, PREFIX, AnsweredElsewhere, ForActive, PassesOn
from nadi.server.rest import pair
from nadi.server.rest.application import guarded, make_routes
from nadi.server.rest.node import health_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.permissions import SAPP, Needed, needed_of
from nadi.server.worker import OPEN


class PairView:
    """Does what it is told, or refuses."""

    def __init__(self) -> None:
        self.refuses: NadiError | None = None
        self.done: list[str] = []

    def status(self) -> dict[str, Any]:
        return {"role": "passive", "inSync": True}

    def switch(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.done.append("switched")

    def promote(self, accept_loss: bool) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        self.done.append(f"promoted {accept_loss}")
        return {"promoted": accept_loss}


class Apps:
    is_open = True

    def starting(self) -> list[str]:
        return []


class Client:
    """Asks an application."""

    def __init__(self, application: Any) -> None:
        self.application = application

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.application)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                return await http.request(method, path, **given)

        return asyncio.run(asked())


def client(pairing: PairView, active: bool = True) -> Client:
    """Nobody has to log in: as where `authEnable` is false."""
    return Client(make_routes("test", [pair.routes(pairing), health_routes(Apps(), lambda: active)]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("active", "role", "status"),
    [
        (True, "active", 200),
        (True, "passive", 503),
        (False, "active", 503),
        (False, "PASSIVE", 200),
        (False, "", 200),
        (True, "leader", 400),
    ],
)
def test_a_load_balancer_hears_whether_a_node_has_the_role(active: bool, role: str, status: int):
    assert client(PairView(), active).ask("GET", "/health", params={"role": role}).status_code == status


def test_a_pair_is_looked_at_switched_and_promoted():
    pairing = PairView()
    api = client(pairing)
    assert api.ask("GET", "/ha").json() == {"role": "passive", "inSync": True}
    assert api.ask("POST", "/ha/switch").status_code == 200
    assert api.ask("POST", "/ha/promote", json={"acceptLoss": True}).json() == {"promoted": True}
    assert api.ask("POST", "/ha/promote", json={}).json() == {"promoted": False}
    assert pairing.done == ["switched", "promoted True", "promoted False"]


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (error("PAIR_NOT_SWITCHED", group="g", reason="alone"), 409),
        (error("PAIR_NOT_PROMOTED", id="n", group="g", reason="it is active"), 409),
        (error("NOT_ACTIVE", reason="nobody is"), 503),
    ],
)
def test_what_cannot_be_done_is_a_conflict_and_what_may_be_later_is_not(refusal: NadiError, status: int):
    pairing = PairView()
    pairing.refuses = refusal
    api = client(pairing)
    for path, body in (("/ha/switch", None), ("/ha/promote", {"acceptLoss": True})):
        answer = api.ask("POST", path, json=body)
        assert (answer.status_code, refusal.condition in answer.json()["message"]) == (status, True)


# ---- what the passive node passes on


class Network:
    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    async def request(self, address: str, method: str, path: str, body: bytes = b"", within: int = 0) -> Answer:
        self.asked.append((address, method, path, body.decode()))
        if self.answer is None:
            raise NoAnswer("it is away")
        return self.answer


def submit(work: Any) -> Future[Answer]:
    done: Future[Answer] = Future()
    try:
        done.set_result(asyncio.run(work))
    except NoAnswer as reason:
        done.set_exception(reason)
    return done


def test_the_answer_of_the_active_node_is_the_answer():
    network = Network(Answer(409, b"taken"))
    passes_on = PassesOn(network, submit, lambda: "http://active:9090", lambda: False)
    with pytest.raises(AnsweredElsewhere) as there:
        passes_on("POST", "/siddhi-apps", b"text")
    assert there.value.answer == Answer(409, b"taken")
    assert network.asked == [("http://active:9090", "POST", "/ha/active/siddhi-apps", "text")]


@pytest.mark.parametrize(
    ("address", "here", "answer", "condition"),
    [
        ("", False, Answer(200, b""), "NOT_ACTIVE"),
        ("http://active", True, Answer(200, b""), "NOT_ACTIVE"),
        ("http://active", False, None, "CONNECTION_UNAVAILABLE"),
    ],
)
def test_where_nobody_can_answer_the_sender_hears_so(address: str, here: bool, answer: Answer | None, condition: str):
    network = Network(answer)
    with pytest.raises(NadiError) as refused:
        PassesOn(network, submit, lambda: address, lambda: here)("DELETE", "/siddhi-apps/A")
    assert refused.value.condition == condition


def test_what_was_passed_on_is_answered_by_an_active_node_only():
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = {"path": request.url.path, "query": str(request.query_params), "body": (await request.body()).decode()}
        await JSONResponse(body)(scope, receive, send)

    active = [True]
    api = Client(ForActive(echo, lambda: active[0]))
    answer = api.ask("PUT", f"{PREFIX}/siddhi-apps?dryRun=true", content="text")
    assert answer.json() == {"path": "/siddhi-apps", "query": "dryRun=true", "body": "text"}
    active[0] = False
    assert api.ask("PUT", f"{PREFIX}/siddhi-apps", content="text").status_code == 503
    assert all(path.startswith(PREFIX) for path in OF_PAIRS)


def test_whoever_may_only_look_does_not_switch():
    found = {
        f"{method} {route.path}": needed_of(route.dependencies)
        for route in pair.routes(PairView()).routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    look, change = [Needed((SAPP.view, SAPP.manage))], [Needed((SAPP.manage,))]
    assert found == {"GET /ha": look, "POST /ha/switch": change, "POST /ha/promote": change}


def test_a_node_of_a_pair_lets_no_stranger_and_no_user_without_a_permission_in(tmp_path: Path):
    identity = local_identity(tmp_path, Clock(), {"auth.configs": users_section(vic="2")})
    view = PairView()
    routes = make_routes("test", [pair.routes(view)])
    asks = Client(guarded(routes, identity.provider, Attempts(), OPEN, identity.grants))
    for method, path in (("GET", "/ha"), ("POST", "/ha/switch"), ("POST", "/ha/promote")):
        assert asks.ask(method, path, json={}).status_code == 400
        assert asks.ask(method, path, json={}, auth=("vic", "wrong")).status_code == 401
        assert "permission" in asks.ask(method, path, json={}, auth=("vic", "right")).text
        with capture_logs() as logs:
            assert asks.ask(method, path, json={}, auth=("ada", "right")).status_code == 200
        noted = [(one["user"], one["path"]) for one in logs if one["event"] == "change"]
        assert noted == ([] if method == "GET" else [("ada", path)])
    identity.close()
    assert view.done == ["switched", "promoted False"]
