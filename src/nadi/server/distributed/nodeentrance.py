"""Lets signed requests of other nodes in; every other request goes on to the guard.

It stands before all routes: a manager of a large cluster hears hundreds of heartbeats in a second, and answers them without a framework in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from typing import Any

from nadi.io.httpserver import Application, Receive, Scope, Send
from nadi.server.distributed.nodekeys import HEADER, NodeKey, check_of
from nadi.server.distributed.wire import HEARTBEAT, MESSAGES
from nadi.server.rest.answers import send_json, send_text
from nadi.server.rest.limits import drain
from nadi.server.rest.nodemessages import Answers
from nadi.server.security.audit import Origin, note
from nadi.server.security.changes import Changes
from nadi.server.security.permissions import CALLER, Caller, NoGrants
from nadi.server.security.requests import only
from nadi.server.security.users import User

PATHS = frozenset({HEARTBEAT, MESSAGES})
OF_WORKERS = (
    "/siddhi-apps/*/query",
    "/siddhi-apps/*/details",
    "/siddhi-apps/*/statistics",
    "/siddhi-apps/statistics",
    "/cluster/instances/*/backup",
    "/cluster/instances/*/trial",
    "/statistics",
    "/status/apps",
)
"""What a manager may ask of a worker besides, `*` being a name: what users may ask there, too."""
OF_MANAGERS = (
    "/siddhi-apps/*/backup",
    "/siddhi-apps/*/restore",
    "/siddhi-apps/*/revisions",
    "/siddhi-apps/revisions",
)
"""What one manager passes on to the one that leads."""
LARGEST = 64_000_000  # bytes of a message: an app with all its partial apps
NODE = User("a node of the cluster", (), True)


class NodeEntrance:
    """See the module's text. Without a key every request goes to the guard. `more` are paths of `routes`, besides those of messages, that nodes may ask for."""

    def __init__(
        self,
        guarded: Application,
        answers: Answers,
        key: NodeKey | None,
        routes: Application | None = None,
        more: Iterable[str] = (),
    ) -> None:
        self._guarded = guarded
        self._answers = answers
        self._key = key
        self._noted = None if routes is None else Changes(routes)
        self._more = [] if routes is None else [_pattern(path) for path in more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        signature = only(scope["headers"], HEADER.encode()) if self._concerns(scope) else None
        if signature is None or self._key is None:
            await self._guarded(scope, receive, send)
            return
        address = (scope.get("client") or ("", 0))[0]
        check = self._key.accepted(signature.decode("latin-1"), scope["method"], _target(scope))
        try:
            body = None if check is None else await _whole(receive)
        except _SenderGone:
            return
        if body is None or check_of(body) != check:
            note("node", Origin("", address, scope["path"]), "refused")
            if body is None:
                await drain(receive)  # of a stranger nothing is kept
            await send_text(send, 401, "The signature is wrong, too old, or was used before.")
        elif scope["path"] in PATHS or self._noted is None:
            answer = await self._answers(scope["path"], body)
            await send_json(send, answer.status, answer.body)
        else:
            scope.setdefault("state", {})[CALLER] = Caller(NODE, address, NoGrants())
            await self._noted(scope, _again(body), send)

    def _concerns(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        path = scope["path"]
        if path in PATHS:
            return bool(scope["method"] == "POST")
        return any(pattern.fullmatch(path) for pattern in self._more)


def _pattern(path: str) -> re.Pattern[str]:
    """A path as it is compared: `*` is one name."""
    return re.compile("[^/]+".join(map(re.escape, path.split("*"))))


def _target(scope: Scope) -> str:
    """What is asked for, as it came over the line: path and query."""
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


class _SenderGone(Exception):
    """Who asked waits no more."""


async def _whole(receive: Receive) -> bytes | None:
    """The body of a request; None where it is too large. Errors: _SenderGone."""
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _SenderGone
        found += message.get("body", b"")
        if len(found) > LARGEST:
            return None
        if not message.get("more_body", False):
            return bytes(found)


def _again(body: bytes) -> Receive:
    """A body that was read, once more."""
    left = [body]

    async def receive() -> MutableMapping[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    return receive
