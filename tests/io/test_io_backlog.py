"""How many bytes of a source wait in the journal."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.backlog import Backlog
from nadi.io.journal import Journal
from nadi.io.journallog import JournalLog
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(0, 200), st.integers(1, 2_000))
def test_what_waits_is_what_was_appended_and_not_processed(counts: list[int], done: int, most: int) -> None:
    backlog, end = Backlog(most), 0
    backlog.processed(0)
    for count in counts:
        backlog.appended(end, count, 10 * count)
        end += count
    backlog.processed(min(done, end))
    waits = 10 * (end - min(done, end))
    assert backlog.admits(1) == (not waits or waits + 1 <= most)


def test_events_of_a_process_before_count_by_the_average() -> None:
    backlog = Backlog(1_000)
    backlog.processed(10)
    backlog.appended(100, 1, 10)
    assert backlog.admits(90)
    assert not backlog.admits(91)
    backlog.processed(90)
    assert backlog.admits(890)


def test_without_a_bound_all_may_wait() -> None:
    backlog = Backlog(0)
    backlog.appended(0, 1, 10**12)
    assert backlog.admits(10**12)


def test_a_journal_whose_app_is_too_far_behind_takes_no_more_until_it_has_caught_up(nats: NatsServer) -> None:
    client, app = NatsClient(nats.url), f"App{uuid4().hex[:8]}"
    journal, log, body = Journal(client, app, most=5_000), JournalLog(client, app, 0), b"x" * 1_000
    log.acknowledge(0, 0)
    taken = 0
    with pytest.raises(ConnectionUnavailableException, match="too far behind"):  # noqa: PT012 (how many it takes depends on what an event costs)
        while taken < 10:
            journal.append(0, [(1, body, {})])
            taken += 1
    assert 2 <= taken <= 5
    assert journal.append(1, [(1, body, {})]) == 0, "another source of the app"
    log.acknowledge(0, taken)
    assert journal.append(0, [(1, body, {})]) == taken
