"""`/managers/siddhi-apps/{app}/channels`: how full the channels of an app are and how far behind who reads them is. Every manager answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from nadi.cluster.contract import StoreAway
from nadi.errors import NadiError
from nadi.server.apps import AppNotThere
from nadi.server.rest.answers import coded, declared, no_app
from nadi.server.rest.managers import monitors
from nadi.server.security.permissions import SIGNED_IN

AWAY = 1  # the code of what may succeed later


Of = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""The channels of an app."""


def routes(of: Of) -> APIRouter:
    """The path; `of` has the channels of an app, as `nadi.server.distributed.channelstates` says."""
    found = APIRouter(
        tags=["Cluster"], dependencies=[SIGNED_IN, Depends(monitors)], responses=declared(400, 401, 403, 404, 503)
    )

    @found.get("/managers/siddhi-apps/{app}/channels", summary="The channels of an app: how full, and how far behind")
    async def channels(app: str) -> Response:
        return await answered(of, app)

    return found


async def answered(of: Of, app: str) -> Response:
    """The channels of an app; 404 where there is none of the name, 503 where who knows is away."""
    try:
        return JSONResponse(await of(app), headers={"Cache-Control": "no-store"})
    except AppNotThere:
        return no_app(app)
    except StoreAway as reason:
        return coded(503, AWAY, f"The coordination database is away: {reason}", {"Retry-After": "1"})
    except NadiError as reason:
        return coded(503, AWAY, str(reason), {"Retry-After": "1"})
