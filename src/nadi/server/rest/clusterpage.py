"""`/` of a manager: a page that shows a cluster to a person, and what the page asks.

The page itself is open to all and knows nothing; whoever logs in there sees what the REST APIs would show. It waits for news: `/status/cluster` answers when
the cluster has become another one than the one that the page shows.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from nadi.cluster.overview import AppView, InstanceView, WorkerView
from nadi.cluster.rows import Event
from nadi.plan.distribution import Topology, svg
from nadi.server.distributed.clusterwatch import Sight
from nadi.server.rest.answers import declared, no_app
from nadi.server.rest.clusterchannels import Of, answered
from nadi.server.rest.managers import monitors
from nadi.server.rest.node import NodeFacts
from nadi.server.rest.page import file_routes
from nadi.server.security.permissions import SIGNED_IN

FRESH = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Place:
    """The manager that shows the page."""

    group: str
    facts: NodeFacts


class Apps(Protocol):
    """Apps as they are cut, from any thread."""

    def topology(self, name: str) -> tuple[AppView, Topology] | None: ...


def routes(news: Callable[[str], Awaitable[Sight | None]], apps: Apps, channels_of: Of, place: Place) -> APIRouter:
    """The page, its files, and what it asks. `news` waits for another sight of the cluster than the one of a mark; `channels_of` has the channels of
    an app."""
    parts = ("login.js", "status.css", "cluster.css", "cluster.js", "icon.svg")
    found = file_routes("cluster.html", parts)
    seeing = [SIGNED_IN, Depends(monitors)]

    @found.get(
        "/status/cluster",
        dependencies=seeing,
        responses={**declared(403), 204: {"description": "Nothing has changed for a while: ask again"}},
        summary="The whole cluster, as the status page shows it; with `after` once it is another one than that of the mark",
    )
    async def status(after: str = "") -> Response:
        sight = await news(after)
        if sight is None:
            return Response(status_code=204, headers=FRESH)
        return JSONResponse(shown(sight, place), headers=FRESH)

    @found.get(
        "/status/cluster/apps/{app}/drawing",
        dependencies=seeing,
        responses=declared(403, 404),
        summary="An app as it is cut: groups with their instances, and channels, as SVG",
    )
    def drawing(app: str) -> Response:
        known = apps.topology(app)
        if known is None:
            return no_app(app)
        states = {one.instance: one.state for one in known[0].instances}
        return Response(svg(known[1], states), headers=FRESH, media_type="image/svg+xml")

    @found.get(
        "/status/cluster/apps/{app}/channels",
        dependencies=seeing,
        responses=declared(403, 404, 503),
        summary="The channels of an app: how full, and how far behind, as `/managers/siddhi-apps/{app}/channels` has them",
    )
    async def channels(app: str) -> Response:
        return await answered(channels_of, app)

    return found


# ---- bodies


def shown(sight: Sight, place: Place) -> dict[str, Any]:
    """A cluster as JSON. Times are ms; those of heartbeats say how long ago they were."""
    found = sight.cluster
    on: dict[str, list[str]] = {}
    for app in found.apps:
        for instance in app.instances:
            on.setdefault(instance.worker, []).append(instance.instance)
    return {
        "mark": sight.mark,
        "group": place.group,
        "token": found.token,
        "node": {"id": place.facts.carbon_id, "upSeconds": time.time() - place.facts.started},
        "managers": [{"id": one.id, "address": one.address, "leads": one.leads} for one in found.managers],
        "workers": [_worker(found.now, one, on.get(one.id, [])) for one in found.workers],
        "apps": [_app(one) for one in found.apps],
        "events": [_event(one) for one in reversed(sight.events)],
    }


def _worker(now: int, one: WorkerView, instances: list[str]) -> dict[str, Any]:
    return {
        "id": one.id,
        "address": one.address,
        "state": one.state,
        "receiver": one.receiver,
        "version": one.version,
        "heard": None if one.heartbeat is None else max(0, now - one.heartbeat),
        "cpu": one.cpu,
        "process": one.process,
        "memory": one.memory,
        "instances": instances,
    }


def _app(one: AppView) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "status": "active" if one.active else "inactive",
        "waits": bool(one.waiting),
        "reason": one.reason,
        "instances": [_instance(instance) for instance in one.instances],
    }


def _instance(one: InstanceView) -> dict[str, Any]:
    return {
        "name": one.instance,
        "group": one.group,
        "receiver": one.receiver,
        "worker": one.worker,
        "state": one.state,
        "runs": one.runs,
        "epoch": one.epoch,
        "failures": one.failures,
        "reason": one.reason or one.failed,
    }


def _event(one: Event) -> dict[str, Any]:
    return {"at": one.at, "kind": one.kind, "subject": one.subject, "detail": one.detail}
