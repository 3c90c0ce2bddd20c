"""The suite of latency: what is compared with what, and that a run with wrong rows gives no figure."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bench import latency, latency_load, live, peers, peers_apps, peers_kafka, processors
from bench.checks import Rows, WrongOutputError, expected
from bench.children import ROOT
from bench.events import Events, Ints, make_events
from bench.latency import APPS, LatencySetting, text_of
from bench.latency_load import Pace
from bench.live import Course, latencies
from bench.report import markdown
from nadi.io.registry import connectors
from nadi.pipeline.engine import plan_app

COUNT, STEP, LOW = 1_000, 200, 1_700_000_000_000_000  # µs


def sent() -> Events:
    made = make_events(0, COUNT)
    return Events(LOW + STEP * np.arange(COUNT, dtype=np.int64), made.key, made.cents, made.vol)


def setting(folder: Path) -> LatencySetting:
    return LatencySetting(folder, "127.0.0.1:1", 5_000, 0.0, 1.0, False, "local[2]", {})


def ran(folder: Path, rows: Rows, delay: int) -> None:
    """The files of a run whose rows were appended `delay` µs after their events, and seen 7 ms later."""
    load = folder / "load"
    load.mkdir()
    events = [
        {"event": {"ts": ts, "sym": f"S{key}", "price": cents / 100, "vol": vol}}
        for ts, key, cents, vol in zip(*(rows[n].tolist() for n in ("ts", "key", "price", "vol")), strict=True)
    ]
    np.save(load / "sent.npy", sent().ts)
    np.save(load / "appended.npy", (rows["ts"] + delay) // 1000)
    np.save(load / "came.npy", rows["ts"] + delay + 7_000)
    (load / "came.jsonl").write_bytes(b"".join(json.dumps(e).encode() + b"\n" for e in events))


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is appended in the millisecond in which it was sent."""

    def times(_course: Course, _count: int) -> Ints:
        found: Ints = sent().ts // 1000 * 1000
        return found

    monkeypatch.setattr(live, "append_times", times)


def result(folder: Path, **changes: Any) -> dict[str, Any]:
    ended = {"state": "stopped", "errors": 0, "restarts": 0, "error": "", "batches": [], **changes}
    loaded = {"counted": (LOW, LOW + STEP * COUNT), "late": 0.0, "cores": {}}
    return latency.results("filter", setting(folder), folder, loaded, ended)


def test_the_apps_read_and_write_topics_of_their_own() -> None:
    texts = [plan_app(text_of(app, setting(Path()))) for app in APPS]
    topics = [connectors(app, kind)[0].options for app in texts for kind in ("source", "sink")]
    assert len({t.get("topic.list") or t.get("topic") for t in topics}) == 2 * len(APPS)


def test_latency_is_from_append_to_append_by_the_clock_of_the_broker(tmp_path: Path, appended: None) -> None:
    ran(tmp_path, expected("filter", sent()), 100_000)
    found = result(tmp_path)
    assert found["append_ms"]["p50"] == found["append_ms"]["max"] == 100.0
    assert 107.0 <= found["seen_ms"]["p50"] < 108.0
    assert found["rows"] == found["check"]["rows"] > 400


def test_a_row_that_is_missing_gives_no_figure(tmp_path: Path, appended: None) -> None:
    rows = {name: column[:-1] for name, column in expected("filter", sent()).items()}
    ran(tmp_path, rows, 100_000)
    with pytest.raises(WrongOutputError, match="filter"):
        result(tmp_path)


@pytest.mark.parametrize("trouble", [{"restarts": 1}, {"errors": 2}, {"state": "failed"}])
def test_an_app_that_had_trouble_gives_no_latency(tmp_path: Path, appended: None, trouble: dict[str, Any]) -> None:
    ran(tmp_path, expected("filter", sent()), 100_000)
    with pytest.raises(WrongOutputError):
        result(tmp_path, **trouble)


def test_rows_of_events_from_the_warm_up_do_not_count() -> None:
    stamps = np.array([10, 20, 30], np.int64)
    append, seen = latencies({"ts": stamps}, (stamps, stamps), stamps + 5, stamps + 9, (20, 30))
    assert append.tolist() == [5]
    assert seen.tolist() == [9]


def test_the_pace_makes_up_for_a_late_tick_and_changes_its_rate_without_a_jump() -> None:
    pace = Pace(0.0, 1_000)
    assert [pace.due(t) for t in (0.001, 0.5)] == [1, 500]
    assert pace.faster(0.5, 480, 2_000).due(0.6) == 680


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_suite_of_latency_runs_with_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--suite", "latency", "--json", str(path)]
    more = ["--rate", "300", "--warm", "1", "--seconds", "3", "--only", "filter"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(path.read_bytes())
    assert told["apps"]["filter"]["append_ms"]["p50"] > 0
    assert told["apps"]["filter"]["load_late_s"] < 1.0
    assert "from append to append" in markdown(told)


@pytest.mark.parametrize("module", [latency_load, processors, peers, peers_apps, peers_kafka])
def test_the_examples_of_the_suites_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.failed == 0
    assert found.attempted > 0


def test_processor_time_is_that_of_the_processes_of_the_run_by_kind(tmp_path: Path) -> None:
    assert not processors.processor_seconds(tmp_path)
    work = "import sys; sum(i * i for i in range(2_000_000)); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", work, "bench.latency_load", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        found = processors.processor_seconds(tmp_path)
    told = processors.shares({}, found, 1.0)
    assert told["load"] > 0.02
    assert sum(told.values()) == told["load"]
