"""What routes say that they need, and who is let through."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from security_build import serving

from nadi.config.auth import UserManager
from nadi.server.rest import node, siddhiapps, storequery
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.passwords import hash_password
from nadi.server.security.permissions import (
    ADMINS,
    EVERYBODY,
    SAPP,
    SIGNED_IN,
    SIM,
    Needed,
    Permission,
    needed_of,
    needs,
)
from nadi.server.security.users import User, Users, make_users

HASH = hash_password("right")


class Held:
    """Users have the permissions that are listed for them."""

    def __init__(self, **held: Permission) -> None:
        self._held = held

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        return self._held.get(user.name) in tuple(wanted)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    listed = [
        {"user": {"username": name, "password": HASH, "roles": role}}
        for name, role in (("ada", 1), ("vic", 2), ("max", 2), ("nil", 2))
    ]
    roles = [{"role": {"id": 1, "displayName": "admin"}}, {"role": {"id": 2, "displayName": "staff"}}]
    given = UserManager.model_validate({"userStore": {"users": listed, "roles": roles}})
    return make_users(tmp_path_factory.mktemp("security"), given).users


@pytest.fixture(scope="module")
def client(users: Users) -> Iterator[httpx.Client]:
    router = APIRouter(prefix="/things")

    @router.get("", dependencies=[needs(SAPP.view, SAPP.manage)])
    async def look() -> str:
        return "seen"

    @router.post("", dependencies=[needs(SAPP.manage)])
    async def change() -> str:
        return "changed"

    @router.get("/own", dependencies=[SIGNED_IN])
    async def own() -> str:
        return "own"

    @router.get("/users", dependencies=[ADMINS])
    async def listed() -> str:
        return "users"

    @router.get("/open", dependencies=[EVERYBODY])
    async def opened() -> str:
        return "open"

    @router.get("/silent")
    async def silent() -> str:
        return "silent"

    routes = make_routes("test", [router])
    held = Held(vic=SAPP.view, max=SAPP.manage)
    with serving(guarded(routes, users, Attempts(), ("/things/open",), held)) as made:
        yield made


def codes(client: httpx.Client, method: str, path: str) -> dict[str, int]:
    """What users are answered."""
    return {
        name: client.request(method, path, auth=(name, "right")).status_code for name in ("ada", "max", "vic", "nil")
    }


def test_one_of_several_permissions_is_enough_to_look(client: httpx.Client):
    assert codes(client, "GET", "/things") == {"ada": 200, "max": 200, "vic": 200, "nil": 401}


def test_who_may_look_may_not_change(client: httpx.Client):
    assert codes(client, "POST", "/things") == {"ada": 200, "max": 200, "vic": 401, "nil": 401}


def test_a_missing_permission_is_401_with_a_plain_text_that_names_it(client: httpx.Client):
    answer = client.post("/things", auth=("vic", "right"))
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")
    assert "SAPP siddhiApp.manage" in answer.text
    assert "www-authenticate" not in answer.headers  # browsers would ask for another password


def test_a_route_for_every_user_wants_credentials_and_no_permission(client: httpx.Client):
    assert set(codes(client, "GET", "/things/own").values()) == {200}
    assert client.get("/things/own").status_code == 400
    assert client.get("/things/own", auth=("nil", "wrong")).status_code == 401


def test_a_route_for_administrators_is_for_nobody_else(client: httpx.Client):
    assert codes(client, "GET", "/things/users") == {"ada": 200, "max": 401, "vic": 401, "nil": 401}


def test_a_route_that_says_nothing_is_for_administrators(client: httpx.Client):
    assert codes(client, "GET", "/things/silent") == {"ada": 200, "max": 401, "vic": 401, "nil": 401}


def test_an_open_path_wants_no_credentials(client: httpx.Client):
    assert client.get("/things/open").json() == "open"


def test_without_authentication_nothing_is_checked():
    router = APIRouter()

    @router.get("/x", dependencies=[needs(SIM.manage)])
    async def look() -> str:
        return "seen"

    with serving(guarded(make_routes("t", [router]), None, Attempts(), ())) as client:
        assert client.get("/x").status_code == 200


def test_a_need_of_nothing_is_a_mistake_of_the_programmer():
    with pytest.raises(ValueError, match="SIGNED_IN"):
        needs()


def _declared(router: APIRouter) -> dict[str, list[Needed]]:
    return {
        f"{method} {route.path}": needed_of(route.dependencies)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }


VIEW, MANAGE, USERS, OPEN = (
    [Needed((SAPP.view, SAPP.manage))],
    [Needed((SAPP.manage,))],
    [Needed(lets="users")],
    [Needed(lets="everybody")],
)


def test_every_route_of_a_worker_says_what_the_contract_says():
    routers = (siddhiapps.routes, storequery.routes, node.health_routes, node.node_routes)
    found: dict[str, list[Needed]] = {}
    for routes in routers:
        found |= _declared(routes(None))  # type: ignore[arg-type, operator]  # nothing is asked of the apps
    assert found == {
        "POST /siddhi-apps": MANAGE,
        "PUT /siddhi-apps": MANAGE,
        "GET /siddhi-apps": VIEW,
        "GET /siddhi-apps/{app}": VIEW,
        "DELETE /siddhi-apps/{app}": MANAGE,
        "GET /siddhi-apps/{app}/status": VIEW,
        "GET /siddhi-apps/{app}/details": VIEW,
        "POST /siddhi-apps/{app}/restart": MANAGE,
        "POST /siddhi-apps/{app}/query": USERS,
        "POST /stores/query": USERS,
        "GET /health": OPEN,
        "GET /health/ready": OPEN,
        "GET /nodeDetails/runTime": VIEW,
        "GET /system-details": VIEW,
    }


def test_a_name_in_the_audit_log_cannot_begin_a_line_of_its_own(
    client: httpx.Client, capsys: pytest.CaptureFixture[str]
):
    forged = base64.b64encode(b"eve\nuser=ada event=login:right").decode()
    assert client.get("/things", headers={"Authorization": f"Basic {forged}"}).status_code == 401
    assert not any(line.startswith("user=ada") for line in capsys.readouterr().out.splitlines())
