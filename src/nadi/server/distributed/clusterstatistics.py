"""How the apps of a cluster stand, and how much is measured of them: their workers are asked, where their instances run.

An instance that starts anew, on its worker or another one, is measured as the text of its app says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

import msgspec

from nadi.cluster.contract import NoAnswer
from nadi.cluster.overview import InstanceView, Overview
from nadi.errors import error
from nadi.metrics.levels import Level, read_level
from nadi.server.distributed.wire import METERS_WITHIN, Network
from nadi.server.statistics import Standing


class Row(msgspec.Struct):
    """What a worker says of an instance."""

    appName: str  # noqa: N815 - the contract's name
    isStatEnabled: str  # noqa: N815
    age: int = 0

    @property
    def standing(self) -> Standing:
        return Standing(read_level(self.isStatEnabled) or Level.OFF, self.age)


_ROWS = msgspec.json.Decoder(list[Row])


class ClusterStatistics:
    """See the module's text. From any thread but that of the manager's loop. Errors of all of it: StoreAway."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]],
        network: Network,
        look: Callable[[], Overview],
    ) -> None:
        self._submit = submit
        self._network = network
        self._look = look

    def standings_of(self, names: Collection[str]) -> Mapping[str, Standing]:
        """Of each app the highest level of its instances, and the age of the one that has run longest. Of workers that do not answer nothing is known."""
        running = [one for app in self._look().apps if app.name in names for one in app.instances if one.runs]
        told = self._submit(self._told(dict.fromkeys(one.address for one in running))).result()
        found = dict.fromkeys(names, Standing(age=0))
        for one in running:
            found[one.app] = _together(found[one.app], told.get(one.instance, Standing()))
        return found

    async def _told(self, addresses: Iterable[str]) -> dict[str, Standing]:
        asked = [self._network.request(one, "GET", "/siddhi-apps/statistics", b"", METERS_WITHIN) for one in addresses]
        found: dict[str, Standing] = {}
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, NoAnswer):
                continue
            if isinstance(answer, BaseException):
                raise answer
            if answer.status == 200:  # 404: it has no instance any more
                rows = _ROWS.decode(answer.body or b"[]")
                found.update({row.appName: row.standing for row in rows})
        return found

    def switch(self, name: str, level: Level) -> bool:
        """Give the instances of an app a level; whether one of them had another one. Errors: CLUSTER_UNDECIDED, where a worker did not take it."""
        found = self._look().app(name)
        running = [one for one in found.instances if one.runs] if found is not None else []
        changed: list[bool] = self._submit(self._switched(running, level)).result()
        return any(changed)

    async def _switched(self, running: Collection[InstanceView], level: Level) -> list[bool]:
        return await asyncio.gather(*(self._one(instance, level) for instance in running))

    async def _one(self, instance: InstanceView, level: Level) -> bool:
        path = f"/siddhi-apps/{quote(instance.instance, safe='')}/statistics"
        body = msgspec.json.encode({"enabledStatLevel": level.name})
        try:
            answer = await self._network.request(instance.address, "PUT", path, body, METERS_WITHIN)
        except NoAnswer as reason:
            raise error("CLUSTER_UNDECIDED", reason=f"{instance.instance}: {reason}") from reason
        if answer.status != 200:
            raise error("CLUSTER_UNDECIDED", reason=f"{instance.instance} is on its way to another worker")
        return b"Successfully" in (answer.body or b"")


def _together(one: Standing, other: Standing) -> Standing:
    return Standing(max(one.level, other.level), max(one.age or 0, other.age or 0))
