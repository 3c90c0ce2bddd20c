"""`/siddhi-apps/{app}/errors`: what an app could not take: listed, shown, sent again, forgotten.

The reference's later editions have another API for it, whose numbers count through all apps of a node; here an id belongs to an app, as in `nadi errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.io.errorstore import Wanted
from nadi.pipeline.errorview import wanted_of
from nadi.pipeline.repeats import Sent
from nadi.server.apps import AppNotThere
from nadi.server.rest.answers import FILE_PROCESSING, VALIDATION, coded, declared, no_app
from nadi.server.rest.bodies import Body
from nadi.server.rest.siddhiapps import later
from nadi.server.security.permissions import SAPP, needs

MOST, USUAL = 1_000, 100  # rows of a list
SHOWN = 1_000  # characters of a payload in a list
CODES = {
    "ERROR_NOT_FOUND": 404,
    "ERROR_REPLAYED": 409,
    "ERROR_NOT_REPLAYABLE": 400,
    "APP_NOT_RUNNING": 409,
    "ERROR_STORE_ELSEWHERE": 409,
    "ANSWER_LATE": 202,
}
"""ANSWER_LATE: it is noted, and the app will do it."""
IN_LIST = (
    "id",
    "time",
    "kind",
    "origin",
    "stream",
    "partition",
    "position",
    "reason",
    "payload",
    "encoding",
    "cut",
    "final",
    "replayed",
)
VIEW, MANAGE = [needs(SAPP.view, SAPP.manage)], [needs(SAPP.manage)]

PassOn = Callable[[str, str, bytes], object]
"""Has another node answer where this one does not, given method, path with query, and body: it raises the answer."""


def answers_itself(_method: str, _target: str, _body: bytes) -> None:
    """As `PassOn`, of a node that answers all that it is asked."""


class Errors(Protocol):
    """`nadi.server.apperrors.AppErrors`."""

    def rows(self, name: str, wanted: Wanted, limit: int) -> list[dict[str, Any]]: ...
    def row(self, name: str, id_: str) -> dict[str, Any]: ...
    def replay(self, name: str, ids: Sequence[str], again: bool = False, payload: str | None = None) -> Sent: ...
    def replay_all(self, name: str, wanted: Wanted, again: bool = False) -> Sent: ...
    def purge(self, name: str, wanted: Wanted) -> int: ...


class Filters(Body):
    """Which rows are meant, but for their ids: times as `2026-11-21T15:00:00Z` or ms, `until` exclusive."""

    origin: str = ""
    stream: str = ""
    since: str | int = ""
    until: str | int = ""

    def wanted(self, ids: Sequence[str] = ()) -> Wanted:
        """Errors: ValueError."""
        return wanted_of(ids, self.origin, self.stream, str(self.since), str(self.until))


class Replay(Filters):
    """Rows by their ids, or all that the filters leave; `again`: also those that were sent before; `payload` stands for that of one row."""

    ids: list[str] = Field(default_factory=list)
    all: bool = False
    again: bool = False
    payload: str | None = None


Given = Annotated[str, Query()]


def routes(errors: Errors, pass_on: PassOn = answers_itself) -> APIRouter:
    """The paths."""
    found = APIRouter(prefix="/siddhi-apps", tags=["Error store"], responses=declared(400, 401, 404, 500, 503))

    async def answered(request: Request, app: str, do: Callable[[], dict[str, Any] | list[dict[str, Any]]]) -> Response:
        path, query = quote(request.url.path), request.url.query
        target = f"{path}?{query}" if query else path
        body = await request.body()

        def done() -> Any:
            pass_on(request.method, target, body)
            return do()

        try:
            return JSONResponse(await run_in_threadpool(done))
        except AppNotThere:
            return no_app(app)
        except ValueError as problem:
            return coded(400, VALIDATION, str(problem))
        except NadiError as reason:
            return later(reason) or _refused(reason)

    @found.get("/{app}/errors", dependencies=VIEW, summary="What an app could not take: the newest rows, oldest first")
    async def listed(
        request: Request,
        app: str,
        origin: Given = "",
        stream: Given = "",
        since: Given = "",
        until: Given = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    ) -> Response:
        filters = Filters(origin=origin, stream=stream, since=since, until=until)
        return await answered(request, app, lambda: [_short(row) for row in errors.rows(app, filters.wanted(), limit)])

    @found.get("/{app}/errors/{id}", dependencies=VIEW, summary="One row, with its whole payload")
    async def shown(request: Request, app: str, id: str) -> Response:  # noqa: A002 - the name in the path
        return await answered(request, app, lambda: errors.row(app, id))

    @found.post(
        "/{app}/errors/replay",
        responses={**declared(409), 202: {"description": "It is noted, and the app will do it"}},
        dependencies=MANAGE,
        summary="Send rows again, once, through the app",
    )
    async def replay(request: Request, app: str, wanted: Replay) -> Response:
        return await answered(request, app, lambda: _told(_sent(errors, app, wanted)))

    @found.delete("/{app}/errors", dependencies=MANAGE, summary="Forget rows")
    async def purge(
        request: Request,
        app: str,
        id: Annotated[list[str], Query()] = [],  # noqa: A002, B006 - the name of the parameter; FastAPI copies it
        all: bool = False,  # noqa: A002 - likewise
        origin: Given = "",
        stream: Given = "",
        since: Given = "",
        until: Given = "",
    ) -> Response:
        def done() -> dict[str, Any]:
            wanted = Filters(origin=origin, stream=stream, since=since, until=until).wanted(id)
            _check_chosen(id, all, wanted, "id")
            return {"purged": errors.purge(app, wanted)}

        return await answered(request, app, done)

    return found


def _sent(errors: Errors, app: str, given: Replay) -> Sent:
    wanted = given.wanted(given.ids)
    _check_chosen(given.ids, given.all, wanted, "ids")
    if given.payload is not None and len(given.ids) != 1:
        raise ValueError("'payload' stands for that of one row: name one in 'ids'")
    if given.ids:
        return errors.replay(app, given.ids, given.again, given.payload)
    return errors.replay_all(app, wanted, given.again)


def _check_chosen(ids: Sequence[str], all_: bool, wanted: Wanted, name: str) -> None:
    """Rows are named, or chosen by 'all' and filters: not both, and not neither. Errors: ValueError."""
    chosen = all_ or wanted != Wanted(frozenset(ids))
    if bool(ids) == chosen:
        both = "not both" if ids else "which rows are meant"
        raise ValueError(f"name rows with '{name}', or choose them with 'all' or a filter: {both}")


def _told(sent: Sent) -> dict[str, Any]:
    return {"sent": sent.count, "before": list(sent.before), "impossible": dict(sent.impossible or {})}


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """A row in a list: what sending again needs is left out, and of the payload all but its beginning; `whole` says whether that is all."""
    payload = str(row["payload"])
    found = {name: row[name] for name in IN_LIST if name in row}
    return {**found, "payload": payload[:SHOWN], "whole": len(payload) <= SHOWN}


def _refused(reason: NadiError) -> Response:
    status = CODES.get(reason.condition, 500)
    return coded(status, FILE_PROCESSING if status == 500 else VALIDATION, str(reason))
