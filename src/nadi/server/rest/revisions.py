"""`/siddhi-apps/{app}/backup`, `/restore` and `/revisions`, `/siddhi-apps/revisions`: the state of apps is kept, brought back, let go of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.apps import AppNotThere
from nadi.server.rest.answers import FILE_PROCESSING, coded, declared, message, no_app
from nadi.server.rest.siddhiapps import later, of_managers
from nadi.server.security.permissions import SAPP, needs


class Revisions(Protocol):
    """`nadi.server.revisions.AppRevisions`, and those of a node of a pair and of a worker of a cluster."""

    def backup(self, name: str) -> str: ...
    def of(self, name: str) -> list[dict[str, Any]]: ...
    def restore(self, name: str, revision: str = "", reset: bool = False) -> str: ...
    def clear(self, name: str, redeploy: bool) -> None: ...
    def clear_all(self, redeploy: bool) -> None: ...


def routes(revisions: Revisions) -> APIRouter:
    """The paths. They go before those of `nadi.server.rest.siddhiapps`: `revisions` would be the name of an app there."""
    found = APIRouter(
        prefix="/siddhi-apps",
        tags=["Revisions"],
        dependencies=[needs(SAPP.manage)],
        responses=declared(400, 401, 403, 404, 500, 503),
    )

    @found.delete("/revisions", summary="Delete the revisions of all apps, and with redeployment their state")
    async def clear_all(enabledRedeployment: str = "true") -> Response:  # noqa: N803 - the contract's name
        def done() -> Response:
            revisions.clear_all(_redeploys(enabledRedeployment))
            return message(200, "All revisions of all Siddhi Apps are cleared")

        return await _answered("", done)

    @found.get("/{app}/revisions", summary="The revisions of an app, oldest first")
    async def listed(app: str) -> Response:
        return await _answered(app, lambda: JSONResponse(revisions.of(app)))

    @found.post("/{app}/backup", status_code=201, summary="Make a revision of an app")
    async def backup(app: str) -> Response:
        return await _answered(app, lambda: JSONResponse({"revision": revisions.backup(app)}, 201))

    @found.post("/{app}/restore", summary="Stop an app, restore a revision, start it again")
    async def restore(app: str, revision: str = "", reset: bool = False) -> Response:
        def done() -> Response:
            revisions.restore(app, revision.strip(), reset)
            what = f"revision {revision.strip()}" if revision.strip() else "last revision"
            return message(200, f"State restored to {what} for Siddhi App :{app}")

        return await _answered(app, done)

    @found.delete("/{app}/revisions", summary="Delete the revisions of an app, and with redeployment its state")
    async def clear(app: str, enabledRedeployment: str = "true") -> Response:  # noqa: N803 - the contract's name
        def done() -> Response:
            revisions.clear(app, _redeploys(enabledRedeployment))
            return message(200, f"All revisions of Siddhi App :{app} are cleared")

        return await _answered(app, done)

    return found


def _redeploys(flag: str) -> bool:
    """The contract's flag: absent or "true"."""
    return flag.strip().lower() in ("", "true")


async def _answered(app: str, done: Callable[[], Any]) -> Response:
    """What is done aside, or why it could not be."""
    try:
        answer: Response = await run_in_threadpool(done)
    except AppNotThere:
        return no_app(app)
    except NadiError as reason:
        return of_managers(reason) or later(reason) or coded(500, FILE_PROCESSING, reason.diagnostic.message)
    return answer
