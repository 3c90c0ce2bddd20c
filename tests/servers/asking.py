"""Requests of tests to servers: as `httpx.get` and its like, without a new SSL context for each.

To read all certificates that this machine trusts takes 30 ms of a processor. A test that looks every few milliseconds whether a server is there would do
little else, and take the processor from the server that it waits for.
"""

from __future__ import annotations

from functools import cache
from ssl import SSLContext
from typing import Any

import httpx


@cache
def _trust() -> SSLContext:
    """What httpx would make for each request."""
    return httpx.create_ssl_context()


def request(method: str, url: str, **given: Any) -> httpx.Response:
    """As `httpx.request`."""
    return httpx.request(method, url, **{"verify": _trust(), **given})


def get(url: str, **given: Any) -> httpx.Response:
    """As `httpx.get`."""
    return request("GET", url, **given)


def post(url: str, **given: Any) -> httpx.Response:
    """As `httpx.post`."""
    return request("POST", url, **given)


def client(**given: Any) -> httpx.Client:
    """As `httpx.Client`."""
    return httpx.Client(**{"verify": _trust(), **given})
