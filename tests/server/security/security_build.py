"""What tests of who may do what have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from nadi.io.httpserver import Application, HttpServer


@contextmanager
def serving(application: Application) -> Iterator[httpx.Client]:
    """A server of an application on a port of its own, and a client of it."""
    server = HttpServer(application, "127.0.0.1", 0)
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        server.stop()
