"""Steps of durable writing that fail when a test says so."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from nadi.io import durablefiles

STEPS = ("write", "sync", "rename", "truncate", "remove")


class Crash(BaseException):
    """The process ends here."""


class Saboteur:
    """Lets the n-th step fail: before it, in the middle of it (a write), after it, or with a full disk."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, how: str) -> None:
        self.count = 0
        self.at, self.how = at, how
        for name in STEPS:
            real = (
                getattr(durablefiles, name) if name != "sync" else lambda _descriptor: None
            )  # no power fails here: quicker
            patch.setattr(durablefiles, name, self._wrapped(name, real))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            self.count += 1
            if self.count != self.at:
                return real(*given)
            if self.how == "full" and name != "remove":
                raise OSError(errno.ENOSPC, "no space left on device")
            if self.how == "half" and name == "write":
                real(given[0], bytes(given[1])[: len(given[1]) // 2])
            elif self.how == "after":
                real(*given)
            raise Crash

        return step
