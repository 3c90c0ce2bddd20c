"""What a source has received is sealed: it can be read, and nothing comes behind it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from log_contract import check_log, payloads

from nadi.errors import NadiError
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import Event
from nadi.io.journalseal import seal
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer


@pytest.fixture
def client(nats: NatsServer) -> NatsClient:
    return NatsClient(nats.url)


@pytest.fixture
def app() -> str:
    return f"App{uuid4().hex[:8]}"


def event(text: str) -> Event:
    return 1_000, text.encode(), {}


def test_nobody_appends_behind_a_seal_neither_who_did_before_nor_who_comes_later(client: NatsClient, app: str) -> None:
    before = Journal(client, app, within=1)
    before.append(0, [event("a"), event("b")])
    seal(client.url, app, 0)
    for journal in (before, Journal(client, app, within=1)):
        with pytest.raises(NadiError, match="goes on as another one"):
            journal.append(0, [event("late")])
    log = JournalLog(client, app, 0)
    assert payloads(log) == [b"a", b"b"]
    check_log(log)


def test_a_source_that_received_nothing_can_be_sealed_and_any_twice(client: NatsClient, app: str) -> None:
    for _ in range(2):
        seal(client.url, app, 0)
    log = JournalLog(client, app, 0)
    assert log.beginning(0) == log.end(0) == 0
    with pytest.raises(NadiError, match="goes on as another one"):
        Journal(client, app, within=1).append(0, [event("late")])


def test_other_parts_of_the_journal_go_on(client: NatsClient, app: str) -> None:
    journal = Journal(client, app)
    seal(client.url, app, 0)
    assert journal.append(1, [event("a")]) == 0
    assert journal.append("faults", [event("b")]) == 0
