"""Notes in the audit log what users change: every request that is more than a question, to a route that needs a permission, with its answer.

A route can say what it was about, where the path does not: `about(request, "Orders")`. One that needs no permission says itself when it changes something:
`changes(request, "query Orders")`.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from fastapi import Request

from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.security.audit import Origin, note
from nadi.server.security.permissions import CALLER, NEEDED, Caller, Needed
from nadi.server.security.requests import SAFE

_ABOUT, _CHANGES = "about", "changes"


def about(request: Request, subject: str) -> None:
    """What a request is about: the name of an app, a permission."""
    request.scope.setdefault("state", {})[_ABOUT] = subject


def changes(request: Request, subject: str) -> None:
    """A request that takes no permission is more than a question; what it is about."""
    about(request, subject)
    request.scope["state"][_CHANGES] = True


class Changes:
    """See the module's text."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE:
            await self._inner(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})

        async def seen(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":  # noted before the client can know of it
                self._note(scope, state, event["status"])
            await send(event)

        await self._inner(scope, receive, seen)

    def _note(self, scope: Scope, state: dict[str, Any], status: int) -> None:
        needed: Needed | None = state.get(NEEDED)
        if _CHANGES not in state and (needed is None or needed.lets != "administrators"):
            return  # nothing that takes a permission; or refused, which is noted where it happens
        caller: Caller | None = state.get(CALLER)
        user = "" if caller is None else caller.user.name
        address = (scope.get("client") or ("", 0))[0]
        more = {"about": state[_ABOUT]} if _ABOUT in state else {}
        outcome = "ok" if status < 400 else "refused"
        note("change", Origin(user, address, scope["path"]), outcome, method=scope["method"], status=status, **more)
