"""`/simulation`: single events, feeds, their files, and what there is in databases that feeds may read.

Answers are `{"status": "OK", "message": …}`; the message of what is read is JSON in a text, as the contract has it. What goes wrong with a feed or a file has
a code by its reason (`CODES`), every other mistake is 500.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from nadi.databases.engines import Address
from nadi.errors import NadiError, error
from nadi.server.rest.answers import declared
from nadi.server.rest.limits import TOO_LARGE
from nadi.server.security.changes import changes
from nadi.server.security.permissions import SIGNED_IN, SIM, SINGLE_EVENT, Needed, needs
from nadi.server.simulation.configuration import address_of, json_object
from nadi.server.simulation.csvfiles import LARGEST, CsvFiles
from nadi.server.simulation.simulations import ACTIONS
from nadi.server.simulation.simulator import Simulator
from nadi.server.simulation.targets import send_single

CODES = {
    "SIMULATION_NOT_THERE": 404,
    "SIMULATION_EXISTS": 409,
    "SIMULATION_ALREADY": 409,
    "SIMULATION_STATE": 403,
    "SIMULATION_INACTIVE": 403,
    "SIMULATIONS_TOO_MANY": 409,
    "CSV_NOT_TAKEN": 400,
    "CSV_TOO_LARGE": 403,
    "CSV_NOT_THERE": 404,
    "CSV_EXISTS": 409,
}
LATEST = 1 << 62  # ms
TEXT = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}
FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
            }
        },
    }
}
MAY_SEND = Needed((SINGLE_EVENT, SIM.manage))
VIEW, MANAGE = [needs(SIM.view, SIM.manage)], [needs(SIM.manage)]


def routes(simulator: Simulator) -> APIRouter:
    """The paths."""
    found = APIRouter(prefix="/simulation", tags=["Event simulator"], responses=declared(400, 401))
    _single(found, simulator)
    _feeds(found, simulator)
    _files(found, simulator.csv)
    _databases(found, simulator)
    return found


def _single(found: APIRouter, simulator: Simulator) -> None:
    @found.post(
        "/single",
        responses=declared(500),
        dependencies=[SIGNED_IN],
        openapi_extra=TEXT,
        summary="Send one event to a stream",
    )
    async def single(request: Request) -> Response:
        body = await request.body()
        await run_in_threadpool(MAY_SEND.also, request)
        changes(request, "an event")
        return await _answer(lambda: _send(simulator, body))


def _feeds(found: APIRouter, simulator: Simulator) -> None:
    feeds = simulator.simulations

    @found.post(
        "/feed",
        status_code=201,
        responses=declared(409, 500),
        dependencies=MANAGE,
        openapi_extra=TEXT,
        summary="Keep a simulation",
    )
    async def add(request: Request) -> Response:
        body = await request.body()
        return await _answer(lambda: f"Successfully uploaded simulation configuration '{feeds.add(body)}'", 201)

    @found.get("/feed", dependencies=VIEW, summary="All simulations")
    async def all_() -> Response:
        def listed() -> str:
            active, inactive = feeds.all()
            return _json({"activeSimulations": active, "inActiveSimulations": inactive})

        return await _answer(listed)

    @found.get("/feed/{name}", responses=declared(404), dependencies=VIEW, summary="One simulation")
    async def one(name: str) -> Response:
        return await _answer(lambda: _json({"Simulation configuration": feeds.document(name)}))

    @found.put(
        "/feed/{name}",
        responses=declared(404, 500),
        dependencies=MANAGE,
        openapi_extra=TEXT,
        summary="Change a simulation",
    )
    async def replace(name: str, request: Request) -> Response:
        body = await request.body()
        return await _answer(
            _then(lambda: feeds.replace(name, body), f"Successfully updated simulation configuration '{name}'.")
        )

    @found.delete("/feed/{name}", responses=declared(404, 500), dependencies=MANAGE, summary="Forget a simulation")
    async def remove(name: str) -> Response:
        return await _answer(
            _then(lambda: feeds.remove(name), f"Successfully deleted simulation configuration '{name}'")
        )

    @found.post(
        "/feed/{name}",
        responses=declared(403, 404, 409),
        dependencies=MANAGE,
        summary="Run, pause, resume or stop a simulation",
    )
    async def act(name: str, action: str = "") -> Response:
        wanted = action.strip().lower()
        if wanted not in ACTIONS:
            return _said(400, f"Invalid action '{action[:100]}' specified. Actions supported are {', '.join(ACTIONS)}.")
        return await _answer(_then(lambda: feeds.act(name, wanted), f"Successful: {wanted} simulation '{name}'"))

    @found.get(
        "/feed/{name}/status",
        responses=declared(404),
        dependencies=VIEW,
        summary="RUN, PAUSE, STOP, ERROR or PENDING_STOP",
    )
    async def status(name: str) -> Response:
        return await _answer(lambda: feeds.status(name))

    @found.get(
        "/feed/{name}/details", dependencies=VIEW, summary="The status of a simulation, what it sent and why it failed"
    )
    async def details(name: str) -> Response:
        return await _answer(lambda: _json(feeds.details(name)))


def _files(found: APIRouter, csv: CsvFiles) -> None:
    @found.post(
        "/files",
        status_code=201,
        responses=declared(403, 409),
        dependencies=MANAGE,
        openapi_extra=FORM,
        summary="Upload a CSV file",
    )
    async def upload(request: Request) -> Response:
        try:
            name, data = await _uploaded(request)
        except NadiError as reason:
            return _failed(reason)
        return await _answer(_then(lambda: csv.add(name, data), f"Successfully uploaded CSV file '{name}'"), 201)

    @found.put(
        "/files/{file}",
        responses=declared(403, 404),
        dependencies=MANAGE,
        openapi_extra=FORM,
        summary="Put another content into a CSV file",
    )
    async def replace(file: str, request: Request) -> Response:
        try:
            await run_in_threadpool(csv.check_there, file)
            _, data = await _uploaded(request, file)
        except NadiError as reason:
            return _failed(reason)
        return await _answer(_then(lambda: csv.replace(file, data), f"Successfully updated CSV file '{file}'"))

    @found.get("/files", dependencies=VIEW, summary="The names of the CSV files")
    async def names() -> Response:
        return JSONResponse(await run_in_threadpool(csv.names))

    @found.delete("/files/{file}", responses=declared(404), dependencies=MANAGE, summary="Remove a CSV file")
    async def remove(file: str) -> Response:
        return await _answer(_then(lambda: csv.remove(file), f"Successfully deleted file '{file}'"))


def _databases(found: APIRouter, simulator: Simulator) -> None:
    @found.post(
        "/connectToDatabase",
        responses=declared(500),
        dependencies=MANAGE,
        openapi_extra=TEXT,
        summary="Try to connect to a database",
    )
    async def connect(request: Request) -> Response:
        body = await request.body()

        def tried() -> str:
            address = _address(body)
            simulator.questions.ask(lambda: simulator.databases.check(address))
            return f"Successfully connected to datasource '{address.shown}'."

        return await _answer(tried)

    @found.post(
        "/connectToDatabase/retrieveTableNames",
        dependencies=MANAGE,
        openapi_extra=TEXT,
        summary="The tables of a database",
    )
    async def tables(request: Request) -> Response:
        body = await request.body()
        return await _listed(lambda: simulator.questions.ask(lambda: simulator.databases.tables(_address(body))))

    @found.post(
        "/connectToDatabase/{table}/retrieveColumnNames",
        dependencies=MANAGE,
        openapi_extra=TEXT,
        summary="The columns of a table",
    )
    async def columns(table: str, request: Request) -> Response:
        body = await request.body()
        return await _listed(
            lambda: simulator.questions.ask(lambda: simulator.databases.columns(_address(body), table))
        )


# ---- requests


def _send(simulator: Simulator, body: bytes) -> str:
    """Send the event of a body. Errors: SIMULATION_INVALID, those of the app's text, DISK_FULL."""
    given = json_object(body)
    app, stream = (_name(given, key) for key in ("siddhiAppName", "streamName"))
    values = given.get("data")
    if not isinstance(values, list):
        raise error("SIMULATION_INVALID", reason="'data' is a list of values, one per attribute")
    send_single(simulator.targets, app, stream, _timestamp(given), values)
    return "Single Event simulation started successfully"


def _name(given: Mapping[str, Any], key: str) -> str:
    found = given.get(key)
    if not isinstance(found, str) or not found.strip():
        raise error("SIMULATION_INVALID", reason=f"'{key}' is missing")
    return found.strip()


def _timestamp(given: Mapping[str, Any]) -> int:
    found = given.get("timestamp")
    if found is None or found == "":
        return int(time.time() * 1000)
    if isinstance(found, str) and len(found) < 20 and found.strip().isdecimal():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < LATEST:
        raise error("SIMULATION_INVALID", reason="'timestamp' is a whole number of ms, at least 0")
    return found


def _address(body: bytes) -> Address:
    try:
        return address_of(json_object(body))
    except ValueError as reason:
        raise error("SIMULATION_INVALID", reason=reason) from reason


async def _uploaded(request: Request, name: str = "") -> tuple[str, bytes]:
    """The name and content of the file of a form, which is to be the file `name`. Errors: CSV_NOT_TAKEN, CSV_TOO_LARGE."""
    if TOO_LARGE in request.scope.get("state", {}):
        raise error("CSV_TOO_LARGE", name=name, most=LARGEST)
    try:
        async with request.form(max_files=1, max_fields=10) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise error("CSV_NOT_TAKEN", name="", reason="the form has no 'file'")
            return file.filename or "", await file.read()
    except HTTPException as reason:
        raise error("CSV_NOT_TAKEN", name="", reason=reason.detail) from reason


# ---- answers


def _then(act: Callable[[], object], said: str) -> Callable[[], str]:
    def acted() -> str:
        act()
        return said

    return acted


async def _answer(message: Callable[[], str], status: int = 200) -> Response:
    """What a call says, made aside."""
    try:
        said = await run_in_threadpool(message)
    except NadiError as reason:
        return _failed(reason)
    return _said(status, said)


async def _listed(names: Callable[[], list[str]]) -> Response:
    """A list of names; whatever goes wrong is 400."""
    try:
        return JSONResponse(await run_in_threadpool(names))
    except NadiError as reason:
        return _said(400, reason.diagnostic.message)


def _failed(reason: NadiError) -> Response:
    return _said(CODES.get(reason.condition, 500), reason.diagnostic.message)


def _said(status: int, message: str) -> Response:
    """`{"status": "NOT_FOUND", "message": …}`.

    >>> _said(404, "no").body
    b'{"status":"NOT_FOUND","message":"no"}'
    """
    return JSONResponse({"status": HTTPStatus(status).name, "message": message}, status)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
