"""Tells those who wait for it when a cluster has become another one: for pages that people look at.

The leader rings for each decision; managers that do not lead look into the database once a second. Nobody looks while nobody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace

from nadi.cluster.contract import Clock, Store, StoreAway
from nadi.cluster.overview import Overview, history, overview
from nadi.cluster.rows import Event
from nadi.cluster.signals import Bell

LOOK = 1_000  # ms between two looks for which nobody rang
PAUSE = 250  # ms between two looks in any case: a decision is followed by others
PATIENCE = 20.0  # seconds that one waits
EVENTS = 100  # the last ones


@dataclass(frozen=True, slots=True)
class Sight:
    """A cluster at one moment. `mark` tells it from every other one that this manager has seen."""

    mark: str
    cluster: Overview
    events: tuple[Event, ...]


class ClusterWatch:
    """See the module's text. Used in one event loop, but for `ring`; `name` begins the marks."""

    def __init__(self, store: Store, clock: Clock, name: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._bell = Bell(clock)
        self._number = 0
        self._last: Sight | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def ring(self) -> None:
        """Something was decided."""
        self._bell.ring()

    async def sight(self) -> Sight:
        """The cluster now. Errors: StoreAway."""
        found = await overview(self._store)
        if self._last is None or not _is_like(found, self._last.cluster):
            self._number += 1
            events = tuple(await history(self._store, EVENTS))
            self._last = Sight(f"{self._name}-{self._number}", found, events)
        return self._last

    async def after(self, mark: str, patience: float = PATIENCE) -> Sight | None:
        """The cluster, as soon as it is another one than `mark`; None where it has stayed so for `patience` seconds, or the watch is closed.

        Errors: StoreAway, where the database does not answer at first.
        """
        found = await self.sight()
        if found.mark != mark:
            return found
        if self._closed:
            return None
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(patience):
                await changed
        except TimeoutError:
            return None
        finally:
            self._waiting.discard(changed)
        return None if self._closed else self._last

    async def _look(self) -> None:
        """Look until nobody waits."""
        while self._waiting:
            await self._bell.heard(LOOK)
            before = self._last
            with contextlib.suppress(StoreAway):  # the next look says more
                if await self.sight() is not before:
                    self._wake()
            await self._clock.sleep(PAUSE)

    def _wake(self) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        self._waiting.clear()

    def close(self) -> None:
        """Let those go who wait."""
        self._closed = True
        self._wake()


def _is_like(one: Overview, other: Overview) -> bool:
    """Whether two overviews show people the same: those of two moments in which nothing has happened differ in times of heartbeats of managers."""
    return _timeless(one) == _timeless(other)


def _timeless(found: Overview) -> Overview:
    return replace(found, now=0, managers=tuple(replace(manager, heartbeat=0) for manager in found.managers))
