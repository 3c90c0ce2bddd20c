"""What tests of who may do what have in common: a worker's REST APIs without its apps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI, Request
from servers import asking
from servers.identityserver import IdentityServer

from nadi.config.auth import Auth
from nadi.config.deployment import deployment_of
from nadi.io.httpserver import Application, HttpServer
from nadi.server.rest import login, permissions
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.grants import open_permissions
from nadi.server.security.identity import Identity, make_external, make_identity
from nadi.server.security.passwords import hash_password
from nadi.server.security.permissions import SAPP, SIGNED_IN, caller_of, needs
from nadi.server.security.providers import LocalProvider
from nadi.server.security.sessions import Sessions
from nadi.server.worker import OPEN

HASH = hash_password("right")
"""Of the password of all users."""


def users_section(admin: str = "ada", **roles: str) -> dict[str, Any]:
    """`auth.configs` with an administrator and users with the ids of their roles."""
    listed = [
        {"user": {"username": name, "password": HASH, "roles": ids}} for name, ids in {admin: "1", **roles}.items()
    ]
    named = {"1": "admin", "2": "viewers", "3": "operators", "4": "nobodies"}
    store = {"users": listed, "roles": [{"role": {"id": id_, "displayName": name}} for id_, name in named.items()]}
    return {"userManager": {"adminRole": "admin", "userStore": store}}


@dataclass(slots=True)
class Clock:
    """A clock that tests turn."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Browser:
    """A client that keeps what a page would: the halves of the bodies and the cookies by their paths; it goes by plain http, where no browser would."""

    client: httpx.Client
    app: str = "portal"
    body: dict[str, Any] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def login(self, user: str, password: str = "right", **more: str) -> httpx.Response:
        form = {"username": user, "password": password, "grantType": "password", **more}
        return self._took(self.client.post(f"/login/{self.app}", data=form))

    def refresh(self) -> httpx.Response:
        return self._took(
            self.client.post(
                f"/login/{self.app}", data={"grantType": "refresh_token"}, headers=self.headers("LID", "ASID")
            )
        )

    def logout(self) -> httpx.Response:
        return self.client.post(f"/logout/{self.app}", headers=self.headers("PID", "JID"))

    def get(self, path: str = "/own") -> httpx.Response:
        return self.client.get(path, headers=self.headers())

    def headers(self, half: str = "PID", cookie: str = "HID") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.body[half]}", "Cookie": f"{cookie}={self.cookies[cookie]}"}

    @property
    def token(self) -> str:
        return str(self.body["PID"]) + self.cookies["HID"]

    def _took(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code == 200:
            self.body = answer.json()
            self.cookies |= {name: bake.value for name, bake in baked(answer).items()}
        self.client.cookies.clear()
        return answer


def baked(answer: httpx.Response) -> dict[str, Any]:
    """The cookies of an answer by name, with their attributes."""
    found: SimpleCookie = SimpleCookie()
    for line in answer.headers.get_list("set-cookie"):
        found.load(line)
    return dict(found)


@contextmanager
def serving(application: Application) -> Iterator[httpx.Client]:
    """A server of an application on a port of its own, and a client of it."""
    server = HttpServer(application, "127.0.0.1", 0)
    server.start()
    try:
        with asking.client(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as client:
            yield client
    finally:
        server.stop()


def local_identity(folder: Path, clock: Clock, content: dict[str, Any]) -> Identity:
    """An identity whose sessions go by a clock of the test."""
    deployment = deployment_of(content)
    made = make_identity(folder, deployment)
    given = deployment.sections.auth.properties
    provider = made.provider
    assert isinstance(provider, LocalProvider)
    provider._sessions = Sessions(given.session_timeout, given.refresh_session_timeout, clock)
    return made


def routes_of(identity: Identity, attempts: Attempts) -> FastAPI:
    """Login, permissions, and a few routes that need this and that."""
    router = APIRouter()

    @router.get("/own", dependencies=[SIGNED_IN])
    async def own(request: Request) -> str:
        caller = caller_of(request)
        return "" if caller is None else caller.user.name

    @router.post("/own", dependencies=[SIGNED_IN])
    async def post_own() -> str:
        return "changed"

    @router.get("/look", dependencies=[needs(SAPP.view, SAPP.manage)])
    async def look() -> str:
        return "seen"

    @router.post("/change", dependencies=[needs(SAPP.manage)])
    async def change() -> str:
        return "changed"

    api = login.LoginApi(identity.provider, attempts, identity.sso, identity.grant)
    return make_routes("test", [router, login.routes(api), permissions.routes(identity.permissions, identity.provider)])


@contextmanager
def serving_identity(identity: Identity, attempts: Attempts | None = None) -> Iterator[httpx.Client]:
    """A server of an identity's routes, and a client of it."""
    try:
        with serving(application_of(identity, attempts)) as client:
            yield client
    finally:
        identity.close()


def application_of(identity: Identity, attempts: Attempts | None = None) -> Application:
    """The routes behind the guard, as a worker has them."""
    counted = attempts or Attempts()
    provider = identity.provider
    return guarded(routes_of(identity, counted), provider, counted, OPEN, identity.grants, provider)


def auth_of(idp: IdentityServer, **more: Any) -> dict[str, Any]:
    properties = {
        "kmDcrUrl": f"{idp.url}/register",
        "kmTokenUrl": f"{idp.url}/oauth2",
        "idpBaseUrl": f"{idp.url}/scim2",
        "baseUrl": "https://node.example",
        "externalLogoutUrl": "https://idp.example/logout",
        **more,
    }
    return {"type": "external", "ssoEnabled": True, "properties": properties}


@contextmanager
def identity_of(
    idp: IdentityServer, folder: Path, clock: Clock, auth_more: Mapping[str, Any] | None = None, **more: Any
) -> Iterator[Identity]:
    auth = Auth.model_validate({**auth_of(idp, **more), **(auth_more or {})})
    provider, sso = make_external(folder, auth, None, clock)
    store = open_permissions(folder, None)
    made = Identity(provider, sso, store, store, ())
    yield made
    made.close()
