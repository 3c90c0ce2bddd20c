"""`/health`, `/health/ready`, `/nodeDetails/runTime`, `/system-details`: what is asked of a node as a whole."""

from __future__ import annotations

import locale
import os
import platform
import pwd
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.pipeline.session import java
from nadi.server.apps import NodeApps
from nadi.server.rest.answers import VALIDATION, coded, declared, text
from nadi.server.security.permissions import EVERYBODY, SAPP, needs

RUNTIME = "worker"
ACTIVE, PASSIVE = "active", "passive"
"""The roles of a node of a pair. One that is alone does the work, too: it is active."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What does not change while a node runs."""

    carbon_id: str
    home: Path
    started: float

    def to_json(self, java: Mapping[str, str]) -> dict[str, Any]:
        """As `/system-details` has them; `java` are system properties of the JVM."""
        return {
            "carbonId": self.carbon_id,
            "javaRuntimeName": java.get("java.runtime.name", ""),
            "javaVMVersion": java.get("java.vm.version", ""),
            "javaVMVendor": java.get("java.vm.vendor", ""),
            "javaHome": java.get("java.home", ""),
            "javaVersion": java.get("java.version", ""),
            "osName": platform.system(),
            "osVersion": platform.release(),
            "userHome": str(Path.home()),
            "userTimezone": time.tzname[0],
            "userName": pwd.getpwuid(os.geteuid()).pw_name,
            "userCountry": (locale.getlocale()[0] or "_").partition("_")[2],
            "repoLocation": str(self.home),
            "serverStartTime": datetime.fromtimestamp(self.started).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
        }


@cache
def java_properties() -> dict[str, str]:
    """The system properties of the Java that runs Spark; it is started once to be asked for them."""
    asked = subprocess.run(
        [java() or "java", "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False
    )
    pairs = (line.strip().partition(" = ") for line in asked.stderr.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def health_routes(apps: NodeApps, is_active: Callable[[], bool] = lambda: True) -> APIRouter:
    """What load balancers and containers ask; without credentials."""
    found = APIRouter(tags=["Health"], dependencies=[EVERYBODY])

    @found.get(
        "/health",
        responses=declared(400, 503),
        summary="Whether the server answers; with `role=active` or `role=passive`, whether the node has that role: 503 where it has the other one",
    )
    async def health(role: str = "") -> Response:
        wanted = role.strip().lower()
        if wanted not in ("", ACTIVE, PASSIVE):
            return coded(400, VALIDATION, f"'role' is '{ACTIVE}' or '{PASSIVE}'.")
        has = ACTIVE if is_active() else PASSIVE
        if not wanted:
            return JSONResponse({"status": "healthy"})
        return JSONResponse({"status": "healthy", "role": has}, 200 if has == wanted else 503)

    @found.get(
        "/health/ready",
        responses=declared(503),
        summary="Whether all apps that can run do: 503 while the node or one of them starts",
    )
    async def ready() -> Response:
        starting = apps.starting()
        if not apps.is_open or starting:
            return JSONResponse({"status": "starting", "apps": starting}, 503, {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    return found


def node_routes(facts: NodeFacts, profile: str = RUNTIME) -> APIRouter:
    """What dashboards ask; `profile` is "worker" or "manager"."""
    found = APIRouter(tags=["Node"], dependencies=[needs(SAPP.view, SAPP.manage)], responses=declared(400, 401))

    @found.get("/nodeDetails/runTime", summary="The profile of this node")
    async def run_time() -> Response:
        return text(200, profile)

    @found.get("/system-details", summary="Facts about this node")
    async def details() -> dict[str, Any]:
        java = await run_in_threadpool(java_properties)
        return facts.to_json(java)

    return found
