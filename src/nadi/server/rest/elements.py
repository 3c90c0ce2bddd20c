"""`/siddhi-apps/{app}/elements`: the design view of an app."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.apps import NodeApps
from nadi.server.elements import as_json, edges_of
from nadi.server.preparation import AppPreparation
from nadi.server.rest.answers import declared, no_app
from nadi.server.security.permissions import SAPP, needs


def routes(apps: NodeApps, preparation: AppPreparation, hide: Callable[[str], str]) -> APIRouter:
    """The path. `hide` takes out of a text what is secret: the variables of an app may be."""
    found = APIRouter(
        prefix="/siddhi-apps",
        tags=["Siddhi apps"],
        dependencies=[needs(SAPP.manage)],
        responses=declared(400, 401, 404),
    )

    @found.get("/{app}/elements", summary="The design view: an object for each edge")
    def elements(app: str) -> Response:
        status = apps.status(app)
        if status is None:
            return no_app(app)
        try:
            filled = preparation.with_variables(status.text)
        except NadiError:  # it is inactive for that, and says so elsewhere
            filled = status.text
        edges = map(as_json, edges_of(filled, preparation.plan(status.text)))
        return JSONResponse([{name: value and hide(value) for name, value in edge.items()} for edge in edges])

    return found
