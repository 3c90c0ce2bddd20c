"""Sends events to many apps over HTTP, one connection and one event at a time for each of them, and keeps a record of what was sent."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.many_apps import Sent, SmallApp

ANSWER_WITHIN = 60.0  # seconds
THREADS = 16
IDLE = 2.0  # seconds after which a connection is made anew: servers close those that idle, and a request on one of them is lost
AGAIN = 0.2  # seconds before an event follows one that was not accepted
ACCEPTED = 202


class Client:
    """The sender of one app's events; they are numbered from 1. `trouble` is why the last one was not accepted."""

    def __init__(self, app: SmallApp) -> None:
        self.app = app
        self.sent: list[Sent] = []
        self._connection = http.client.HTTPConnection("127.0.0.1", app.port, timeout=ANSWER_WITHIN)
        self._lock = threading.Lock()
        self._used = 0.0
        self.trouble = ""

    def accepts(self) -> bool:
        """Whether a server answers for the app's path; nothing is sent."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.app.port, timeout=2)) as asking:
            try:
                asking.request("GET", self.app.path)
                return asking.getresponse().status == http.HTTPStatus.METHOD_NOT_ALLOWED
            except (OSError, http.client.HTTPException):
                return False

    def send(self) -> Sent:
        """Send the next event, once: one that was not accepted may be there all the same, so the next one has another number."""
        with self._lock:
            self._connect()
            event, begin = len(self.sent) + 1, time.time()
            accepted = self._post(self.app.message(event))
            sent = Sent(event, begin, time.time(), accepted)
            self.sent.append(sent)
            self._used = time.monotonic()
            return sent

    def send_until_accepted(self, within: float) -> Sent | None:
        """Send events until one is accepted; None where none was within so many seconds."""
        limit = time.monotonic() + within
        while not (sent := self.send()).accepted:
            if time.monotonic() > limit:
                return None
            time.sleep(AGAIN)
        return sent

    def _connect(self) -> None:
        """Have a connection that the server will not just have closed; where there is none to be had, the request will say so."""
        if self._connection.sock is None or time.monotonic() - self._used > IDLE:
            self._connection.close()
            with contextlib.suppress(OSError):
                self._connection.connect()

    def _post(self, body: bytes) -> bool:
        try:
            self._connection.request("POST", self.app.path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as reason:
            self._connection.close()
            self.trouble = f"{type(reason).__name__}: {reason}"
            return False
        self.trouble = "" if answer.status == ACCEPTED else f"{answer.status}: {said[:200]!r}"
        return not self.trouble

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def clients(apps: Sequence[SmallApp]) -> Iterator[list[Client]]:
    """A client for each app, for the time of a block."""
    made = [Client(app) for app in apps]
    try:
        yield made
    finally:
        for client in made:
            client.close()


def send_to_all(senders: Sequence[Client], within: float) -> list[Sent | None]:
    """An accepted event for each; None for an app that took none."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda client: client.send_until_accepted(within), senders))
