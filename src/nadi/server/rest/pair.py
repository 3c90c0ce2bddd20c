"""`/ha`: the pair as one of its nodes sees it; the other node goes on (`switch`), or this one, whatever it has (`promote`)."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.rest.answers import VALIDATION, coded, declared, message
from nadi.server.rest.bodies import Body
from nadi.server.rest.siddhiapps import later
from nadi.server.security.permissions import SAPP, needs


class PairView(Protocol):
    """What a node of a pair does for users, from any thread."""

    def status(self) -> dict[str, Any]:
        """The pair as this node sees it, as JSON."""
        ...

    def switch(self) -> None:
        """Have the other node go on. Errors: PAIR_NOT_SWITCHED, NOT_ACTIVE, CONNECTION_UNAVAILABLE."""
        ...

    def promote(self, accept_loss: bool) -> dict[str, Any]:
        """Have this node go on with what it has; -> what that loses. Without `accept_loss` only that. Errors: PAIR_NOT_PROMOTED."""
        ...


class Promotion(Body):
    """`acceptLoss`: what only the other node has may be lost."""

    acceptLoss: bool = False  # noqa: N815 - as other keys of the API


def routes(pairing: PairView) -> APIRouter:
    """The paths."""
    found = APIRouter(prefix="/ha", tags=["Pair"], responses=declared(400, 401))

    @found.get(
        "",
        dependencies=[needs(SAPP.view, SAPP.manage)],
        summary="Both nodes, who is active, and whether they have the same",
    )
    def status() -> dict[str, Any]:
        return pairing.status()

    @found.post(
        "/switch",
        dependencies=[needs(SAPP.manage)],
        responses=declared(409, 503),
        summary="Have the passive node go on",
    )
    async def switch() -> Response:
        try:
            await run_in_threadpool(pairing.switch)
        except NadiError as reason:
            return _refused(reason)
        return message(200, "The other node goes on")

    @found.post(
        "/promote",
        dependencies=[needs(SAPP.manage)],
        responses=declared(409, 503),
        summary="Have this node go on with what it has; without 'acceptLoss', say what that would lose",
    )
    async def promote(promotion: Promotion) -> Response:
        try:
            lost = await run_in_threadpool(pairing.promote, promotion.acceptLoss)
        except NadiError as reason:
            return _refused(reason)
        return JSONResponse(lost)

    return found


def _refused(reason: NadiError) -> Response:
    return later(reason) or coded(409, VALIDATION, str(reason))
