"""What the instances of an app have counted: a manager asks their workers, where they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

import msgspec

from nadi.cluster.contract import NoAnswer
from nadi.cluster.overview import InstanceView
from nadi.server.distributed.wire import METERS_WITHIN, Network


class Counts(msgspec.Struct, frozen=True):
    """What a worker has counted of an instance since it came to it, as its `details` has it: events by stream, rows of the error store, messages that
    sources refused, messages that are set aside, and restarts."""

    eventsIn: dict[str, int] = {}  # noqa: N815 - the names of the REST API
    eventsOut: dict[str, int] = {}  # noqa: N815
    errors: int = 0
    refused: int = 0
    setAside: int = 0  # noqa: N815
    restarts: int = 0
    lastError: str | None = None  # noqa: N815


_COUNTS = msgspec.json.Decoder(Counts)


class InstanceCounts:
    """See the module's text. From any thread but that of the manager's loop."""

    def __init__(self, submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]], network: Network) -> None:
        self._submit = submit
        self._network = network

    def of(self, instances: Iterable[InstanceView]) -> Mapping[str, Counts]:
        """By instance, of those that run; those whose worker does not answer are left out."""
        found: dict[str, Counts] = self._submit(self._asked([one for one in instances if one.runs])).result()
        return found

    async def _asked(self, running: list[InstanceView]) -> dict[str, Counts]:
        told = await asyncio.gather(*map(self._one, running))
        return {one.instance: counts for one, counts in zip(running, told) if counts is not None}

    async def _one(self, instance: InstanceView) -> Counts | None:
        path = f"/siddhi-apps/{quote(instance.instance, safe='')}/details"
        try:
            answer = await self._network.request(instance.address, "GET", path, b"", METERS_WITHIN)
            return _COUNTS.decode(answer.body or b"{}") if answer.status == 200 else None
        except (NoAnswer, msgspec.MsgspecError):
            return None
