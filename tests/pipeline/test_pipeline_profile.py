"""The profile of an app: what hosts note, what Spark tells, and what comes of both."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pipeline_local import LocalNode
from pipeline_reference import APP, delivered, expected, write_input

from nadi.pipeline import profile
from nadi.pipeline.executor import stopwatch
from nadi.pipeline.executor.stopwatch import Note, Stopwatch, Timed
from nadi.pipeline.profile import PHASES, Batch, Profiler, forget_profile, parts_of, phases_of, read_profile
from nadi.pipeline.spec import AppSpec

NAMES = ("k", "low", "high", "total")


class Progress:
    """What Spark tells of a batch."""

    def __init__(self, batch: int, begin: float, ms: dict[str, int]) -> None:
        self._batch = batch
        stamp = datetime.fromtimestamp(begin / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        self._json = json.dumps({"timestamp": stamp, "durationMs": ms})

    def batchId(self) -> int:  # noqa: N802
        return self._batch

    def json(self) -> str:
        return self._json


class Query:
    """A streaming query as far as the profiler looks at it."""

    def __init__(self) -> None:
        self.runId = "one"
        self.told: list[Progress] = []
        self._jsq = self

    def recentProgress(self) -> list[Progress]:  # noqa: N802
        return self.told


def batch(number: int, begin: float, length: int = 100) -> Progress:
    return Progress(number, begin, {"triggerExecution": length, "addBatch": length - 20, "latestOffset": 20})


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppSpec:
    monkeypatch.setattr(stopwatch, "WRITE_EVERY", 0.0)
    monkeypatch.setattr(profile, "WRITE_EVERY", 0.0)
    (tmp_path / "state").mkdir()
    write_input(tmp_path / "in", 300)
    text = APP.format(folder=tmp_path, endless="false")
    made = AppSpec("Rises", text, str(tmp_path / "state"), connectors="pipeline_testlog", outputs=("Out",), buckets=2)
    return replace(made, max_events=60, until_end=True, profile=True)


@pytest.mark.parametrize("every", [0.0, 3_600.0])
def test_a_profiled_app_gives_the_same_rows_and_notes_every_phase(
    spec: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float
):
    monkeypatch.setattr(stopwatch, "WRITE_EVERY", every)
    node = LocalNode(spec, monkeypatch)
    assert node.run() > 2
    assert any((spec.place.state / "profile").iterdir())
    node.close()  # what was noted since the last time is told, too
    assert delivered(tmp_path / "out", NAMES) == expected(spec.text, tmp_path / "in")
    (told,) = Profiler(spec.app, spec.place.state)._told()
    assert {n.phase for n in told.notes} >= {"read", "kernel", "process", "write"}
    assert all(n.end >= n.begin for n in told.notes)
    assert set(told.parts) >= {"query query_1", "query query_2"}
    assert 0 < sum(p.ns for p in told.parts.values()) <= told.kernel_ns
    assert told.parts["query query_1"].events == 300


def test_nothing_is_noted_without_a_profile(spec: AppSpec, monkeypatch: pytest.MonkeyPatch):
    node = LocalNode(replace(spec, profile=False), monkeypatch)
    node.run()
    node.close()
    assert not (spec.place.state / "profile").exists()


def test_each_moment_of_a_batch_belongs_to_one_phase():
    told = {"triggerExecution": 200, "queryPlanning": 20, "walCommit": 5, "commitOffsets": 5}
    notes = [
        *(Note("read", 1_020, 1_050), Note("read", 1_030, 1_060)),  # two hosts side by side
        *(Note("process", 1_070, 1_120), Note("kernel", 1_080, 1_110)),
        *(Note("write", 1_115, 1_130), Note("kernel", 5_000, 6_000)),  # of another batch
    ]
    found = phases_of(Batch(3, 1_000.0, told), notes)
    assert (found["read"], found["kernel"], found["state"], found["write"]) == (40, 30, 20, 10)
    assert found["scheduling"] == 200 - 30 - 40 - 30 - 20 - 10
    assert sum(found.values()) == 200
    assert tuple(found) == PHASES


def test_the_parts_are_listed_by_their_time():
    parts = {"query a": Timed(1_000_000, 2, 10), "query b": Timed(3_000_000, 5, 10), "query c": Timed(0, 0, 0)}
    found = parts_of(parts, 5_000_000)
    assert [(p.name, p.ms, p.share, p.us_per_event) for p in found] == [
        ("query b", 3.0, 0.6, 300.0),
        ("query a", 1.0, 0.2, 100.0),
    ]


def test_batches_are_taken_once_and_when_their_hosts_have_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profile, "WRITE_EVERY", 0.0)
    watch = Stopwatch(tmp_path)
    watch._notes.append(Note("kernel", 1_000_030, 1_000_070))
    watch.write()
    query: Any = Query()
    profiler = Profiler("A", tmp_path)
    query.told = [batch(1, 1_000_000), batch(2, 1_000_100)]
    for now in (1_001.0, 1_001.6, 1_001.65):
        monkeypatch.setattr(profile.time, "time", lambda now=now: now)
        profiler.look(query)
    found = read_profile(tmp_path)
    assert found is not None
    assert (found.total, found.phases["kernel"].p99) == (1, 40.0)
    query.told.append(batch(3, 1_000_200, 300))
    profiler.look(query)
    profiler.finish(None)
    found = read_profile(tmp_path)
    assert found is not None
    # the first batch of a query is left out as soon as there are others
    assert (found.total, found.batches, found.phases["kernel"].p99) == (3, 2, 0.0)
    assert (found.batch.mean, found.slowest) == (180.0, "")


def test_a_restarted_query_begins_to_count_anew_and_a_look_without_a_batch_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    query: Any = Query()
    profiler = Profiler("A", tmp_path)
    query.told = [batch(7, 1_000), Progress(8, 1_200, {"triggerExecution": 5, "latestOffset": 5})]
    profiler.look(query)
    profiler.finish(None)
    query.runId, query.told = "two", [batch(7, 9_000, 700)]
    profiler.look(query)
    profiler.finish(None)
    found = read_profile(tmp_path)
    assert found is not None
    assert (found.total, found.batches, found.batch.p50) == (2, 1, 680.0)


def test_hosts_that_have_died_still_count_and_a_torn_file_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stopwatch, "WRITE_EVERY", 0.0)
    for pid in (11, 12):
        monkeypatch.setattr(stopwatch.os, "getpid", lambda pid=pid: pid)
        watch = Stopwatch(tmp_path)
        watch.kernel_ns = 1_000_000
        watch.write()
    (tmp_path / "profile" / "13.json").write_text('{"notes": [')
    assert sum(t.kernel_ns for t in Profiler("A", tmp_path)._told()) == 2_000_000
    forget_profile(tmp_path)
    assert read_profile(tmp_path) is None
    assert not (tmp_path / "profile").exists()


def test_the_examples_of_the_profile_are_true():
    found = doctest.testmod(profile)
    assert found.failed == 0
    assert found.attempted == 5
