"""Each answer of a REST server says what a browser may do with it: show nothing of it as a page, keep nothing of it, tell nobody where it was.

An answer that has such a header of its own, as the status page has, keeps it. There is no `Strict-Transport-Security`: browsers take it for all ports of a
host, and a worker serves plain http beside https.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from nadi.io.httpserver import Application, Receive, Scope, Send

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}


class AnswerHeaders:
    """The application `inner`, whose answers get the headers that they lack."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": with_headers(list(event.get("headers", ())))}
            await send(event)

        await self._inner(scope, receive, told)


def with_headers(given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer and those that it lacks.

    >>> with_headers([(b"Cache-Control", b"no-cache")])[:2]
    [(b'Cache-Control', b'no-cache'), (b'x-content-type-options', b'nosniff')]
    """
    there = {name.lower() for name, _value in given}
    return [*given, *((name, value) for name, value in HEADERS.items() if name not in there)]
