"""What a node of a pair does in each of its roles.

active     apps run, with the token of the lease as their owner's epoch; on-demand queries have their listener
passive    apps are checked and compiled; nothing of them runs, and nothing listens for them
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from nadi.metrics import AppProgress
from nadi.server.apps import Apps
from nadi.server.deployer import Deployer
from nadi.server.pair.ownedhost import OwnedHost
from nadi.server.pair.passiveapps import PassiveApps
from nadi.server.revisions import AppRevisions

BEGINS_WITHIN = 300.0  # seconds that a take-over waits for apps that take long to start: it goes on behind them

log = structlog.get_logger("nadi.server")


class Server(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ActiveRole:
    """What there is while the node is active."""

    deployer: Deployer
    host: OwnedHost
    apps: Apps
    revisions: AppRevisions
    held: contextlib.ExitStack


class Makes(Protocol):
    """Makes what a role needs; nothing of it has begun."""

    def active(self, token: int) -> ActiveRole: ...
    def passive(self) -> PassiveApps: ...
    def queries(self) -> Iterator[Server]:
        """The servers of on-demand queries."""
        ...


class Watch:
    """Where the time of a take-over goes: `laps` has what each part took, in ms."""

    def __init__(self) -> None:
        self._began = self._at = time.monotonic()
        self.laps: dict[str, int] = {}

    def lap(self, name: str) -> None:
        """A part has ended."""
        now = time.monotonic()
        self.laps[f"{name}_ms"] = round((now - self._at) * 1000)
        self._at = now

    @property
    def total(self) -> int:
        """ms since it began."""
        return round((time.monotonic() - self._began) * 1000)


class FirstBatches:
    """Logs when each app has its first batch after a take-over; progress comes twice a second."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._found: dict[str, int] = {}

    def note(self, progress: AppProgress) -> None:
        before = self._found.setdefault(progress.app, progress.batches)
        if 0 <= before < progress.batches:
            self._found[progress.app] = -1
            log.info("the first batch of an app since the node took over", app=progress.app, after_ms=self._watch.total)


class Roles:
    """Implements `nadi.eventsync.contract.Duties`. `takes_over` applies what event sync holds back. A node begins as the passive one (`begin`)."""

    def __init__(
        self,
        makes: Makes,
        takes_over: Callable[[], Awaitable[None]],
        changed: Callable[[], object],
        waits: Callable[[], str],
    ) -> None:
        """`changed` is called when apps have come or gone with the role; from any thread. `waits` says what apps that are added would wait for, "" where for
        nothing."""
        self._makes = makes
        self._takes_over = takes_over
        self._changed = changed
        self._waits = waits
        self._turn = threading.Lock()
        self._active: ActiveRole | None = None
        self._passive: PassiveApps | None = None
        self._first = FirstBatches(Watch())
        self._hurries = False

    @property
    def active(self) -> ActiveRole | None:
        """None while the node is passive."""
        return self._active

    @property
    def passive(self) -> PassiveApps | None:
        """None while the node is active, or has ended."""
        return self._passive

    def begin(self) -> None:
        """Be the passive node."""
        with self._turn:
            self._passive = self._makes.passive()
            self._passive.start()

    def close(self) -> None:
        """The node has ended, and with it all that ran on it."""
        with self._turn:
            passive, self._passive = self._passive, None
            active, self._active = self._active, None
        if passive is not None:
            passive.close()
        if active is not None:
            active.held.close()
            active.deployer.close()

    def wake(self) -> None:
        """Files of apps may have changed. From any thread; returns at once."""
        passive = self._passive
        if passive is not None:
            passive.wake()

    def note(self, progress: AppProgress) -> None:
        """What the node tells of an app."""
        active = self._active
        if active is not None:
            active.deployer.note(progress)
            self._first.note(progress)

    def waits(self) -> str:
        passive = self._passive
        if passive is None:
            return "its apps end"
        return self._waits() or passive.waits()

    async def activate(self, token: int) -> None:
        watch, self._hurries = Watch(), False
        await self._takes_over()
        watch.lap("held")
        await asyncio.to_thread(self._begin, token, watch)

    def hurry(self) -> None:
        self._hurries = True
        active = self._active
        if active is not None:
            active.deployer.hurry()

    async def deactivate(self, gentle: bool) -> None:
        await asyncio.to_thread(self._end, gentle)

    def _begin(self, token: int, watch: Watch) -> None:
        with self._turn:
            passive, self._passive = self._passive, None
            if passive is not None:
                passive.close()
            active = self._makes.active(token)
            self._active, self._first = active, FirstBatches(watch)
        watch.lap("prepared")
        active.deployer.start(active.host)
        active.deployer.look()
        if self._hurries:  # it was said before there was anybody to hear it
            active.deployer.hurry()
        until = time.monotonic() + BEGINS_WITHIN
        for status in active.deployer.all():
            active.deployer.settled(status.name, max(0.0, until - time.monotonic()))
        watch.lap("apps")
        for server in self._makes.queries():
            server.start()
            active.held.callback(server.stop)
        watch.lap("queries")
        log.info("the node is active", token=token, **watch.laps)
        self._changed()

    def _end(self, gentle: bool) -> None:
        active = self._active
        if active is not None:
            active.held.close()
            active.host.end(gentle)
            active.deployer.close()
            active.host.end(gentle)  # what was on its way when it began to end
        with self._turn:
            self._active = None
            self._passive = self._makes.passive()
            self._passive.start()
        log.info("the node is passive")
        self._changed()
