"""REST servers as ASGI applications: routes, and in front of them the guard and the limits."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from nadi.io.httpserver import Application
from nadi.server.rest.answerheaders import AnswerHeaders
from nadi.server.rest.answers import VALIDATION, coded, text
from nadi.server.rest.bodies import JsonBodies, is_json
from nadi.server.rest.limits import Limits, PlainPaths
from nadi.server.rest.requestids import RequestIds
from nadi.server.security.attempts import Attempts
from nadi.server.security.changes import Changes
from nadi.server.security.guard import Guard, NoTokens, Passwords, Tokens
from nadi.server.security.permissions import Grants, NoGrants, NotPermitted, else_admins

ERROR = 1  # the code of what belongs to no API

log = structlog.get_logger("nadi.server")


def make_routes(title: str, routers: Iterable[APIRouter], invalid: int = VALIDATION) -> FastAPI:
    """The routes of a server, with the OpenAPI document at `/openapi.json`. What goes wrong is answered in JSON, with a code; who may not, in a plain text.

    A route that does not say what it needs (`nadi.server.security.permissions`) is for administrators. `invalid` is the code of a body that is not what it
    should be.
    """
    made = FastAPI(
        title=title,
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(else_admins)],
    )
    for router in routers:
        made.include_router(router)

    @made.exception_handler(RequestValidationError)
    async def malformed(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        first = problem.errors()[0]
        if first["loc"] == ("body",) and isinstance(problem.body, bytes) and not is_json(request.scope["headers"]):
            return coded(400, invalid, "The body is JSON: send it with 'Content-Type: application/json'.")
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return coded(400, invalid, f"{where}: {first['msg']}" if where else str(first["msg"]))

    @made.exception_handler(HTTPException)
    async def refused(_request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        code = invalid if problem.status_code == 400 else ERROR
        return coded(problem.status_code, code, str(problem.detail), problem.headers)

    @made.exception_handler(NotPermitted)
    async def not_permitted(_request: Request, problem: Exception) -> Response:
        return text(401, str(problem))

    @made.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> Response:
        log.error("a request failed", path=request.url.path, reason=repr(problem))
        return coded(500, ERROR, "The server could not do this; its log has the reason.")

    return made


def guarded(
    routes: FastAPI,
    users: Passwords | None,
    attempts: Attempts,
    open_paths: Iterable[str],
    grants: Grants | None = None,
    tokens: Tokens | None = None,
) -> Application:
    """Routes behind the guard (no users: everybody may do everything) and the limits, with changes noted.

    Without `grants` only administrators have permissions; without `tokens` only names and passwords are taken.
    """
    forms = ("/login/*", "/logout/*")
    limited = Limits(
        JsonBodies(Changes(routes), forms), little=forms, told=("/simulation/files", "/simulation/files/*")
    )
    if users is None:
        return PlainPaths(RequestIds(AnswerHeaders(limited)))
    guard = Guard(limited, users, tokens or NoTokens(), attempts, open_paths, grants or NoGrants())
    return PlainPaths(RequestIds(AnswerHeaders(guard)))
