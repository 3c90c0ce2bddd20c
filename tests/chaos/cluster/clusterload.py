"""Who sends to the cluster without end, and remembers what was acknowledged.

A sender knows an address for each worker, as a registry would tell it: the source listens on that of the worker that it is on. Each attempt has ids of its
own: what was acknowledged must be there once, all else once at most.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Sequence

DEVICES = 9
SPREAD = 40  # values are 0 up to this; one in ten is below 0 and dropped by the app
ANSWERED = 8.0  # seconds that a sender waits for an answer


class Sender:
    """A thread that sends until it is told to stop. `sent` has each id that left, `acknowledged` those of requests that were answered with 202; `passing` is
    the last acknowledged id that the app does not drop."""

    def __init__(self, name: str, seed: int, addresses: Sequence[str], port: int, pause: float) -> None:
        self._dice = random.Random(f"{name} {seed}")
        self._name = name
        self._addresses = addresses
        self._port = port
        self._pause = pause
        self._at = 0
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.passing = ""
        self.wrong: list[str] = []
        self._resting = threading.Event()
        self._stopping = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rest(self) -> None:
        """Send nothing until `go_on`. Returns when the request under way has been answered, or given up."""
        self._idle.clear()
        self._resting.set()
        assert self._idle.wait(120), f"{self._name} does not rest"

    def go_on(self) -> None:
        self._resting.clear()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(120)
            assert not self._thread.is_alive(), f"{self._name} does not end"

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause):
            if self._resting.is_set():
                self._idle.set()
                continue
            number += 1
            self._send(number)
        self._idle.set()

    def _send(self, number: int) -> None:
        """One body, again and again under other ids until it is taken."""
        dice = self._dice
        events = [
            {"dev": f"d{dice.randrange(DEVICES)}", "v": dice.randrange(SPREAD) * dice.choice((1,) * 9 + (-1,))}
            for _ in range(dice.randint(1, 4))
        ]
        attempt = 0
        while not (self._stopping.is_set() or self._resting.is_set()):
            for i, one in enumerate(events):
                one["id"] = f"{self._name}.{number}.{i}.{attempt}"
            ids = [str(one["id"]) for one in events]
            status = self._post(json.dumps([{"event": one} for one in events]).encode(), ids)
            if status == 202:
                self.acknowledged.update(ids)
                self.passing = next((str(e["id"]) for e in reversed(events) if int(str(e["v"])) >= 0), self.passing)
                return
            if status not in (0, 503):
                self.wrong.append(f"{ids[0]}: {status}")
                return
            attempt += ids[0] in self.sent
            if self._stopping.wait(0.1):
                return

    def _post(self, body: bytes, ids: Sequence[str]) -> int:
        """The status; 0 where there was no answer, or (then nothing was sent) nobody listens."""
        address = self._addresses[self._at % len(self._addresses)]
        connection = http.client.HTTPConnection(address, self._port, timeout=ANSWERED)
        try:
            connection.connect()
            self.sent.update(ids)  # from now on they may arrive
            connection.request("POST", "/in", body)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._at += 1
            return 0
        finally:
            connection.close()
        if answer.status == 503:
            self._at += 1
        return answer.status
