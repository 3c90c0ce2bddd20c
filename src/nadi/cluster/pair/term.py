"""One time of being active: the right under one token, the gate, the partner. It ends once, and nothing of it goes on then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nadi.cluster.contract import Clock
from nadi.cluster.pair.companions import Companions
from nadi.cluster.pair.gate import TermGate
from nadi.cluster.pair.insync import Superseded
from nadi.cluster.pair.right import Right
from nadi.cluster.pair.settings import PairSettings
from nadi.cluster.rows import InSync
from nadi.eventsync.contract import PartnerRefuses


class Term:
    """`over` is called once, when the right has ended, or is about to."""

    def __init__(
        self, right: Right, row: InSync, settings: PairSettings, clock: Clock, over: Callable[[Term, str], None], changed: Callable[[], None]
    ) -> None:  # fmt: skip
        self.changed = changed
        self.right = right
        self.row = row  # the in-sync set as it began
        self._settings = settings
        self._clock = clock
        self._over = over
        self.ended = ""  # why
        self.waits = ""  # what the in-sync set waits for
        self.higher = 0  # a token of which somebody has told
        self.gate = TermGate(self._valid)
        self.companions: Companions | None = None
        self.goes = False  # it ends also without a partner
        self.leaving: asyncio.Future[None] | None = None  # somebody wants it to end in order
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def token(self) -> int:
        return self.right.token

    def _valid(self) -> bool:
        if self.right.valid(self._clock.now()):
            return True
        self.end("neither the database nor the partner has renewed its right")
        return False

    def waits_for(self, what: str) -> None:
        self.waits = what
        self.changed()

    def begin(self, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        """Watch the right."""
        self._spawn = spawn
        self._tasks.append(spawn(self._watched()))

    def care(self, companions: Companions) -> None:
        """From now on the partner is cared for: what this node has is whole."""
        self.companions = companions
        if not self.ended:
            self._tasks.append(self._spawn(self._cared(companions)))

    async def _watched(self) -> None:
        """End before the right does, so that what runs has stopped then."""
        while True:
            left = self.right.until - self._settings.stops_before - self._clock.now()
            if left <= 0:
                self.end("neither the database nor the partner has renewed its right")
                return
            await self._clock.sleep(left)

    async def _cared(self, companions: Companions) -> None:
        try:
            await companions.run()
        except (Superseded, PartnerRefuses) as reason:
            self.higher = reason.token
            self.end(f"another node is active under the token {reason.token}")

    def release(self) -> None:
        """Leave the partner's session alone from now on: the one who ends the term uses it."""
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    def end(self, reason: str) -> None:
        if self.ended:
            return
        self.ended = reason
        self.gate.end(reason)
        self.release()
        self._over(self, reason)
