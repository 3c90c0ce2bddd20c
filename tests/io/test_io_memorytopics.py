"""Topics of `inMemory` in a pair: at both nodes each payload is once, and has the same number, whatever is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventsync.pair_recording import Recorder, recorder_in
from sample import connector, delivery

from nadi.eventsync.journalcopy import JournalCopy
from nadi.io import memorytopics
from nadi.io.contract import Place
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log, open_sink
from nadi.io.sinks.numbers import NUMBER, PRODUCER
from nadi.replica.address import with_replica


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[str]]:
    with NatsServer(tmp_path / "one") as one, NatsServer(tmp_path / "two") as two:
        yield [one.url, two.url]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return recorder_in(monkeypatch)


def place_at(url: str, folder: Path, recorder: Recorder) -> Place:
    return Place("A", folder, journal=with_replica(url, recorder.socket))


def heard(url: str, folder: Path, topic: str, recorder: Recorder) -> list[tuple[int, int, bytes, str, str]]:
    """What a topic has: number, time, payload, bucket, number of the row."""
    log = open_log(connector("inmemory", {"topic": topic}), place_at(url, folder, recorder))
    found: list[Any] = []
    for messages in log.read(0, log.oldest(0), log.end(0)):  # type: ignore[attr-defined]
        for position, time, payload, of in zip(
            messages.positions, messages.times, messages.payloads, messages.properties
        ):
            found.append((int(position), int(time), bytes(payload), of[PRODUCER][-1], of[NUMBER]))
    log.close()
    return found


def test_each_payload_is_once_at_both_nodes(servers: list[str], recorder: Recorder, tmp_path: Path):
    options, place = connector("inmemory", {"topic": "t-{{name}}"}), place_at(servers[0], tmp_path, recorder)
    first, second = open_sink(options, place), open_sink(options, place)  # another run, and one that is not asleep
    receipt = first.write(delivery(0, ["a", "b"]))
    second.write(delivery(0, ["a", "b"]))
    first.commit(0, [receipt])
    receipts = [second.write(delivery(1, ["a"], first=2)), second.write(delivery(1, ["a"], first=0, bucket=1))]
    first.write(delivery(1, ["a"], first=2))
    second.commit(1, receipts)
    second.commit(1, receipts)
    third = open_sink(options, place)
    third.write(delivery(1, ["a"], first=2))
    third.write(delivery(2, ["a"], first=3))
    found = heard(servers[0], tmp_path, "t-a", recorder)
    assert [(number, *of) for number, _, _, *of in found] == [
        (0, "0", "0"),
        (1, "0", "2"),
        (2, "1", "0"),
        (3, "0", "3"),
    ]
    assert len(heard(servers[0], tmp_path, "t-b", recorder)) == 1
    copy = JournalCopy(servers[1])

    async def apply() -> None:
        for record in recorder.done():
            await copy.apply(record)

    asyncio.run(apply())
    copy.close()
    assert recorder.open == []
    for topic in ("t-a", "t-b"):
        assert heard(servers[1], tmp_path, topic, recorder) == heard(servers[0], tmp_path, topic, recorder)


def test_an_app_hears_what_comes_after_its_first_start(servers: list[str], recorder: Recorder, tmp_path: Path):
    place, options = place_at(servers[0], tmp_path, recorder), connector("inmemory", {"topic": "t"})
    sink = open_sink(options, place)
    sink.write(delivery(0, ["before"]))
    log = open_log(options, place)
    begins = log.beginning(0)
    assert begins == 1
    sink.write(delivery(1, ["after"], first=1))
    (messages,) = log.read(0, begins, begins + 1)
    assert [bytes(payload) for payload in messages.payloads] == [b"after"]
    log.close()


def test_the_oldest_payloads_go_at_both_nodes_where_there_are_too_many(
    servers: list[str], recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memorytopics, "GROWN", 1)
    monkeypatch.setattr(memorytopics, "MAX_BYTES", 8_000)
    sink = open_sink(connector("inmemory", {"topic": "t"}), place_at(servers[0], tmp_path, recorder))
    for cut in range(40):
        sink.write(delivery(cut, ["x" * 500], first=cut))
    copy = JournalCopy(servers[1])

    async def apply() -> None:
        for record in recorder.done():
            await copy.apply(record)

    asyncio.run(apply())
    copy.close()
    found = heard(servers[0], tmp_path, "t", recorder)
    assert 5 < len(found) < 20
    assert found[-1][0] == 39
    assert heard(servers[1], tmp_path, "t", recorder) == found
