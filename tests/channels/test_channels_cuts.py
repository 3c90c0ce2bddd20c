"""Cuts of an app that reads channels: how far they go, and what a group tells of itself where it has nothing to cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import channels_memory
import pytest
from channels_memory import CHANNELS, delivery, give, sink_on

from nadi.channels import transport
from nadi.channels.records import CUT, IDLE, OPEN
from nadi.errors import NadiError
from nadi.metrics import Progress
from nadi.pipeline.coordinator.ledger import Ledger
from nadi.pipeline.cutting import cutlog, cutlogs
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.spec import AppSpec

SOURCE = "@source(type='channel', transport='nats', name='C', url='memory', producers='A-1,A-2')"
SINK = "@sink(type='channel', transport='nats', name='D', url='memory', channel.idle='100', group='g')"
TEXT = f"""@app:name('B-1') {SOURCE} define stream S (key string, value int);
    {SINK} define stream Out (key string, value int);
    from S select key, value insert into Out;"""
FAR = 10**15  # ms: later than any clock of this machine


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    CHANNELS.clear()
    CHANNELS.update({name: channels_memory.MemoryChannel() for name in "CD"})
    monkeypatch.setattr(transport, "_open_of", lambda _kind: channels_memory.open_channel)
    yield
    CHANNELS.clear()


def spec(folder: Path) -> AppSpec:
    """A run of the app."""
    state = folder / "state"
    state.mkdir(exist_ok=True)
    return AppSpec("B-1", TEXT, str(state), epoch=cutlog.take_over(state / "cuts"), order_idle=0)


def begun(*producers: str) -> list[channels_memory.MemoryChannel]:
    """Sinks of producers of C that have begun."""
    sinks = [sink_on(channels_memory.MemoryChannel(CHANNELS["C"]), p, channel_idle="1") for p in producers]
    for sink in sinks:
        sink.begin(1, (0, 0))
    return sinks  # type: ignore[return-value]


def now() -> int:
    return time.time_ns() // 1_000_000


def test_no_cut_is_made_before_every_producer_has_said_something(tmp_path: Path) -> None:
    (first,) = begun("A-1")
    give(first, delivery(1, [("k", 1, 10, 0)]))
    maker = CutMaker(spec(tmp_path))
    assert maker.next(maker.initial(), None) is None
    assert maker.quiet is None


def test_a_cut_goes_no_further_than_the_least_of_its_producers(tmp_path: Path) -> None:
    base = now() - 10_000
    first, second = begun("A-1", "A-2")
    give(first, delivery(1, [("k", i, base + 10 * i, i) for i in range(10)], clock=base + 200))
    give(second, delivery(1, [("k", 0, base + 5, 0)], clock=base + 45))
    maker = CutMaker(spec(tmp_path))
    start = maker.initial()
    cut = maker.next(start, None)
    assert cut is not None
    assert {p: end for p, end in cut.ends.items() if p[0] == 0} == {(0, 0): 5, (0, 1): 1}
    assert cut.clock == base + 45
    known = Progress(cut.n, None, ((0, 0, base + 40), (0, 1, base + 5)))
    assert maker.next(cut, known) is None
    assert maker.quiet == base + 45
    second.idle(base + 72)
    more = maker.next(cut, known)
    assert more is not None
    assert (more.ends[0, 0], more.clock) == (8, base + 72)


def test_a_timer_waits_until_the_producers_have_come_to_its_time(tmp_path: Path) -> None:
    base = now() - 10_000
    first, second = begun("A-1", "A-2")
    give(first, delivery(1, [("k", 1, base, 0)], clock=base + 100))
    give(second, delivery(1, [], clock=base + 50))
    maker = CutMaker(spec(tmp_path))
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    known = Progress(cut.n, base + 80, ())
    assert maker.next(cut, known) is None
    assert maker.next_look(known) > 0.0  # nobody spins until then: the input rings
    second.idle(base + 90)
    due = maker.next(cut, known)
    assert due is not None
    assert due.clock == base + 90


def test_where_all_producers_have_ended_cuts_go_on_by_the_clock_of_the_machine(tmp_path: Path) -> None:
    for sink in begun("A-1", "A-2"):
        give(sink, delivery(1, [("k", 1, 10, 0)]))
        sink.finish()
    maker = CutMaker(spec(tmp_path))
    before = now()
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    assert cut.clock >= before
    assert (cut.ends[0, 0], cut.ends[0, 1]) == (1, 1)


def _told(name: str) -> list[tuple[str, int, int]]:
    return [(t.progress.kind, t.progress.epoch, t.progress.cut) for t in CHANNELS[name].told]


def test_a_run_claims_its_channels_and_tells_of_each_cut_and_of_silence(tmp_path: Path) -> None:
    one = spec(tmp_path)
    ledger = Ledger(one, cutlogs.open_commit_log(one, one.epoch), (0, 0))
    assert ledger.idle_after == 0.1
    told = {
        "bucket": 0,
        "cut": 1,
        "due": None,
        "in": {},
        "out": {},
        "entries": {},
        "highs": [],
        "bytes": 0,
        "memory": 0,
    }
    bucket = {
        **told,
        "piece": None,
        "base": None,
        "errors": 0,
        "faults": 0,
        "receipts": [],
        "state_bytes": 0,
        "state_written": 0,
    }
    ledger.commit(Cut(1, one.epoch, 1_000, 0, {}), [bucket])
    ledger.idle(1_050)  # too soon
    ledger.idle(1_100)
    assert _told("D") == [(OPEN, 1, -1), (CUT, 1, 1), (IDLE, 1, 1)]
    assert CHANNELS["D"].told[-1].progress.clock == 1_100

    two = spec(tmp_path)
    Ledger(two, cutlogs.open_commit_log(two, two.epoch), (1, 1))
    assert _told("D")[-1] == (OPEN, 2, 1)
    with pytest.raises(NadiError, match="FENCED"):
        ledger.idle(2_000)
