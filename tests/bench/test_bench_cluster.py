"""What the suites `fleet` and `distributed` compute and compare."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.checks import WrongOutputError
from bench.distributed import CENTS, EACH, beside, compared, expected
from bench.events import make_events
from bench.fleet import FleetSetting, measure_decisions
from bench.report_cluster import distributed_table, fleet_tables


def one_by_one(count: int, keys: int) -> list[tuple[int, str, int, int]]:
    events, totals, counts, rows = make_events(0, count, keys), {}, {}, []
    for ts, key, cents, vol in zip(
        *(c.tolist() for c in (events.ts, events.key, events.cents, events.vol)), strict=True
    ):
        if cents < CENTS:
            continue
        totals[key], counts[key] = totals.get(key, 0) + vol, counts.get(key, 0) + 1
        if counts[key] % EACH == 0:
            rows.append((ts, f"S{key}", totals[key], counts[key]))
    return rows


def as_lines(rows: list[tuple[int, str, int, int]]) -> list[bytes]:
    return [msgspec.json.encode({"event": dict(zip(("ts", "sym", "total", "n"), row, strict=True))}) for row in rows]


def test_the_rows_that_are_expected_are_those_of_one_event_after_the_other():
    assert expected(make_events(0, 3_000, 7)) == set(one_by_one(3_000, 7))


def test_rows_may_come_in_another_order_but_for_those_of_a_key():
    rows = one_by_one(3_000, 7)
    by_key = sorted(rows, key=lambda row: row[1])
    assert compared(as_lines(by_key), set(rows)).tolist() == [row[0] for row in by_key]
    with pytest.raises(WrongOutputError, match="comes row"):
        compared(as_lines([*rows[:-1][::-1], rows[-1]]), set(rows))


@pytest.mark.parametrize("change", ["missing", "changed"])
def test_rows_that_are_missing_or_changed_are_found(change: str):
    rows = one_by_one(3_000, 7)
    ts, sym, total, n = rows[-1]
    found = rows[:-1] if change == "missing" else [*rows[:-1], (ts, sym, total + 1, n)]
    with pytest.raises(WrongOutputError, match="differ"):
        compared(as_lines(found), set(rows))


def test_a_hop_is_what_two_of_them_cost_more():
    told = {"events_per_s": 50_000, "cpu_us_an_event": 14.0, "latency_ms": {"p50": 90.0}}
    base = {"events_per_s": 100_000, "cpu_us_an_event": 10.0, "latency_ms": {"p50": 40.0}}
    assert beside(told, base) == {"share": 0.5, "hop_us_an_event": 2.0, "hop_ms": 25.0}


def test_decisions_place_all_and_even_them_out(tmp_path: Path):
    told = measure_decisions(FleetSetting(tmp_path, workers=50, instances=100), lambda _line: None)
    assert (told["least"], told["most"]) == (9, 10)
    assert told["moved"] == 9
    (placing,) = fleet_tables({"apps": {"decisions": told}})
    assert [row[3] for row in placing[2]] == ["", "9-10"]


def test_a_way_that_was_not_measured_whole_has_a_row_all_the_same():
    _caption, heads, rows = distributed_table(
        {"apps": {"undistributed": {"events_per_s": 1_000}, "scale-4": {"times": 3.25}}}
    )
    assert [row[:3] for row in rows] == [["undistributed", "1,000", ""], ["scale-4", "", "3.2 × scale-1"]]
    assert {len(row) for row in rows} == {len(heads)}
