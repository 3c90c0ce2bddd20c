"""The benchmark itself, at a size that says nothing about speed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.apps import APPS
from bench.checks import WrongOutputError
from bench.events import make_events
from bench.measure import Setting, _throughput

RUN = Path(__file__).resolve().parents[2] / "bench" / "run.py"

pytestmark = pytest.mark.spark


def command(result: Path, folder: Path, *more: str) -> list[str]:
    return [sys.executable, str(RUN), "--json", str(result), "--keep", str(folder), "--warm", "1", *more]


def using(folder: Path) -> list[int]:
    """The processes that were started for a run: the folder is in their arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:  # gone meanwhile, or of another user
            continue
        if str(folder).encode() in told:
            found.append(int(process.name))
    return found


@pytest.mark.slow
def test_identity_runs_is_checked_and_leaves_a_whole_result(tmp_path: Path) -> None:
    result, folder = tmp_path / "result.json", tmp_path / "run"
    done = subprocess.run(
        command(result, folder, "--events", "2000", "--seconds", "0", "--only", "identity"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(result.read_bytes())
    assert told["complete"]
    part = told["apps"]["identity"]["throughput"]
    assert part["check"]["rows"] == part["events"] == 2_000
    assert len(part["all_batches"]) >= 10
    assert part["hosts_ms"]["decode"]["median"] > 0
    assert not using(folder)


def test_output_that_is_wrong_fails_the_measure(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "", tmp_path / "in", make_events(0, 10), 1, 1.0, 1.0, 1.0, False, "local")
    (tmp_path / "out.jsonl").write_bytes(b'{"event":{"ts":1,"sym":"S1","price":1.0,"vol":1}}\n' * 10)
    with pytest.raises(WrongOutputError, match="filter, throughput"):
        _throughput("filter", setting, tmp_path, {"throughput": {"in": 10}}, [])


@pytest.mark.long
def test_all_apps_run_with_latency(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = subprocess.run(
        command(result, tmp_path / "run", "--events", "5000", "--seconds", "2", "--rate", "200"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(result.read_bytes())
    assert list(told["apps"]) == list(APPS)
    assert all(told["apps"][app]["latency"]["rows"] > 0 for app in ("identity", "filter", "window"))
    assert told["ratios_to_identity"]["window"]["latency ms p50"] > 0


@pytest.mark.long
def test_ctrl_c_leaves_a_result_that_says_it_is_incomplete_and_no_process(tmp_path: Path) -> None:
    result, folder = tmp_path / "result.json", tmp_path / "run"
    run = subprocess.Popen(
        command(result, folder, "--seconds", "60", "--events", "1000"), stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    for line in run.stdout:
        if "latency" in line:
            break
    run.send_signal(signal.SIGINT)
    rest = run.stdout.read()
    run.stdout.close()
    assert run.wait() == 130, rest
    assert "interrupted" in rest
    told = json.loads(result.read_bytes())
    assert not told["complete"]
    assert told["failed"] == "interrupted"
    assert not using(folder)


@pytest.mark.long
def test_a_revision_of_a_state_is_measured_and_read_back(tmp_path: Path) -> None:
    result, folder = tmp_path / "result.json", tmp_path / "run"
    done = subprocess.run(
        command(result, folder, "--suite", "state", "--size", "1", "--batches", "5", "--revision"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(result.read_bytes())["apps"]["flat, 1 MB"]
    assert told["batches"] == 5
    assert told["revision"]["bytes"] > 1_000_000
    assert told["revision"]["ms"]["during"]["count"] > 5
    assert not using(folder)


def test_a_revision_is_not_asked_for_without_spark(tmp_path: Path) -> None:
    more = ("--suite", "state", "--direct", "--revision")
    done = subprocess.run(command(tmp_path / "r.json", tmp_path / "run", *more), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"--revision is for the suite state with Spark" in done.stderr
