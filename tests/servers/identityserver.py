"""An identity provider for tests: OAuth2 (passwords, refresh tokens, codes with PKCE), OpenID Connect, introspection, revocation, registration, SCIM2.

It is as strict as the standards: clients and administrators prove who they are, codes and refresh tokens are taken once, a code belongs to a client, an
address and a verifier.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.jwk import RSAKey
from servers import asking
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from nadi.io.httpserver import HttpServer

ADMIN = ("admin", "admin")
GROUPS = {"g-1": "PRIMARY/admin", "g-2": "viewers", "g-3": "operators"}
VALID = 3_600


@dataclass
class Person:
    password: str
    groups: tuple[str, ...] = ()


@dataclass
class Made:
    """A token, a code: whose, and for which client."""

    user: str
    client: str
    kind: str
    until: float
    more: dict[str, str] = field(default_factory=dict)


@cache
def _first_key() -> RSAKey:
    """The same for all servers of a run: to make one takes longer than most tests."""
    return RSAKey.generate_key(2048, {"kid": "first"}, private=True)


class IdentityServer:
    """See the module's text. Fields can be changed while it runs."""

    def __init__(self) -> None:
        self.people = {
            "ada": Person("right", ("g-1",)),
            "vic": Person("right", ("g-2",)),
            "nil": Person("right"),
            'o"hara': Person("right", ("g-2",)),
        }
        self.clients: dict[str, tuple[str, list[str]]] = {"other": ("secret", [])}
        self.made: dict[str, Made] = {}
        self.asked: list[str] = []
        self.key = _first_key()
        self.signing = self.key
        self.claims: dict[str, Any] = {}
        self.browser_user = "ada"
        self.down = False
        self.raw = b""  # what it answers instead of all else
        self.now = time.time
        self.url = ""
        self.application = Starlette(
            routes=[
                Route("/oauth2/token", self.token, methods=["POST"]),
                Route("/oauth2/introspect", self.introspect, methods=["POST"]),
                Route("/oauth2/revoke", self.revoke, methods=["POST"]),
                Route("/oauth2/authorize", self.authorize),
                Route("/oauth2/jwks", self.jwks),
                Route("/register", self.register, methods=["POST"]),
                Route("/scim2/Users", self.users),
                Route("/scim2/Groups", self.groups),
            ]
        )

    def issue(self, user: str, client: str, kind: str = "Bearer", valid: float = VALID, **more: str) -> str:
        """A token."""
        made = secrets.token_urlsafe(32)
        self.made[made] = Made(user, client, kind, self.now() + valid, more)
        return made

    # ---- OAuth2

    async def token(self, request: Request) -> Response:
        self.asked.append("token")
        if self.raw:
            return Response(self.raw, media_type="application/json")
        if self.down:
            return JSONResponse({"error": "server_error"}, 500)
        client = self._client(request)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        form = {name: str(value) for name, value in (await request.form()).items()}
        match form.get("grant_type"):
            case "password":
                person = self.people.get(form.get("username", ""))
                if person is None or person.password != form.get("password"):
                    return JSONResponse({"error": "invalid_grant", "error_description": "no such user"}, 400)
                return self._granted(form["username"], client)
            case "refresh_token":
                made = self._taken(form.get("refresh_token", ""), "Refresh", client)
                return _refused() if made is None else self._granted(made.user, client)
            case "authorization_code":
                made = self._taken(form.get("code", ""), "code", client)
                if made is None or made.more["redirect_uri"] != form.get("redirect_uri"):
                    return _refused()
                digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                if base64.urlsafe_b64encode(digest).decode().rstrip("=") != made.more["challenge"]:
                    return _refused()
                return self._granted(made.user, client, made.more["nonce"])
        return JSONResponse({"error": "unsupported_grant_type"}, 400)

    async def introspect(self, request: Request) -> Response:
        self.asked.append("introspect")
        if self.raw:
            return Response(self.raw, media_type="application/json")
        if self.down:
            return JSONResponse({}, 503)
        if _basic(request) != ADMIN:
            return JSONResponse({"error": "invalid_client"}, 401)
        made = self.made.get(str((await request.form()).get("token", "")))
        if made is None or made.kind == "code" or made.until <= self.now():
            return JSONResponse({"active": False})
        return JSONResponse(
            {
                "active": True,
                "token_type": made.kind,
                "username": f"{made.user}@carbon.super",
                "client_id": made.client,
                "exp": int(made.until),
            }
        )

    async def revoke(self, request: Request) -> Response:
        self.asked.append("revoke")
        if self.down:
            return JSONResponse({}, 503)
        if self._client(request) is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        self.made.pop(str((await request.form()).get("token", "")), None)
        return Response(status_code=200)

    async def authorize(self, request: Request) -> Response:
        asked = request.query_params
        _secret, addresses = self.clients.get(asked.get("client_id", ""), ("", []))
        if asked.get("redirect_uri") not in addresses or asked.get("response_type") != "code":
            return JSONResponse({"error": "invalid_request"}, 400)
        if asked.get("code_challenge_method") != "S256" or "openid" not in asked.get("scope", "").split():
            return JSONResponse({"error": "invalid_request"}, 400)
        code = self.issue(
            self.browser_user,
            asked["client_id"],
            "code",
            60,
            redirect_uri=asked["redirect_uri"],
            challenge=asked["code_challenge"],
            nonce=asked.get("nonce", ""),
        )
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}", 302)

    async def jwks(self, _request: Request) -> Response:
        self.asked.append("jwks")
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def register(self, request: Request) -> Response:
        self.asked.append("register")
        if self.down:
            return JSONResponse({}, 503)
        if _basic(request) != ADMIN:
            return JSONResponse({"error": "invalid_client"}, 401)
        body = await request.json()
        id_, secret = secrets.token_hex(8), secrets.token_hex(16)
        self.clients[id_] = (secret, body["redirect_uris"])
        return JSONResponse({"client_id": id_, "client_secret": secret, "client_name": body["client_name"]}, 201)

    # ---- SCIM2

    async def users(self, request: Request) -> Response:
        self.asked.append("users")
        if self.down:
            return JSONResponse({}, 503)
        if _basic(request) != ADMIN:
            return JSONResponse({}, 401)
        asked = re.fullmatch(r'userName eq ("(?:[^"\\]|\\.)*")', request.query_params.get("filter", ""))
        if asked is None:
            return JSONResponse({"detail": "invalidFilter"}, 400)
        name = json.loads(asked[1])
        person = self.people.get(name)
        listed = (
            [] if person is None else [{"id": f"u-{name}", "userName": f"PRIMARY/{name}", "groups": _groups(person)}]
        )
        return JSONResponse({"totalResults": len(listed), "Resources": listed})

    async def groups(self, request: Request) -> Response:
        self.asked.append("groups")
        if self.down:
            return JSONResponse({}, 503)
        if _basic(request) != ADMIN:
            return JSONResponse({}, 401)
        start = int(request.query_params.get("startIndex", "1"))
        listed = [{"id": id_, "displayName": name} for id_, name in GROUPS.items()][start - 1 : start + 1]
        return JSONResponse({"totalResults": len(GROUPS), "startIndex": start, "Resources": listed})

    # ----

    def _client(self, request: Request) -> str | None:
        given = _basic(request)
        known = None if given is None else self.clients.get(given[0])
        return given[0] if given and known and known[0] == given[1] else None

    def _taken(self, token: str, kind: str, client: str) -> Made | None:
        made = self.made.get(token)
        if made is None or made.kind != kind or made.client != client or made.until <= self.now():
            return None
        return self.made.pop(token)

    def _granted(self, user: str, client: str, nonce: str = "") -> Response:
        access = self.issue(user, client)
        body: dict[str, Any] = {
            "access_token": access,
            "refresh_token": self.issue(user, client, "Refresh", 86_400),
            "expires_in": VALID,
            "token_type": "Bearer",
        }
        if nonce:
            now = int(self.now())
            issuer = f"{self.url}/oauth2/token"
            claims = {"iss": issuer, "sub": user, "aud": client, "iat": now, "exp": now + VALID, "nonce": nonce}
            header = {"alg": "RS256", "kid": str(self.signing.kid)}
            body["id_token"] = jwt.encode(header, {**claims, **self.claims}, self.signing)
        return JSONResponse(body)


def _refused() -> Response:
    return JSONResponse({"error": "invalid_grant"}, 400)


def _basic(request: Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    name, _, password = base64.b64decode(encoded).decode().partition(":")
    return name, password


def _groups(person: Person) -> list[Mapping[str, str]]:
    return [{"value": id_, "display": GROUPS[id_]} for id_ in person.groups]


@contextmanager
def identity_server() -> Iterator[IdentityServer]:
    """A provider on a port of its own."""
    made = IdentityServer()
    server = HttpServer(made.application, "127.0.0.1", 0)
    server.start()
    made.url = f"http://127.0.0.1:{server.port}"
    try:
        asking.get(f"{made.url}/oauth2/jwks").raise_for_status()
        yield made
    finally:
        server.stop()
