"""`/`: a page that shows the apps of a worker to a person, and what the page asks.

The page itself is open to all and knows nothing; whoever logs in there sees what the REST APIs would show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from nadi.metrics.lastminutes import Point
from nadi.server.apps import NodeApps
from nadi.server.rest.answers import declared, text
from nadi.server.rest.node import NodeFacts
from nadi.server.security.permissions import EVERYBODY, SAPP, needs

OPEN = ("/", "/page/*")
"""What a browser may have before anybody has logged in."""

KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HTML = "text/html; charset=utf-8"
LOGIN_FORM = b"  <!-- login.html -->\n"
"""What stands in a page for the log-in form."""
GUARDED = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Nothing but the page's own files runs in it, and nobody frames it."""

Lately = Callable[[str], Sequence[Point]]
"""The last minutes of an app, a point a second."""


Pair = Callable[[], dict[str, Any]]
"""A pair as its node sees it, as JSON."""


def routes(apps: NodeApps, facts: NodeFacts, lately: Lately, pair: Pair | None = None) -> APIRouter:
    """The page, its files, and `/status/apps`."""
    found = file_routes("status.html", ("login.js", "status.css", "status.js", "icon.svg"))

    @found.get(
        "/status/apps",
        summary="All apps with their last minutes, as the status page shows them",
        dependencies=[needs(SAPP.view, SAPP.manage)],
    )
    async def status() -> Response:
        shown = [_shown(apps, name, lately) for name in apps.names()]
        node = {
            "id": facts.carbon_id,
            "ready": apps.is_open and not apps.starting(),
            "upSeconds": time.time() - facts.started,
        }
        told: dict[str, Any] = {"node": node, "apps": [one for one in shown if one]}
        if pair is not None:
            told["pair"] = pair()
        return JSONResponse(told, headers={"Cache-Control": "no-store"})

    return found


def file_routes(page: str, parts: Collection[str]) -> APIRouter:
    """A page at `/`, and the files that it needs at `/page/…`."""
    found = APIRouter(tags=["Status page"], responses=declared(400, 401))

    @found.get("/", include_in_schema=False, dependencies=[EVERYBODY])
    async def whole() -> Response:
        return Response(whole_page(page), headers=GUARDED, media_type=HTML)

    @found.get("/page/{name}", include_in_schema=False, dependencies=[EVERYBODY])
    async def part(name: str) -> Response:
        if name not in parts:
            return text(404, f"The page has no file '{name}'.")
        return Response(_content(name), headers=GUARDED, media_type=KINDS[name.rpartition(".")[2]])

    return found


def _shown(apps: NodeApps, name: str, lately: Lately) -> dict[str, Any]:
    """An app as the page has it; empty where it has just gone."""
    found = apps.details(name)
    if found is None:
        return {}
    points = lately(name)
    history = {
        "at": [point.at * 1000 for point in points],
        "rate": [point.events_in for point in points],
        "latency": [point.latency or None for point in points],  # a second without events has none
    }
    return {**found, "history": history}


@cache
def whole_page(name: str) -> bytes:
    """A page with the log-in form, which all pages have, in its place."""
    return _content(name).replace(LOGIN_FORM, _content("login.html"))


def _content(name: str) -> bytes:
    return (files("nadi.server") / "pages" / name).read_bytes()
