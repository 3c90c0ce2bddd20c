"""`/managers` and `/resourceClusterWorkers`: what a dashboard asks a manager about the cluster. Every manager answers, from the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from starlette.responses import JSONResponse, Response

from nadi.cluster.overview import InstanceView, Overview
from nadi.io.registry import sink_traits, source_traits
from nadi.lang import parse, tree
from nadi.plan.annotations import found
from nadi.plan.connectortraits import SinkTraits, SourceTraits
from nadi.server.distributed.clusterapps import contracted
from nadi.server.distributed.wire import interface
from nadi.server.rest.answers import declared, text
from nadi.server.security.permissions import SAPP, SIGNED_IN, Both, Permission, caller_of, needs

MON = Both(Permission("MON", "mon.view"), Permission("MON", "mon.manage"))
"""What a dashboard shows of a cluster."""
MONITORS = (
    *(Permission("MON", f"MON.{name}") for name in ("viewer", "manager", "metrics.manager")),
    MON.view,
    MON.manage,
    SAPP.view,
    SAPP.manage,
)
"""Any of them lets see a cluster; the first three are the contract's."""

Look = Callable[[], Overview]


def monitors(request: Request) -> None:
    """Lets those through that may see apps or monitor; 403 else, as the contract has it."""
    caller = caller_of(request)
    if caller is not None and not caller.may(MONITORS):
        raise HTTPException(403, "This user has no permission for it: it takes MON MON.viewer or SAPP siddhiApp.view.")


def routes(look: Look, leads: Callable[[], bool], group: str, clustered: bool) -> APIRouter:
    """The paths. `leads` is whether this manager does, `group` the id of its cluster, `clustered` whether there may be several managers."""
    found = APIRouter(tags=["Cluster"], dependencies=[SIGNED_IN, Depends(monitors)], responses=declared(400, 401, 403))
    told = APIRouter(tags=["Cluster"], dependencies=[SIGNED_IN], responses=declared(400, 401))
    counted = APIRouter(tags=["Cluster"], dependencies=[needs(*MONITORS)], responses=declared(400, 401))

    @found.get("/managers", summary="Whether this manager leads")
    async def manager() -> Response:
        if not clustered:
            return Response(status_code=204)
        return JSONResponse({"haStatus": "Active" if leads() else "pasive", "groupId": group})

    @found.get("/managers/isActive", responses=declared(404), summary="200 where this manager leads, else 404")
    async def is_active() -> Response:
        return text(200, "This manager leads.") if leads() else text(404, "Another manager leads, or none.")

    @found.get("/managers/siddhi-apps", summary="All instances of all apps, with where they run")
    def instances() -> Response:
        rows = [contracted(one) for app in look().apps for one in app.instances]
        return JSONResponse(rows) if rows else text(200, "There are no Siddhi apps deployed.")

    @found.get("/managers/siddhi-apps/{app}", responses=declared(404), summary="The instances of an app")
    def instances_of(app: str) -> Response:
        known = look().app(app)
        if known is None:
            return text(404, f"There is no Siddhi App with the provided name: {app}")
        return JSONResponse([contracted(one) for one in known.instances])

    @found.get("/managers/siddhi-apps-execution/{app}", summary="The text of an app, as it was given")
    def text_of(app: str) -> Response:
        known = look().app(app)
        return Response(status_code=204) if known is None else text(200, known.text)

    @found.get("/managers/kafkaDetails/{app}", summary="The topics that the instances of an app read and write")
    def kafka(app: str) -> Response:
        known = look().app(app)
        rows = [] if known is None else [_topics(one) for one in known.instances]
        return JSONResponse(rows) if rows else Response(status_code=204)

    @told.get("/managers/roles", summary="Whether this user has a permission")
    async def roles(request: Request, permissionSuffix: str = "") -> bool:  # noqa: N803 - the contract's name
        caller, name = caller_of(request), permissionSuffix.lstrip(".")
        wanted = [Permission("MON", f"{of}{name}") for of in ("", "MON.", "mon.")]
        wanted.append(Permission("SAPP", f"siddhiApp.{name}"))
        return caller is None or caller.may(wanted)

    @found.get(
        "/cluster/workers",
        summary="The workers, also those that have gone: state, version of nadi, loads, number of instances",
    )
    def all_workers() -> list[dict[str, Any]]:
        return [asdict(worker) for worker in look().workers]

    @counted.get("/resourceClusterWorkers", summary="How many workers there are that are no receiver nodes")
    def count() -> int:
        return sum(not worker.receiver for worker in look().present)

    @counted.get("/resourceClusterWorkers/clusteredWorkerNodeDetails", summary="The workers, with their addresses")
    def workers() -> Response:
        rows = [(worker.id, interface(worker.address)) for worker in look().present]
        if not rows:
            return Response(status_code=204)
        return JSONResponse([{"https_host": at["host"], "https_port": at["port"], "nodeId": id_} for id_, at in rows])

    whole = APIRouter()
    for router in (found, told, counted):
        whole.include_router(router)
    return whole


def _topics(one: InstanceView) -> dict[str, Any]:
    """An instance with its topics."""
    where = contracted(one)
    connected = tuple(
        given
        for definition in parse(one.text).definitions
        if isinstance(definition, tree.StreamDefinition | tree.TriggerDefinition)
        for given in definition.annotations
    )
    return {
        "appName": one.instance,
        "siddhiApp": one.text,
        "deployedHost": where["host"],
        "deployedPort": where["port"],
        "sourceList": _named(found(connected, "source"), source_traits),
        "sinkList": _named(found(connected, "sink"), sink_traits),
    }


def _named(
    connected: Sequence[tree.Annotation], traits: Callable[[str], SourceTraits | SinkTraits | None]
) -> list[str]:
    """The topics of sources or sinks, as they name them."""
    known = [(given, traits((given.get("type") or "").lower())) for given in connected]
    return [t for given, of in known if of is not None and of.topics is not None if (t := of.topics.named(given))]
