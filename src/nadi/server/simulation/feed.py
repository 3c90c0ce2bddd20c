"""A feed: a thread that takes events from their sources and sends them on, at its pace, until they end or somebody stops it.

| status | |
|---|---|
| RUN | it sends, or waits until apps have taken what was sent before |
| PAUSE | it waits until it is resumed |
| PENDING_STOP | it was stopped, and something that it waits for does not come back |
| STOP | it has ended |
| ERROR | it has ended for a reason: `problem` |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Protocol

import structlog

from nadi.errors import NadiError
from nadi.server.simulation.events import Event
from nadi.server.simulation.pace import Pace

RUN, PAUSE, STOP, ERROR, PENDING_STOP = "RUN", "PAUSE", "STOP", "ERROR", "PENDING_STOP"
STOPS_WITHIN = 5.0  # seconds
HEARTBEAT = 1.0
"""Seconds after which a feed looks by itself whether apps have taken what they have; it is told before that."""

log = structlog.get_logger("nadi.server")


class Clock(Protocol):
    """What time it is for a feed, in seconds, and how it waits."""

    def now(self) -> float: ...

    def wait(self, until: float | None) -> None:
        """Wait until then, or until it is rung for."""

    def ring(self) -> None:
        """End the wait that is under way, or else the next one."""


class MachineClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def now(self) -> float:
        return time.monotonic()

    def wait(self, until: float | None) -> None:
        self._rung.wait(None if until is None else max(0.0, until - time.monotonic()))
        self._rung.clear()

    def ring(self) -> None:
        self._rung.set()


class Outlet(Protocol):
    """Where events go."""

    def is_full(self) -> bool:
        """Whether the apps have to take something first; the clock is rung when they have. Errors: those that end the feed."""

    def send(self, events: Sequence[Event]) -> bool:
        """Have events taken; they are durable on return. False where none was, as an app is just starting. Errors: those that end the feed."""

    def close(self) -> None: ...


class Feed:
    """See the module's text. It runs once. `interval` (seconds) lies between two events."""

    def __init__(
        self,
        name: str,
        events: Callable[[], AbstractContextManager[Iterator[Event]]],
        outlet: Outlet,
        interval: float,
        clock: Clock,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self.sent = 0
        self.problem = ""
        self._events = events
        self._outlet = outlet
        self._interval = interval
        self._clock = clock
        self._ended = ended
        self._paused = False
        self._stopping = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name=f"simulation {name}", daemon=True)

    @property
    def status(self) -> str:
        """See the module's text."""
        if self._over:
            return ERROR if self.problem else STOP
        if self._stopping:
            return PENDING_STOP
        return PAUSE if self._paused else RUN

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def pause(self) -> None:
        """Send no more until it is resumed; what is being sent is sent."""
        self._paused = True
        self._clock.ring()

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self._clock.ring()

    def stop(self, within: float = STOPS_WITHIN) -> None:
        """End; what is being sent is sent. Returns when it has, at the latest after so many seconds."""
        self._stopping = True
        self._clock.ring()
        self._thread.join(within)

    # ---- in its thread

    def _run(self) -> None:
        try:
            with self._events() as events:
                self._send_all(events)
        except NadiError as reason:
            self.problem = str(reason)
            log.warning("a simulation has failed", simulation=self.name, reason=str(reason))
        except Exception as reason:  # a feed may fail for what nobody thought of; the worker does not
            self.problem = repr(reason)
            log.exception("a simulation has failed", simulation=self.name)
        finally:
            self._outlet.close()
            self._over = True
            self._ended()

    def _send_all(self, events: Iterator[Event]) -> None:
        now = self._clock.now()
        pace = Pace(self._interval, now, now)
        while self._goes_on(pace):
            due = pace.take(self._clock.now())
            taken = list(islice(events, due))
            while taken and not self._outlet.send(taken):
                if not self._goes_on(pace):
                    return
            self.sent += len(taken)
            if len(taken) < due:
                return
            if pace.next > self._clock.now():
                self._clock.wait(pace.next)

    def _goes_on(self, pace: Pace) -> bool:
        """Wait until events may be sent; False where no more are to be."""
        while not self._stopping:
            if self._paused:
                self._clock.wait(None)
                pace.resume(self._clock.now())
            elif self._outlet.is_full():
                self._clock.wait(self._clock.now() + HEARTBEAT)
            else:
                return True
        return False
