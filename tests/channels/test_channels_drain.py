"""The last cuts of an app that is to go on as another one: all that it has, nothing new, at a clock that all instances of its group share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import channels_memory
import pytest
from channels_memory import CHANNELS, delivery, give
from test_channels_cuts import FAR, begun, now, spec

from nadi.channels import transport
from nadi.metrics import Progress
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.spec import AppSpec


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    CHANNELS.clear()
    CHANNELS.update({name: channels_memory.MemoryChannel() for name in "CD"})
    monkeypatch.setattr(transport, "_open_of", lambda _kind: channels_memory.open_channel)
    yield
    CHANNELS.clear()


def known(cut: Cut, due: int | None = None) -> Progress:
    return Progress(cut.n, due, ())


def test_the_last_cut_has_the_latest_clock_at_which_a_producer_closed(tmp_path: Path) -> None:
    base = now() - 10_000
    first, second = begun("A-1", "A-2")
    give(first, delivery(1, [("k", 1, base, 0)], clock=base + 100))
    give(second, delivery(1, [], clock=base + 70))
    maker = CutMaker(replace(spec(tmp_path), drains=True))
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    assert cut.clock == base + 70
    first.finish()
    assert maker.next(cut, known(cut)) is None
    assert not maker.status.finished
    second.finish()
    last = maker.next(cut, known(cut))
    assert last is not None
    assert (last.clock, maker.status.finished) == (base + 100, False)
    assert maker.next(last, known(last)) is None
    assert maker.status.finished


def test_an_app_that_drains_makes_no_cut_for_timers_and_tells_of_no_silence(tmp_path: Path) -> None:
    base = now() - 10_000
    first, second = begun("A-1", "A-2")
    for sink in (first, second):
        give(sink, delivery(1, [], clock=base))
    maker = CutMaker(replace(spec(tmp_path), drains=True))
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    first.idle(base + 900)
    second.idle(base + 900)
    assert maker.next(cut, known(cut, due=base + 50)) is None
    assert maker.quiet is None


def test_an_app_that_has_drained_makes_no_cut_when_it_drains_again_elsewhere(tmp_path: Path) -> None:
    sinks = begun("A-1", "A-2")
    for sink in sinks:
        give(sink, delivery(1, [("k", 1, 10, 0)], clock=100))
        sink.finish()
    draining = replace(spec(tmp_path), drains=True)
    maker = CutMaker(draining)
    last = maker.next(maker.initial(), None)
    assert last is not None
    for sink in begun_again(2):
        sink.finish()
    again = CutMaker(replace(draining, epoch=cutlog.take_over(tmp_path / "state" / "cuts")))
    assert again.next(again.at(last.n), known(last)) is None
    assert again.status.finished


def begun_again(epoch: int) -> list[channels_memory.ChannelSink]:
    """A later run of each producer."""
    sinks = [channels_memory.sink_on(channels_memory.MemoryChannel(CHANNELS["C"]), p) for p in ("A-1", "A-2")]
    for sink in sinks:
        sink.begin(epoch, (1, 1))
    return sinks


def files(folder: Path, drains: bool) -> AppSpec:
    """An app that reads what others write, and keep."""
    state = folder / "state"
    state.mkdir(exist_ok=True)
    text = f"""@app:name('B-1') @source(type='file', dir.uri='{folder}/in', file.settle='0', @map(type='json'))
    define stream S (value int);
    from S select value insert into Out;"""
    epoch = cutlog.take_over(state / "cuts")
    return AppSpec("B-1", text, str(state), epoch=epoch, order_idle=0, drains=drains)


def test_inputs_that_others_keep_stay_where_they_are(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "one.jsonl").write_text(json.dumps({"event": {"value": 1}}) + "\n")
    maker = CutMaker(files(tmp_path, drains=False))
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    maker.close()
    (source / "two.jsonl").write_text(json.dumps({"event": {"value": 2}}) + "\n")
    draining = CutMaker(files(tmp_path, drains=True))
    assert draining.next(draining.at(cut.n), known(cut, due=FAR)) is None
    assert draining.status.finished


def test_an_app_commits_once_before_it_has_drained(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    maker = CutMaker(files(tmp_path, drains=True))
    cut = maker.next(maker.initial(), None)
    assert cut is not None
    assert not maker.status.finished
    assert maker.next(cut, known(cut)) is None
    assert maker.status.finished
