"""The suite of large states, without Spark: the input, what must come, and figures from notes."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from bench import batches, pace, state
from bench.batches import Committed, batch_of
from bench.checks import WrongOutputError, compare, window_rows
from bench.plan import Batch
from bench.report import markdown
from bench.state import (
    BATCH,
    HOUR_MS,
    Held,
    StateSetting,
    app_text,
    events_of,
    figures,
    host_pids,
    read_output,
    write_input,
)
from bench.state_direct import measure_direct
from bench.state_node import bucket_counts
from nadi.pipeline.engine import plan_app

BEGIN = 1_000.0  # s


def setting(folder: Path, app: str = "flat") -> StateSetting:
    return StateSetting(folder, app, 1, 5, "local")


def test_the_window_holds_as_many_events_as_the_size_needs(tmp_path: Path) -> None:
    events = events_of(setting(tmp_path), 0, 3 * BATCH)
    rows = window_rows(events, HOUR_MS)
    held = int(np.searchsorted(events.ts, events.ts[-1] - HOUR_MS, side="right"))
    assert 3 * BATCH - held == setting(tmp_path).fill
    assert rows["n"].max() < 20


@pytest.mark.parametrize("app", ["flat", "keyed"])
def test_apps_of_the_suite_are_planned(tmp_path: Path, app: str) -> None:
    sharding = plan_app(app_text(setting(tmp_path, app))).sharding.kind
    assert sharding == {"flat": "single", "keyed": "key"}[app]


def test_the_input_has_the_events_as_json(tmp_path: Path) -> None:
    few = setting(tmp_path)
    write_input(few)
    with (tmp_path / "in.jsonl").open() as lines:
        first = json.loads(next(lines))["event"]
    events = events_of(few, 0, 1)
    assert (first["ts"], first["sym"], first["vol"]) == (events.ts[0], f"S{events.key[0]}", events.vol[0])
    assert round(first["price"] * 100) == events.cents[0]


def test_output_is_compared_row_by_row(tmp_path: Path) -> None:
    rows = window_rows(events_of(setting(tmp_path), 0, 50), HOUR_MS)
    lines = [
        {"event": {"ts": t, "sym": f"S{k}", "mean": m, "n": n}}
        for t, k, m, n in zip(*(rows[c].tolist() for c in ("ts", "key", "mean", "n")))
    ]
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert compare(rows, read_output(out))["rows"] == 50
    out.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines[1:]))
    with pytest.raises(WrongOutputError):
        compare(rows, read_output(out))


@pytest.mark.slow
def test_sizes_are_measured_in_turn_without_spark_and_come_back_after_a_kill(tmp_path: Path) -> None:
    found = dict(measure_direct(tmp_path, ["flat"], [1, 4], 3, lambda _line: None))
    assert list(found) == ["flat direct, 1 MB", "flat direct, 4 MB"]
    large = found["flat direct, 4 MB"]
    assert large["check"]["rows"] > 3 * BATCH
    assert large["back"]["loading"] > 0
    assert large["written"]["median"] > 100_000
    assert host_pids(os.getpid()) == []
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), 1)
    told = {"suite": "state", "apps": found, "machine": {**machine, "load": [0.0]}, "settings": {}}
    assert "| flat direct, 4 MB |" in markdown({**told, "started": "now", "complete": True})


@pytest.mark.slow
def test_both_apps_are_measured_without_spark_where_both_are_asked_for(tmp_path: Path) -> None:
    found = dict(measure_direct(tmp_path, ["flat", "keyed"], [1], 2, lambda _line: None))
    assert list(found) == ["flat direct, 1 MB", "keyed direct, 1 MB"]
    assert found["keyed direct, 1 MB"]["keys"] < found["flat direct, 1 MB"]["keys"]
    assert found["keyed direct, 1 MB"]["check"]["rows"] > 2 * BATCH


def told(n: int, **more: Any) -> dict[str, Any]:
    """What the bucket told of cut n, at its commit."""
    usual = {"bucket": 0, "cut": n, "loading": 0.0, "memory": 5, "snapshot": "", "state_bytes": 70, "base": 0}
    return {"p": "bucket", "t": BEGIN + n + 0.7, "d": 0.0, **usual, "delta": 100 * n, "events": BATCH, **more}


def test_figures_are_of_the_batches_over_the_full_state_and_the_recoveries_after_them(tmp_path: Path) -> None:
    few = setting(tmp_path)
    batches = [Batch(n, int((BEGIN + n) * 1000), BATCH, {"triggerExecution": 800 + n}) for n in range(10)]
    (tmp_path / "batches.jsonl").write_bytes(b"".join(msgspec.json.encode(b) + b"\n" for b in batches))
    notes = [told(n) for n in range(10)]
    notes[0] |= {"base": 1_000, "base_size": 1_000}
    notes[2] |= {"snapshot": "dumping"}
    notes[3] |= {"base": 1_500, "base_size": 2_000}
    notes[6] |= {"loading": 0.2}  # after the hosts were killed
    notes[9] |= {"loading": 0.3}  # after the node was
    notes += [{"p": "kernel", "t": BEGIN + n + 0.2, "d": 0.05} for n in range(10)]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in notes))
    times = {"killed": BEGIN + 6, "started": BEGIN + 8, "ready": BEGIN + 8.5, "memory": 1.0}
    held = [Held(BEGIN, 10**9, 99), Held(BEGIN + 2, 3_500, 6), Held(BEGIN + 4, 5_000, 8)]
    found = figures(few, times, (BATCH, 6 * BATCH), held)
    assert found["batches"] == 5  # not the one that fills, and none after the kill
    assert found["batch_ms"]["median"] == 803
    assert (found["by_renewal"]["alone"]["count"], found["by_renewal"]["renewing"]["max"]) == (3, 803)
    assert found["by_renewal"]["p99_ratio"] == pytest.approx(803 / 805, abs=0.001)
    assert found["written"]["max"] == 1_800
    assert found["written_per_event"] == pytest.approx(3_000 / (5 * BATCH))
    assert found["pieces"] == {"deltas": 5, "bases": 1}
    assert found["disk"] == {"peak": 5_000, "objects": 8, "base": 2_000, "ratio": 3.5}
    hosts, node = found["recovery_of_hosts"], found["recovery_of_node"]
    assert (hosts["loading_s"], node["loading_s"]) == (0.2, 0.3)
    assert (hosts["whole_s"], hosts["batch_s"]) == (pytest.approx(0.806), pytest.approx(0.806))
    assert node["spark_s"] == pytest.approx(0.5)
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), 1)
    result = {
        "suite": "state",
        "apps": {"flat, 1 MB": found},
        "machine": {**machine, "load": [0.0]},
        "settings": {},
        "started": "now",
        "complete": True,
    }
    text = markdown(result)
    assert "| flat, 1 MB, hosts |" in text
    assert "| 3.50 | 8 | 5, 1 |" in text


def test_what_is_noted_of_a_bucket_is_what_hosts_tell() -> None:
    facts = {"bucket": 1, "cut": 7, "loading": 0.5, "memory": 9, "snapshot": "", "state_bytes": 50, "tip": "d@0"}
    told = {
        **facts,
        "in": {"A": 2, "B": 3},
        "piece": ["d", 0, 20, "c"],
        "base": [["b", 0, 30, "c"], 6, 500, 70, 100, []],
    }
    found = bucket_counts(told)
    assert (found["delta"], found["base"], found["base_size"], found["events"]) == (20, 70, 500, 5)
    assert bucket_counts({**told, "piece": None, "base": None})["delta"] == 0


@pytest.mark.parametrize("module", [state, batches, pace])
def test_the_examples_of_the_suite_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def test_a_batch_has_the_events_of_its_cut_and_begins_with_it() -> None:
    """Two batches and, in between, one whose host lacked what it needed: nothing was committed in it."""
    done = [Committed(8, 900.0, 1_190.0, 50), Committed(9, 1_250.0, 1_390.0, 60)]

    def spark(begin: int, latest: int, whole: int) -> dict[str, Any]:
        return {
            "timestamp": f"1970-01-01T00:00:0{begin / 1000:.3f}Z",
            "durationMs": {"latestOffset": latest, "triggerExecution": whole},
        }

    first = batch_of(spark(1_000, 0, 200), done)
    assert first == Batch(8, 1_000, 50, {"latestOffset": 0, "triggerExecution": 200})  # made before Spark asked
    assert batch_of(spark(1_200, 10, 80), done) is None
    late = batch_of(spark(1_300, 5, 100), done)
    assert late is not None
    assert (late.id, late.begin) == (9, 1_300)
    assert batch_of(spark(1_400, 500, 600), done) is None
