"""The writer of a part of the journal goes on whatever those do who hear of what it has written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.io.journal import Chooser, Journal, Written, _Append, _Writer
from nadi.io.journalmessages import Event, Group
from nadi.io.natsclient import NatsClient

WITHIN = 5.0  # seconds


def test_an_append_that_nobody_answers_may_be_there_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> Written:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    monkeypatch.setattr(Journal, "store", never)
    monkeypatch.setattr("nadi.io.journal.PATIENCE", 0.05)
    with pytest.raises(NadiError) as late:
        Journal(NatsClient("nats://127.0.0.1:1"), "App", within=0.05).append(0, [(1, b"x", {})])
    assert late.value.condition == "CONNECTION_UNAVAILABLE"


class Stores:
    """A journal in memory."""

    app, most = "App", 0

    def __init__(self) -> None:
        self.end = 0
        self.fails = False

    async def store(self, _name: str, events: Sequence[Event], _last: Group | None, chooser: Chooser | None) -> Written:
        first, self.end = self.end, self.end + len(events)
        return Written(Group(self.end, first, len(events)), ())

    def tell(self, _name: str, stored: Group | None) -> None:
        if self.fails and stored is not None:
            raise ValueError("who hears of it fails")


class Chooses:
    """A chooser that fails where it is told to."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def took(self, first: int, end: int, size: int) -> None:
        if self.fails == "took":
            raise TimeoutError

    def forget(self) -> None:
        """Nothing is remembered."""

    async def save(self) -> None:
        if self.fails == "save":
            raise TimeoutError

    async def choose(self, events: Sequence[Event], end: int) -> Any:
        raise AssertionError("it is not asked")


@pytest.mark.parametrize("what", ["took", "save", "tell"])
def test_a_writer_goes_on_where_who_is_told_of_its_events_fails(what: str) -> None:
    journal = Stores()
    journal.fails = what == "tell"
    writer = _Writer(journal, 0)  # type: ignore[arg-type]
    writer.chooser = Chooses(what)
    for n in range(3):
        told: Future[int] = Future()
        writer.add(_Append([(1, b"x", {})], 10, told))
        assert told.result(WITHIN) == n
