"""`/resourceManager/heartbeat` and `/cluster/messages`: what nodes of a cluster ask each other.

A node is answered by a function from path and body to an answer. Signed requests come to it straight (`nadi.server.distributed.nodeentrance`), as a large
cluster sends hundreds in a second; those with a user's name and password by the routes here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from starlette.responses import Response

from nadi.cluster.messages import Message
from nadi.server.distributed.wire import HEARTBEAT, MESSAGES, Answer, Malformed, answer_to, heartbeat_of, message_of
from nadi.server.rest.answers import VALIDATION, coded, declared, text
from nadi.server.security.permissions import ADMINS

Ask = Callable[[Message], Awaitable[Message]]
Answers = Callable[[str, bytes], Awaitable[Answer]]
"""The answer to a body that came to a path."""


def manager_answers(ask: Ask, interval: int, retries: int) -> Answers:
    """Those of a manager: `ask` has it answer; `interval` (ms) and `retries` are for workers to know."""

    async def answers(path: str, body: bytes) -> Answer:
        try:
            asked = heartbeat_of(body) if path == HEARTBEAT else message_of(body)
            return answer_to(await ask(asked), interval, retries)
        except (Malformed, TypeError) as reason:  # TypeError: a message for another kind of node
            return Answer(400, bytes(coded(400, VALIDATION, str(reason)).body))

    return answers


def worker_answers(ask: Ask) -> Answers:
    """Those of a worker, which takes no heartbeats."""
    messages = manager_answers(ask, 0, 0)

    async def answers(path: str, body: bytes) -> Answer:
        if path == HEARTBEAT:
            return Answer(404, bytes(coded(404, VALIDATION, "a worker takes no heartbeats").body))
        return await messages(path, body)

    return answers


def manager_routes(answers: Answers) -> APIRouter:
    """Those of a manager."""
    found = message_routes(answers)

    @found.post(
        HEARTBEAT,
        dependencies=[ADMINS],
        responses={204: {"description": "No manager leads now"}, 301: {"description": "Another manager leads"}},
        summary="A worker says that it lives, and hears what it is to run",
    )
    async def heartbeat(request: Request) -> Response:
        return _response(await answers(HEARTBEAT, await request.body()))

    @found.get("/resourceManager/deployment", dependencies=[ADMINS], summary="A stub of the contract")
    async def deployment() -> Response:
        return text(200, "To be implement.")

    return found


def message_routes(answers: Answers) -> APIRouter:
    """Those of every node."""
    found = APIRouter(tags=["Nodes"], responses=declared(400, 401))

    @found.post(MESSAGES, dependencies=[ADMINS], summary="What one node asks of another one")
    async def messages(request: Request) -> Response:
        return _response(await answers(MESSAGES, await request.body()))

    return found


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, media_type="application/json" if answer.body else None)
