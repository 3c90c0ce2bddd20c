"""The cut log in a database keeps the promises of the one in a folder, and does so for several nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from servers.emptydatabase import EmptyDatabase

from nadi.errors import NadiError
from nadi.pipeline.cutting import epochtable
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.cuttable import TableCutLog


def cut(n: int, epoch: int = 1) -> Cut:
    return Cut(n, epoch, n * 10, 0, {(0, 0): n})


@pytest.fixture
def url(database: EmptyDatabase) -> Iterator[str]:
    yield database.address.parsed.render_as_string(hide_password=False)
    for engine in epochtable.engines():
        engine.dispose()


def opened(url: str, app: str = "App") -> TableCutLog:
    log = TableCutLog(url, app, 0)
    log.take_over()
    return log


def filled(url: str, count: int, app: str = "App") -> TableCutLog:
    log = opened(url, app)
    for n in range(count):
        log.append(cut(n))
    return log


def test_what_was_appended_is_read_by_another_node(url: str) -> None:
    filled(url, 3)
    reader = TableCutLog(url, "App", 0)
    assert reader.last() == cut(2)
    assert [reader.at(n) for n in range(4)] == [cut(0), cut(1), cut(2), None]


def test_a_reader_finds_what_is_appended_later(url: str) -> None:
    log = filled(url, 1)
    reader = TableCutLog(url, "App", 0)
    assert reader.at(1) is None
    log.append(cut(1))
    assert reader.at(1) == cut(1)


def test_a_run_that_was_taken_over_cannot_append(url: str) -> None:
    old = filled(url, 1)
    new = opened(url)
    with pytest.raises(NadiError) as caught:
        old.append(cut(1))
    assert caught.value.condition == "CUT_FENCED"
    new.append(cut(1, 2))
    assert TableCutLog(url, "App", 0).last() == cut(1, 2)


def test_of_runs_that_take_over_at_the_same_moment_one_may_append(url: str) -> None:
    filled(url, 1)
    logs = [TableCutLog(url, "App", 0) for _ in range(4)]
    threads = [threading.Thread(target=log.take_over) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    *others, newest = sorted(logs, key=lambda log: log.epoch)
    for log in others:
        with pytest.raises(NadiError, match="CUT_FENCED"):
            log.append(cut(1))
    newest.append(cut(1))
    assert TableCutLog(url, "App", 0).last() == cut(1)


def test_a_gap_is_refused(url: str) -> None:
    with pytest.raises(NadiError) as caught:
        filled(url, 1).append(cut(2))
    assert caught.value.condition == "CUT_LOG_MISMATCH"


def test_apps_do_not_see_each_other(url: str) -> None:
    filled(url, 3, "One")
    assert opened(url, "Two").last() is None
    filled(url, 1, "Two")
    assert TableCutLog(url, "One", 0).last() == cut(2)


def test_trimming_forgets_what_is_older_and_keeps_the_newest(url: str) -> None:
    log = filled(url, 5)
    log.trim(3)
    assert [log.at(n) for n in range(5)] == [None, None, None, cut(3), cut(4)]
    log.trim(99)
    assert log.last() == cut(4)
    log.append(cut(5))


def test_a_database_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(NadiError) as caught:
        TableCutLog("sqlite:////nowhere/at/all/cuts.db", "App", 0).take_over()
    assert caught.value.condition == "CONNECTION_UNAVAILABLE"
    assert "/nowhere/at/all/cuts.db" in str(caught.value)


def test_messages_of_the_newest_cut_are_set_aside_for_every_node(url: str) -> None:
    log = filled(url, 3)
    log.amend(cut(2).without((0, 0), 1))
    log.append(cut(3))
    reader = TableCutLog(url, "App", 0)
    assert [reader.at(n) for n in (1, 2, 3)] == [cut(1), cut(2).without((0, 0), 1), cut(3)]
    with pytest.raises(NadiError) as caught:
        log.amend(cut(2).without((0, 0), 0))
    assert caught.value.condition == "CUT_LOG_MISMATCH"
