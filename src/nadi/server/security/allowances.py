"""So much in so long, by the address that a request comes from: wrong passwords, tokens that nobody knows.

An address may be that of one attacker, or of a whole office behind a proxy. So an allowance is large and comes back by and by, instead of closing for good.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

WITHIN = 900.0  # seconds in which a whole allowance comes back
REMEMBERED = 10_000  # addresses


class Allowance:
    """See the module's text. From any thread."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` 0: there is no bound."""
        self._most = most
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # so much of it, at that moment
        self._lock = threading.Lock()

    def take(self, address: str) -> float:
        """Take one; -> 0.0, or the seconds until there is one, which is not taken then.

        >>> allowance = Allowance(2, lambda: 0.0)
        >>> [allowance.take("10.0.0.1") for _ in range(3)], allowance.take("10.0.0.2")
        ([0.0, 0.0, 450.0], 0.0)
        """
        if self._most == 0:
            return 0.0
        with self._lock:
            used = self._used_of(place(address))
            if used > self._most - 1:
                return (used - self._most + 1) * WITHIN / self._most
            self._keep(place(address), used + 1)
            return 0.0

    def give_back(self, address: str) -> None:
        """What was taken was not needed."""
        if self._most > 0:
            with self._lock:
                self._keep(place(address), max(0.0, self._used_of(place(address)) - 1))

    # ---- with the lock

    def _used_of(self, place: str) -> float:
        used, at = self._used.get(place, (0.0, 0.0))
        return max(0.0, used - (self._clock() - at) * self._most / WITHIN)

    def _keep(self, place: str, used: float) -> None:
        self._used[place] = (used, self._clock())
        self._used.move_to_end(place)
        while len(self._used) > REMEMBERED:
            self._used.popitem(last=False)


def place(address: str) -> str:
    """Whose an address is: of IPv6 everybody has at least 64 bits to choose from.

    >>> place("10.0.0.1"), place("2001:db8::1") == place("2001:db8::ffff"), place("::ffff:10.0.0.1"), place("")
    ('10.0.0.1', True, '10.0.0.1', '')
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found), 64), strict=False).network_address)
