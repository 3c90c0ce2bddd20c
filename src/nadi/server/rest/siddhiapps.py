"""`/siddhi-apps`: apps are deployed, looked at, updated and undeployed; on a worker, and on whichever manager of a cluster."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.apps import AppExists, AppNotThere, NodeApps, Saved
from nadi.server.quota import Quota
from nadi.server.rest.answers import FILE_PROCESSING, VALIDATION, coded, declared, message, no_app
from nadi.server.rest.storequery import Question, answered, note_change
from nadi.server.security.changes import about
from nadi.server.security.permissions import SAPP, SIGNED_IN, caller_of, needs
from nadi.server.security.users import User

SIDDHI = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}
"""A body of Siddhi, for the OpenAPI document: it is read as it comes."""

LATER = {"CLUSTER_UNDECIDED", "CONNECTION_UNAVAILABLE", "NOT_ACTIVE"}
"""What may succeed when it is asked again."""

AWAY = 1  # the code of it

OF_MANAGERS = {"APPS_FROM_MANAGER", "REVISIONS_FROM_MANAGER"}
"""What a worker of a cluster leaves to its managers."""

VIEW, MANAGE = [needs(SAPP.view, SAPP.manage)], [needs(SAPP.manage)]


def routes(apps: NodeApps, quota: Quota | None = None) -> APIRouter:
    """The paths. `quota`: how many apps a user may have."""
    found = APIRouter(prefix="/siddhi-apps", tags=["Siddhi apps"], responses=declared(400, 401, 503))

    @found.post(
        "",
        status_code=201,
        responses=declared(403, 409, 500),
        dependencies=MANAGE,
        openapi_extra=SIDDHI,
        summary="Deploy an app",
    )
    async def deploy(request: Request) -> Response:
        try:
            saved = await run_in_threadpool(_within, quota, user_of(request), apps.deploy, await request.body())
        except AppExists as taken:
            about(request, taken.name)
            return message(409, f"There is a Siddhi App with the same name already: {taken.name}", "conflict")
        except NadiError as reason:
            return _refused(reason)
        about(request, saved.name)
        return _saved(saved)

    @found.put(
        "",
        responses={**declared(403, 500), 201: {"description": "The app is new"}},
        dependencies=MANAGE,
        openapi_extra=SIDDHI,
        summary="Deploy an app, or update it in place",
    )
    async def update(request: Request, dryRun: bool = False) -> Response:  # noqa: N803 - the contract's name
        body = await request.body()
        try:
            if dryRun:
                return JSONResponse(await run_in_threadpool(apps.plan, body))
            saved = await run_in_threadpool(_within, quota, user_of(request), apps.update, body)
        except NadiError as reason:
            return _refused(reason)
        about(request, saved.name)
        return _saved(saved)

    @found.get("", dependencies=VIEW, summary="The names of the apps")
    def names(isActive: str = "") -> list[str]:  # noqa: N803 - the contract's name
        wanted = {"true": True, "false": False}.get(isActive.strip().lower())
        return apps.names(wanted)

    @found.get("/{app}", responses=declared(404), dependencies=VIEW, summary="The text of an app")
    def text(app: str) -> Response:
        status = apps.status(app)
        return no_app(app) if status is None else JSONResponse({"content": status.text})

    @found.delete("/{app}", responses=declared(404, 500), dependencies=MANAGE, summary="Undeploy an app")
    def undeploy(app: str) -> Response:
        try:
            apps.undeploy(app)
        except AppNotThere:
            return no_app(app)
        except NadiError as reason:
            return _refused(reason, 500)
        return Response(status_code=200)

    @found.get("/{app}/status", responses=declared(404), dependencies=VIEW, summary="Whether an app is active")
    def status(app: str) -> Response:
        found = apps.status(app)
        return no_app(app) if found is None else JSONResponse({"status": found.state})

    @found.get(
        "/{app}/details", dependencies=VIEW, summary="What is known of an app, with the reason where it is inactive"
    )
    def details(app: str) -> Response:
        found = apps.details(app)
        return no_app(app) if found is None else JSONResponse(found)

    @found.post(
        "/{app}/restart",
        responses=declared(404),
        dependencies=MANAGE,
        summary="Stop an app and start it again from where it stood",
    )
    def restart(app: str) -> Response:
        try:
            apps.restart(app)
        except AppNotThere:
            return no_app(app)
        except NadiError as reason:
            return _refused(reason, 500)
        return message(200, f"Siddhi App {app} is being restarted")

    @found.post(
        "/{app}/query",
        responses=declared(404, 500),
        dependencies=[SIGNED_IN],
        summary="Ask or change the tables, windows and aggregations of an app",
    )
    def query(app: str, question: Question, request: Request) -> Response:
        note_change(request, app, question)
        if apps.status(app) is None:
            return no_app(app)
        return answered(apps, app, question)

    return found


def user_of(request: Request) -> User | None:
    """Who asks; None where nobody had to say so."""
    caller = caller_of(request)
    return None if caller is None else caller.user


def _within(quota: Quota | None, user: User | None, save: Callable[[bytes], Saved], body: bytes) -> Saved:
    """Save an app, if its user may have one more. Errors: APPS_TOO_MANY, those of saving it."""
    if quota is None:
        return save(body)
    with quota.one_more(user, body) as is_there:
        saved = save(body)
        if not saved.existed:
            is_there(saved.name)
        return saved


def _saved(saved: Saved) -> Response:
    headers = {} if saved.existed else {"Location": f"siddhi-apps//{saved.name}"}
    told = "Siddhi App saved successfully and will be deployed in next deployment cycle"
    if saved.waiting:
        told = f"Siddhi App saved successfully; it waits: {saved.waiting}"
    return message(200 if saved.existed else 201, told, headers=headers)


def _refused(reason: NadiError, otherwise: int = 400) -> Response:
    if reason.condition == "APPS_TOO_MANY":
        return coded(403, VALIDATION, str(reason))
    return of_managers(reason) or later(reason) or _failed(reason, otherwise)


def _failed(reason: NadiError, otherwise: int) -> Response:
    if otherwise == 500 or reason.condition == "APP_NOT_SAVED":
        return coded(500, FILE_PROCESSING, reason.diagnostic.message)
    return coded(otherwise, VALIDATION, str(reason))


def of_managers(reason: NadiError) -> Response | None:
    """403 for what a worker leaves to the managers of its cluster; None for what it does not."""
    return coded(403, VALIDATION, str(reason)) if reason.condition in OF_MANAGERS else None


def later(reason: NadiError) -> Response | None:
    """503 for what may succeed later; None for what will not."""
    return coded(503, AWAY, str(reason), {"Retry-After": "1"}) if reason.condition in LATER else None
