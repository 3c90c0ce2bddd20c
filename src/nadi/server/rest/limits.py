"""Bounds of what a client may ask of a REST server: the size of a body, the time it takes to come."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterable, MutableMapping
from fnmatch import fnmatchcase
from typing import Any

from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.rest.answers import VALIDATION, send_coded

BODY = 10_000_000  # bytes
LITTLE = 16_384  # bytes of what strangers may send
TOO_LARGE = "too large"
"""In the state of a request whose body was too large, for routes that answer it themselves: what they get is empty."""
COMES_WITHIN = 30.0  # seconds from the first byte of a body to its last
_SLASHES = re.compile("//+")


class PlainPaths:
    """Paths with a slash too many mean those without."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": plain_path(scope["path"])}
        await self._inner(scope, receive, send)


class Limits:
    """See the module's text. A body is read before the application sees it."""

    def __init__(
        self, inner: Application, most: int = BODY, little: Iterable[str] = (), told: Iterable[str] = ()
    ) -> None:
        """`little` are patterns of paths that take no more than a form of a few fields, `told` those of paths that answer a body that is too large
        themselves (`TOO_LARGE`)."""
        self._inner = inner
        self._most = most
        self._little = tuple(little)
        self._told = tuple(told)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if any(n == b"content-encoding" and v.strip().lower() != b"identity" for n, v in scope["headers"]):
            await drain(receive)
            await _refuse(send, 415, "Bodies are taken as they are, without Content-Encoding.")
            return
        most = LITTLE if _is_one(scope["path"], self._little) else self._most
        try:
            body = await _body(receive, most)
        except TimeoutError:
            await _refuse(send, 408, f"The body did not come within {COMES_WITHIN:.0f} s.")
            return
        if body is None and _is_one(scope["path"], self._told):
            scope.setdefault("state", {})[TOO_LARGE] = True
            body = b""
        if body is None:
            await _refuse(send, 413, f"A body may have {most:,} bytes.")
            return
        await self._inner(scope, _again(body, receive), send)


async def _refuse(send: Send, status: int, reason: str) -> None:
    await send_coded(send, status, VALIDATION, reason, {"connection": "close"})


def _is_one(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def plain_path(path: str) -> str:
    """A path without slashes that mean nothing.

    >>> plain_path("/siddhi-apps//Orders/"), plain_path("/")
    ('/siddhi-apps/Orders', '/')
    """
    return _SLASHES.sub("/", path).rstrip("/") or "/"


async def _body(receive: Receive, most: int) -> bytes | None:
    """The whole body; None where it is too large. Errors: TimeoutError."""
    parts: list[bytes] = []
    size, until = 0, time.monotonic() + COMES_WITHIN
    while True:
        async with asyncio.timeout(until - time.monotonic()):
            event = await receive()
        part: bytes = event.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        if not event.get("more_body"):
            return b"".join(parts) if size <= most else None


async def drain(receive: Receive) -> None:
    """Read what a client sends, and forget it: only a client that has sent all looks for the answer. For as long as a body may take."""
    until = time.monotonic() + COMES_WITHIN
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(until - time.monotonic()):
                event = await receive()
            if not event.get("more_body"):
                return


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read once more, then what comes."""
    given = False

    async def first() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first
