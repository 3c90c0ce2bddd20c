"""`/siddhi-apps`: apps are deployed, looked at, updated and undeployed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.apps import AppExists, AppNotThere, Apps
from nadi.server.rest.answers import FILE_PROCESSING, VALIDATION, coded, declared, message, no_app
from nadi.server.rest.storequery import Question, answered
from nadi.server.security.changes import about
from nadi.server.security.permissions import SAPP, SIGNED_IN, needs

SIDDHI = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}
"""A body of Siddhi, for the OpenAPI document: it is read as it comes."""

VIEW, MANAGE = [needs(SAPP.view, SAPP.manage)], [needs(SAPP.manage)]


def routes(apps: Apps) -> APIRouter:
    """The paths."""
    found = APIRouter(prefix="/siddhi-apps", tags=["Siddhi apps"], responses=declared(400, 401))

    @found.post(
        "",
        status_code=201,
        responses=declared(409, 500),
        dependencies=MANAGE,
        openapi_extra=SIDDHI,
        summary="Deploy an app",
    )
    async def deploy(request: Request) -> Response:
        try:
            name = await run_in_threadpool(apps.deploy, await request.body())
        except AppExists as taken:
            about(request, taken.name)
            return message(409, f"There is a Siddhi App with the same name already: {taken.name}", "conflict")
        except NadiError as reason:
            return _refused(reason)
        about(request, name)
        return _saved(201, name)

    @found.put(
        "",
        responses={**declared(500), 201: {"description": "The app is new"}},
        dependencies=MANAGE,
        openapi_extra=SIDDHI,
        summary="Deploy an app, or update it in place",
    )
    async def update(request: Request, dryRun: bool = False) -> Response:  # noqa: N803 - the contract's name
        body = await request.body()
        try:
            if dryRun:
                return JSONResponse(await run_in_threadpool(apps.plan, body))
            name, existed = await run_in_threadpool(apps.update, body)
        except NadiError as reason:
            return _refused(reason)
        about(request, name)
        return _saved(200 if existed else 201, name)

    @found.get("", dependencies=VIEW, summary="The names of the apps")
    async def names(isActive: str = "") -> list[str]:  # noqa: N803 - the contract's name
        wanted = {"true": True, "false": False}.get(isActive.strip().lower())
        return apps.names(wanted)

    @found.get("/{app}", responses=declared(404), dependencies=VIEW, summary="The text of an app")
    async def text(app: str) -> Response:
        status = apps.status(app)
        return no_app(app) if status is None else JSONResponse({"content": status.text})

    @found.delete("/{app}", responses=declared(404, 500), dependencies=MANAGE, summary="Undeploy an app")
    async def undeploy(app: str) -> Response:
        try:
            await run_in_threadpool(apps.undeploy, app)
        except AppNotThere:
            return no_app(app)
        except NadiError as reason:
            return coded(500, FILE_PROCESSING, reason.diagnostic.message)
        return Response(status_code=200)

    @found.get("/{app}/status", responses=declared(404), dependencies=VIEW, summary="Whether an app is active")
    async def status(app: str) -> Response:
        found = apps.status(app)
        return no_app(app) if found is None else JSONResponse({"status": found.state})

    @found.get(
        "/{app}/details", dependencies=VIEW, summary="What is known of an app, with the reason where it is inactive"
    )
    async def details(app: str) -> Response:
        found = apps.details(app)
        return no_app(app) if found is None else JSONResponse(found)

    @found.post(
        "/{app}/restart",
        responses=declared(404),
        dependencies=MANAGE,
        summary="Stop an app and start it again from where it stood",
    )
    async def restart(app: str) -> Response:
        try:
            apps.restart(app)
        except AppNotThere:
            return no_app(app)
        return message(200, f"Siddhi App {app} is being restarted")

    @found.post(
        "/{app}/query",
        responses=declared(404, 500),
        dependencies=[SIGNED_IN],
        summary="Ask or change the tables, windows and aggregations of an app",
    )
    async def query(app: str, question: Question) -> Response:
        if apps.status(app) is None:
            return no_app(app)
        return await run_in_threadpool(answered, apps, app, question)

    return found


def _saved(status: int, name: str) -> Response:
    headers = {"Location": f"siddhi-apps//{name}"} if status == 201 else {}
    return message(
        status, "Siddhi App saved successfully and will be deployed in next deployment cycle", headers=headers
    )


def _refused(reason: NadiError) -> Response:
    if reason.condition == "APP_NOT_SAVED":
        return coded(500, FILE_PROCESSING, reason.diagnostic.message)
    return coded(400, VALIDATION, str(reason))
