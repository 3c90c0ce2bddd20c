"""Whoever waits for inputs in tests: who was told, and a wait for it that does not look."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from nadi.io.wakes import Wakes


class Bell:
    """Counts who rang."""

    def __init__(self) -> None:
        self.rung: Counter[Any] = Counter()
        self._came = threading.Condition()

    def wake(self, log: object, key: object = "") -> None:
        """Wait for a log from its first look on."""
        assert isinstance(log, Wakes)
        log.wake(partial(self.ring, key))
        log.end(0)  # type: ignore[attr-defined]
        self.rung.clear()

    def ring(self, key: object) -> None:
        with self._came:
            self.rung[key] += 1
            self._came.notify_all()

    def ring_all(self) -> None:
        self.ring("")

    def wait(self, seconds: float = 20.0) -> set[Any]:
        """Who has rung since the last wait, once somebody has."""
        with self._came:
            assert self._came.wait_for(lambda: self.rung, seconds), f"nobody rang within {seconds} s"
            found = set(self.rung)
            self.rung.clear()
            return found


def looked(log: Any, bell: Bell, end: int, seconds: float = 20.0) -> None:
    """Look whenever the log says so, by ringing or by its next look, until its end is there."""
    until = time.monotonic() + seconds
    while log.end(0) < end:
        assert time.monotonic() < until, f"the end is {log.end(0)}, not {end}, after {seconds} s"
        at = log.next_look()
        left = until if at is None else min(at, until)
        with bell._came:
            bell._came.wait_for(lambda: bell.rung, max(0.0, left - time.monotonic()))
            bell.rung.clear()


def requests(monkeypatch: Any, client: Any) -> Counter[str]:
    """Counts what is asked of a NATS server by a client's `call`, from now on."""
    counted: Counter[str] = Counter()
    call: Callable[..., Any] = client.call

    def counting(operation: Any, seconds: float = 10.0) -> Any:
        counted["calls"] += 1
        return call(operation, seconds)

    monkeypatch.setattr(client, "call", counting)
    return counted
