"""Requests to other nodes over HTTP, signed or with a user's name and password."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from nadi.cluster.contract import NoAnswer
from nadi.cluster.messages import Message
from nadi.server.distributed.nodekeys import HEADER, NodeKey
from nadi.server.distributed.wire import Answer, Malformed, answered, path_of, request_body


@dataclass(frozen=True, slots=True)
class Credentials:
    """As whom this node comes to another one."""

    user: str
    password: str = field(repr=False)


BOUNDS = httpx.Limits(max_connections=8, max_keepalive_connections=2)
"""Of the connections to one node."""


class HttpNetwork:
    """Implements `nadi.cluster.contract.Network`; used in one event loop. With a key requests are signed; else they carry the credentials for their address, or
    those that are for all others.

    Each address has connections of its own: a pool looks through all that it has for each request, which a manager of a thousand workers cannot afford."""

    def __init__(
        self,
        key: NodeKey | None,
        known: Mapping[str, Credentials],
        others: Credentials | None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._key = key
        self._known = known
        self._others = others
        self._trusted = trusted
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def ask(self, address: str, message: Message, within: int) -> Message:
        answer = await self.request(address, "POST", path_of(message), request_body(message), within)
        try:
            return answered(message, answer.status, answer.body or b"")
        except Malformed as reason:
            raise NoAnswer(f"{address}: {reason}") from reason

    async def request(self, address: str, method: str, path: str, body: bytes = b"", within: int = 30_000) -> Answer:
        """Ask a node for a path of its REST API, which may have a query behind it; `within` ms. What a worker answers so to managers stands in
        `nadi.server.distributed.nodeentrance.OF_WORKERS`.

        Errors: NoAnswer; whether the request was heard is not known then. Every status is an answer.
        """
        try:
            async with asyncio.timeout(within / 1000):
                answer = await self._asked(address, method, httpx.URL(f"{address}{path}"), body)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as reason:
            raise NoAnswer(f"{address}: {reason!r}") from reason
        kept = {name: answer.headers[name] for name in ("location", "retry-after") if name in answer.headers}
        return Answer(answer.status_code, answer.content, kept)

    async def _asked(self, address: str, method: str, url: httpx.URL, body: bytes) -> httpx.Response:
        headers = {"content-type": "application/json"} if body else {}
        found, auth = self._known.get(address, self._others), None
        if self._key is not None:
            headers[HEADER] = self._key.sign(method, url.raw_path.decode("ascii"), body)
        elif found is not None:
            auth = httpx.BasicAuth(found.user, found.password)
        return await self._to(address).request(method, url, content=body, headers=headers, auth=auth)

    def _to(self, address: str) -> httpx.AsyncClient:
        if address not in self._clients:
            if self._trusted is None:
                self._trusted = httpx.create_ssl_context(trust_env=False)  # one for all: it takes long to make
            self._clients[address] = httpx.AsyncClient(
                verify=self._trusted, timeout=None, trust_env=False, follow_redirects=False, limits=BOUNDS
            )
        return self._clients[address]

    async def close(self) -> None:
        """Let go of the connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()
