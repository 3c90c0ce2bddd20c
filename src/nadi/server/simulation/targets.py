"""The apps that simulations send events to."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from nadi.errors import NadiError, error
from nadi.io.controllog import Simulated
from nadi.io.folderwatch import Watch
from nadi.pipeline.injection import Injection
from nadi.pipeline.live import Live
from nadi.plan.nodes import Schema
from nadi.server.simulation.events import Event
from nadi.server.simulation.values import converted

WAITING = 10_000
"""Events of a feed, or records of all, that an app may not have taken: behind that feeds wait, and single events are refused."""

ACTIVE, STARTING, AWAY = "active", "starting", "away"


class Target(Protocol):
    """An app that runs: `nadi.pipeline.injection.Injection`."""

    @property
    def streams(self) -> Mapping[str, Schema]: ...

    def problem(self, stream: str) -> str: ...
    def send(self, events: Sequence[Simulated]) -> int: ...
    def is_behind(self, most: int) -> bool: ...
    def taken(self) -> int: ...
    def watch(self, tell: Callable[[], None]) -> Watch | None: ...


class Targets(Protocol):
    """The apps of the worker."""

    def state(self, app: str) -> str:
        """ACTIVE, STARTING (it may be active soon), AWAY."""

    def of(self, app: str) -> Target:
        """An active app. Errors: SIMULATION_INVALID, those of its text."""


class Running(Protocol):
    """What is known of apps: `nadi.server.apps.Apps`."""

    def is_active(self, name: str) -> bool: ...
    def starting(self) -> list[str]: ...
    def live(self, name: str) -> Live: ...


class AppTargets:
    """See `Targets`. An app is looked into again when it runs with another text."""

    def __init__(self, apps: Running) -> None:
        self._apps = apps
        self._known: dict[str, tuple[str, Injection]] = {}
        self._lock = threading.Lock()

    def state(self, app: str) -> str:
        if self._apps.is_active(app):
            return ACTIVE
        return STARTING if app in self._apps.starting() else AWAY

    def of(self, app: str) -> Target:
        if not self._apps.is_active(app):
            raise error("SIMULATION_INVALID", reason=f"there is no active Siddhi App {app[:100]!r}")
        live = self._apps.live(app)
        with self._lock:
            known = self._known.get(app)
        if known is not None and known[0] == live.spec.id:
            return known[1]
        made = Injection(live)
        with self._lock:
            known = self._known.get(app)
            if known is not None and known[0] == live.spec.id:  # somebody else was quicker: all are to share a writer
                return known[1]
            self._known[app] = (live.spec.id, made)
        return made


def schema_of(targets: Targets, app: str, stream: str) -> Schema:
    """The attributes of a stream that events can be sent to. Errors: SIMULATION_INVALID, those of the app's text."""
    target = targets.of(app)
    found = target.streams.get(stream)
    if found is None:
        raise error(
            "SIMULATION_INVALID", reason=f"the Siddhi App '{app}' has no stream {stream[:100]!r} that takes events"
        )
    if problem := target.problem(stream):
        raise error("SIMULATION_INVALID", reason=problem)
    return found


def send_single(targets: Targets, app: str, stream: str, timestamp: int, values: Sequence[object]) -> None:
    """Send an event, its values in their text form; it is durable on return.

    Errors: SIMULATION_INVALID, SIMULATION_BEHIND, DISK_FULL, those of the app's text.
    """
    schema = schema_of(targets, app, stream)
    try:
        fitting = converted(values, schema)
    except ValueError as reason:
        raise error("SIMULATION_INVALID", reason=reason) from reason
    target = targets.of(app)
    if target.is_behind(WAITING):
        raise error("SIMULATION_BEHIND", app=app, most=WAITING)
    target.send(list(_records([Event(timestamp, app, stream, fitting)])))


class AppOutlet:
    """The apps of one feed, with a bound on what they have not taken: see `nadi.server.simulation.feed.Outlet`."""

    def __init__(self, targets: Targets, apps: Sequence[str], tell: Callable[[], None]) -> None:
        self._targets = targets
        self._apps = tuple(dict.fromkeys(apps))
        self._tell = tell
        self._sent: dict[str, deque[tuple[int, int]]] = {app: deque() for app in self._apps}  # last position, events
        self._watches: dict[str, Watch | None] = {}

    def is_full(self) -> bool:
        return any(self._is_full(app) for app in self._apps)

    def send(self, events: Sequence[Event]) -> bool:
        by_app = {app: [event for event in events if event.app == app] for app in self._apps}
        reached = {}
        for app, mine in by_app.items():  # all of them before any is sent something
            try:
                reached[app] = self._targets.of(app), mine
            except NadiError:
                if self._targets.state(app) == STARTING:
                    return False
                raise
        for app, (target, mine) in reached.items():
            if mine:
                position = target.send(list(_records(mine)))
                self._sent[app].append((position, len(mine)))
        return True

    def close(self) -> None:
        for watch in self._watches.values():
            if watch is not None:
                watch.close()
        self._watches.clear()

    def _is_full(self, app: str) -> bool:
        state = self._targets.state(app)
        if state == STARTING:  # it is being updated, say; who rings tells when it is there
            return True
        sent = self._sent[app]
        if sum(count for _, count in sent) < WAITING:
            return False
        target = self._targets.of(app)
        if app not in self._watches:
            self._watches[app] = target.watch(self._tell)
        taken = target.taken()
        while sent and sent[0][0] < taken:
            sent.popleft()
        return sum(count for _, count in sent) >= WAITING


def _records(events: Sequence[Event]) -> Iterator[Simulated]:
    """Events of one app as records: those of a stream that follow each other are one."""
    for stream, some in groupby(events, key=lambda event: event.stream):
        listed = list(some)
        columns = [list(map(_plain, column)) for column in zip(*(event.values for event in listed), strict=True)]
        yield Simulated(stream, [event.timestamp for event in listed], columns)


def _plain(value: Any) -> Any:
    """A value that JSON has: see `nadi.io.controllog.Simulated`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
