"""The apps of a worker, for those who ask over REST: files on one side, the node on the other, the deployer between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from nadi.errors import error
from nadi.pipeline.live import Live, read_live
from nadi.pipeline.ondemand import Found, ask
from nadi.pipeline.revision.restore import Planned as Updates
from nadi.pipeline.run import Node
from nadi.server.appfiles import AppFiles
from nadi.server.deployer import ACTIVE, AppStatus, Deployer
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

    def deploy(self, body: bytes) -> str:
        """Save a new app; -> its name. Errors: those of the text, APP_NAME_MISSING, APP_NOT_SAVED; AppExists."""
        text = _text(body)
        name = self._preparation.name_of(text)
        with self._writing:
            if self._files.has(name):
                raise AppExists(name)
            self._files.write(name, text)
        self._deployer.look()
        return name

    def update(self, body: bytes) -> tuple[str, bool]:
        """Save an app, new or not; -> its name, and whether there was one. Errors: those of the text, APP_NAME_MISSING, APP_NOT_SAVED."""
        text = _text(body)
        name = self._preparation.name_of(text)
        with self._writing:
            existed = self._files.has(name)
            self._files.write(name, text)
        self._deployer.look()
        return name, existed

    def plan(self, body: bytes) -> dict[str, Any]:
        """What an update would do, without doing it. Errors: those of the text, APP_NAME_MISSING, those of the store of revisions."""
        text = _text(body)
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
        return [s.name for s in self._deployer.all() if active is None or (s.state == ACTIVE) == active]

    def statuses(self) -> list[AppStatus]:
        """All apps, by name."""
        return self._deployer.all()

    def status(self, name: str) -> AppStatus | None:
        """One app; None where there is none."""
        return self._deployer.status(name)

    def details(self, name: str) -> dict[str, Any] | None:
        """What is known of one app; None where there is none."""
        found = self.status(name)
        if found is None:
            return None
        p = found.progress
        return {
            "name": name,
            "status": found.state,
            "reason": found.reason,
            "deployed": found.since,
            "batches": p.batches,
            "eventsIn": dict(p.events_in),
            "eventsOut": dict(p.events_out),
            "errors": p.errors,
            "rate": p.rate,
            "restarts": p.restarts,
            "lastError": p.last_error,
            "stateBytes": p.state_bytes,
        }

    def is_active(self, name: str) -> bool:
        """Whether an app of this name runs."""
        found = self._deployer.status(name)
        return found is not None and found.state == ACTIVE

    def ask(self, name: str, query: str) -> Found | None:
        """An on-demand query against an active app. Errors: those of `nadi.pipeline.ondemand.ask`, APP_NOT_RUNNING."""
        live, begin = self.live(name), time.monotonic()
        found = ask(live, query, ANSWERS_WITHIN)
        self._asked(name, time.monotonic() - begin)
        return found

    def live(self, name: str) -> Live:
        """An active app as it runs. Errors: APP_NOT_RUNNING."""
        live = read_live(self._home.state / name)
        if live is None:
            raise error("APP_NOT_RUNNING", app=name, folder=self._home.state)
        return live

    # ---- readiness

    @property
    def is_open(self) -> bool:
        """Whether the node takes apps."""
        return self._node.is_open

    def starting(self) -> list[str]:
        """The apps that are on their way."""
        return self._deployer.starting()


def _text(body: bytes) -> str:
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
