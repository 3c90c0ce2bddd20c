"""`/statistics` and `/siddhi-apps/statistics`: how the node and its apps are, and how much of them is measured; `/metrics` for Prometheus."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.metrics.levels import Level, read_level
from nadi.metrics.reporters.exposition import CONTENT_TYPE, exposition
from nadi.server.apps import NodeApps
from nadi.server.deployer import ACTIVE, AppStatus
from nadi.server.rest.answers import FILE_PROCESSING, VALIDATION, coded, declared, message, no_app
from nadi.server.rest.bodies import Body
from nadi.server.rest.siddhiapps import later
from nadi.server.security.permissions import SAPP, needs
from nadi.server.statistics import Standing, Statistics

OK = 4  # the code of what went well, in answers about the node
SINGLE = "Single Node Deployments"
VIEW, MANAGE = [needs(SAPP.view, SAPP.manage)], [needs(SAPP.manage)]


class Switch(Body):
    """Either of the two; a level says more than whether there is to be one."""

    model_config = ConfigDict(populate_by_name=True)

    enable: bool | None = Field(default=None, alias="statsEnable")
    level: str | None = Field(default=None, alias="enabledStatLevel")

    def wanted(self) -> Level | None:
        """The level that is asked for; None where it is none."""
        if self.level is not None:
            return read_level(self.level)
        return None if self.enable is None else Level.DETAIL if self.enable else Level.OFF


class Measured(Protocol):
    """How much is measured of apps: `nadi.server.statistics.Statistics`, and on a manager `nadi.server.distributed.clusterstatistics.ClusterStatistics`."""

    def standings_of(self, names: Collection[str]) -> Mapping[str, Standing]: ...
    def switch(self, name: str, level: Level) -> bool: ...


def app_routes(apps: NodeApps, statistics: Measured) -> APIRouter:
    """What is measured of the apps. To be included before the routes of `/siddhi-apps/{app}`."""
    found = APIRouter(prefix="/siddhi-apps", tags=["Statistics"], responses=declared(400, 401, 404))

    @found.get(
        "/statistics",
        dependencies=VIEW,
        summary="The state of all apps, of those that are active, or of those that are not",
    )
    def listed(isActive: str = "") -> Response:  # noqa: N803 - the contract's name
        known = apps.statuses()
        if not known:
            return message(404, "There are no Siddhi Apps", "not-found")
        wanted = {"true": True, "false": False}.get(isActive.strip().lower())
        standings = statistics.standings_of([status.name for status in known])
        now = int(time.time() * 1000)
        rows = [
            {
                "appName": status.name,
                "status": status.state,
                "age": _age(status, standings[status.name], now),
                "isStatEnabled": standings[status.name].level.name,
            }
            for status in known
            if wanted is None or (status.state == ACTIVE) == wanted
        ]
        return JSONResponse(rows)

    @found.put("/statistics", dependencies=MANAGE, summary="How much is measured of all apps")
    def switch_all(switch: Switch) -> Response:
        level = switch.wanted()
        if level is None:
            return _no_level()
        try:
            for status in apps.statuses():
                statistics.switch(status.name, level)
        except NadiError as reason:
            return _not_switched(reason)
        return message(200, f"Successfully set the statistics level of all Siddhi Apps to {level.name}")

    @found.put("/{app}/statistics", dependencies=MANAGE, summary="How much is measured of an app")
    def switch_one(app: str, switch: Switch) -> Response:
        if apps.status(app) is None:
            return no_app(app)
        level = switch.wanted()
        if level is None:
            return _no_level()
        try:
            changed = statistics.switch(app, level)
        except NadiError as reason:
            return _not_switched(reason)
        if not changed:
            return message(200, f"The statistics level of Siddhi App {app} is {level.name} already")
        return message(200, f"Successfully set the statistics level of Siddhi App {app} to {level.name}")

    return found


@dataclass(frozen=True, slots=True)
class HaFacts:
    """What statistics say of a node of a pair. `synced` is when both were last known to have the same (ms, 0: never)."""

    group: str
    active: bool
    in_sync: bool
    synced: int


def node_routes(
    statistics: Statistics,
    last_revision: Callable[[], int],
    pair: Callable[[], HaFacts] | None = None,
    group: str = "",
) -> APIRouter:
    """What is measured of the node; `last_revision` says when the last one was made (ms, 0: never), `pair` what a node of a pair is, `group` the id of the
    cluster that it is one manager of."""
    found = APIRouter(tags=["Statistics"], responses=declared(400, 401))

    @found.get("/statistics", dependencies=VIEW, summary="How the node is")
    async def node() -> Response:
        measured = await run_in_threadpool(statistics.worker_metrics) if statistics.is_enabled else None
        body: dict[str, Any] = {
            "runningStatus": "Reachable",
            "isStatsEnabled": statistics.is_enabled,
            "clusterID": group or SINGLE,
            "lastSyncTime": "n/a",
            "lastSnapshotTime": _shown_time(await run_in_threadpool(last_revision)),
            "osName": "windows" if os.name == "nt" else "other",
            "isInSync": False,
            "message": "" if statistics.is_enabled else "Metrics are disabled.",
        }
        if pair is not None:
            facts = pair()
            body |= {
                "haStatus": "Active" if facts.active else "Passive",
                "clusterID": facts.group,
                "lastSyncTime": _shown_time(facts.synced),
                "isInSync": facts.in_sync,
            }
        if measured is not None:
            body["workerMetrics"] = {
                "processCPU": measured.process_cpu,
                "systemCPU": measured.system_cpu,
                "loadAverage": measured.load_average,
                "memoryUsage": measured.memory_usage,
            }
        return JSONResponse(body)

    @found.put("/statistics", dependencies=MANAGE, summary="Have the node measure itself and all its apps, or nothing")
    async def switch(switch: Switch) -> Response:
        level = switch.wanted()
        if level is None:
            return _no_level()
        enabled = level is not Level.OFF
        word = "enabled" if enabled else "disabled"
        if not await run_in_threadpool(statistics.enable, enabled):
            return JSONResponse({"code": OK, "type": "ok", "message": f"Metrics are {word} already."})
        return JSONResponse({"code": OK, "type": "ok", "message": f"Successfully {word} the metrics."})

    @found.get("/metrics", dependencies=VIEW, summary="All metrics, in the text format of Prometheus")
    async def metrics() -> Response:
        told = await run_in_threadpool(lambda: exposition(statistics.snapshot()))
        return Response(told, media_type=CONTENT_TYPE)

    return found


def _age(status: AppStatus, standing: Standing, now: int) -> int:
    if standing.age is not None:
        return standing.age
    return max(0, now - status.since) if status.since else 0


def _not_switched(reason: NadiError) -> Response:
    return later(reason) or coded(500, FILE_PROCESSING, str(reason))


def _no_level() -> Response:
    return coded(
        400, VALIDATION, "The body takes 'statsEnable' (true, false) or 'enabledStatLevel' (OFF, BASIC, DETAIL)."
    )


def _shown_time(at: int) -> str:
    """A time as dashboards show it; `n/a` for none.

    >>> _shown_time(0), _shown_time(1_000)
    ('n/a', 'Thu, 01 Jan 1970 00:00:01 UTC')
    """
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%a, %d %b %Y %H:%M:%S UTC") if at else "n/a"
