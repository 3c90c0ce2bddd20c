"""`/siddhi-apps/{app}/backup`, `/restore` and `/revisions` of a manager: revisions of whole apps. Whichever manager is asked, the leader does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nadi.cluster.contract import StoreAway
from nadi.errors import NadiError
from nadi.server.apps import AppNotThere
from nadi.server.distributed.apprevisions import Kept
from nadi.server.rest.answers import FILE_PROCESSING, coded, declared, message, no_app
from nadi.server.security.permissions import SAPP, needs

AWAY = 1  # the code of what may succeed later
FORWARDED = "forwarded"


class Revisions(Protocol):
    """What the leader does."""

    def of(self, app: str) -> list[Kept]: ...
    def backup(self, app: str) -> Coroutine[Any, Any, str]: ...
    def restore(self, app: str, name: str = "") -> Coroutine[Any, Any, str]: ...
    def clear(self, app: str) -> Coroutine[Any, Any, None]: ...
    def clear_all(self) -> Coroutine[Any, Any, None]: ...


class Cluster(Protocol):
    """The manager, from the loop of a server."""

    @property
    def revisions(self) -> Revisions: ...

    def asked(self, work: Coroutine[Any, Any, Any]) -> Awaitable[Any]: ...

    def leads(self) -> bool: ...

    def pass_on(self, method: str, target: str) -> Awaitable[Response | None]:
        """The answer of the leader to a request; None where nobody leads."""
        ...


def routes(cluster: Cluster) -> APIRouter:
    """The paths. They go before those of `/siddhi-apps`: `revisions` would be the name of an app there."""
    found = APIRouter(
        prefix="/siddhi-apps",
        tags=["Revisions"],
        dependencies=[needs(SAPP.manage)],
        responses=declared(400, 401, 404, 500, 503),
    )

    async def by_leader(request: Request, app: str, work: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        if not cluster.leads() and FORWARDED not in request.query_params:
            query = "&".join([*([request.url.query] if request.url.query else []), f"{FORWARDED}=1"])
            answer = await cluster.pass_on(request.method, f"{request.url.path}?{query}")
            if answer is not None:
                return answer
        try:
            answered: Response = await cluster.asked(work())
        except AppNotThere:
            return no_app(app)
        except StoreAway as reason:
            return coded(503, AWAY, f"The coordination database is away: {reason}", {"Retry-After": "1"})
        except NadiError as reason:
            if reason.condition == "CLUSTER_UNDECIDED":
                return coded(503, AWAY, str(reason), {"Retry-After": "1"})
            return coded(500, FILE_PROCESSING, reason.diagnostic.message)
        return answered

    @found.delete("/revisions", summary="Delete the revisions of all apps")
    async def clear_all(request: Request, enabledRedeployment: str = "true") -> Response:  # noqa: N803 - the contract's name
        async def done() -> Response:
            await cluster.revisions.clear_all()
            return message(200, "All revisions of all Siddhi Apps are cleared")

        return _redeploys(enabledRedeployment) or await by_leader(request, "", done)

    @found.get("/{app}/revisions", summary="The revisions of an app, oldest first")
    async def listed(app: str, request: Request) -> Response:
        async def done() -> Response:
            return JSONResponse([_shown(kept) for kept in cluster.revisions.of(app)])

        return await by_leader(request, app, done)

    @found.post("/{app}/backup", status_code=201, summary="Make a revision of an app")
    async def backup(app: str, request: Request) -> Response:
        async def done() -> Response:
            return JSONResponse({"revision": await cluster.revisions.backup(app)}, 201)

        return await by_leader(request, app, done)

    @found.post(
        "/{app}/restore", summary="Have an app begin anew with a revision, by default the newest one that is whole"
    )
    async def restore(app: str, request: Request, revision: str = "") -> Response:
        async def done() -> Response:
            name = await cluster.revisions.restore(app, revision.strip())
            what = f"revision {name}" if revision.strip() else "last revision"
            return message(200, f"State restored to {what} for Siddhi App :{app}")

        return await by_leader(request, app, done)

    @found.delete("/{app}/revisions", summary="Delete the revisions of an app")
    async def clear(app: str, request: Request, enabledRedeployment: str = "true") -> Response:  # noqa: N803 - the contract's name
        async def done() -> Response:
            await cluster.revisions.clear(app)
            return message(200, f"All revisions of Siddhi App :{app} are cleared")

        return _redeploys(enabledRedeployment) or await by_leader(request, app, done)

    return found


def _redeploys(flag: str) -> Response | None:
    """The contract's flag, absent or "true", would empty the state of the app, too: 400."""
    if flag.strip().lower() in ("", "true"):
        what = "undeploy the app and deploy it again; with enabledRedeployment=false only its revisions go"
        return coded(400, FILE_PROCESSING, f"A manager does not empty the state of an app that runs: {what}.")
    return None


def _shown(kept: Kept) -> dict[str, Any]:
    parts = {part.instance: {"revision": part.revision, "cut": part.cut} for part in kept.parts}
    return {"revision": kept.name, "made": kept.made, "version": kept.version, "fits": kept.fits, "instances": parts}
