"""What versions of apps have left is removed, once nobody needs it: their channels, and what their instances kept where all workers reach it.

A later version needs it until each of its instances has committed what it began with. Whichever manager leads does it, as rows say what is left; each step may
be done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from nadi.cluster.contract import Clock, Seen, Store, StoreAway
from nadi.cluster.manager import Manager
from nadi.cluster.messages import Cleaned
from nadi.cluster.rows import App, Part, Placement, Stale
from nadi.errors import NadiError
from nadi.server.distributed.leftovers import Leftovers

LOOK = 3_000  # ms between two looks

log = structlog.get_logger("nadi.server")


class OldVersions:
    """See the module's text. `remove` removes what a version has left, `names` are the homes of its instances; both take a while."""

    def __init__(
        self,
        manager: Manager,
        store: Store,
        clock: Clock,
        leftovers: Leftovers,
        names: Callable[[Stale], frozenset[str]],
        remove: Callable[[Stale], None],
    ) -> None:
        self._manager = manager
        self._store = store
        self._clock = clock
        self._leftovers = leftovers
        self._names = names
        self._remove = remove

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self._clock.sleep(LOOK)
            if self._manager.term is None:
                continue
            try:
                seen = await self._store.read(Stale, App, Part, Placement)
                for row in seen.all(Stale):
                    await self._clean(seen, row)
            except (StoreAway, NadiError) as reason:
                log.warning("what a version of an app has left stays for now", reason=str(reason))

    async def _clean(self, seen: Seen, row: Stale) -> None:
        homes = await asyncio.to_thread(self._names, row)
        if is_needed(seen, row, homes) or not await asyncio.to_thread(self._have_begun, seen, row.app):
            return
        await asyncio.to_thread(self._remove, row)
        await self._manager.answer(Cleaned(row.name))
        log.info("what a version of an app has left is removed", app=row.app, version=row.version)

    def _have_begun(self, seen: Seen, app: str) -> bool:
        """Whether all instances of an app have committed what they began with."""
        homes = [part.home or part.instance for part in seen.all(Part) if part.app == app]
        return all(self._leftovers.has_committed(home) for home in homes)


def is_needed(seen: Seen, row: Stale, homes: frozenset[str]) -> bool:
    """Whether a version is still the app, or of an app that was undeployed something may run yet."""
    parts = [part for part in seen.all(Part) if part.app == row.app]
    if any((part.home or part.instance) in homes for part in parts):
        return True
    instances = {home.partition("~")[0] for home in homes}
    return seen.get(App, row.app) is None and any(placed.instance in instances for placed in seen.all(Placement))
