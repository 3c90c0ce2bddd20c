"""How connectors behave when their other side is away: one policy for all, and what is known about it for people to see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import circuits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """Delays (ms) between attempts: `first`, then twice the one before, at most `longest`. No jitter: a node is not a crowd."""

    first: int = 50
    longest: int = 5_000

    def delay(self, attempt: int) -> int:
        """The delay (ms) after the attempt of this number, from 1.

        >>> [Policy(50, 300).delay(n) for n in (1, 2, 3, 4, 5)]
        [50, 100, 200, 300, 300]
        """
        return min(self.longest, self.first << min(attempt - 1, 20))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A connector whose other side is away: since when (ms of the epoch), how many attempts failed, and the last error."""

    connector: str
    since: int
    attempts: int
    last_error: str


_STATES: dict[str, Unavailable] = {}
_LOCK = threading.Lock()


def unavailable() -> tuple[Unavailable, ...]:
    """The connectors of this process that are away now, by name."""
    with _LOCK:
        return tuple(_STATES[name] for name in sorted(_STATES))


def failed(connector: str, reason: object, pause: float = 0.0) -> Unavailable:
    """Note one more failed attempt of a connector, which counts as away until `succeeded`; the next attempt comes after `pause` seconds (0: not known)."""
    circuit = circuits.current()
    if circuit is not None:
        circuit.failed(str(reason), pause)
    with _LOCK:
        before = _STATES.get(connector)
        since, attempts = (before.since, before.attempts) if before else (int(time.time() * 1000), 0)
        _STATES[connector] = Unavailable(connector, since, attempts + 1, str(reason))
        return _STATES[connector]


def succeeded(connector: str) -> None:
    """Note that a connector is reachable."""
    if connector in _STATES:  # looked at without the lock: this is called for every operation
        with _LOCK:
            _STATES.pop(connector, None)


class Gate:
    """Lets an attempt through only when the back-off of the one before is over; the state is visible in `unavailable()`.

    >>> gate = Gate("kafka broker:9092")
    >>> gate.remaining()
    0
    """

    def __init__(self, connector: str, policy: Policy = Policy()) -> None:
        self._connector = connector
        self._policy = policy
        self._next = 0.0

    def remaining(self) -> int:
        """ms until the next attempt may be made; 0 if at once."""
        return max(0, round((self._next - time.monotonic()) * 1000))

    @property
    def last_error(self) -> str:
        state = _STATES.get(self._connector)
        return state.last_error if state else ""

    def failed(self, reason: object) -> None:
        attempts = failed(self._connector, reason).attempts
        self._next = time.monotonic() + self._policy.delay(attempts) / 1000

    def succeeded(self) -> None:
        self._next = 0.0
        succeeded(self._connector)


def persist(
    connector: str,
    action: Callable[[], T],
    for_ms: int,
    policy: Policy = Policy(),
    wait: Callable[[float], object] = time.sleep,
) -> T:
    """The result of `action`, tried again with back-off while it raises ConnectionUnavailableException, for about `for_ms`.

    Errors: the last one when the time is over; every other one at once. `wait` takes seconds.
    """
    until = time.monotonic() + for_ms / 1000
    attempt = 0
    while True:
        try:
            result = action()
        except ConnectionUnavailableException as reason:
            attempt += 1
            delay = policy.delay(attempt) / 1000
            failed(connector, short(reason), delay)
            if time.monotonic() + delay > until:
                raise
            wait(delay)
        else:
            succeeded(connector)
            return result


def short(reason: NadiError) -> str:
    """The message of an error without its condition and advice."""
    return reason.diagnostic.message
