"""Which hosts are this machine's own: what goes there nobody else reads; and how hosts are written before a port."""

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


def with_port(host: str, port: int | None) -> str:
    """host:port, an address of IPv6 in brackets.

    >>> with_port("db.example", 5432), with_port("::1", 80)
    ('db.example:5432', '[::1]:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
