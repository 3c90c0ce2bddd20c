"""Dumps for a revision, made beside the batches: they are of the cut that was marked, or somebody hears that there are none."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_bucket import Bucket, Within, child, gone, hosts_of_this_process, kill
from pyspark.sql.streaming.datasource import ReadAllAvailable

from nadi.kernel.contract import Kernel, Segment
from nadi.metrics import Progress
from nadi.pipeline import engine
from nadi.pipeline.cutting import cutlog, cutmaker
from nadi.pipeline.executor import dumper
from nadi.pipeline.executor.forked import turn
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.inputs.reader import AppReader
from nadi.pipeline.progress import write_progress
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state import dumps

EVENTS = 10


@pytest.fixture
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(1)


@pytest.fixture
def spec(tmp_path: Path) -> AppSpec:
    text = f"""@app:name('Sums')
        @source(type='test', file='{tmp_path}/in') define stream In (k string, n long);
        from In#window.length(100) select k, sum(n) as s group by k insert into Out;"""
    (tmp_path / "in").write_text("".join(f"{i * 10}\t{json.dumps([f'k{i % 7}', i])}\n" for i in range(200)))
    orders = tmp_path / "orders"
    orders.write_text("go")
    (tmp_path / "state").mkdir()
    return AppSpec(
        "Sums",
        text,
        str(tmp_path / "state"),
        outputs=("Out",),
        engine="pipeline_faults",
        connectors="pipeline_testlog",
        properties={"orders": str(orders)},
    )


def order(spec: AppSpec, what: str) -> None:
    """What children that dump shall do."""
    Path(spec.properties["orders"]).write_text(what)


def steps(bucket: Bucket, cuts: range) -> None:
    for cut in cuts:
        bucket.process(cut, (cut - 1) * EVENTS, cut * EVENTS)
        write_progress(bucket.spec.place.state, Progress(cut))


def marked(spec: AppSpec, cut: int) -> Path:
    """A dump was asked for, and this is the cut that it is to be of; -> where it will be."""
    dumps.ask(spec.place.state)
    dumps.mark(spec.place.state, cut)
    return dumps.requests(spec.place.state) / f"dump-{cut}"


def waited(spec: AppSpec) -> dumps.Dumped | None:
    return dumps.wait(spec.place.state, 1, threading.Event())


def loaded(spec: AppSpec, dumped: dumps.Dumped) -> list[Segment]:
    kernel = engine.make_kernel(engine.plan_app(spec.text), spec.outputs)
    kernel.load(dumped.parts(0))
    return list(kernel.dump())


def after(spec: AppSpec, cut: int, scratch: Path) -> list[Segment]:
    """The state after a cut of an app that nothing has happened to."""
    ask = Within(scratch)
    steps(Bucket(ask, spec), range(1, cut + 1))
    with ask.apps._apps[spec.id].kernels.user(("q", 0)) as held:
        assert held is not None
        kernel: Kernel = held.kernel
        return list(kernel.dump())


def test_a_dump_is_of_the_marked_cut_whatever_comes_while_it_is_made(ask: Hosts, spec: AppSpec, tmp_path: Path) -> None:
    bucket = Bucket(ask, spec)
    steps(bucket, range(1, 4))
    marked(spec, 5)
    order(spec, "hold")
    steps(bucket, range(4, 10))
    assert child(ask, 0) is not None
    order(spec, "go")
    found = waited(spec)
    assert found is not None
    assert found.cut == 5
    assert loaded(spec, found) == after(spec, 5, tmp_path)
    dumps.forget(spec.place.state)
    assert list(dumps.requests(spec.place.state).iterdir()) == []


def test_a_cut_that_sinks_have_not_committed_is_waited_for(spec: AppSpec, tmp_path: Path) -> None:
    bucket = Bucket(Within(tmp_path), spec)
    folder = marked(spec, 1)
    bucket.process(1, 0, EVENTS)
    answers: list[dumps.Dumped | None] = []
    waiting = threading.Thread(target=lambda: answers.append(waited(spec)))
    waiting.start()
    while not (folder / "0.base").exists():
        assert waiting.is_alive()
    waiting.join(10 * dumps.LOOK)
    assert waiting.is_alive()
    write_progress(spec.place.state, Progress(1))
    waiting.join(60)
    assert [d.cut for d in answers if d is not None] == [1]


def test_only_the_marked_cut_is_dumped(spec: AppSpec, tmp_path: Path) -> None:
    folder = marked(spec, 3)
    steps(Bucket(Within(tmp_path), spec), range(1, 3))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("victim", ["child", "host"])
def test_a_dump_that_was_killed_is_given_up(
    ask: Hosts, spec: AppSpec, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    monkeypatch.setattr(dumps, "SILENT", 0.3)
    marked(spec, 2)
    order(spec, "hold")
    steps(Bucket(ask, spec), range(1, 4))
    dumping = child(ask, 0)
    assert dumping is not None
    if victim == "child":
        os.kill(dumping, signal.SIGKILL)
    else:
        kill(ask, 0)
    assert gone(dumping)
    assert waited(spec) is None


def test_a_batch_that_is_run_again_by_another_host_is_dumped_there(ask: Hosts, spec: AppSpec, tmp_path: Path) -> None:
    bucket = Bucket(ask, spec)
    steps(bucket, range(1, 4))
    marked(spec, 4)
    order(spec, "hold")
    bucket.process(4, 3 * EVENTS, 4 * EVENTS, keep=False)
    first = child(ask, 0)
    kill(ask, 0)
    assert first is not None
    assert gone(first)
    order(spec, "go")
    steps(bucket, range(4, 6))
    found = waited(spec)
    assert found is not None
    assert loaded(spec, found) == after(spec, 4, tmp_path)


def test_a_child_whose_turn_has_not_come_is_waited_for(
    ask: Hosts, spec: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Bucket(ask, spec)
    steps(bucket, range(1, 2))
    monkeypatch.setattr(dumps, "SILENT", 1.0)
    lock = turn(hosts_folder(os.getpid()))
    assert lock is not None
    marked(spec, 2)
    steps(bucket, range(2, 3))
    answers: list[dumps.Dumped | None] = []
    waiting = threading.Thread(target=lambda: answers.append(waited(spec)))
    waiting.start()
    waiting.join(3 * dumps.SILENT)
    assert waiting.is_alive()
    os.close(lock)
    waiting.join(60)
    assert [loaded(spec, d) for d in answers if d is not None] == [after(spec, 2, tmp_path)]


def test_without_memory_for_a_child_whoever_waits_hears_of_it(
    spec: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumper, "enough_memory", lambda: False)
    folder = marked(spec, 1)
    steps(Bucket(Within(tmp_path), spec), range(1, 2))
    assert (folder / "0.none").exists()
    assert waited(spec) is None


def test_waiting_can_be_given_up_before_any_cut(spec: AppSpec) -> None:
    dumps.ask(spec.place.state)
    given_up = threading.Event()
    given_up.set()
    assert dumps.wait(spec.place.state, 1, given_up) is None


def test_an_app_that_nothing_comes_to_makes_a_cut_for_a_dump(spec: AppSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutmaker, "PATIENCE", 0.0)
    reader = AppReader(replace(spec, epoch=cutlog.take_over(spec.place.state / "cuts")))
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ReadAllAvailable())
    write_progress(spec.place.state, Progress(first["n"]))
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    dumps.ask(spec.place.state)
    second = reader.latestOffset(first, ReadAllAvailable())
    assert (second["n"], second["ends"]) == (first["n"] + 1, first["ends"])
    assert [f.name for f in dumps.requests(spec.place.state).iterdir()] == [f"dump-{second['n']}"]
    write_progress(spec.place.state, Progress(second["n"]))
    assert reader.latestOffset(second, ReadAllAvailable()) == second
