"""`/cluster/…` of a manager: instances are moved, workers drained. Whichever manager is asked, the leader does it."""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter
from starlette.responses import Response

from nadi.errors import NadiError
from nadi.server.apps import AppNotThere
from nadi.server.rest.answers import VALIDATION, coded, declared, message, no_app
from nadi.server.rest.siddhiapps import MANAGE, later


class Moves(Protocol):
    """What a manager does for users, from any thread."""

    def move(self, instance: str) -> None: ...
    def drain(self, worker: str, on: bool) -> bool: ...


def routes(moves: Moves) -> APIRouter:
    """The paths."""
    found = APIRouter(prefix="/cluster", tags=["Cluster"], dependencies=MANAGE, responses=declared(400, 401, 404, 503))

    @found.post("/instances/{instance}/move", summary="Move an instance off the worker that it is on")
    def move(instance: str) -> Response:
        try:
            moves.move(instance)
        except AppNotThere:
            return no_app(instance)
        except NadiError as reason:
            return _refused(reason)
        return message(200, f"{instance} moves")

    @found.post("/workers/{worker}/drain", summary="Move everything off a worker; with on=false use it again")
    def drain(worker: str, on: bool = True) -> Response:
        try:
            there = moves.drain(worker, on)
        except NadiError as reason:
            return _refused(reason)
        if not there:
            return message(404, f"There is no worker with the id: {worker}", "not-found")
        return message(200, f"{worker} {'is being drained' if on else 'is used again'}")

    return found


def _refused(reason: NadiError) -> Response:
    return later(reason) or coded(400, VALIDATION, str(reason))
