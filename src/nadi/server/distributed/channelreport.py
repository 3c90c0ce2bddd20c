"""Asks the servers and databases of a cluster how it is with the channels of an app (`nadi.server.distributed.channelstates`); what was found is told for a
few seconds, however many ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nadi.channels import administration
from nadi.channels.options import Channel
from nadi.cluster.appstates import parts_of, restorable
from nadi.cluster.contract import Store
from nadi.cluster.rows import App, Part, Revision
from nadi.errors import NadiError
from nadi.server.apps import AppNotThere
from nadi.server.distributed.channelends import EndsOf
from nadi.server.distributed.channelstates import Told, shown
from nadi.server.distributed.retention import Stand, stand_of

FRESH = 3.0  # seconds for which what was found is told


@dataclass(slots=True)
class _Asked:
    at: float
    found: asyncio.Task[list[dict[str, Any]]]


class ChannelReport:
    """Used in the loop of its manager."""

    def __init__(
        self, store: Store, ends: EndsOf, cuts: str, bound: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`cuts` is the URL of the database of cut logs, "" where it is not known here: then nobody knows where readers are."""
        self._store = store
        self._ends = ends
        self._cuts = cuts
        self._bound = bound
        self._monotonic = monotonic
        self._asked: dict[str, _Asked] = {}

    async def of(self, app: str) -> list[dict[str, Any]]:
        """The channels of an app, by name. Errors: StoreAway, CONNECTION_UNAVAILABLE, those of the texts; AppNotThere."""
        now = self._monotonic()
        self._asked = {name: one for name, one in self._asked.items() if now - one.at < FRESH}
        known = self._asked.get(app)
        if known is None or (known.found.done() and not known.found.cancelled() and known.found.exception()):
            known = self._asked[app] = _Asked(now, asyncio.get_running_loop().create_task(self._look(app)))
        return await asyncio.shield(known.found)

    async def _look(self, app: str) -> list[dict[str, Any]]:
        seen = await self._store.read(App, Part, Revision)
        if seen.get(App, app) is None:
            raise AppNotThere
        parts = [part for part in seen.all(Part) if part.app == app]
        return await asyncio.to_thread(self._told, app, parts, seen.all(Revision))

    def _told(self, app: str, parts: list[Part], rows: list[Revision]) -> list[dict[str, Any]]:
        stand = stand_of(self._cuts, parts) if self._cuts else Stand({}, {})
        ends = [self._ends.of(part).under(stand.inputs.get(part.instance)) for part in parts]
        revisions = {row.name: parts_of(row) for row in restorable(rows, app, parts)}
        channels = {name: channel for one in ends for name, channel in one.channels.items()}
        return [
            shown(channel, self._bound, _say(channel), ends, stand.cuts, revisions)
            for _name, channel in sorted(channels.items())
        ]


def _say(channel: Channel) -> Told:
    """What a channel says of itself; one that is away says why."""
    try:
        return Told(administration.size(channel), administration.progress(channel))
    except NadiError as reason:
        return Told(away=reason.diagnostic.message)
