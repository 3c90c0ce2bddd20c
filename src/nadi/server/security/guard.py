"""Lets a request through to the REST APIs only with credentials that are right.

| answer | when |
|---|---|
| 400 | no header `Authorization`, one that cannot be read, or a scheme other than Basic |
| 401 | nobody has this name and password |
| 429 | too many wrong ones for this name or from this address; `Retry-After` says when to come back |

Paths that match a pattern of `restAPIAuthConfigs.exclude` and those that are open to all need none. Who asks is in the scope's state as
`caller`; what a user may do is up to each route (`nadi.server.security.permissions`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import structlog

from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.rest.answers import send_text
from nadi.server.rest.limits import drain
from nadi.server.security.attempts import Attempts
from nadi.server.security.permissions import CALLER, Caller, Grants
from nadi.server.security.users import User, Users

LONGEST = 4_096  # characters of a header that is read

log = structlog.get_logger("nadi.audit")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let through."""

    status: int
    reason: str
    headers: Mapping[str, str]


MISSING = Refusal(400, "The header 'Authorization' is missing: it takes 'Basic' and base64 of user:password.", {})
MALFORMED = Refusal(400, "The header 'Authorization' cannot be read: it takes 'Basic' and base64 of user:password.", {})
WRONG = Refusal(401, "The user name or the password is wrong.", {"WWW-Authenticate": 'Basic realm="nadi"'})


class Guard:
    """See the module's text."""

    def __init__(
        self, inner: Application, users: Users, attempts: Attempts, open_paths: Iterable[str], grants: Grants
    ) -> None:
        """`open_paths` are patterns with `*` and `?`."""
        self._inner = inner
        self._grants = grants
        self._users = users
        self._attempts = attempts
        self._open = tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(fnmatchcase(scope["path"], pattern) for pattern in self._open):
            await self._inner(scope, receive, send)
            return
        found = await self._checked(scope)
        if isinstance(found, Refusal):
            await drain(receive)  # of a stranger nothing is kept
            await send_text(send, found.status, found.reason, found.headers)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        state[CALLER] = Caller(found, (scope.get("client") or ("",))[0], self._grants)
        await self._inner(scope, receive, send)

    async def _checked(self, scope: Scope) -> User | Refusal:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return MISSING
        pair = credentials(given[0]) if len(given) == 1 else None
        if pair is None:
            return MALFORMED
        name, password = pair
        peer = scope.get("client") or ("", 0)
        wait = self._attempts.wait(name, peer[0])
        if wait > 0:
            return Refusal(429, "Too many wrong passwords.", {"Retry-After": str(int(wait) + 1)})
        user = await asyncio.get_running_loop().run_in_executor(None, self._users.login, name, password)
        self._attempts.note(name, peer[0], user is not None)
        if user is None:
            log.warning("login refused", user=name, address=peer[0], path=scope["path"])
            return WRONG
        return user


def credentials(header: bytes) -> tuple[str, str] | None:
    """The user name and password of a header `Authorization: Basic …`; None where it is none.

    >>> credentials(b"Basic YWRtaW46c2VjcmV0")
    ('admin', 'secret')
    """
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic" or len(header) > LONGEST:
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon and name else None
