"""Whole queries on Spark, with the connectors of the tests."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_reference import APP, delivered, expected, write_input
from pipeline_testlog import committed

from nadi.io.retry import Policy
from nadi.pipeline import supervised
from nadi.pipeline.coordinator import share
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutlog import CutLog
from nadi.pipeline.engine import plan_app
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.node import AppProgress, AppText, ExitReport, NodeOptions, make_spec
from nadi.pipeline.progress import read_progress
from nadi.pipeline.queries import StartQuery
from nadi.pipeline.query import start_query
from nadi.pipeline.session import driver_jvm
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervised import UNNAMED_TRIES
from nadi.pipeline.supervisor import supervise

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TIMED = """@app:name('Timed')
@source(type='test', file='{folder}/in', kind='unknown', endless='true') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, n long);
from In#window.time(2 sec) select k, n insert expired events into Out;"""

FAILING = """@app:name('Failing')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, n long);
from In select k, n insert into Out;"""

REGIONAL = """@app:name('Regional')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (region string, n long);
from In select env:getSystemProperty('region', 'nowhere') as region, n insert into Out;"""


class Run:
    """One run of an app in a thread."""

    def __init__(self, spark, text: str, folder: Path, start: StartQuery = start_query, **conf: str) -> None:
        named = {f"nadi.{k.replace('_', '.')}": v for k, v in conf.items() if k != "until_end"}
        self.options = NodeOptions(
            folder / "state", conf=named, until_end=conf.get("until_end") != "no", connectors="pipeline_testlog"
        )
        (folder / "state").mkdir(exist_ok=True)
        self.spec = make_spec(AppText(text), plan_app(text), self.options, 2, "")
        self.state = self.spec.place.state
        self.seen: list[AppProgress] = []
        self.stop = StopRequest()
        self._spark = spark
        self._start = start
        self._report: list[ExitReport] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._report.append(supervise(self._spark, [self.spec], self.options, self.stop, self.seen.append, self._start))

    def until(self, holds: Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert self._thread.is_alive(), self._report
            assert time.monotonic() < end, self.seen[-1:]
            self._thread.join(0.05)

    def cut(self) -> int:
        found = read_progress(self.state)
        return -1 if found is None else found.n

    def end(self) -> ExitReport:
        self._thread.join()
        return self._report[0]


def kill_hosts(spark) -> None:
    folder = hosts_folder(driver_jvm(spark))
    inodes = {path.stat().st_ino for path in folder.glob("*.alive")}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and int(fields[5].rpartition(":")[2]) in inodes:
            os.kill(int(fields[4]), signal.SIGKILL)


def test_bounded_cuts_and_killed_hosts_change_nothing(spark, tmp_path: Path):
    text = APP.format(folder=tmp_path, endless="false")
    write_input(tmp_path / "in", 3000)
    run = Run(spark, text, tmp_path, batch_events="200")
    run.until(lambda: run.cut() >= 2)
    kill_hosts(spark)
    run.until(lambda: run.cut() >= 3)
    run.stop.set()
    assert [a.state for a in run.end().apps] == ["stopped"]
    run = Run(spark, text, tmp_path, batch_events="200")
    run.until(lambda: run.cut() >= 6)
    kill_hosts(spark)
    report = run.end()
    assert [a.state for a in report.apps] == ["finished"], report
    wanted = expected(text, tmp_path / "in")
    assert len(wanted) > 500
    assert delivered(tmp_path / "out", ("k", "low", "high", "total")) == wanted
    assert report.apps[0].progress.events_in == {"In": 3000}
    assert run.spec.buckets == 2


def test_more_buckets_than_hosts_share_tasks_and_go_on_with_another_number_of_hosts(spark, tmp_path: Path):
    text = APP.format(folder=tmp_path, endless="false")
    write_input(tmp_path / "in", 2000)
    run = Run(spark, text, tmp_path, batch_events="200", buckets="5")
    run.until(lambda: run.cut() >= 2)
    kill_hosts(spark)
    run.until(lambda: run.cut() >= 3)
    run.stop.set()
    assert [a.state for a in run.end().apps] == ["stopped"]
    assert (run.spec.buckets, run.spec.partitions) == (5, 2)
    run = Run(spark, text, tmp_path, batch_events="200", hosts="3")
    report = run.end()
    assert [a.state for a in report.apps] == ["finished"], report
    assert (run.spec.buckets, run.spec.hosts, run.spec.partitions) == (5, 3, 3)
    assert delivered(tmp_path / "out", ("k", "low", "high", "total")) == expected(text, tmp_path / "in")


LIGHT = """@app:name('Light')
@source(type='test', file='{folder}/light') define stream In (k string, n long);
@sink(type='test', file='{folder}/out-light') define stream Out (k string, n long);
from In select k, n insert into Out;"""


def test_a_busy_app_leaves_the_shared_query_and_comes_back_when_it_is_calm_and_nothing_is_lost_or_doubled(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(share, "WINDOW", 0.5)
    monkeypatch.setattr(share, "BUSY", 0.02)
    monkeypatch.setattr(share, "CALM", 0.01)
    monkeypatch.setattr(share, "CALM_FOR", 1.0)
    texts = [
        APP.format(folder=tmp_path, endless="true"),
        LIGHT.format(folder=tmp_path).replace("/light'", "/light', endless='true'"),
    ]
    (tmp_path / "light").write_text(f"5\t{json.dumps(['a', 1])}\n")
    write_input(tmp_path / "whole", 4000)
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    half = len(lines) // 2
    (tmp_path / "in").write_text("".join(lines[:half]))
    options = NodeOptions(tmp_path / "state", conf={"nadi.batch.events": "50"}, connectors="pipeline_testlog")
    (tmp_path / "state").mkdir()
    specs = [make_spec(AppText(text), plan_app(text), options, 2, "") for text in texts]
    names: list[str] = []
    stop = StopRequest()

    def start(session, plan):
        names.append(plan.name)
        return start_query(session, plan)

    reports: list[ExitReport] = []
    seen: list[AppProgress] = []
    thread = threading.Thread(target=lambda: reports.append(supervise(spark, specs, options, stop, seen.append, start)))
    thread.start()

    def until(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not holds():
            assert thread.is_alive(), reports
            assert time.monotonic() < end, (names, seen[-2:])
            thread.join(0.05)

    def taken() -> int:
        found = read_progress(tmp_path / "state" / "Rises")
        return 0 if found is None else found.totals.events_in.get("In", 0)

    until(lambda: "Rises" in names)
    first_half = sum(len(json.loads(line.split("\t")[1])) for line in lines[:half])
    until(lambda: taken() == first_half)
    until(lambda: cutlog.current_epoch(tmp_path / "state" / "Rises" / "cuts") >= 3)  # it is back
    with (tmp_path / "in").open("a") as out:
        out.writelines(lines[half:])
    until(lambda: taken() == 4000)
    stop.set()
    thread.join()
    assert [a.state for a in reports[0].apps] == ["stopped", "stopped"]
    assert names.count("Rises") >= 1
    assert names[0] == "*"
    assert delivered(tmp_path / "out", ("k", "low", "high", "total")) == expected(texts[0], tmp_path / "in")
    assert len(committed(tmp_path / "out-light")) == 1
    assert all(p.restarts == 0 for p in seen)


def test_a_timer_makes_a_batch_and_after_it_there_is_silence_and_a_stop_is_clean(spark, tmp_path: Path):
    now = time.time_ns() // 1_000_000
    (tmp_path / "in").write_text(f"{now}\t{json.dumps(['a', 1])}\nbroken\n".replace("broken", f"{now}\t[broken"))
    run = Run(spark, TIMED.format(folder=tmp_path), tmp_path, until_end="no")
    run.until(lambda: bool(committed(tmp_path / "out")))
    assert [(r["k"], r["n"], r["__ts"]) for r in committed(tmp_path / "out")] == [("a", 1, now + 2000)]
    run.until(lambda: run.cut() == CutLog(run.state / "cuts", 0).last().n)
    quiet = run.cut()
    run._thread.join(1.5)  # to see that nothing happens takes time
    assert CutLog(run.state / "cuts", 0).last().n == quiet
    errors = [json.loads(line) for line in (run.state / "errors.jsonl").read_text().splitlines()]
    assert [(e["position"], e["payload"]) for e in errors] == [(1, "[broken")]
    run.stop.set()
    report = run.end()
    assert [a.state for a in report.apps] == ["stopped"]
    assert report.apps[0].progress.errors == 1


def test_a_condition_that_time_cures_is_shown_and_waited_for_and_a_final_one_ends_the_app(spark, tmp_path: Path):
    write_input(tmp_path / "in", 10)
    (tmp_path / "in.away").touch()
    run = Run(spark, FAILING.format(folder=tmp_path), tmp_path)
    run.until(lambda: any("CONNECTION_UNAVAILABLE" in p.last_error or p.away for p in run.seen))
    (tmp_path / "in.away").unlink()
    report = run.end()
    assert [a.state for a in report.apps] == ["finished"], report
    assert len(committed(tmp_path / "out")) == 10
    state = run.state
    next((state / "cuts").glob("cuts-*.jsonl")).write_text("rubbish\n")
    spec = replace(run.spec)
    ended = supervise(spark, [spec], run.options, StopRequest(), run.seen.append)
    assert ended.apps[0].state == "failed"
    assert ended.apps[0].error is not None
    assert ended.apps[0].error.condition == "CUT_LOG_DAMAGED"


def test_a_query_that_does_not_start_is_tried_again_and_kernels_read_the_properties_of_the_node(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervised, "RESTARTS", Policy(1, 1))
    write_input(tmp_path / "in", 10)
    failures = [RuntimeError("org.apache.spark.SparkException: not yet.")] * (UNNAMED_TRIES - 1)

    def start(session, plan):
        if failures:
            raise failures.pop()
        return start_query(session, plan)

    run = Run(spark, REGIONAL.format(folder=tmp_path), tmp_path, start, properties_region="eu")
    report = run.end()
    assert [a.state for a in report.apps] == ["finished"], report
    assert report.apps[0].progress.restarts == UNNAMED_TRIES - 1
    assert [r["region"] for r in committed(tmp_path / "out")] == ["eu"] * 10
