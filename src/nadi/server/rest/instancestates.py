"""`/cluster/instances/{instance}` of a worker: the leader of its cluster asks for a revision of an instance, a manager whether a text of one could run."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.pipeline.revision.trial import Told
from nadi.server.apps import AppNotThere
from nadi.server.rest.answers import FILE_PROCESSING, coded, declared, no_app
from nadi.server.rest.bodies import Body
from nadi.server.security.permissions import ADMINS


class Wanted(Body):
    """A text that an instance is to have: by which name what it keeps is known, and what it begins with, as `nadi.cluster.messages.PartText` says them."""

    text: str
    home: str = ""
    heritage: str = ""


def routes(backup: Callable[[str], str], tried: Callable[[str, str, str], Told]) -> APIRouter:
    """The paths. `backup` makes a revision and returns its name; `tried` says what speaks against a text, given with its home and heritage."""
    found = APIRouter(tags=["Nodes"], responses=declared(400, 401, 404, 500))

    @found.post(
        "/cluster/instances/{instance}/backup",
        status_code=201,
        dependencies=[ADMINS],
        summary="Make a revision of an instance, for one of its app",
    )
    async def made(instance: str) -> Response:
        try:
            return JSONResponse({"revision": await run_in_threadpool(backup, instance)}, 201)
        except AppNotThere:
            return no_app(instance)
        except NadiError as reason:
            return coded(500, FILE_PROCESSING, reason.diagnostic.message)

    @found.post(
        "/cluster/instances/{instance}/trial",
        dependencies=[ADMINS],
        summary="Whether a text of an instance could run here; nothing is changed",
    )
    async def trial(instance: str, wanted: Wanted) -> Response:
        told = await run_in_threadpool(tried, wanted.text, wanted.home, wanted.heritage)
        return JSONResponse(msgspec.to_builtins(told))

    return found
