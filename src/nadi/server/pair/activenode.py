"""What the passive node passes on to the active one, over the signed requests of nodes, and how the active one takes it.

A request that was passed on stands under `/ha/active`: a node that is not active then refuses it, so that two nodes never pass it on to each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NoReturn

from nadi.cluster.contract import NoAnswer
from nadi.errors import error
from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.distributed.wire import Answer, Network
from nadi.server.rest.answers import send_json

PREFIX = "/ha/active"
OF_PAIRS = tuple(
    f"{PREFIX}{path}"
    for path in (
        "/siddhi-apps",
        "/siddhi-apps/*",
        "/siddhi-apps/*/restart",
        "/siddhi-apps/*/backup",
        "/siddhi-apps/*/restore",
        "/siddhi-apps/*/revisions",
        "/siddhi-apps/*/errors",
        "/siddhi-apps/*/errors/*",
        "/siddhi-apps/revisions",
        "/ha/switch",
    )
)
"""What a passive node passes on, `*` being a name."""

WITHIN = 700_000  # ms: a revision takes its time


class AnsweredElsewhere(Exception):
    """The active node has answered."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


class PassesOn:
    """Passes a request on. From any thread but that of the loop."""

    def __init__(
        self,
        network: Network,
        submit: Callable[[Coroutine[Any, Any, Answer]], Future[Answer]],
        active: Callable[[], str],
        here: Callable[[], bool],
    ) -> None:
        """`active` is the address of the active node's REST API ("": nobody knows it), `here` whether that is this node, and it is about to answer itself."""
        self._network = network
        self._submit = submit
        self._active = active
        self._here = here

    def __call__(self, method: str, path: str, body: bytes = b"") -> NoReturn:
        """Errors: AnsweredElsewhere, with the answer; NOT_ACTIVE where nobody is, as far as this node knows; CONNECTION_UNAVAILABLE."""
        if self._here():
            raise error("NOT_ACTIVE", reason="it begins to be active, or ends to be")
        address = self._active()
        if not address:
            raise error(
                "NOT_ACTIVE", reason="it is passive, and does not know of an active node that it could pass this on to"
            )
        try:
            answer = self._submit(self._network.request(address, method, PREFIX + path, body, WITHIN)).result()
        except NoAnswer as reason:
            raise error("CONNECTION_UNAVAILABLE", connector="the active node", reason=str(reason)) from reason
        raise AnsweredElsewhere(answer)


class ForActive:
    """The routes of a node for what its partner passes on."""

    def __init__(self, routes: Application, is_active: Callable[[], bool]) -> None:
        self._routes = routes
        self._is_active = is_active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_active():
            body = {"code": 1, "type": "error", "message": "This node is not the active one."}
            await send_json(send, 503, json.dumps(body).encode())
            return
        path = scope["path"].removeprefix(PREFIX)
        await self._routes({**scope, "path": path, "raw_path": path.encode()}, receive, send)
