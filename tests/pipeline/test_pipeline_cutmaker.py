"""Making cuts: what the coordinator may ask, in its order; and which tasks read a cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pipeline_testlog
import pytest

from nadi.errors import NadiError
from nadi.io.wallclock import WallClock
from nadi.metrics import Progress
from nadi.pipeline.coordinator.tasks import SPLIT, ranges_of, split_ranges
from nadi.pipeline.cutting import cutlog, cutmaker
from nadi.pipeline.cutting.cutmaker import CutMaker, acts_by_itself
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.engine import plan_app
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A') @source(type='test', file='{file}', kind='{kind}', partitions='{n}', endless='{endless}')
    define stream In (k string, n long);
    {queries}"""
CONTROL = (1, 0)  # the place of the control log
QUIET = "from In select k insert into Out;"


def put(path: Path, times: list[int]) -> None:
    with path.open("a") as out:
        out.write("".join(f"{t}\t{json.dumps(['k', t])}\n" for t in times))


def make(
    folder: Path, queries: str = QUIET, kind: str = "known", n: int = 1, endless: bool = True, **more: object
) -> AppSpec:
    state = folder / "state"
    state.mkdir(exist_ok=True)
    file = folder / "in"
    text = TEXT.format(file=file, kind=kind, n=n, endless=str(endless).lower(), queries=queries)
    epoch = cutlog.take_over(state / "cuts")
    spec = AppSpec("A", text, str(state), epoch=epoch, max_events=5, connectors="pipeline_testlog", order_idle=0)
    return replace(spec, **more)


def after(cut: Cut, due: int | None = None, highs: tuple[tuple[int, int, int], ...] = ()) -> Progress:
    """What a committed cut has told."""
    return Progress(cut.n, due, highs)


def cut_after(maker: CutMaker, start: Cut, known: Progress | None = None) -> Cut:
    """The cut that must be there."""
    found = maker.next(start, known)
    assert found is not None
    return found


def test_where_everything_begins_is_the_same_twice_and_after_a_restart(tmp_path: Path):
    maker = CutMaker(make(tmp_path))
    first = maker.initial()
    assert maker.initial() == first
    put(tmp_path / "in", [1, 2, 3])
    assert CutMaker(make(tmp_path)).initial() == first


def test_where_nothing_happened_there_is_no_cut(tmp_path: Path):
    maker = CutMaker(make(tmp_path))
    assert maker.next(maker.initial(), None) is None


def test_the_first_cut_is_made_without_events_where_somebody_waits_for_it_and_no_other_one(tmp_path: Path):
    maker = CutMaker(make(tmp_path))
    maker.wanted = True
    first = cut_after(maker, maker.initial())
    assert (first.n, first.ends) == (1, {(0, 0): 0, (1, 0): 0})
    assert maker.next(first, after(first)) is None
    put(tmp_path / "in", [1])
    assert cut_after(maker, first, after(first)).ends == {(0, 0): 1, (1, 0): 0}


def test_cuts_are_dated_by_the_time_that_nodes_agree_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cutmaker, "WALL", WallClock(lambda: 1_000_000))
    put(tmp_path / "in", [1, 2])
    maker = CutMaker(make(tmp_path))
    first = cut_after(maker, maker.initial())
    assert first.clock == 1_000_000
    cutmaker.WALL.agree(1_060_000)
    put(tmp_path / "in", [3])
    assert cut_after(maker, first, after(first)).clock == 1_060_000
    assert maker.next_look(Progress(1, 1_060_002, ())) == 0.002


def test_a_cut_takes_no_more_than_its_bound(tmp_path: Path):
    put(tmp_path / "in", list(range(12)))
    maker = CutMaker(make(tmp_path))
    bounded = cut_after(maker, maker.initial())
    assert bounded.ends == {(0, 0): 5, (1, 0): 0}  # the last one is the control input
    rest = cut_after(maker, bounded, after(bounded, highs=((0, 0, 4),)))
    assert rest.ends == {(0, 0): 10, (1, 0): 0}
    assert rest.highs == {(0, 0): 4}


class GrownLog(pipeline_testlog.LineLog):
    """It is taken from its end on, and has as many partitions as there are files."""

    def partitions(self) -> int:
        return len([*self._path.parent.glob("in-*")])

    def beginning(self, partition: int) -> int:
        return self.end(partition)

    def oldest(self, partition: int) -> int:
        return 0

    def retention(self) -> None:
        return None


def test_an_app_that_begins_with_the_end_takes_all_of_a_partition_that_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline_testlog, "LineLog", GrownLog)
    put(tmp_path / "in-0", [1, 2])
    maker = CutMaker(make(tmp_path, n=2))
    start = maker.initial()
    assert start.ends == {(0, 0): 2, CONTROL: 0}
    put(tmp_path / "in-1", [3, 4, 5])
    cut = cut_after(maker, start)
    assert (cut.begins, cut.ends) == ({(0, 1): 0}, {(0, 0): 2, (0, 1): 3, CONTROL: 0})


def test_a_cut_that_nobody_took_is_given_again(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    maker = CutMaker(make(tmp_path))
    start = maker.initial()
    lost = cut_after(maker, start)
    put(tmp_path / "in", [3, 4])
    again = CutMaker(make(tmp_path))
    assert cut_after(again, start) == lost


def test_what_a_cut_takes_follows_from_it_and_the_one_before_alone(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    maker = CutMaker(make(tmp_path))
    start = maker.initial()
    assert ranges_of(start, cut_after(maker, start)) == [Range(0, 0, 0, 2)]


def test_a_large_range_is_split_over_the_hosts():
    homes = split_ranges([Range(0, 0, 10, 10 + 4 * SPLIT, 0, 77)], 2, parted={0})
    pieces = sorted((r.split, r.start, r.end, r.high) for mine in homes.values() for r in mine)
    assert pieces == [(0, 10, 10 + 2 * SPLIT, 77), (1, 10 + 2 * SPLIT, 10 + 4 * SPLIT, 77)]
    assert set(homes) == {0, 1}


def test_a_log_that_is_read_from_front_to_back_has_one_host_for_each_partition():
    whole = [Range(0, 0, 10, 10 + 4 * SPLIT, 0, 77), Range(0, 1, 0, 4 * SPLIT, 0, 77)]
    homes = split_ranges(whole, 2)
    assert {host: [(r.partition, r.start, r.end) for r in mine] for host, mine in homes.items()} == {
        0: [(0, 10, 10 + 4 * SPLIT)],
        1: [(1, 0, 4 * SPLIT)],
    }


def test_a_cut_without_input_still_has_a_task_for_the_clock():
    start, end = Cut(1, 1, 0, 0, {(0, 0): 10}), Cut(2, 1, 5, 0, {(0, 0): 10})
    assert split_ranges(ranges_of(start, end), 2) == {0: []}


def test_a_due_timer_makes_one_cut_and_then_there_is_silence(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    timed = cut_after(maker, first, after(first, due=2, highs=((0, 0, 1),)))
    assert (timed.n, timed.ends) == (2, first.ends)
    assert maker.next(timed, after(timed, highs=((0, 0, 1),))) is None


def test_a_timer_of_the_future_makes_no_cut(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    assert maker.next(first, after(first, due=1 << 60)) is None


def test_an_app_that_acts_by_itself_starts_without_input(tmp_path: Path):
    spec = make(tmp_path, "define trigger T at every 5 sec; from T select triggered_time insert into Out;")
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    assert (first.n, first.started) == (1, first.clock)
    assert maker.next(first, after(first, due=1 << 60)) is None


@pytest.mark.parametrize(
    ("queries", "acts"),
    [
        (QUIET, False),
        ("from In#window.time(1 sec) select k insert into Out;", False),
        ("from In select k output every 1 sec insert into Out;", True),
        ("from not In for 1 sec select 1 as one insert into Out;", True),
    ],
)
def test_what_acts_by_itself_is_seen_in_the_plan(queries: str, acts: bool):
    assert acts_by_itself(plan_app("define stream In (k string); " + queries)) is acts


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_lost_notes_are_found_out_again(tmp_path: Path, kind: str):
    put(tmp_path / "in", [7, 9, 3])
    maker = CutMaker(make(tmp_path, kind=kind))
    first = cut_after(maker, maker.initial())
    put(tmp_path / "in", [4])
    again = CutMaker(make(tmp_path, kind=kind))
    second = cut_after(again, first)  # as behind a restored cut, whose times nobody has noted
    assert second.highs == {(0, 0): 9}


def test_a_run_to_the_end_says_when_it_is_there(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path, endless=False, until_end=True)
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    assert maker.next(first, after(first)) is None
    assert (maker.status.finished, maker.status.n) == (True, 1)


def test_a_run_to_the_end_of_nothing_ends_too(tmp_path: Path):
    spec = make(tmp_path, endless=False, until_end=True)
    maker = CutMaker(spec)
    assert maker.next(maker.initial(), None) is None
    assert maker.status.finished


def test_what_is_committed_is_acknowledged(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    spec = make(tmp_path)
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    assert (tmp_path / "in.ack-0").read_text() == "0"
    maker.next(first, after(first))
    assert (tmp_path / "in.ack-0").read_text() == "2"


def test_an_input_that_is_away_is_waited_for_and_then_left_out(tmp_path: Path):
    put(tmp_path / "in-0", [1])
    put(tmp_path / "in-1", [2])
    spec = make(tmp_path, n=2, order_idle=60_000)
    maker = CutMaker(spec)
    start = maker.initial()
    (tmp_path / "in.away").touch()
    assert maker.next(start, None) is None
    assert "In" in maker.status.away
    (tmp_path / "in.away").unlink()
    assert cut_after(maker, start).ends == {(0, 0): 1, (0, 1): 1, (1, 0): 0}


def test_an_input_that_stays_away_does_not_hold_up_timers(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    maker = CutMaker(spec)
    first = cut_after(maker, maker.initial())
    (tmp_path / "in.away").touch()
    cut = cut_after(maker, first, after(first, due=2))
    assert (cut.n, cut.idle) == (2, (0,))


def test_a_group_ahead_of_the_cut_log_is_refused(tmp_path: Path):
    maker = CutMaker(make(tmp_path))
    start = maker.initial()
    with pytest.raises(NadiError) as caught:
        maker.next(replace(start, n=7), None)
    assert caught.value.condition == "CUT_LOG_MISMATCH"
