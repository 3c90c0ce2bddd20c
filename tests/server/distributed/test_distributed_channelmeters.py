"""What a manager tells Prometheus of the channels of all apps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from nadi.cluster.contract import StoreAway
from nadi.errors import error
from nadi.metrics.registry import Registry
from nadi.metrics.reporters.exposition import exposition
from nadi.server.distributed import channelmeters
from nadi.server.distributed.channelmeters import ChannelMeters

GOOD = {
    "channel": "A_Good",
    "away": "",
    "bytes": 18_422,
    "messages": 97,
    "readers": [
        {"instance": "A-sums-1", "lagChunks": 3, "lagMs": 1_500},
        {"instance": "A-sums-2", "lagChunks": 0, "lagMs": None},
    ],
}
AWAY = {
    "channel": "A_Peak",
    "away": "no answer",
    "bytes": None,
    "messages": None,
    "readers": [{"instance": "A-out-1", "lagChunks": 0, "lagMs": None}],
}


class Apps:
    """A database with the names of apps, and what their channels say."""

    def __init__(self, **channels: list[dict[str, Any]] | Exception) -> None:
        self.channels = channels
        self.is_away = False

    async def read(self, *_kinds: type) -> Any:
        if self.is_away:
            raise StoreAway("away")
        return SimpleNamespace(all=lambda _kind: [SimpleNamespace(name=name) for name in self.channels])

    async def of(self, app: str) -> list[dict[str, Any]]:
        found = self.channels[app]
        if isinstance(found, Exception):
            raise found
        return found


def at_once(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(asyncio.run(work))
    return done


def told(apps: Apps, registry: Registry, leads: bool = True) -> list[str]:
    ChannelMeters(at_once, apps, apps.of, lambda: leads)(registry, 0.0)  # type: ignore[arg-type]
    text = exposition(registry.snapshot(0, 0.0, lambda _name: True)).decode()
    return [line for line in text.splitlines() if line.startswith("nadi_channel")]


def test_the_manager_that_leads_tells_what_channels_hold_and_who_is_behind() -> None:
    apps = Apps(A=[GOOD, AWAY])
    assert sorted(told(apps, Registry())) == [
        'nadi_channel_bytes{app="A",channel="A_Good"} 18422.0',
        'nadi_channel_lag_chunks{app="A",channel="A_Good",instance="A-sums-1"} 3.0',
        'nadi_channel_lag_chunks{app="A",channel="A_Good",instance="A-sums-2"} 0.0',
        'nadi_channel_lag_seconds{app="A",channel="A_Good",instance="A-sums-1"} 1.5',
        'nadi_channel_messages{app="A",channel="A_Good"} 97.0',
    ]
    assert told(apps, Registry(), leads=False) == []


def test_what_is_gone_or_cannot_be_told_is_not_told() -> None:
    registry, apps = Registry(), Apps(A=[GOOD], B=error("CONNECTION_UNAVAILABLE", connector="x", reason="y"))
    assert all('app="A"' in line for line in told(apps, registry))
    del apps.channels["A"]
    assert told(apps, registry) == []
    apps.channels["A"] = [GOOD]
    assert told(apps, registry)
    apps.is_away = True
    assert told(apps, registry) == []


def test_servers_that_do_not_answer_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channelmeters, "WITHIN", 0.01)
    never: Future[Any] = Future()

    def submit(work: Coroutine[Any, Any, Any]) -> Future[Any]:
        work.close()
        return never

    registry, apps = Registry(), Apps(A=[GOOD])
    ChannelMeters(submit, apps, apps.of, lambda: True)(registry, 0.0)  # type: ignore[arg-type]
    assert never.cancelled()
    assert exposition(registry.snapshot(0, 0.0, lambda _name: True)) == b""
