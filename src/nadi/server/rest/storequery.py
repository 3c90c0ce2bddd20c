"""`POST /stores/query`: an on-demand query against an active app; on listeners of its own, 7070 and 7443."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.lang import parse_on_demand, tree
from nadi.pipeline.ondemand import Found
from nadi.server.apps import NodeApps
from nadi.server.rest.answers import coded, declared
from nadi.server.rest.bodies import Body
from nadi.server.security.changes import changes
from nadi.server.security.permissions import QUERY_CHANGE, SAPP, SIGNED_IN, Needed

MAY_CHANGE = Needed((QUERY_CHANGE, SAPP.manage))

FAILED = 1  # the only code of this API


class Question(Body):
    """An on-demand query; `details` asks for the names and types of the columns."""

    query: str = ""
    details: bool = False


class StoreQuestion(Question):
    """An on-demand query against the app `appName`."""

    appName: str = ""  # noqa: N815 - the contract's name


def routes(apps: NodeApps) -> APIRouter:
    """The path."""
    found = APIRouter(prefix="/stores", tags=["On-demand queries"])

    @found.post(
        "/query",
        responses=declared(400, 401, 404, 500),
        dependencies=[SIGNED_IN],
        summary="Ask or change the tables, windows and aggregations of an app",
    )
    def query(question: StoreQuestion, request: Request) -> Response:
        note_change(request, question.appName.strip(), question)
        if not question.appName.strip():
            return coded(400, FAILED, "Siddhi app name cannot be empty or null")
        return answered(apps, question.appName.strip(), question)

    return found


def note_change(request: Request, app: str, question: Question) -> None:
    """Have a query that changes something in the audit log, and only from those that may. May wait for a database. Errors: NotPermitted."""
    if is_change(question.query):
        MAY_CHANGE.also(request)
        changes(request, f"query {app}")


def answered(apps: NodeApps, app: str, question: Question) -> Response:
    """Ask an app: 400 for an empty query, 404 where no active app has the name, 500 where it cannot be answered."""
    if not question.query.strip():
        return coded(400, FAILED, "Query cannot be empty or null")
    if not apps.is_active(app):
        return coded(404, FAILED, f"Cannot find an active SiddhiApp with name: {app}")
    try:
        found = apps.ask(app, question.query)
    except NadiError as reason:
        return coded(500, FAILED, f"Cannot query: {reason}")
    return JSONResponse(_body(found, question.details))


def is_change(query: str) -> bool:
    """Whether an on-demand query changes something. A text that cannot be read changes nothing.

    >>> is_change("from T select a"), is_change("delete T on T.a == 1"), is_change("remove T")
    (False, True, False)
    """
    try:
        return not isinstance(parse_on_demand(query).output, tree.Return)
    except NadiError:
        return False


def _body(found: Found | None, details: bool) -> dict[str, Any]:
    """The records; a change has none."""
    body: dict[str, Any] = {"records": [] if found is None else [list(map(_plain, row)) for row in found.rows]}
    if details and found is not None:
        body["details"] = [
            {"name": name, "dataType": kind.upper()} for name, kind in zip(found.names, found.types, strict=True)
        ]
    return body


def _plain(value: object) -> object:
    """A value that JSON has: NaN and the infinities are texts, and so is what only nadi knows."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)
