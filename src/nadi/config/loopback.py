"""Which hosts are this machine's own: what goes there nobody else reads."""

from __future__ import annotations

import ipaddress


def is_here(host: str) -> bool:
    """Whether what goes to this host stays on the machine.

    >>> is_here("127.0.0.1"), is_here("::1"), is_here("localhost"), is_here("0.0.0.0"), is_here("db.example")
    (True, True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
