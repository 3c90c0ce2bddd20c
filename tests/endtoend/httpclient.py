"""A client of an http source that sends every request until it is acknowledged, and no acknowledged one again."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

PAUSE = 0.2  # seconds before a request is tried again


class Sender:
    """Requests from several threads, the first `allowed` of them. `attempts` counts per request; what is in `acknowledged` got its 202."""

    def __init__(self, url: str, requests: Sequence[Sequence[Mapping[str, Any]]], threads: int = 4) -> None:
        self._where = urlsplit(url)
        self._waiting = list(enumerate(requests))[::-1]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.allowed = 0
        self.attempts = [0] * len(requests)
        self.acknowledged: set[int] = set()
        self.refused: list[str] = []
        self._threads = [threading.Thread(target=self._work) for _ in range(threads)]

    def __enter__(self) -> Sender:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                if not self._waiting:
                    return
                number, events = self._waiting.pop()
            while number >= self.allowed and not self._stop.wait(0.01):
                pass
            body = json.dumps([{"event": e} for e in events]).encode()
            while not self._stop.is_set() and not self._sent(number, body):
                self._stop.wait(PAUSE)

    def _sent(self, number: int, body: bytes) -> bool:
        self.attempts[number] += 1
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=30)
        try:
            connection.request("POST", self._where.path, body)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if answer.status == 202:
            self.acknowledged.add(number)
        elif answer.status != 503:
            self.refused.append(f"{answer.status} {text}")
        return answer.status == 202


def post(url: str, body: bytes, seconds: float = 60) -> tuple[int, str]:
    """One request; (status, body). Repeated as long as nobody listens."""
    where, end = urlsplit(url), time.monotonic() + seconds
    while True:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        try:
            connection.request("POST", where.path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        finally:
            connection.close()
