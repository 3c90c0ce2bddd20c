"""Where names and passwords are tried: by the guard, for each request with them, and by the login API. Wrong ones are counted, and all are noted."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nadi.errors import NadiError
from nadi.server.security.attempts import Attempts
from nadi.server.security.audit import Origin, note

BASIC = "basic"
NOTED_FOR = 300.0  # seconds in which the requests of a user from one address are one login in the log
NOTED = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TooMany:
    """Too many wrong passwords, for this user or from this address: the next may be tried after some seconds."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Busy:
    """Too many wait for a password to be checked; come back after some seconds."""

    seconds: int = 2


class Entrance:
    """See the module's text."""

    def __init__(self, attempts: Attempts, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts = attempts
        self._clock = clock
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def enter(
        self,
        origin: Origin,
        grant: str,
        check: Callable[[], T | None],
        remembered: Callable[[], T | None] = lambda: None,
    ) -> T | TooMany | Busy | None:
        """What `check` finds for the user of `origin`; None where name or password are wrong. What is `remembered`, which takes no time, waits for nobody.
        Errors: those of `check`."""
        if remembered() is not None:
            return self._enter(origin, grant, remembered)
        queue, is_known = self._attempts.queue, self._attempts.is_known(origin.user, origin.address)
        if not queue.take(origin.address, is_known):
            note("login", origin, "busy", grant=grant)
            return Busy()
        try:
            return await asyncio.get_running_loop().run_in_executor(queue.threads, self._enter, origin, grant, check)
        finally:
            queue.leave(origin.address, is_known)

    def _enter(self, origin: Origin, grant: str, check: Callable[[], T | None]) -> T | TooMany | None:
        # looked at here and not before: those who wait for a thread would all see the same count
        attempt = self._attempts.begin(origin.user, origin.address)
        if attempt.wait > 0:
            note("login", origin, "too many", grant=grant)
            return TooMany(int(attempt.wait) + 1)
        try:
            found = check()
        except NadiError as reason:
            self._attempts.leave(attempt)
            note("login", origin, "failed", grant=grant, reason=reason.condition)
            raise
        self._attempts.end(attempt, found is not None)
        if found is None:
            note("login", origin, "refused", grant=grant)
        elif grant != BASIC or self._is_new(origin):
            note("login", origin, "ok", grant=grant)
        return found

    def _is_new(self, origin: Origin) -> bool:
        """Whether a user has not come from this address in the last minutes."""
        now, key = self._clock(), (origin.user, origin.address)
        before = self._noted.pop(key, None)
        if before is not None and now - before < NOTED_FOR:
            self._noted[key] = before
            return False
        self._noted[key] = now
        while len(self._noted) > NOTED:
            self._noted.popitem(last=False)
        return True
