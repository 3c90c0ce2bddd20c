"""Asks the REST API of a worker for something, again and again, beside a load: how long it takes."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np

if TYPE_CHECKING:
    from bench.posts import Running

EVERY = 0.1  # seconds between the begins of two requests
PATHS = ("/siddhi-apps", "/health/ready")
"""With credentials, and one that is open; in turn."""


class Asking:
    """Asks for the time of a block. A request that did not end well counts as one that took for ever."""

    def __init__(self, worker: Running) -> None:
        self._base, self._login = worker.rest, ("admin", worker.password)
        self._took: dict[str, list[float]] = {path: [] for path in PATHS}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    @staticmethod
    def is_ready(url: str) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{url}/health/ready").status_code == 200
        return False

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._base, auth=self._login, timeout=10) as client:
            begin, number = time.monotonic(), 0
            while not self._over.wait(max(0.0, begin + number * EVERY - time.monotonic())):
                path, due = PATHS[number % len(PATHS)], time.monotonic()
                try:
                    good = client.get(path).status_code == 200
                except httpx.HTTPError:
                    good = False
                self._took[path].append((time.monotonic() - due) * 1000 if good else float("inf"))
                number += 1

    def told(self) -> dict[str, Any]:
        """Percentiles in ms, by path, and how many requests failed."""
        found = {}
        for path, took in self._took.items():
            p50, p99 = np.percentile(took, [50, 99], method="higher")
            failed = sum(t == float("inf") for t in took)
            found[path] = {"p50": float(p50), "p99": float(p99), "count": len(took), "failed": failed}
        return found
