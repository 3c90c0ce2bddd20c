"""Servers that go away, and answers that are lost: what is tried again counts once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from channels_memory import MemoryChannel, all_of, delivery, give, log_on, sink_on

from nadi.channels.options import Channel
from nadi.channels.records import Progress
from nadi.channels.transport import open_transport
from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.natsserver import NatsServer

ROWS = [(f"k{i}", i, 10, i) for i in range(20)]


class Lossy(MemoryChannel):
    """A channel whose next `lost` answers do not arrive: every other word is there all the same."""

    lost = 0

    def announce(self, producer: str, progress: Progress) -> None:
        if self.lost:
            self.lost -= 1
            if self.lost % 2 == 0:
                super().announce(producer, progress)
            self.owners.pop(producer, None)
            raise error("CONNECTION_UNAVAILABLE", connector=self.name, reason="no answer")
        super().announce(producer, progress)


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_word_whose_answer_was_lost_is_said_once(lost: int) -> None:
    channel = Lossy()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    channel.lost = lost
    failed = 0
    for cut in (1, 2):
        while True:
            try:
                give(sink, delivery(cut, ROWS, 20 * (cut - 1)))
                break
            except ConnectionUnavailableException:
                failed += 1
    assert failed > 0
    assert len(all_of(log_on(channel))) == 40
    assert [t.progress.cut for t in channel.told if t.progress.kind == "cut"] == [1, 2]


def test_silence_is_told_again_after_a_failure() -> None:
    channel = Lossy()
    sink = sink_on(channel, channel_idle="10")
    sink.begin(1, (0, 0))
    channel.lost = 1
    with pytest.raises(ConnectionUnavailableException):
        sink.idle(100)
    sink.idle(105)  # it was there, and is not old enough
    sink.idle(110)
    assert [t.progress.clock for t in channel.told] == [-1, 100, 110]


def test_a_server_that_restarts_loses_and_doubles_nothing_and_readers_are_woken(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        channel = Channel("nats", "restarts", 1, server.url)
        sink = sink_on(open_transport(channel))  # type: ignore[arg-type]
        log = log_on(open_transport(channel))  # type: ignore[arg-type]
        sink.begin(1, (0, 0))
        give(sink, delivery(1, ROWS))
        rung = threading.Event()
        log.wake(rung.set)
        assert log.end(0) == 20
        rung.clear()
        server.stop()
        assert rung.wait(60)  # the connection is lost
        with pytest.raises(ConnectionUnavailableException):
            log.end(0)
        with pytest.raises(ConnectionUnavailableException):
            give(sink, delivery(2, ROWS, 20))
        server.start()
        for _ in range(100):
            try:
                give(sink, delivery(2, ROWS, 20))
                break
            except ConnectionUnavailableException:
                threading.Event().wait(0.1)  # it is tried again with growing delays
        while log.end(0) < 40:
            rung.wait(60)
            rung.clear()
        assert [row[4] for row in all_of(log_on(open_transport(channel)))] == [*range(20), *range(20)]  # type: ignore[arg-type]
        log.close()
