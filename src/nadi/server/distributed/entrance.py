"""The entrance of a cluster: one address for messages to the http sources of all apps, wherever they run now.

    POST /<app>/<path of the source>      →      the instance that has the source

What the source answers is what the client hears, and it hears nothing before. Beyond that:

| answer | when | was the message kept? |
|---|---|---|
| 404 405 413 408 | no app has such a source; it is no POST; it is too large, or too slow | no |
| 503, `Retry-After` | the source runs nowhere now, or its worker cannot be reached; too much is under way | no |
| 502 | the worker was there, and went away before it had answered | it may have been |
| 504 | it has not answered in time | it may have been |

A request of which nothing was sent yet goes to another instance, or to where the instance is now; any other one is never sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import httpx
import msgspec
import structlog

from nadi.cluster.contract import StoreAway
from nadi.cluster.messages import Owner, Owners
from nadi.config.deployment import Deployment
from nadi.io.certificate import OwnCertificate
from nadi.io.httpserver import HttpServer, Receive, Scope, Send
from nadi.io.journal import EVENT_BYTES
from nadi.server.distributed.membership import trusted_of

FRESH = 5.0  # seconds that is used what a look has found
LEAST = 0.5  # seconds between two looks, whatever is missing
CONNECTS_WITHIN = 2.0  # seconds
ANSWERS_WITHIN = 30.0
COMES_WITHIN = 30.0  # for the whole body of a client
KEPT = 20.0  # seconds that a connection to a worker is kept: less than a source waits for a next request
WAITING_BYTES = 64_000_000  # of requests that are under way
OVERHEAD = 4_096  # bytes that a request takes beside its body, about
RETRY = {"retry-after": "1"}
_OWN = frozenset(
    {
        b"connection", b"content-length", b"expect", b"host", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
        b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Headers that concern a connection, and no message."""
_TOLD = ("content-type", "www-authenticate", "retry-after", "accept-encoding")
"""Headers of a source's answers."""
_GONE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Nothing was sent."""

Look = Callable[[], Awaitable[Owners]]
"""Says who takes messages now. Errors: StoreAway, where nobody can tell."""
log = structlog.get_logger("nadi.server")


class Refused(Exception):
    """An answer of the entrance's own."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


class Entrance:
    """An ASGI application; see the module's text. `client` makes what asks workers."""

    def __init__(self, look: Look, client: Callable[[], httpx.AsyncClient]) -> None:
        self._look = look
        self._make = client
        self._client: httpx.AsyncClient | None = None
        self._by_path: dict[str, tuple[Owner, ...]] = {}
        self._away = ""  # why the last look found nothing
        self._looked = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._waiting = 0
        self._turn = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        size = OVERHEAD
        self._waiting += size
        try:
            if scope["method"] != "POST":
                raise Refused(405, "messages come as POST", {"allow": "POST"})
            await self._known(scope["path"])
            body = bytearray()
            async for part in _parts(receive):
                size += len(part)
                self._waiting += len(part)
                body += part
                if self._waiting > WAITING_BYTES:
                    raise Refused(503, "too much is under way", {**RETRY, "connection": "close"})
            answer = await self._forwarded(scope, bytes(body))
            headers = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
            await _say(send, answer.status_code, answer.content, headers)
        except Refused as refused:
            await _say(
                send, refused.status, _json(refused.reason), {**refused.headers, "content-type": "application/json"}
            )
        finally:
            self._waiting -= size

    # ---- where to

    async def _known(self, path: str) -> None:
        """Errors: Refused, where no app has a source at a path."""
        await self._refresh(FRESH)
        if path not in self._by_path:  # its app may have come just now: the answer waits until a look may be made again
            last = self._looked
            await asyncio.sleep(max(0.0, last + LEAST - time.monotonic()))
            if self._looked == last:  # no age is asked here: a loop's timer may ring a millisecond early
                await self._read_once()
        if path in self._by_path:
            return
        if self._away:
            raise Refused(503, f"it is not known where sources are: {self._away}", RETRY)
        raise Refused(404, "no app of the cluster has an http source at this path: it is /<app>/<path of the source>")

    async def _refresh(self, age: float) -> None:
        """Know who takes messages by a look that is no older than `age` seconds. Many who need it wait for one look."""
        if time.monotonic() - self._looked > age:
            await self._read_once()

    async def _read_once(self) -> None:
        """Wait for a look: the one that is under way, or a new one."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._looking)

    async def _read(self) -> None:
        began = time.monotonic()
        try:
            self._by_path = (await self._look()).by_path
            self._away = ""
        except StoreAway as reason:
            self._away = str(reason)
            log.warning("the entrance uses what it knows", reason=self._away)
        self._looked = began

    def _owners(self, path: str) -> Iterator[Owner]:
        """The instances of a source, each as the first one in turn."""
        owners = self._by_path.get(path, ())
        self._turn += 1
        for n in range(len(owners)):
            yield owners[(self._turn + n) % len(owners)]

    # ---- there

    async def _forwarded(self, scope: Scope, body: bytes) -> httpx.Response:
        """What the source answers. Errors: Refused."""
        tried: set[Owner] = set()
        for age in (FRESH, LEAST):
            await self._refresh(age)
            for owner in self._owners(scope["path"]):
                if owner in tried:
                    continue
                tried.add(owner)
                answer = await self._asked(owner, scope, body)
                if answer is not None:
                    return answer
        raise Refused(503, "the source runs nowhere at the moment", RETRY)

    async def _asked(self, owner: Owner, scope: Scope, body: bytes) -> httpx.Response | None:
        """What one instance answers; None where it is not there, and has heard nothing. Errors: Refused."""
        query = scope.get("query_string", b"").decode("latin-1")
        url = f"{owner.url}?{query}" if query else owner.url
        try:
            answer = await self._opened().post(url, content=body, headers=_headers(scope))
        except _GONE as reason:
            log.info("an instance is not there", app=owner.instance, url=owner.url, reason=repr(reason))
            return None
        except httpx.TimeoutException as reason:
            said = f"{owner.instance} has not answered within {ANSWERS_WITHIN:.0f} s: it may have taken the message"
            raise Refused(504, said) from reason
        except httpx.HTTPError as reason:
            said = f"{owner.instance} went away before it had answered: it may have taken the message"
            raise Refused(502, said) from reason
        return None if answer.status_code == 404 else answer  # the port is there, and the source not yet, or no more

    async def close(self) -> None:
        """Let go of the connections, in the loop that served."""
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = self._make()
        return self._client


def entrance_of(deployment: Deployment, certificate: OwnCertificate, look: Look) -> HttpServer | None:
    """The server of a node's entrance, not started yet; None where it has none. Errors: INVALID_SETTING, CERTIFICATE_UNUSABLE."""
    found = deployment.sections.own.cluster.entrance_at
    if found is None:
        return None
    scheme, host, port = found
    trusted = trusted_of(deployment)
    made = Entrance(look, lambda: client(True if trusted is None else trusted))
    return HttpServer(made, host, port, certificate.tls().context() if scheme == "https" else None, made.close)


def client(verify: Any = True) -> httpx.AsyncClient:
    """What asks workers. A connection that was idle for longer than a worker may wait is not used again."""
    limits = httpx.Limits(max_connections=1_000, max_keepalive_connections=200, keepalive_expiry=KEPT)
    timeout = httpx.Timeout(ANSWERS_WITHIN, connect=CONNECTS_WITHIN, pool=CONNECTS_WITHIN)
    return httpx.AsyncClient(verify=verify, limits=limits, timeout=timeout, trust_env=False, follow_redirects=False)


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Those of the message."""
    named = {
        name.strip().lower() for key, value in scope["headers"] if key == b"connection" for name in value.split(b",")
    }
    return [(key, value) for key, value in scope["headers"] if key not in _OWN and key not in named]


async def _parts(receive: Receive) -> Any:
    """The body of a request, as it comes. Errors: Refused."""
    size, until = 0, time.monotonic() + COMES_WITHIN
    while True:
        try:
            async with asyncio.timeout(until - time.monotonic()):
                event: MutableMapping[str, Any] = await receive()
        except TimeoutError:
            raise Refused(408, f"the body did not come within {COMES_WITHIN:.0f} s", {"connection": "close"}) from None
        if event["type"] != "http.request":
            raise Refused(408, "the client has gone")
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > EVENT_BYTES:
            raise Refused(413, f"a message may have {EVENT_BYTES} bytes", {"connection": "close"})
        yield part
        if not event.get("more_body"):
            return


def _json(reason: str) -> bytes:
    return msgspec.json.encode({"error": reason})


async def _say(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    fields = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
    fields.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
