"""The contract of the data source: what Spark may ask, in its order, without Spark."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nadi.errors import NadiError
from nadi.pipeline.cutting import cutlog, cutmaker
from nadi.pipeline.cutting.cutmaker import acts_by_itself, read_status, stop_flag
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.engine import plan_app
from nadi.pipeline.inputs.reader import SPLIT, AppReader, plan_tasks
from nadi.pipeline.progress import Counts, Progress, read_progress, write_progress
from nadi.pipeline.spec import AppSpec

TEXT = """@app:name('A') @source(type='test', file='{file}', kind='{kind}', partitions='{n}', endless='{endless}')
    define stream In (k string, n long);
    {queries}"""
QUIET = "from In select k insert into Out;"
LIMIT = ReadMaxRows(5)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutmaker, "PATIENCE", 0.0)


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


def done(
    spec: AppSpec, cut: dict[str, object], due: int | None = None, highs: tuple[tuple[int, int, int], ...] = ()
) -> None:
    """What the write stage leaves."""
    write_progress(spec.place.state, Progress(Cut.from_offset(cut).n, due, highs))


def test_the_initial_offset_is_the_same_twice_and_after_a_restart(tmp_path: Path):
    spec = make(tmp_path)
    reader = AppReader(spec)
    first = reader.initialOffset()
    assert reader.initialOffset() == first
    put(tmp_path / "in", [1, 2, 3])
    assert AppReader(make(tmp_path)).initialOffset() == first


def test_the_same_offset_comes_back_where_nothing_happened(tmp_path: Path):
    reader = AppReader(make(tmp_path))
    start = reader.initialOffset()
    assert reader.latestOffset(start, LIMIT) == start
    assert list(reader.partitions(start, start)) == []


def test_bounds_hold_unless_everything_is_asked_for(tmp_path: Path):
    put(tmp_path / "in", list(range(12)))
    spec = make(tmp_path)
    reader = AppReader(spec)
    start = reader.initialOffset()
    bounded = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert bounded["ends"] == {"0": {"0": 5}, "1": {"0": 0}}  # the last one is the control input
    done(spec, bounded, highs=((0, 0, 4),))
    rest = reader.latestOffset(bounded, ReadAllAvailable())
    assert rest["ends"] == {"0": {"0": 12}, "1": {"0": 0}}
    assert rest["highs"] == {"0": {"0": 4}}


def test_a_cut_that_spark_never_learned_of_is_given_again(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    reader = AppReader(make(tmp_path))
    start = reader.initialOffset()
    lost = reader.latestOffset(start, LIMIT)
    put(tmp_path / "in", [3, 4])
    again = AppReader(make(tmp_path))
    assert again.latestOffset(start, ReadAllAvailable()) == lost


def test_partitions_are_planned_from_the_offsets_alone(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    reader = AppReader(make(tmp_path))
    start = reader.initialOffset()
    end = reader.latestOffset(start, LIMIT)
    fresh = pickle.loads(pickle.dumps(AppReader(make(tmp_path))))
    tasks = fresh.partitions(start, end)
    assert [[(r.start, r.end) for r in t.ranges] for t in tasks] == [[(0, 2)]]


def test_a_large_range_is_split_over_the_hosts():
    start, end = Cut(1, 1, 0, 0, {(0, 0): 10}), Cut(2, 1, 0, 0, {(0, 0): 10 + 4 * SPLIT}, {}, {(0, 0): 77})
    tasks = plan_tasks(start, end, 2, parted={0})
    pieces = sorted((r.split, r.start, r.end, r.high) for t in tasks for r in t.ranges)
    assert pieces == [(0, 10, 10 + 2 * SPLIT, 77), (1, 10 + 2 * SPLIT, 10 + 4 * SPLIT, 77)]
    assert {t.host for t in tasks} == {0, 1}


def test_a_log_that_is_read_from_front_to_back_has_one_host_for_each_partition():
    start = Cut(1, 1, 0, 0, {(0, 0): 10, (0, 1): 0})
    end = Cut(2, 1, 0, 0, {(0, 0): 10 + 4 * SPLIT, (0, 1): 4 * SPLIT}, {}, {(0, 0): 77, (0, 1): 77})
    tasks = plan_tasks(start, end, 2)
    assert [(t.host, [(r.partition, r.start, r.end) for r in t.ranges]) for t in tasks] == [
        (0, [(0, 10, 10 + 4 * SPLIT)]),
        (1, [(1, 0, 4 * SPLIT)]),
    ]


def test_a_cut_without_input_still_has_a_task_for_the_clock_rows():
    start, end = Cut(1, 1, 0, 0, {(0, 0): 10}), Cut(2, 1, 5, 0, {(0, 0): 10})
    assert [t.ranges for t in plan_tasks(start, end, 2)] == [()]


def test_a_due_timer_makes_one_cut_and_then_there_is_silence(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    done(spec, first, due=2, highs=((0, 0, 1),))
    timed = reader.latestOffset(first, LIMIT)
    assert (timed["n"], timed["ends"]) == (2, first["ends"])
    done(spec, timed, due=None, highs=((0, 0, 1),))
    assert reader.latestOffset(timed, LIMIT) == timed


def test_a_timer_of_the_future_makes_no_cut(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    done(spec, first, due=1 << 60)
    assert reader.latestOffset(first, LIMIT) == first


def test_an_app_that_acts_by_itself_starts_without_input(tmp_path: Path):
    spec = make(tmp_path, "define trigger T at every 5 sec; from T select triggered_time insert into Out;")
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    assert (first["n"], first["started"]) == (1, first["clock"])
    done(spec, first, due=1 << 60)
    assert reader.latestOffset(first, LIMIT) == first


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
    reader = AppReader(make(tmp_path, kind=kind))
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    put(tmp_path / "in", [4])
    again = AppReader(make(tmp_path, kind=kind))  # no progress was written
    second = again.latestOffset(first, LIMIT)
    assert second["highs"] == {"0": {"0": 9}}


def test_after_a_request_to_stop_there_are_no_more_cuts(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    reader = AppReader(spec)
    start = reader.initialOffset()
    stop_flag(spec.place.state, spec.epoch).touch()
    assert reader.latestOffset(start, LIMIT) == start
    status = read_status(spec.place.state)
    assert status is not None
    assert status.stopped


def test_a_run_to_the_end_says_when_it_is_there(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path, endless=False, until_end=True)
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    done(spec, first)
    reader.latestOffset(first, LIMIT)
    status = read_status(spec.place.state)
    assert status is not None
    assert (status.finished, status.n) == (True, 1)


def test_a_run_to_the_end_of_nothing_ends_too(tmp_path: Path):
    spec = make(tmp_path, endless=False, until_end=True)
    reader = AppReader(spec)
    start = reader.initialOffset()
    assert reader.latestOffset(start, LIMIT) == start
    status = read_status(spec.place.state)
    assert status is not None
    assert status.finished


def test_what_spark_has_committed_is_acknowledged(tmp_path: Path):
    put(tmp_path / "in", [1, 2])
    spec = make(tmp_path)
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    assert (tmp_path / "in.ack-0").read_text() == "0"
    done(spec, first)
    reader.latestOffset(first, LIMIT)
    assert (tmp_path / "in.ack-0").read_text() == "2"


def test_an_input_that_is_away_is_waited_for_and_then_left_out(tmp_path: Path):
    put(tmp_path / "in-0", [1])
    put(tmp_path / "in-1", [2])
    spec = make(tmp_path, n=2, order_idle=60_000)
    reader = AppReader(spec)
    start = reader.initialOffset()
    (tmp_path / "in.away").touch()
    assert reader.latestOffset(start, LIMIT) == start
    status = read_status(spec.place.state)
    assert status is not None
    assert "In" in status.away
    (tmp_path / "in.away").unlink()
    assert reader.latestOffset(start, LIMIT)["ends"] == {"0": {"0": 1, "1": 1}, "1": {"0": 0}}


def test_an_input_that_stays_away_does_not_hold_up_timers(tmp_path: Path):
    put(tmp_path / "in", [1])
    spec = make(tmp_path)
    reader = AppReader(spec)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    done(spec, first, due=2)
    (tmp_path / "in.away").touch()
    cut = reader.latestOffset(first, LIMIT)
    assert (cut["n"], cut["idle"]) == (2, {"0": True})


def test_a_checkpoint_ahead_of_the_cut_log_is_refused(tmp_path: Path):
    reader = AppReader(make(tmp_path))
    start = reader.initialOffset()
    with pytest.raises(NadiError) as caught:
        reader.latestOffset({**start, "n": 7}, LIMIT)
    assert caught.value.condition == "CUT_LOG_MISMATCH"


def test_totals_count_a_cut_once_however_often_it_is_committed(tmp_path: Path):
    for n in (1, 1, 2, 2, 2):
        write_progress(tmp_path, Progress(n, counts=Counts({"In": 10}, {"Out": n})))
    found = read_progress(tmp_path)
    assert found is not None
    assert found.totals == Counts({"In": 20}, {"Out": 3})
