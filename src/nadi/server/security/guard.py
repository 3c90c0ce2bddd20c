"""Lets a request through to the REST APIs only with credentials that are right.

| answer | when |
|---|---|
| 400 | no header `Authorization`, one that cannot be read, or a scheme other than Basic and Bearer |
| 401 | nobody has this name and password; the token is not known, or has expired |
| 403 | a page of another origin wants to change something with what the browser of a user keeps |
| 429 | too many wrong passwords for this name or from this address, or tokens that an identity provider does not know; `Retry-After` says when to come back |
| 500 | the identity provider cannot be asked |
| 503 | too many passwords wait to be checked, or too many of this address |

`Bearer` takes a whole token, or its first half where the cookie `HID` has the second. Paths that match a pattern of `restAPIAuthConfigs.exclude` and those
that are open to all need none. Who asks is in the scope's state as `caller`; what a user may do is up to each route (`nadi.server.security.permissions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

import structlog
from starlette.concurrency import run_in_threadpool

from nadi.errors import NadiError
from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.rest.answers import send_text
from nadi.server.rest.limits import drain
from nadi.server.security.attempts import Attempts
from nadi.server.security.audit import Origin, note
from nadi.server.security.entrance import BASIC, Busy, Entrance, TooMany
from nadi.server.security.permissions import CALLER, Caller, Grants
from nadi.server.security.providers import Slower
from nadi.server.security.requests import SAFE, Basic, Bearer, authorization, cookie, is_foreign
from nadi.server.security.users import User

ACCESS = "HID"  # the cookie with the second half of an access token

log = structlog.get_logger("nadi.server")


class Passwords(Protocol):
    """Knows users by name and password."""

    def login(self, name: str, password: str) -> User | None:
        """The user of this name and password; None where there is none. May wait. Errors: PROVIDER_UNAVAILABLE."""

    def remembered(self, name: str, password: str) -> User | None:
        """The user, where the password was right a moment ago; None where that is to be checked. Never waits."""


class Tokens(Protocol):
    """Knows users by access tokens."""

    def user_of(self, token: str, address: str) -> User | None:
        """The user that a token from an address belongs to; None where it is not known or has expired. May wait. Errors: PROVIDER_UNAVAILABLE; Slower."""


class NoTokens:
    """There are no tokens."""

    def user_of(self, token: str, address: str) -> User | None:
        return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let through."""

    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)


_TAKES = "it takes 'Basic' and base64 of user:password, or 'Bearer' and a token."
MISSING = Refusal(400, f"The header 'Authorization' is missing: {_TAKES}")
MALFORMED = Refusal(400, f"The header 'Authorization' cannot be read: {_TAKES}")
WRONG = Refusal(401, "The user name or the password is wrong.", {"WWW-Authenticate": 'Basic realm="nadi"'})
NO_TOKEN = Refusal(
    401,
    "The token is not known, or has expired.",
    {"WWW-Authenticate": 'Bearer realm="nadi", error="invalid_token"'},
)
FOREIGN = Refusal(403, "A page of another origin may not change anything here.")
FAILED = Refusal(500, "The server cannot tell who this is; its log has the reason.")


class Guard:
    """See the module's text."""

    def __init__(
        self,
        inner: Application,
        users: Passwords,
        tokens: Tokens,
        attempts: Attempts,
        open_paths: Iterable[str],
        grants: Grants,
    ) -> None:
        """`open_paths` are patterns with `*` and `?`."""
        self._inner = inner
        self._users = users
        self._tokens = tokens
        self._entrance = Entrance(attempts)
        self._grants = grants
        self._open = tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(fnmatchcase(scope["path"], pattern) for pattern in self._open):
            await self._inner(scope, receive, send)
            return
        address = (scope.get("client") or ("", 0))[0]
        try:
            found = await self._checked(scope, address)
        except NadiError as reason:
            log.error("a user could not be checked", path=scope["path"], reason=str(reason))
            found = FAILED
        if isinstance(found, Refusal):
            await drain(receive)  # of a stranger nothing is kept
            await send_text(send, found.status, found.reason, found.headers)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        state[CALLER] = Caller(found, address, self._grants)
        await self._inner(scope, receive, send)

    async def _checked(self, scope: Scope, address: str) -> User | Refusal:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return MISSING
        # browsers add cookies, and passwords that were typed into their own box, to what any page asks for
        if scope["method"] not in SAFE and is_foreign(scope["headers"]):
            note("foreign origin", Origin("", address, scope["path"]), "refused")
            return FOREIGN
        match authorization(given[0]) if len(given) == 1 else None:
            case Basic(name, password):
                return await self._by_password(name, password, Origin(name, address, scope["path"]))
            case Bearer(token):
                return await self._by_token(token, scope, Origin("", address, scope["path"]))
        return MALFORMED

    async def _by_password(self, name: str, password: str, origin: Origin) -> User | Refusal:
        users = self._users
        found = await self._entrance.enter(
            origin, BASIC, lambda: users.login(name, password), lambda: users.remembered(name, password)
        )
        if isinstance(found, Busy):
            return Refusal(503, "Too many passwords wait to be checked.", {"Retry-After": str(found.seconds)})
        if isinstance(found, TooMany):
            return Refusal(429, "Too many wrong passwords.", {"Retry-After": str(found.seconds)})
        return WRONG if found is None else found

    async def _by_token(self, token: str, scope: Scope, origin: Origin) -> User | Refusal:
        half = cookie(scope["headers"], ACCESS)
        for whole in (token + half, token) if half else (token,):
            try:
                user = await run_in_threadpool(self._tokens.user_of, whole, origin.address)
            except Slower as slower:
                note("token", origin, "too many")
                return Refusal(429, "Too many tokens that are not known.", {"Retry-After": str(slower.seconds)})
            if user is not None:
                return user
        note("token", origin, "refused")
        return NO_TOKEN
