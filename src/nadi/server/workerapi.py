"""The REST APIs of a worker: the same paths whether it lives alone, is one of a pair, or one of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI

from nadi.config.deployment import Deployment
from nadi.errors.redaction import redacted
from nadi.server.apps import NodeApps
from nadi.server.frontdoor import FrontDoor
from nadi.server.preparation import AppPreparation
from nadi.server.quota import Quota
from nadi.server.rest import elements, login, page, permissions, siddhiapps, statistics, storequery
from nadi.server.rest.application import make_routes
from nadi.server.rest.errors import Errors, PassOn, answers_itself
from nadi.server.rest.errors import routes as error_routes
from nadi.server.rest.node import NodeFacts, health_routes, node_routes
from nadi.server.rest.revisions import Revisions
from nadi.server.rest.revisions import routes as revision_routes
from nadi.server.rest.statistics import HaFacts
from nadi.server.statistics import Statistics


class OfPair(Protocol):
    """What a node of a pair is: `nadi.server.pair.pairview.PairView`."""

    @property
    def is_active(self) -> bool: ...
    def facts(self) -> HaFacts: ...
    def status(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerApi:
    """What the paths are about. `last_revision` says when the last revision of any app was made (ms, 0: never), `quota` how many apps a user may have
    (None: any number)."""

    deployment: Deployment
    door: FrontDoor
    apps: NodeApps
    revisions: Revisions
    errors: Errors
    preparation: AppPreparation
    statistics: Statistics
    facts: NodeFacts
    last_revision: Callable[[], int]
    quota: Quota | None = None
    pair: OfPair | None = None
    pass_on: PassOn = answers_itself

    def routes(self, *more: APIRouter) -> FastAPI:
        """Those of the REST API; `more` are those that only a worker of this kind has."""
        identity, pair = self.door.identity, self.pair
        ha, shown = (None, None) if pair is None else (pair.facts, pair.status)
        return make_routes(
            "nadi worker",
            [
                health_routes(self.apps, self._is_working),
                *more,
                statistics.app_routes(self.apps, self.statistics),  # before those of an app that has any name
                revision_routes(self.revisions),
                error_routes(self.errors, self.pass_on),
                elements.routes(self.apps, self.preparation, self._hide),
                siddhiapps.routes(self.apps, self.quota),
                node_routes(self.facts),
                login.routes(self.door.login_api),
                statistics.node_routes(self.statistics, self.last_revision, ha),
                permissions.routes(identity.permissions, identity.provider),
                page.routes(self.apps, self.facts, self.statistics.last_minutes, shown),
            ],
        )

    def queries(self) -> FastAPI:
        """Those of on-demand queries."""
        routers = [health_routes(self.apps), storequery.routes(self.apps)]
        return make_routes("nadi on-demand queries", routers, storequery.FAILED)

    def _is_working(self) -> bool:
        return self.pair is None or self.pair.is_active

    def _hide(self, text: str) -> str:
        return redacted(text, self.deployment.secrets)
