"""The apps of a node of a pair, for those who ask over REST: the active node answers, the passive one passes on what would change something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from nadi.pipeline.live import Live
from nadi.pipeline.ondemand import Found
from nadi.server.apps import AppExists, AppNotThere, Saved, text_of
from nadi.server.deployer import AppStatus
from nadi.server.pair.activenode import PassesOn
from nadi.server.pair.roles import Roles

APPS = "/siddhi-apps"


class Ready(Protocol):
    """Whether the node takes apps: `nadi.pipeline.run.Node`."""

    @property
    def is_open(self) -> bool: ...


class PairApps:
    """Implements `nadi.server.apps.NodeApps`. Errors of all changes besides those of `nadi.server.apps.Apps`: NOT_ACTIVE, CONNECTION_UNAVAILABLE;
    `nadi.server.pair.activenode.AnsweredElsewhere` carries the answer of the active node."""

    def __init__(self, roles: Roles, passes_on: PassesOn, node: Ready, has_lease: Callable[[], bool]) -> None:
        """`has_lease`: whether this node is active, or about to be."""
        self._roles = roles
        self._passes_on = passes_on
        self._node = node
        self._has_lease = has_lease

    # ---- changes

    def deploy(self, body: bytes) -> Saved:
        """Save a new app on both nodes. A text that is there already was posted to the other node before: that is no conflict."""
        active = self._roles.active
        if active is None:
            self._passes_on("POST", APPS, body)
        try:
            return active.apps.deploy(body)
        except AppExists as taken:
            there = active.apps.status(taken.name)
            if there is None or there.text != text_of(body):
                raise
            return Saved(taken.name, existed=False)

    def update(self, body: bytes) -> Saved:
        active = self._roles.active
        if active is None:
            self._passes_on("PUT", APPS, body)
        return active.apps.update(body)

    def plan(self, body: bytes) -> dict[str, Any]:
        active = self._roles.active
        if active is None:
            self._passes_on("PUT", f"{APPS}?dryRun=true", body)
        return active.apps.plan(body)

    def undeploy(self, name: str) -> None:
        active = self._roles.active
        if active is None:
            self._passes_on("DELETE", f"{APPS}/{quote(name, safe='')}")
        active.apps.undeploy(name)

    def restart(self, name: str) -> None:
        active = self._roles.active
        if active is None:
            self._passes_on("POST", f"{APPS}/{quote(name, safe='')}/restart")
        active.apps.restart(name)

    # ---- what is there

    def names(self, active: bool | None = None) -> list[str]:
        here = self._here
        return [] if here is None else here.names(active)

    def statuses(self) -> list[AppStatus]:
        here = self._here
        return [] if here is None else here.statuses()

    def status(self, name: str) -> AppStatus | None:
        here = self._here
        return None if here is None else here.status(name)

    def details(self, name: str) -> dict[str, Any] | None:
        here = self._here
        return None if here is None else here.details(name)

    def is_active(self, name: str) -> bool:
        here = self._here
        return here is not None and here.is_active(name)

    def ask(self, name: str, query: str) -> Found | None:
        here = self._here
        if here is None:
            raise AppNotThere
        return here.ask(name, query)

    def live(self, name: str) -> Live:
        """An active app as it runs. Errors: APP_NOT_RUNNING; AppNotThere on the passive node."""
        active = self._roles.active
        if active is None:
            raise AppNotThere
        return active.apps.live(name)

    # ---- readiness

    @property
    def is_open(self) -> bool:
        return self._node.is_open

    def starting(self) -> list[str]:
        active = self._roles.active
        return [] if active is None else active.apps.starting()

    @property
    def _here(self) -> _Shown | None:
        active = self._roles.active
        return self._roles.passive if active is None else active.apps


class _Shown(Protocol):
    """What both roles can tell of apps."""

    def names(self, active: bool | None = None) -> list[str]: ...
    def statuses(self) -> list[AppStatus]: ...
    def status(self, name: str) -> AppStatus | None: ...
    def details(self, name: str) -> dict[str, Any] | None: ...
    def is_active(self, name: str) -> bool: ...
    def ask(self, name: str, query: str) -> Found | None: ...


class PairRevisions:
    """As `nadi.server.revisions.AppRevisions`, on both nodes: the passive one passes on what is asked. Errors besides: as `PairApps`."""

    def __init__(self, roles: Roles, passes_on: PassesOn) -> None:
        self._roles = roles
        self._passes_on = passes_on

    def backup(self, name: str) -> str:
        active = self._roles.active
        if active is None:
            self._passes_on("POST", f"{_of(name)}/backup")
        return active.revisions.backup(name)

    def of(self, name: str) -> list[dict[str, Any]]:
        active = self._roles.active
        if active is None:
            self._passes_on("GET", f"{_of(name)}/revisions")
        return active.revisions.of(name)

    def restore(self, name: str, revision: str = "", reset: bool = False) -> str:
        active = self._roles.active
        if active is None:
            query = urlencode({"revision": revision, "reset": str(reset).lower()})
            self._passes_on("POST", f"{_of(name)}/restore?{query}")
        return active.revisions.restore(name, revision, reset)

    def clear(self, name: str, redeploy: bool) -> None:
        active = self._roles.active
        if active is None:
            self._passes_on("DELETE", f"{_of(name)}/revisions?enabledRedeployment={str(redeploy).lower()}")
        active.revisions.clear(name, redeploy)

    def clear_all(self, redeploy: bool) -> None:
        active = self._roles.active
        if active is None:
            self._passes_on("DELETE", f"{APPS}/revisions?enabledRedeployment={str(redeploy).lower()}")
        active.revisions.clear_all(redeploy)


def _of(name: str) -> str:
    return f"{APPS}/{quote(name, safe='')}"
