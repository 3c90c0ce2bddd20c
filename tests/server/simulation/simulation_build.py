"""What tests of the event simulator have in common: apps that only note what they are sent, a clock that stands still, requests without a network."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from nadi.errors import error
from nadi.io.controllog import Simulated
from nadi.io.folderwatch import Watch
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.server.rest import simulation
from nadi.server.rest.application import make_routes
from nadi.server.simulation.feed import MachineClock
from nadi.server.simulation.simulator import Simulator, make_simulator

WITHIN = 100.0


def schema(**columns: str) -> Schema:
    return Schema(tuple(Column(name, Type(kind)) for name, kind in columns.items()))


STOCK = schema(symbol="string", price="double", volume="long")


class FakeTarget:
    """An app that notes what it is sent. Batches take everything at once, unless `holds`."""

    def __init__(self, **streams: Schema) -> None:
        self.streams = streams
        self.sent: list[tuple[str, int, tuple[Any, ...]]] = []
        self.calls = 0
        self.holds = False
        self.tells: list[Callable[[], None]] = []
        self.problems: dict[str, str] = {}
        self._position = 0
        self._taken = 0
        self.changed = threading.Condition()

    def problem(self, stream: str) -> str:
        return self.problems.get(stream, "")

    def send(self, events: Sequence[Simulated]) -> int:
        with self.changed:
            self.calls += 1
            for each in events:
                rows = zip(*each.columns, strict=True)
                self.sent += [(each.stream, stamp, row) for stamp, row in zip(each.stamps, rows, strict=True)]
            self._position += len(events)
            if not self.holds:
                self._taken = self._position
            self.changed.notify_all()
            return self._position - 1

    def take(self) -> None:
        """A batch is done."""
        with self.changed:
            self._taken = self._position
            tells = list(self.tells)
        for tell in tells:
            tell()

    def is_behind(self, most: int) -> bool:
        return self._position - self._taken > most

    def taken(self) -> int:
        return self._taken

    def watch(self, tell: Callable[[], None]) -> Watch | None:
        self.tells.append(tell)
        return None

    def until(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, WITHIN), f"{len(self.sent)} events were sent"


class FakeTargets:
    """The apps of a worker that has no node."""

    def __init__(self, **apps: FakeTarget) -> None:
        self.apps = apps
        self.starting: set[str] = set()

    def state(self, app: str) -> str:
        if app in self.starting:
            return "starting"
        return "active" if app in self.apps else "away"

    def of(self, app: str) -> FakeTarget:
        if self.state(app) != "active":
            raise error("SIMULATION_INVALID", reason=f"there is no active Siddhi App '{app}'")
        return self.apps[app]


class StillClock:
    """Goes on only when the test says so."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._rung = False
        self._waits: float | bool | None = False
        self._changed = threading.Condition()

    def now(self) -> float:
        return self._now

    def wait(self, until: float | None) -> None:
        with self._changed:
            self._waits = until
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._rung or (until is not None and until <= self._now), WITHIN)
            self._rung, self._waits = False, False
            self._changed.notify_all()

    def ring(self) -> None:
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def advance(self, seconds: float) -> None:
        with self._changed:
            self._now += seconds
            self._changed.notify_all()

    def settle(self) -> None:
        """Wait until whoever uses it has nothing to do before some time that is not there yet, or a ring."""

        def idle() -> bool:
            return self._waits is not False and not self._rung and (self._waits is None or self._waits > self._now)

        with self._changed:
            assert self._changed.wait_for(idle, WITHIN)


def simulator(folder: Path, targets: FakeTargets, clock: Callable[[], Any] | None = None) -> Simulator:
    """A started simulator; with a clock of the test."""
    made = make_simulator(folder, targets, clock or MachineClock)
    made.start()
    return made


class Client:
    """Asks the REST API of a simulator."""

    def __init__(self, made: Simulator) -> None:
        self.simulator = made
        self._routes: FastAPI = make_routes("test", [simulation.routes(made)])

    def ask(self, method: str, path: str, body: Any = None, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self._routes, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
                return await client.request(method, f"/simulation{path}", **given)

        if body is not None:
            given["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            given["headers"] = {"content-type": "text/plain"}
        return asyncio.run(asked())

    def code(self, method: str, path: str, body: Any = None, **given: Any) -> int:
        answer = self.ask(method, path, body, **given)
        told = answer.json()
        if isinstance(told, dict):
            assert told["status"] == httpx.codes(answer.status_code).name
            assert isinstance(told["message"], str)
        return answer.status_code

    def message(self, path: str) -> Any:
        return json.loads(self.ask("GET", path).json()["message"])

    def upload(self, method: str, path: str, name: str, data: bytes = b"a,1,1\n") -> int:
        return self.code(method, path, files={"file": (name, data, "text/csv")})


def chance(app: str = "Stocks", stream: str = "In", **more: Any) -> dict[str, Any]:
    """A random source for STOCK."""
    attributes = [
        {"type": "CUSTOM_DATA_BASED", "list": ["IBM", "WSO2"]},
        {"type": "PRIMITIVE_BASED", "primitiveType": "DOUBLE", "min": "10", "max": "20", "precision": "2"},
        {"type": "PRIMITIVE_BASED", "primitiveType": "LONG", "min": 1, "max": 9},
    ]
    source = {"simulationType": "RANDOM_DATA_SIMULATION", "siddhiAppName": app, "streamName": stream}
    return {**source, "attributeConfiguration": attributes, **more}


def config(name: str = "feed", *sources: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {
        "properties": {"simulationName": name, "startTimestamp": "", "endTimestamp": "", **properties},
        "sources": list(sources) or [chance()],
        "nadi": {"seed": 7},
    }
