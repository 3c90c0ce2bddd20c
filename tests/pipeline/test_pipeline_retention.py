"""What is said at the start of an app whose inputs forget messages sooner than its revisions go back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nadi.config import Persistence
from nadi.errors import error
from nadi.io.contract import Connector
from nadi.io.jetstream import Outgoing, ensure_stream, kept_for, publish_all, stream_config
from nadi.io.natsclient import shared
from nadi.io.natsserver import NatsServer
from nadi.io.retention import Retention
from nadi.pipeline.revision import retention
from nadi.pipeline.revision.retention import RetentionCheck
from nadi.pipeline.spec import AppSpec

HOURLY = Persistence(enabled=True, interval=60, keep=5)
HOUR = 3_600_000_000_000  # as JetStream has it, ns

APP = """@app:name('Kept')
@source(type='nats', destination='{subject}', bootstrap.servers='{url}', @map(type='json')) define stream A (n int);
@source(type='http', receiver.url='http://127.0.0.1:1/b'{hours}, @map(type='json')) define stream B (n int);
@source(type='file', dir.uri='{folder}', @map(type='json')) define stream C (n int);
@sink(type='log') define stream Out (n int);
from A select n insert into Out;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as running:
        yield running


def said(
    server: NatsServer, folder: Path, persistence: Persistence = HOURLY, hours: str = "", count: int = 0, **limits: Any
) -> tuple[str, ...]:
    subject = f"s{abs(hash((str(folder), hours, count, *limits.items())))}"
    client = shared(server.url)
    client.call(lambda nc: ensure_stream(nc, {**stream_config(subject, [subject]), **limits}))
    client.call(lambda nc: publish_all(nc, [Outgoing(subject, b"{}", {})] * count))
    text = APP.format(
        subject=subject, url=server.url, folder=folder, hours=hours and f", journal.retention.hours='{hours}'"
    )
    check = RetentionCheck(AppSpec("Kept", text, str(folder), journal=server.url), persistence, threading.Event())
    if persistence.enabled:
        check.ask()
    return tuple(line.replace(subject, "S") for line in check.warnings)


def test_a_stream_with_too_small_an_age_is_named_with_what_to_set(server: NatsServer, tmp_path: Path) -> None:
    (line,) = said(server, tmp_path, max_age=2 * HOUR)
    assert line.startswith(
        "[RETENTION_TOO_SHORT] stream S keeps messages for 2 h, but the revisions of 'Kept' go back 5 h (set max_age of S to 5 h"
    )


def test_an_age_that_covers_the_revisions_and_streams_and_files_without_one_are_not_spoken_of(
    server: NatsServer, tmp_path: Path
) -> None:
    assert said(server, tmp_path, max_age=5 * HOUR) == ()
    assert said(server, tmp_path) == ()


def test_the_journal_of_a_source_is_not_spoken_of_as_revisions_hold_it(server: NatsServer, tmp_path: Path) -> None:
    assert said(server, tmp_path, hours="4") == ()


def test_a_stream_bounded_by_number_is_judged_by_how_fast_it_fills(server: NatsServer, tmp_path: Path) -> None:
    (line,) = said(server, tmp_path, count=200, discard="old", max_msgs=1000)
    assert "keeps messages for about" in line
    assert "set max_msgs of S" in line
    assert said(server, tmp_path, count=3, discard="old", max_msgs=1000) == ()  # that tells nothing
    assert said(server, tmp_path, count=200, discard="new", max_msgs=1000) == ()  # it refuses new ones and forgets none


def test_the_estimate_is_the_time_that_the_limit_comes_to() -> None:
    state = {
        "messages": 500,
        "bytes": 10_000,
        "first_ts": "2026-11-21T10:00:00.5Z",
        "last_ts": "2026-11-21T11:00:00.1Z",
    }
    config = {"name": "S", "discard": "old", "max_msgs": 1000, "max_bytes": 15_000}
    found = kept_for({"config": config, "state": state})
    assert found is not None
    assert (found.age, found.setting, found.estimated) == (5_400_000, "max_bytes of S", True)


def test_a_work_queue_keeps_nothing(server: NatsServer, tmp_path: Path) -> None:
    (line,) = said(server, tmp_path, retention="workqueue")
    assert "keeps messages for 0 s" in line
    assert "the retention policy of S (limits, not workqueue)" in line


def test_where_no_revisions_are_made_by_themselves_nothing_is_asked(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(RetentionCheck, "ask", asked.append)
    spec = AppSpec("Kept", "", str(tmp_path))
    for persistence in (Persistence(), Persistence(enabled=True, interval=0)):
        RetentionCheck(spec, persistence, threading.Event()).begin()
    assert asked == []


def test_an_input_that_is_away_is_asked_again(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AGAIN", 0.0)
    asked: list[str] = []
    real = RetentionCheck._asked

    def away_at_first(check: RetentionCheck, source: Connector) -> Retention | None:
        asked.append(source.stream)
        if len(asked) == 1:
            raise error("CONNECTION_UNAVAILABLE", connector="NATS", reason="it is away")
        return real(check, source)

    monkeypatch.setattr(RetentionCheck, "_asked", away_at_first)
    (line,) = said(server, tmp_path, max_age=HOUR)
    assert "stream S keeps" in line
    assert asked == ["A", "B", "C", "A"]
