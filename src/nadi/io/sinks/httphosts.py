"""Hosts that events choose: one that does not answer holds up what is for itself, and nothing else.

A host is tried as every receiver is. Where the sink may go on without it (`on.error`), one that took nothing all that time has an open circuit: what is for it
is refused at once, but for one attempt now and then. Without that, what is for it is waited for, and the others have theirs meanwhile.
"""

from __future__ import annotations

import contextvars
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nadi.io.retry import Policy

SIDE_BY_SIDE = 16  # hosts that are sent to at the same time
MOST_AWAY = 10_000  # hosts whose circuits are known
AGAIN = Policy(10_000, 600_000)


def host_of(url: str) -> str:
    """Whom a URL leads to; "" where it is none.

    >>> host_of("http://ada@Some.Host:81/in"), host_of("http://some.host/in"), host_of("nonsense")
    ('some.host:81', 'some.host', '')
    """
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class _Away:
    """A host that took nothing: how often it was given up, why, and when (s of the clock) it is tried again."""

    times: int
    reason: str
    due: float


class Circuits:
    """Those of the hosts of one sink. From any thread."""

    def __init__(self, policy: Policy = AGAIN, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self._away: dict[str, _Away] = {}
        self._lock = threading.Lock()

    def open(self, host: str) -> str:
        """Why nothing is sent to a host now; "" where it may be tried."""
        with self._lock:
            found = self._away.get(host)
            return "" if found is None or found.due <= self._clock() else found.reason

    def half_open(self, host: str) -> bool:
        """Whether the next attempt is one to see if it is there again."""
        return host in self._away

    def gave_up(self, host: str, reason: str) -> None:
        """It took nothing."""
        with self._lock:
            before = self._away.pop(host, None)
            times = 1 if before is None else before.times + 1
            self._away[host] = _Away(times, reason, self._clock() + self._policy.delay(times) / 1000)
            while len(self._away) > MOST_AWAY:
                del self._away[next(iter(self._away))]

    def closed(self, host: str) -> None:
        """It took something."""
        if host in self._away:
            with self._lock:
                self._away.pop(host, None)


@dataclass(slots=True)
class Sent:
    """What hosts have of the cut that a bucket is at: a cut that is tried again because of one host does not go to the others once more. It is not kept over
    a restart, and need not be."""

    _of: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def has(self, bucket: int, cut: int, number: int, payload: bytes) -> bool:
        """Whether a payload, by its number in the cut, was taken."""
        known = self._of.get(bucket)
        return known is not None and known[0] == cut and known[1].get(number) == zlib.crc32(payload)

    def note(self, bucket: int, cut: int, number: int, payload: bytes) -> None:
        """It was taken."""
        with self._lock:
            if bucket not in self._of or self._of[bucket][0] != cut:
                self._of[bucket] = cut, {}
            self._of[bucket][1][number] = zlib.crc32(payload)


def by_host(urls: Sequence[str], numbers: Iterable[int]) -> dict[str, list[int]]:
    """Which payloads are for which host, in their order."""
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(host_of(urls[number]), []).append(number)
    return found


def side_by_side(queues: Mapping[str, list[int]], send: Callable[[str, list[int]], None]) -> None:
    """Call `send` for each host and wait for all; then the error of the first one that had some is raised."""
    if len(queues) < 2:
        for host, numbers in queues.items():
            send(host, numbers)
        return
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(queues)), "http-hosts") as pool:
        done = [pool.submit(contextvars.copy_context().run, send, host, ns) for host, ns in queues.items()]
    for one in done:
        one.result()
