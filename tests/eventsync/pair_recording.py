"""An event sync for tests: it notes what is prepared, confirmed and abandoned, and fails or dies where a test wants it to."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nadi.errors import error
from nadi.replica import client
from nadi.replica.contract import Record

_NUMBERS = itertools.count(1)


class Recorder:
    """Implements `nadi.replica.contract.Replica`; may be used by several threads."""

    def __init__(self) -> None:
        # A name of its own: removals that the process still has for another one's socket do not come here.
        self.socket = Path(f"/recorder/{next(_NUMBERS)}")
        self._lock = threading.Lock()
        self.records: list[Record] = []
        self.confirmed: list[int] = []
        self.abandoned: list[int] = []
        self.fails: Callable[[Record], bool] = lambda _record: False
        self.before: Callable[[Record], None] = lambda _record: None
        self.told: Callable[[int], None] = lambda _ticket: None  # of what is confirmed

    def prepare(self, record: Record) -> int:
        self.before(record)
        if self.fails(record):
            raise error("CONNECTION_UNAVAILABLE", connector="the event sync", reason="the test says so")
        with self._lock:
            self.records.append(record)
            return len(self.records) - 1

    def confirm(self, ticket: int) -> None:
        self.confirmed.append(ticket)
        self.told(ticket)

    def abandon(self, ticket: int) -> None:
        self.abandoned.append(ticket)

    @property
    def open(self) -> list[int]:
        """Tickets of which nothing was told."""
        return sorted(set(range(len(self.records))) - {*self.confirmed, *self.abandoned})

    def done(self) -> list[Record]:
        """What the service of the node has, in order."""
        return [self.records[ticket] for ticket in sorted(self.confirmed)]


class LoopRecorder:
    """The same recorder, as coroutines have it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.confirm, self.abandon = recorder.confirm, recorder.abandon

    async def prepare(self, record: Record) -> int:
        return await asyncio.to_thread(self._recorder.prepare, record)


def recorder_in(patch: pytest.MonkeyPatch) -> Recorder:
    """One that this process finds behind its socket. Behind any other there is nobody."""
    made = Recorder()

    def found(asked: Path) -> Recorder:
        if asked != made.socket:
            raise error("CONNECTION_UNAVAILABLE", connector=f"event sync at {asked}", reason="the test has ended")
        return made

    patch.setattr(client, "blocking_replica", found)
    patch.setattr(client, "replica_in_loop", lambda asked: LoopRecorder(found(asked)))
    return made
