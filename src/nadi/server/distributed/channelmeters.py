"""Meters of channels, for Prometheus and the reporters of the manager that leads: how much each holds, and how far its readers are behind.

    org.wso2.siddhi.SiddhiApps.<app>.Siddhi.Channels.<channel>.{bytes,messages}
    org.wso2.siddhi.SiddhiApps.<app>.Siddhi.Channels.<channel>.<instance>.lag.{chunks,ms}

Channels are asked when somebody wants to know, as for `GET /managers/siddhi-apps/{app}/channels`. One whose servers do not answer has no meters then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from nadi.cluster.contract import Store, StoreAway
from nadi.cluster.rows import App
from nadi.metrics.names import CHANNELS, MetricName
from nadi.metrics.registry import Registry

WITHIN = 10.0  # seconds in which the servers of all channels are to have answered

ReportOf = Callable[[str], Coroutine[Any, Any, list[dict[str, Any]]]]
"""The channels of an app, as `ChannelReport.of` has them."""


class ChannelMeters:
    """Feeds the meters with what is so now. From any thread but that of the manager's loop, which `submit` leads to; `leads` is whether this manager does."""

    def __init__(
        self,
        submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]],
        store: Store,
        report: ReportOf,
        leads: Callable[[], bool],
    ) -> None:
        self._submit = submit
        self._store = store
        self._report = report
        self._leads = leads

    def __call__(self, registry: Registry, _now: float) -> None:
        """Where another manager leads, that one tells: their sum would be too much."""
        registry.drop(lambda name: name.type == CHANNELS)
        if not self._leads():
            return
        asked = self._submit(self._all())
        try:
            found: Mapping[str, list[dict[str, Any]]] = asked.result(WITHIN)
        except (TimeoutError, CancelledError):
            asked.cancel()
            return
        for app, channels in found.items():
            for channel in channels:
                if not channel["away"]:  # nobody knows then who is behind
                    _note(registry, app, channel)

    async def _all(self) -> dict[str, list[dict[str, Any]]]:
        """The channels of all apps; those of an app of which that cannot be told just now are left out."""
        try:
            names = [app.name for app in (await self._store.read(App)).all(App)]
        except StoreAway:
            return {}
        told = await asyncio.gather(*(self._report(name) for name in names), return_exceptions=True)
        return {name: one for name, one in zip(names, told, strict=True) if not isinstance(one, BaseException)}


def _note(registry: Registry, app: str, channel: Mapping[str, Any]) -> None:
    def gauge(metric: str, value: int | None, instance: str = "") -> None:
        if value is not None:
            registry.gauge(MetricName(app, CHANNELS, channel["channel"], instance, metric), value)

    gauge("bytes", channel["bytes"])
    gauge("messages", channel["messages"])
    for reader in channel["readers"]:
        gauge("lag.chunks", reader["lagChunks"], reader["instance"])
        gauge("lag.ms", reader["lagMs"], reader["instance"])
