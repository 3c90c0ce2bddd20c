"""The suite of large states, without Spark: the input, what must come, and figures from notes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.checks import WrongOutputError, compare, window_rows
from bench.node import Batch
from bench.report import markdown
from bench.state import BATCH, HOUR_MS, StateSetting, app_text, events_of, figures, host_pids, read_output, write_input
from bench.state_direct import measure_direct
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


def test_sizes_are_measured_in_turn_without_spark_and_come_back_after_a_kill(tmp_path: Path) -> None:
    found = dict(measure_direct(tmp_path, ["flat"], [1, 4], 3, lambda _line: None))
    assert list(found) == ["flat direct, 1 MB", "flat direct, 4 MB"]
    large = found["flat direct, 4 MB"]
    assert large["check"]["rows"] > 3 * BATCH
    assert large["back"]["loading"] > 0
    assert large["written"]["median"] > 200_000
    assert host_pids(os.getpid()) == []
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), 1)
    told = {"suite": "state", "apps": found, "machine": {**machine, "load": [0.0]}, "settings": {}}
    assert "| flat direct, 4 MB |" in markdown({**told, "started": "now", "complete": True})


def test_both_apps_are_measured_without_spark_where_both_are_asked_for(tmp_path: Path) -> None:
    found = dict(measure_direct(tmp_path, ["flat", "keyed"], [1], 2, lambda _line: None))
    assert list(found) == ["flat direct, 1 MB", "keyed direct, 1 MB"]
    assert found["keyed direct, 1 MB"]["keys"] < found["flat direct, 1 MB"]["keys"]
    assert found["keyed direct, 1 MB"]["check"]["rows"] > 2 * BATCH


def stage(n: int, **more: Any) -> dict[str, Any]:
    told = {"bucket": 0, "cut": n, "feeding": 0.0, "loading": 0.0, "memory": 5, "snapshot": "", "state_bytes": 70}
    return {"p": "stage", "t": BEGIN + n + 0.1, "d": 0.5, **told, "state_written": 100 * n, "events": BATCH, **more}


def test_figures_are_of_the_batches_over_the_full_state_and_the_recoveries_after_them(tmp_path: Path) -> None:
    few = setting(tmp_path)
    batches = [Batch(n, int((BEGIN + n) * 1000), BATCH, {"triggerExecution": 800 + n}) for n in range(10)]
    (tmp_path / "batches.jsonl").write_bytes(b"".join(msgspec.json.encode(b) + b"\n" for b in batches))
    told = [stage(n) for n in range(10)]
    told[6] |= {"feeding": 0.2, "loading": 0.1}  # after the hosts were killed
    told[9] |= {"feeding": 0.3, "loading": 0.1}  # after the node was
    told += [{"p": "kernel", "t": BEGIN + n + 0.2, "d": 0.05} for n in range(10)]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in told))
    found = figures(
        few, {"killed": BEGIN + 6, "started": BEGIN + 8, "ready": BEGIN + 8.5, "memory": 1.0}, (BATCH, 6 * BATCH)
    )
    assert found["batches"] == 5  # not the one that fills, and none after the kill
    assert found["batch_ms"]["median"] == 803
    assert found["written"]["max"] == 500
    assert found["written_per_event"] == pytest.approx(1500 / (5 * BATCH))
    hosts, node = found["recovery_of_hosts"], found["recovery_of_node"]
    assert (hosts["feeding_s"], node["feeding_s"]) == (0.2, 0.3)
    assert hosts["whole_s"] == pytest.approx(0.806)
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
    assert "| flat, 1 MB, hosts |" in markdown(result)
