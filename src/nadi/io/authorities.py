"""Whom clients of HTTPS trust: the authorities that Python's packages bring, or those of `SSL_CERT_FILE`."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def authorities() -> ssl.SSLContext:
    """One for all clients: their certificates take 20 ms to load, and a node may have hundreds of clients."""
    return httpx.create_ssl_context()
