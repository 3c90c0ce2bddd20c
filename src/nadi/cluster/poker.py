"""Asking workers for a heartbeat now, so that they hear of a decision at once. Nobody waits for it, and nothing depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from nadi.cluster.contract import Network, NoAnswer, Spawn
from nadi.cluster.messages import Poke


class Poker:
    """Sends pokes from a leader, each in a task of its own. A worker that is being poked is not poked beside that, but once more when it has answered."""

    def __init__(self, network: Network, leader: str, token: int, spawn: Spawn, within: int = 1_000) -> None:
        self._network = network
        self._poke = Poke(leader, token)
        self._spawn = spawn
        self._within = within
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    def poke(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            if address in self._tasks:
                self._again.add(address)
            else:
                self._tasks[address] = self._spawn(self._ask(address))

    async def _ask(self, address: str) -> None:
        try:
            with suppress(NoAnswer):  # its next heartbeat comes anyway
                await self._network.ask(address, self._poke, self._within)
        finally:
            self._tasks.pop(address, None)
        if address in self._again:
            self._again.discard(address)
            self.poke((address,))

    def close(self) -> None:
        self._again.clear()
        for task in list(self._tasks.values()):
            task.cancel()
