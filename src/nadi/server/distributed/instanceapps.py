"""The apps of a worker of a cluster, for those who ask over REST: they come from a manager, and are changed there only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from nadi.errors import error
from nadi.pipeline.live import Live
from nadi.pipeline.ondemand import Found
from nadi.server.apps import ask_timed, detailed, live_in, names_of
from nadi.server.deployer import ACTIVE, AppStatus
from nadi.server.distributed.instancenode import InstanceNode


class InstanceApps:
    """As `nadi.server.apps.Apps`, of which it has all that asks. `asked` is told how long (s) an app took to answer an on-demand query."""

    def __init__(
        self,
        state: Path,
        instances: InstanceNode,
        opened: Callable[[], bool],
        asked: Callable[[str, float], object],
    ) -> None:
        self._state = state
        self._instances = instances
        self._opened = opened
        self._asked = asked

    # ---- what a manager does

    def deploy(self, body: bytes) -> NoReturn:
        """Errors: APPS_FROM_MANAGER, as all changes."""
        raise error("APPS_FROM_MANAGER")

    def update(self, body: bytes) -> NoReturn:
        """Errors: APPS_FROM_MANAGER."""
        raise error("APPS_FROM_MANAGER")

    def plan(self, body: bytes) -> NoReturn:
        """Errors: APPS_FROM_MANAGER."""
        raise error("APPS_FROM_MANAGER")

    def undeploy(self, name: str) -> NoReturn:
        """Errors: APPS_FROM_MANAGER."""
        raise error("APPS_FROM_MANAGER")

    def restart(self, name: str) -> NoReturn:
        """Errors: APPS_FROM_MANAGER."""
        raise error("APPS_FROM_MANAGER")

    # ---- what is there

    def names(self, active: bool | None = None) -> list[str]:
        """The names of all instances, or of those that are (not) active."""
        return names_of(self.statuses(), active)

    def statuses(self) -> list[AppStatus]:
        """All instances, by name."""
        return self._instances.statuses()

    def status(self, name: str) -> AppStatus | None:
        """One instance; None where there is none."""
        return self._instances.status(name)

    def details(self, name: str) -> dict[str, Any] | None:
        """What is known of one instance; None where there is none."""
        found = self.status(name)
        return None if found is None else detailed(found)

    def is_active(self, name: str) -> bool:
        """Whether an instance of this name runs."""
        found = self.status(name)
        return found is not None and found.state == ACTIVE

    def ask(self, name: str, query: str) -> Found | None:
        """An on-demand query against an instance. Errors: those of `nadi.pipeline.ondemand.ask`, APP_NOT_RUNNING."""
        return ask_timed(self.live(name), name, query, self._asked)

    def live(self, name: str) -> Live:
        """An active instance as it runs. Errors: APP_NOT_RUNNING."""
        return live_in(self._state, self._instances.folder_of(name))

    @property
    def is_open(self) -> bool:
        """Whether the node takes apps."""
        return self._opened()

    def starting(self) -> list[str]:
        """The instances that are on their way."""
        return self._instances.starting()
