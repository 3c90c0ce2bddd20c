"""That a fault counts only where it was seen to have happened, that processes hold at named moments, and that what the judge finds ends the kill test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faults import Fault, is_host, is_jvm
from holding import AT_RECORDS, FOLDER
from moments import caught
from nodes import served, until
from report import Report
from sides import Judge, Sides
from world import Process, World

from nadi.errors import error


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def fault_of(process: Process, another: list[int]) -> Fault:
    return Fault("host", "host 0", [process], lambda: bool(another), time.monotonic())


def test_a_fault_is_seen_once_its_process_has_ended_and_there_is_another(sleeping: subprocess.Popen[bytes]):
    process, another = Process.of(sleeping.pid), [1]
    fault = fault_of(process, another)
    assert not fault.look()
    assert (fault.gone, fault.back) == (None, None)  # another one counts for nothing while the first lives
    assert str(fault) == "host 0: gone not seen, another not seen"
    another.clear()
    process.kill()
    until(lambda: fault.look() or fault.gone is not None, 10)  # nobody has waited for it: it has ended all the same
    assert fault.back is None
    another.append(1)
    assert fault.look()


def test_a_process_with_the_same_number_is_not_the_same_one(sleeping: subprocess.Popen[bytes]):
    process = Process.of(sleeping.pid)
    assert process.alive()
    assert not Process(process.pid, f"{process.start}0").alive()


def test_who_has_ended_already_cannot_be_struck(sleeping: subprocess.Popen[bytes]):
    process = Process.of(sleeping.pid)
    sleeping.kill()
    sleeping.wait()
    with pytest.raises(ProcessLookupError):
        process.kill()
    with pytest.raises(ProcessLookupError):
        Process.of(sleeping.pid)


WRITING = """
import sys, chaosengine
from pathlib import Path
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.commitlog import Commit, CommitLog
from nadi.pipeline.statelog.folder import FolderStore

app = Path(sys.argv[1]) / "A"
(app / "cuts").mkdir(parents=True)
store = FolderStore(app / "log")
store.put("b-00000001-000000000001-0-c0ffee00", [b"h" * 10, b"x" * 90])
store.put("d-00000001-000000000002-0-c0ffee00", [b"x" * 100])
log = CommitLog(app / "cuts", cutlog.take_over(app / "cuts"))
log.append(Commit(1, 1))
log.append(Commit(2, 1))
"""


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a process that writes a base, a delta and two commit records of app A."""
    (tmp_path / "moments").mkdir()
    variables = {FOLDER: str(tmp_path / "moments"), "PYTHONPATH": str(Path(__file__).parent)}
    children: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", WRITING, str(tmp_path / "state")]
        children.append(subprocess.Popen(command, env={**os.environ, **variables}))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def held_at(moment: str, folder: Path, app: str, start: Callable[[], object]) -> Process:
    """The process that has come to a moment; it starts once it is waited for."""
    starting = iter([start])

    def wait(holds: Callable[[], bool], seconds: float) -> None:
        for begin in starting:
            begin()
        until(holds, seconds)

    world = SimpleNamespace(moments=folder / "moments", node=SimpleNamespace(until=wait))
    return caught(cast("World", world), moment, app)


def sizes(folder: Path, pattern: str) -> list[int]:
    return [path.stat().st_size for path in folder.glob(pattern)]


@pytest.mark.parametrize("moment", ["base", "half delta", "delta", *AT_RECORDS])
def test_a_process_stands_still_at_its_moment_until_it_is_let_go(
    tmp_path: Path, writing: Callable[[], subprocess.Popen[bytes]], moment: str
):
    children: list[subprocess.Popen[bytes]] = []
    held = held_at(moment, tmp_path, "A", lambda: children.append(writing()))
    assert held.stopped()
    app = tmp_path / "state" / "A"
    seen = {
        "torn": sizes(app / "log", ".*.part"),
        "whole": len(sizes(app / "log", "[bd]-*")),
        "ends": sum(path.read_bytes().endswith(b"\n") for path in (app / "cuts").glob("*commits-*")),
    }
    assert (
        seen
        == {
            "base": {"torn": [5], "whole": 0, "ends": 0},
            "half delta": {"torn": [50], "whole": 1, "ends": 0},
            "delta": {"torn": [], "whole": 2, "ends": 0},
            "record": {"torn": [], "whole": 2, "ends": 0},
            "half record": {"torn": [], "whole": 2, "ends": 0},
            "recorded": {"torn": [], "whole": 2, "ends": 1},
        }[moment]
    )
    held.send(signal.SIGCONT)
    assert children[0].wait(60) == 0
    assert len(sizes(app / "log", "[bd]-*")) == 2


def test_a_moment_of_another_app_is_not_that_one(tmp_path: Path, writing: Callable[[], subprocess.Popen[bytes]]):
    (tmp_path / "moments" / "delta").write_text("B")
    assert writing().wait(60) == 0


class _Sides:
    """Stands for sides whose comparison gives one result after another, and then the last one for ever."""

    def __init__(self, *results: list[str] | Exception) -> None:
        self._results = list(results)
        self.asked = threading.Semaphore(0)

    def wrong(self) -> list[str]:
        self.asked.release()
        found = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if isinstance(found, Exception):
            raise found
        return found


def judge_of(sides: _Sides) -> Judge:
    judge = Judge(cast("Sides", sides))
    judge.PAUSE = 0.001
    judge.start()
    return judge


@pytest.mark.parametrize(
    ("result", "told"), [(["row 7 is missing"], "row 7 is missing"), (KeyError("group"), "KeyError: 'group'")]
)
def test_what_a_judge_finds_ends_the_test(result: Any, told: str):
    away = error("CONNECTION_UNAVAILABLE", connector="x", reason="killed")
    sides = _Sides([], away, result)
    judge = judge_of(sides)
    for _ in range(3):
        assert sides.asked.acquire(timeout=60)
    with pytest.raises(AssertionError, match=told):
        judge.stop()
    assert (judge.compared, judge.hindered) == (2 if isinstance(result, list) else 1, 1)


def test_a_judge_that_finds_nothing_says_nothing():
    sides = _Sides([])
    judge = judge_of(sides)
    assert sides.asked.acquire(timeout=60)
    judge.stop()
    judge.check()
    assert judge.compared > 0


def test_a_report_tells_how_often_each_kind_was_seen():
    report = Report(7)
    report.faults += [Fault("host", "", (), lambda: True, 0, gone, back) for gone, back in ((0.1, 1.0), (0.3, 3.0))]
    (_head, line) = report.kinds()
    assert line.split() == ["host", "2", "0.2", "s", "(max", "0.3", "s)", "2.0", "s", "(max", "3.0", "s)"]


def test_who_starts_hosts_is_none():
    assert is_host("/usr/bin/python3 -m nadi.pipeline.executor.host /tmp/nadi-0/12 0 12")
    jvm = "java -cp /jars org.apache.spark.deploy.SparkSubmit --conf a=nadi.pipeline.executor.hosts pyspark-shell"
    assert is_jvm(jvm)
    assert not is_host(jvm)


def test_a_process_that_stood_by_is_the_host_that_it_has_become(tmp_path: Path):
    command = f"python -m nadi.pipeline.executor.host {tmp_path} standby 12"
    assert served(77, command) == command
    (tmp_path / "1.alive").write_text("77")
    assert served(77, command).split()[-2:] == ["1", "12"]
    assert served(78, command) == command
    assert served(77, "python -m nadi run standby 12").endswith("run standby 12")
