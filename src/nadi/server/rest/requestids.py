"""Every request has an id: that of the header `X-Request-Id`, or a new one. The answer and all that is logged meanwhile have it, too."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import MutableMapping
from typing import Any

import structlog

from nadi.io.httpserver import Application, Receive, Scope, Send

HEADER = b"x-request-id"
_PLAIN = re.compile(rb"[A-Za-z0-9._\-]{1,64}")

log = structlog.get_logger("nadi.requests")


class RequestIds:
    """See the module's text. Where debugging is on, requests are logged with their answers, and never with a query or a body; what users change is in the audit
    log (`nadi.server.security.changes`) whatever the level is."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        id_ = request_id(scope["headers"])
        began, status = time.monotonic(), 500

        async def told(event: MutableMapping[str, Any]) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                event = {**event, "headers": [*event.get("headers", ()), (HEADER, id_.encode())]}
            await send(event)

        with structlog.contextvars.bound_contextvars(request=id_):
            try:
                await self._inner(scope, receive, told)
            finally:
                took = round((time.monotonic() - began) * 1000)
                log.debug("request", method=scope["method"], path=scope["path"], status=status, ms=took)


def request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The id that a request brings, where it is a plain word, else a new one.

    >>> request_id([(b"x-request-id", b"abc-1")]), len(request_id([(b"x-request-id", b"two words")]))
    ('abc-1', 16)
    """
    given = [value for name, value in headers if name == HEADER]
    return given[0].decode() if len(given) == 1 and _PLAIN.fullmatch(given[0]) else secrets.token_hex(8)
