"""The apps of a cluster, for those who ask a manager over REST: what is read comes from the database, what is changed goes to the leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from nadi.cluster.contract import Store
from nadi.cluster.overview import AppView, InstanceView, Overview, overview
from nadi.errors import error
from nadi.pipeline.ondemand import Found
from nadi.plan.distribution import Topology
from nadi.server.apps import Saved, names_of, text_of
from nadi.server.deployer import ACTIVE, INACTIVE, AppStatus
from nadi.server.distributed.instancecounts import Counts, InstanceCounts
from nadi.server.distributed.questions import Questions
from nadi.server.distributed.wire import interface


class Changes(Protocol):
    """What a manager does for users, in its loop: `nadi.server.distributed.deployment.Deployment`."""

    def save(self, text: str, fresh: bool) -> Coroutine[Any, Any, Saved]: ...
    def plan(self, text: str) -> Coroutine[Any, Any, dict[str, Any]]: ...
    def topology(self, text: str, generation: str) -> Topology: ...
    def delete(self, name: str) -> Coroutine[Any, Any, None]: ...
    def restart(self, name: str) -> Coroutine[Any, Any, None]: ...
    def move(self, instance: str) -> Coroutine[Any, Any, None]: ...
    def drain(self, worker: str, on: bool) -> Coroutine[Any, Any, bool]: ...


Submit = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Hands work over to the manager's loop."""


CUT = 64
"""So many texts are remembered as they are cut."""


class ClusterApps:
    """Implements `nadi.server.apps.NodeApps`. Errors of all of it: StoreAway, where the database does not answer."""

    def __init__(
        self,
        submit: Submit,
        changes: Changes,
        store: Store,
        leads: Callable[[], bool | None],
        questions: Questions,
        counts: InstanceCounts,
    ) -> None:
        """`leads`: whether this manager does; None where it does not know who does."""
        self._submit = submit
        self._changes = changes
        self._store = store
        self._leads = leads
        self._questions = questions
        self._counts = counts
        self._cut = lru_cache(CUT)(changes.topology)

    def _done(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._submit(work).result()

    # ---- changes

    def deploy(self, body: bytes) -> Saved:
        """Deploy a new app. Errors: those of `Deployment.save`; AppExists."""
        saved: Saved = self._done(self._changes.save(text_of(body), True))
        return saved

    def update(self, body: bytes) -> Saved:
        """Deploy an app, new or not. Errors: those of `Deployment.save`."""
        saved: Saved = self._done(self._changes.save(text_of(body), False))
        return saved

    def plan(self, body: bytes) -> dict[str, Any]:
        """What an update would do, without doing it. Errors: those of `Deployment.plan`."""
        planned: dict[str, Any] = self._done(self._changes.plan(text_of(body)))
        return planned

    def undeploy(self, name: str) -> None:
        """Undeploy an app. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        self._done(self._changes.delete(name))

    def restart(self, name: str) -> None:
        """Have all instances of an app stopped and started again. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        self._done(self._changes.restart(name))

    def move(self, instance: str) -> None:
        """Move an instance off its worker. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        self._done(self._changes.move(instance))

    def drain(self, worker: str, on: bool) -> bool:
        """Use a worker no more, or again; whether there is one. Errors: CLUSTER_UNDECIDED."""
        there: bool = self._done(self._changes.drain(worker, on))
        return there

    # ---- what is there

    def look(self) -> Overview:
        """All of the cluster, at one moment."""
        found: Overview = self._done(overview(self._store))
        return found

    def topology(self, name: str) -> tuple[AppView, Topology] | None:
        """An app, and how it is cut; None where there is none."""
        found = self.look().app(name)
        return None if found is None else (found, self._cut(found.text, found.generation))

    def names(self, active: bool | None = None) -> list[str]:
        """The names of all apps, or of those that are (not) active."""
        return names_of(self.statuses(), active)

    def statuses(self) -> list[AppStatus]:
        """All apps, by name."""
        return [_status(app) for app in self.look().apps]

    def status(self, name: str) -> AppStatus | None:
        """One app; None where there is none."""
        found = self.look().app(name)
        return None if found is None else _status(found)

    def details(self, name: str) -> dict[str, Any] | None:
        """What is known of one app, with its instances, whose workers are asked what they have counted; None where there is none."""
        found = self.topology(name)
        return None if found is None else detailed(*found, self._counts.of(found[0].instances))

    def is_active(self, name: str) -> bool:
        """Whether some of an app runs, so that it may be asked."""
        found = self.look().app(name)
        return found is not None and any(one.runs for one in found.instances)

    def ask(self, name: str, query: str) -> Found | None:
        """An on-demand query against an app. Errors: those of `Questions.ask`, APP_NOT_ON_CLUSTER."""
        found = self.topology(name)
        if found is None:
            raise error("APP_NOT_ON_CLUSTER", app=name)
        return self._questions.ask(*found, query)

    # ---- readiness

    @property
    def is_open(self) -> bool:
        """Whether this manager knows who leads."""
        return self._leads() is not None

    def starting(self) -> list[str]:
        """Nothing is on its way at a manager: apps that wait do not hinder others."""
        return []


def _status(app: AppView) -> AppStatus:
    return AppStatus(app.name, app.text, ACTIVE if app.active else INACTIVE, app.reason)


def detailed(app: AppView, topology: Topology, counts: Mapping[str, Counts]) -> dict[str, Any]:
    """What is known of an app of a cluster, as JSON. An instance that does not run, or whose worker does not answer, has no `counts`, and none are summed.

    Events are summed where they come into the app and where they leave it, not where they pass channels.
    """
    into, out = _passed(app, topology, counts)
    known = [counts[one.instance] for one in app.instances if one.instance in counts]
    return {
        "name": app.name,
        "status": ACTIVE if app.active else INACTIVE,
        "reason": app.reason,
        "version": app.version,
        "instances": [
            {**contracted(one), "counts": msgspec.to_builtins(counts.get(one.instance))} for one in app.instances
        ],
        "eventsIn": dict(into),
        "eventsOut": dict(out),
        "errors": sum(one.errors for one in known),
        "refused": sum(one.refused for one in known),
        "setAside": sum(one.setAside for one in known),
    }


def _passed(app: AppView, topology: Topology, counts: Mapping[str, Counts]) -> tuple[Counter[str], Counter[str]]:
    """How many events have come into an app from outside, and have left it, by stream."""
    groups = {group.name: group for group in topology.groups}
    into: Counter[str] = Counter()
    out: Counter[str] = Counter()
    for one in app.instances:
        found, group = counts.get(one.instance), groups.get(one.group)
        if found is None or group is None:
            continue
        for i in group.inputs:
            if i.channel is None or i.channel.outside:
                into[i.name] += found.eventsIn.get(i.read_as or i.name, 0)
        for o in group.outputs:
            if o.user_given:
                out[o.name] += found.eventsOut.get(o.name, 0)
    return +into, +out


def contracted(one: InstanceView) -> dict[str, Any]:
    """An instance with the keys of the contract."""
    where = {"host": None, "port": None} if not one.address else interface(one.address)
    return {
        "parentAppName": one.app,
        "groupName": one.group,
        "appName": one.instance,
        "siddhiApp": one.text,
        **where,
        "id": one.worker or None,
        "state": one.state.upper(),
        "lastPingTimestamp": one.heartbeat or 0,
        "failedPingAttempts": 0,
        "appStatus": "Active" if one.runs else "waiting",
        "epoch": one.epoch,
    }
