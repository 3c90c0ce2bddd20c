"""What the suite `ha` makes of the rounds of a pair, and how it finds out what came out."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.pair import KILLS, SWITCHES, THROUGHPUT, summed
from bench.pairnodes import on_cores
from bench.report_pair import pair_tables
from bench.takeovers import Rows


def round_of(first: float, **phases: int) -> dict[str, object]:
    return {"first_row_s": first, "active_s": first / 2, "phases_ms": phases}


def until(rows: Rows, count: int) -> None:
    end = time.monotonic() + 100
    while len(rows.when) < count:
        assert time.monotonic() < end, rows.when
        time.sleep(0.005)


def test_a_phase_that_only_some_rounds_tell_is_summed_over_these():
    told = summed([round_of(2.0, held_ms=1, silent_ms=7), round_of(4.0, held_ms=3), round_of(3.0, held_ms=5)], 100)
    assert told["first_row_s"] == {"median": 3.0, "max": 4.0}
    assert told["phases_ms"] == {"held_ms": {"median": 3.0, "max": 5.0}, "silent_ms": {"median": 7.0, "max": 7.0}}


def test_the_tables_of_a_pair_have_goals_beside_figures():
    ms = {"p50": 3.0, "p99": 9.0}
    sides = {name: {"events_per_s": rate, "ms": ms} for name, rate in (("alone", 40_000.0), ("pair", 30_000.0))}
    apps = {
        THROUGHPUT: {**sides, "share": 0.75},
        KILLS: summed([round_of(4.0, held_ms=10)], 100),
        SWITCHES: summed([round_of(1.0, apps_ms=20)], 100),
    }
    throughput, times, phases = pair_tables({"apps": apps})
    assert throughput[2][-1][1] == "0.75 (goal ≥ 0.7)"
    assert times[2] == [
        ["1 kills, 100 MB of state", "2.0 / 2.0", "4.0 / 4.0", "≤ 5"],
        ["1 switches, 100 MB of state", "0.5 / 0.5", "1.0 / 1.0", "≤ 2"],
    ]
    assert phases[2] == [["held", "10 / 10", ""], ["apps", "", "20 / 20"]]
    assert pair_tables({"apps": {KILLS: apps[KILLS]}})[0] == (times[0], times[1], times[2][:1])


def test_rows_are_seen_as_they_come_also_where_a_line_comes_in_two_parts_and_one_twice(tmp_path: Path):
    file = tmp_path / "out"
    rows = Rows(file)
    try:
        file.write_bytes(b'{"event":{"id":1}}\n{"event":{"i')
        until(rows, 1)
        assert rows.first_after(1) is None
        with file.open("ab") as more:
            more.write(b'd":3}}\n{"event":{"id":1}}\n')
        until(rows, 2)
        assert rows.first_after(1) == rows.when[3]
        assert rows.twice == [1]
    finally:
        rows.close()


def test_a_process_that_is_started_on_a_core_stays_there_and_this_one_does_not():
    before = os.sched_getaffinity(0)
    one = frozenset({min(before)})
    with on_cores(one):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
