"""What is done with a node of many small apps that runs: waiting, single events, an event a second each, kills."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.analysis import percentiles
from bench.children import ChildFailedError
from bench.many_client import THREADS, Client
from bench.many_start import Running
from bench.processtree import HOSTS, JVM, memory, pids, processes, used

SETTLE = 10.0  # seconds before a node that has answered is taken to idle
SINGLES = 200
SINGLES_AT_MOST = 90.0  # seconds
PAUSE = 0.1  # seconds between the answer to one event and the next one
BEFORE_KILL = 3.0  # seconds of events before a kill


def of_memory(made: Running) -> dict[str, Any]:
    """Processes and their memory, once the node has settled."""
    _wait(made, SETTLE, "settling")
    found = memory(made.node.folder)
    return {"processes": found.processes, "pss": found.pss, "by_kind": found.by_kind}


def of_idling(made: Running, seconds: float) -> dict[str, Any]:
    """Share of a core that all processes of the node use while nothing is sent."""
    before, begin = processes(made.node.folder), time.monotonic()
    _wait(made, seconds, "idle")
    after = processes(made.node.folder)
    shares = used(before, after, time.monotonic() - begin)
    return {"cores": round(sum(shares.values()), 4), "by_kind": shares}


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles of seconds, in ms."""
    return percentiles(np.array([round(1e6 * s) for s in seconds], np.int64))


def _wait(made: Running, seconds: float, what: str) -> None:
    begin = time.monotonic()
    while (gone := time.monotonic() - begin) < seconds:
        made.node.check()
        made.say(f"{made.label}: {what}, {seconds - gone:.0f} s left")
        time.sleep(min(1.0, max(0.01, seconds - gone)))


def of_singles(made: Running) -> dict[str, Any]:
    """One event into one app at a time: from the begin of the request to the row in the file (ms). Errors: TooSlowError."""
    order = random.Random(7)
    found: list[float] = []
    begin = time.monotonic()
    while len(found) < SINGLES and time.monotonic() - begin < SINGLES_AT_MOST:
        client = order.choice(made.senders)
        since = time.monotonic()
        sent = client.send()
        place = (client.app.number, sent.event)
        if not sent.accepted:
            raise ChildFailedError(f"{made.label}: {client.app.name} took no event though it ran: {client.trouble}")
        made.wait_for([place], since)
        found.append((made.outputs.came(place) or 0.0) - since)
        made.say(f"{made.label}: single events, {len(found)} of {SINGLES}, the last took {1000 * found[-1]:.0f} ms")
        time.sleep(PAUSE)
    return {"ms": percentiles_ms(found), "events": len(found)}


@dataclass(frozen=True, slots=True)
class Asked:
    """An event of a stream of events: app, number of the event, when it was due (`time.monotonic`), whether it was accepted."""

    app: int
    event: int
    due: float
    accepted: bool


def dues(apps: int, seconds: float) -> list[tuple[float, int]]:
    """When which app gets an event: each once a second, all of them spread over the second.

    >>> dues(2, 2)
    [(0.0, 0), (0.5, 1), (1.0, 0), (1.5, 1)]
    """
    return [(turn + i / apps, i) for turn in range(int(seconds)) for i in range(apps)]


def send_each(senders: Sequence[Client], seconds: float, over: threading.Event) -> list[Asked]:
    """An event a second into each app, so long; each from when it is due, whatever the one before took."""
    begin = time.monotonic()

    def one(due: float, number: int) -> Asked:
        sent = senders[number].send()
        return Asked(senders[number].app.number, sent.event, begin + due, sent.accepted)

    with ThreadPoolExecutor(4 * THREADS) as pool:
        made = []
        for due, number in dues(len(senders), seconds):
            if over.wait(max(0.0, begin + due - time.monotonic())):
                break
            made.append(pool.submit(one, due, number))
        return [each.result() for each in made]


class Traffic:
    """An event a second into each app, beside what the caller does, for the time of a block or so many seconds."""

    def __init__(self, senders: Sequence[Client], seconds: float) -> None:
        self.asked: list[Asked] = []
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=lambda: self.asked.extend(send_each(senders, seconds, self._over)), daemon=True
        )

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def running(self) -> bool:
        return self._thread.is_alive()


def of_each(made: Running, seconds: float) -> dict[str, Any]:
    """An event a second into each app: from when it was due to the row in the file (ms). Errors: TooSlowError."""
    with Traffic(made.senders, seconds) as traffic:
        begin = time.monotonic()
        while traffic.running():
            made.node.check()
            made.say(f"{made.label}: an event a second each, {seconds - (time.monotonic() - begin):.0f} s left")
            time.sleep(1.0)
    places = [(a.app, a.event) for a in traffic.asked if a.accepted]
    made.wait_for(places, time.monotonic())
    found = [(made.outputs.came((a.app, a.event)) or 0.0) - a.due for a in traffic.asked if a.accepted]
    refused = len(traffic.asked) - len(places)
    return {"ms": percentiles_ms(found), "events": len(found), "refused": refused}


def of_kill(made: Running, kind: str) -> dict[str, Any]:
    """kill -9 of a process while events come: seconds until each app has answered an event that was sent after it.

    What is lost or there twice is seen at the end. Errors: TooSlowError, ChildFailedError where there is no such process.
    """
    found = pids(made.node.folder, kind)
    if not found:
        raise ChildFailedError(f"{made.label}: none of its processes is known as '{kind}'")
    with Traffic(made.senders, made.patience) as traffic:
        time.sleep(BEFORE_KILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[0], signal.SIGKILL)
        answers = made.answers()
    places = [(a.app, a.event) for a in traffic.asked if a.accepted]
    made.wait_for(places, time.monotonic())
    late = [(made.outputs.came((a.app, a.event)) or 0.0) - a.due for a in traffic.asked if a.accepted]
    refused = len(traffic.asked) - len(places)
    return {"answered_s": answers, "longest_s": max(late), "events": len(places), "refused": refused}


KILLS = {"kill-jvm": JVM, "kill-host": HOSTS}
"""What a stage kills."""
