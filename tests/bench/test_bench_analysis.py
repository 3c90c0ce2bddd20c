"""How figures are made from notes, and what a result looks like."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest

from bench import analysis, events, kernel
from bench.analysis import (
    BatchFigures,
    Note,
    batch_summary,
    figures,
    latencies_us,
    percentiles,
    rate,
    read_notes,
    steady,
    timeline,
)
from bench.options import chosen_apps
from bench.plan import Batch
from bench.report import markdown
from bench.result import ratios


@pytest.mark.parametrize("module", [analysis, events, kernel])
def test_the_examples_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def batch(number: int, begin: int, length: int, count: int = 1_000) -> Batch:
    return Batch(number, begin, count, {"triggerExecution": length, "addBatch": length - 10})


def test_notes_go_to_the_batch_they_began_in_and_hosts_at_work_together_count_once() -> None:
    notes = [
        Note("read", 10.000, 0.010, 500, 4_000),
        Note("reading", 10.000, 0.040),
        Note("decode", 10.010, 0.020),
        Note("kernel", 10.050, 0.030, 500),
        Note("kernel", 10.060, 0.030, 500),
        Note("delta", 10.095, 0.005, 0, 70),
        Note("kernel", 10.200, 0.010, 9),
    ]
    first, second = figures([batch(0, 10_000, 100), batch(1, 10_150, 100)], notes)
    assert first.hosts["kernel"] == pytest.approx(40.0, abs=0.01)
    assert first.hosts["spread"] == pytest.approx(10.0, abs=0.01)
    assert first.hosts["state"] == pytest.approx(5.0, abs=0.01)
    assert first.rest == pytest.approx(100 - 40 - 40 - 5, abs=0.01)
    assert (first.bytes_in, first.state_bytes) == (4_000, 70)
    assert second.hosts["kernel"] == pytest.approx(10.0, abs=0.01)


def made(count: int) -> list[BatchFigures]:
    return figures([batch(i, 1_000 * i, 500) for i in range(count)], [])


def test_steady_batches_leave_out_the_first_ones_and_the_last_one() -> None:
    assert [b.id for b in steady(made(10))] == [3, 4, 5, 6, 7, 8]
    assert [b.id for b in steady(made(3))] == [1, 2]
    assert [b.id for b in steady(made(1))] == [0]


def test_the_rate_counts_pauses_between_batches() -> None:
    assert rate(made(2)) == pytest.approx(2_000 / 1.5)
    assert rate([]) == 0


def test_latency_counts_rows_whose_event_was_sent_in_the_range() -> None:
    stamps, came = np.array([0, 100, 200, 300]), np.array([50, 160, 270, 380])
    found = latencies_us(stamps, came, (100, 300))
    assert found.tolist() == [60, 70]
    assert percentiles(found)["p50"] == pytest.approx(0.065, abs=0.006)


def test_a_torn_last_note_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(b'{"p":"read","t":2,"d":1}\n{"p":"re')
    (tmp_path / "2.jsonl").write_bytes(b'{"p":"kernel","t":1,"d":1}\n')
    assert [n.p for n in read_notes(tmp_path)] == ["kernel", "read"]


def test_only_an_app_is_measured_together_with_identity() -> None:
    assert chosen_apps(["pattern"]) == ["identity", "pattern"]
    assert len(chosen_apps(None)) == 4


def test_a_result_becomes_tables_with_ratios_to_identity() -> None:
    def app(factor: float) -> dict[str, object]:
        summary = batch_summary(steady(made(10)))
        return {
            "throughput": {
                "events": 10,
                "whole_input": True,
                "events_per_s": 100 / factor,
                "check": {"rows": 5},
                **summary,
            },
            "latency": {
                "ms": {"p50": 10 * factor, "p99": 20 * factor, "max": 30},
                "rows": 5,
                "offered_per_s": 5_000,
                **summary,
            },
        }

    apps = json.loads(msgspec.json.encode({"identity": app(1), "filter": app(2)}))
    assert ratios(apps)["filter"]["throughput events_per_s"] == 0.5
    assert ratios(apps)["filter"]["latency ms p99"] == 2
    facts = {
        "commit": "c",
        "cpu": "x",
        "cores": 2,
        "memory_gb": 1,
        "load": [0.5],
        "java": "17",
        "python": "3",
        "pyspark": "4",
    }
    settings = {"events": 10, "batch_events": 10, "rate": 5_000, "seconds": 20, "warm": 15, "profile": False}
    text = markdown({"started": "now", "complete": False, "machine": facts, "settings": settings, "apps": apps})
    assert "Incomplete run" in text
    assert "| filter | 50 | 0.50 | 500 [500–500] |" in text
    assert "| host: kernel |" in text


def test_the_moments_of_a_batch_are_told_since_its_begin() -> None:
    notes = [
        *(Note("reading", 10.020, 0.010), Note("reading", 10.025, 0.020)),
        *(Note("kernel", 10.050, 0.030), Note("kernel", 10.060, 0.010)),
        Note("kernel", 11.000, 0.010),
    ]
    (made,) = figures([batch(0, 10_000, 100)], notes)
    found = {label: round(told.median) for label, told in timeline([made], notes).items()}
    assert found == {
        "offset logged": 0,
        "first host reads": 20,
        "last one has read": 45,
        "first kernel begins": 50,
        "last one ends": 80,
        "batch ends": 100,
    }
