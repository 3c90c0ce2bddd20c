"""The apps of a worker, for those who ask over REST: files on one side, the node on the other, the deployer between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nadi.errors import error
from nadi.pipeline.live import Live, read_live
from nadi.pipeline.ondemand import Found, ask
from nadi.pipeline.revision.restore import Planned as Updates
from nadi.pipeline.run import Node
from nadi.server.appfiles import AppFiles
from nadi.server.deployer import ACTIVE, STARTS, AppStatus, Deployer
from nadi.server.home import Home
from nadi.server.preparation import AppPreparation

ANSWERS_WITHIN = 30.0  # seconds for an on-demand query


class AppExists(Exception):
    """There is an app of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class AppNotThere(Exception):
    """There is no app of this name."""


@dataclass(frozen=True, slots=True)
class Saved:
    """An app that was taken: whether there was one of the name, and why it will not run at once ("": nothing is in its way)."""

    name: str
    existed: bool
    waiting: str = ""


class NodeApps(Protocol):
    """What REST asks of the apps of a node, from any thread: a worker that lives alone has `Apps`, one of a cluster
    `nadi.server.distributed.instanceapps.InstanceApps`, a manager `nadi.server.distributed.clusterapps.ClusterApps`."""

    def deploy(self, body: bytes) -> Saved: ...
    def update(self, body: bytes) -> Saved: ...
    def plan(self, body: bytes) -> dict[str, Any]: ...
    def undeploy(self, name: str) -> None: ...
    def restart(self, name: str) -> None: ...
    def names(self, active: bool | None = None) -> list[str]: ...
    def statuses(self) -> list[AppStatus]: ...
    def status(self, name: str) -> AppStatus | None: ...
    def details(self, name: str) -> dict[str, Any] | None: ...
    def is_active(self, name: str) -> bool: ...
    def ask(self, name: str, query: str) -> Found | None: ...
    @property
    def is_open(self) -> bool: ...
    def starting(self) -> list[str]: ...


class Apps:
    """See the module's text. All of it may be called from any thread. `asked` is told how long (s) an app took to answer an on-demand query."""

    def __init__(
        self,
        home: Home,
        files: AppFiles,
        deployer: Deployer,
        node: Node,
        preparation: AppPreparation,
        asked: Callable[[str, float], object] = lambda _app, _seconds: None,
    ) -> None:
        self._home = home
        self._files = files
        self._deployer = deployer
        self._node = node
        self._preparation = preparation
        self._asked = asked
        self._writing = threading.Lock()

    # ---- changes

    def deploy(self, body: bytes) -> Saved:
        """Save a new app. Errors: those of the text, APP_NAME_MISSING, APP_NOT_SAVED; AppExists."""
        text = text_of(body)
        name = self._preparation.name_of(text)
        with self._writing:
            if self._files.has(name):
                raise AppExists(name)
            self._files.write(name, text)
        self._deployer.look()
        return Saved(name, existed=False)

    def update(self, body: bytes) -> Saved:
        """Save an app, new or not. Errors: those of the text, APP_NAME_MISSING, APP_NOT_SAVED."""
        text = text_of(body)
        name = self._preparation.name_of(text)
        with self._writing:
            existed = self._files.has(name)
            self._files.write(name, text)
        self._deployer.look()
        return Saved(name, existed)

    def plan(self, body: bytes) -> dict[str, Any]:
        """What an update would do, without doing it. Errors: those of the text, APP_NAME_MISSING, those of the store of revisions."""
        text = text_of(body)
        name = self._preparation.name_of(text)
        return described(name, self._node.plan_update(self._preparation.filled(text)))

    def undeploy(self, name: str) -> None:
        """Remove an app. Errors: APP_NOT_SAVED; AppNotThere."""
        with self._writing:
            if not self._files.has(name) or not self._files.remove(name):
                raise AppNotThere
        self._deployer.look()

    def restart(self, name: str) -> None:
        """Have an app stopped and started again, from where it stood. Errors: AppNotThere."""
        if not self._deployer.restart(name):
            raise AppNotThere

    # ---- what is there

    def names(self, active: bool | None = None) -> list[str]:
        """The names of all apps, or of those that are (not) active."""
        return names_of(self.statuses(), active)

    def statuses(self) -> list[AppStatus]:
        """All apps, by name."""
        return self._deployer.all()

    def status(self, name: str) -> AppStatus | None:
        """One app; None where there is none."""
        return self._deployer.status(name)

    def details(self, name: str) -> dict[str, Any] | None:
        """What is known of one app; None where there is none."""
        found = self.status(name)
        return None if found is None else detailed(found)

    def is_active(self, name: str) -> bool:
        """Whether an app of this name runs."""
        found = self._deployer.status(name)
        return found is not None and found.state == ACTIVE

    def ask(self, name: str, query: str) -> Found | None:
        """An on-demand query against an active app. Errors: those of `nadi.pipeline.ondemand.ask`, APP_NOT_RUNNING."""
        return ask_timed(self.live(name), name, query, self._asked)

    def live(self, name: str) -> Live:
        """An active app as it runs. Errors: APP_NOT_RUNNING."""
        return live_in(self._home.state, name)

    # ---- readiness

    @property
    def is_open(self) -> bool:
        """Whether the node takes apps."""
        return self._node.is_open

    def starting(self) -> list[str]:
        """The apps that are on their way."""
        return self._deployer.starting()


def names_of(statuses: Iterable[AppStatus], active: bool | None) -> list[str]:
    """The names of all apps, or of those that are (not) active."""
    return [s.name for s in statuses if active is None or (s.state == ACTIVE) == active]


def live_in(state: Path, name: str) -> Live:
    """An active app of the node on a state folder. Errors: APP_NOT_RUNNING."""
    live = read_live(state / name)
    if live is None:
        raise error("APP_NOT_RUNNING", app=name, folder=state)
    return live


def ask_timed(live: Live, name: str, query: str, asked: Callable[[str, float], object]) -> Found | None:
    """An on-demand query; `asked` hears how long (s) the answer took. Errors: those of `nadi.pipeline.ondemand.ask`."""
    begin = time.monotonic()
    found = ask(live, query, ANSWERS_WITHIN)
    asked(name, time.monotonic() - begin)
    return found


def detailed(found: AppStatus) -> dict[str, Any]:
    """What is known of an app, as JSON. Other than where the reference tells of its status, an app that is on its way is `starting`."""
    p = found.progress
    return {
        "name": found.name,
        "status": STARTS if found.starting else found.state,
        "reason": found.reason,
        "deployed": found.since,
        "batches": p.batches,
        "eventsIn": dict(p.events_in),
        "eventsOut": dict(p.events_out),
        "errors": p.errors,
        "refused": p.refused,
        "setAside": p.set_aside,
        "rate": p.rate,
        "restarts": p.restarts,
        "lastError": p.last_error,
        "stateBytes": p.state_bytes,
    }


def text_of(body: bytes) -> str:
    """A body as text. Errors: APP_NOT_READABLE."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        raise error("APP_NOT_READABLE", reason=str(reason)) from reason


def described(name: str, planned: Updates | None) -> dict[str, Any]:
    """What an update would do to the state of an app, as JSON."""
    if planned is None:
        return {"app": name, "summary": "no state is lost", "elements": [], "inputs": []}
    lost = [*(f.what for f in planned.state.dropped), *(f.name for f in planned.inputs.losing)]
    rows = [dict(zip(("element", "keeps", "fate", "reason"), row, strict=True)) for row in planned.state.table()]
    inputs = [{"input": f.name, "fate": f.fate, "reason": f.reason} for f in planned.inputs.fates]
    summary = f"lost: {', '.join(lost)}" if lost else "no state is lost"
    return {"app": name, "summary": summary, "elements": rows, "inputs": inputs}
