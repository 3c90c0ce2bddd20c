"""How the nodes of a cluster know each other: requests are signed with a secret that all of them have.

A signature covers method, path with its query, the check-sum of the body, time and a number that is used once: what somebody recorded is not taken a second
time, and nothing of it can be changed. It is looked at before the body is read: of a stranger nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

HEADER = "x-nadi-signature"
VALID = 120_000  # ms: clocks of two nodes may differ by that
MOST = 1_000_000  # numbers that are remembered: those of 16,000 nodes with a heartbeat in two seconds


class NodeKey:
    """Signs requests, and checks those of others. `clock` gives ms of the epoch. What is signed with one of the `accepted` secrets counts, too: so all nodes
    get another secret one by one."""

    def __init__(
        self,
        secret: str,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        accepted: Iterable[str] = (),
    ) -> None:
        self._secret = secret.encode()
        self._all = (self._secret, *(one.encode() for one in accepted))
        self._clock = clock
        self._used: OrderedDict[str, int] = OrderedDict()  # until when a number must not come again
        self._lock = threading.Lock()

    def sign(self, method: str, path: str, body: bytes) -> str:
        """The header of a request. `path` is as it goes over the line, with its query."""
        now, number, check = self._clock(), secrets.token_hex(16), check_of(body)
        return f"{now}.{number}.{check}.{_signature(self._secret, method, path, check, now, number)}"

    def accepted(self, header: str, method: str, path: str) -> str | None:
        """The check-sum of the body of a request that has come from a node of the cluster, lately, and for the first time; None for every other one."""
        parts = header.split(".")
        if len(parts) != 4 or not parts[0].isascii() or not parts[0].isdecimal() or len(parts[0]) > 15:
            return None
        at, number, check = int(parts[0]), parts[1], parts[2]
        right = [_signature(secret, method, path, check, at, number).encode() for secret in self._all]
        if not any(hmac.compare_digest(one, parts[3].encode()) for one in right):
            return None
        return check if self._is_fresh(at, number) else None

    def _is_fresh(self, at: int, number: str) -> bool:
        now = self._clock()
        if abs(now - at) > VALID:
            return False
        with self._lock:
            while self._used and next(iter(self._used.values())) < now:
                self._used.popitem(last=False)
            if number in self._used or len(self._used) >= MOST:
                return False
            self._used[number] = at + VALID
        return True


def _signature(secret: bytes, method: str, path: str, check: str, at: int, number: str) -> str:
    said = "\n".join((method, path, str(at), number, check))
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()


def check_of(body: bytes) -> str:
    """The check-sum of a body, as signatures have it."""
    return hashlib.sha256(body).hexdigest()
