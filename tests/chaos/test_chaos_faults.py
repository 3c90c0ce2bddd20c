"""That a fault counts only where it was seen to have happened, and that what the judge finds ends the kill test."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from faults import Fault, is_worker
from nodes import until
from report import Report
from sides import Judge, Sides
from world import Process

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
        assert sides.asked.acquire(timeout=10)
    with pytest.raises(AssertionError, match=told):
        judge.stop()
    assert (judge.compared, judge.hindered) == (2 if isinstance(result, list) else 1, 1)


def test_a_judge_that_finds_nothing_says_nothing():
    sides = _Sides([])
    judge = judge_of(sides)
    assert sides.asked.acquire(timeout=10)
    judge.stop()
    judge.check()
    assert judge.compared > 0


def test_a_report_tells_how_often_each_kind_was_seen():
    report = Report(7)
    report.faults += [Fault("host", "", (), lambda: True, 0, gone, back) for gone, back in ((0.1, 1.0), (0.3, 3.0))]
    (_head, line) = report.kinds()
    assert line.split() == ["host", "2", "0.2", "s", "(max", "0.3", "s)", "2.0", "s", "(max", "3.0", "s)"]


def test_a_jvm_whose_settings_name_the_daemon_is_no_python_worker():
    assert is_worker("/usr/bin/python3 -m nadi.pipeline.daemon pyspark.worker")
    assert is_worker("/usr/bin/python3 -m pyspark.daemon pyspark.sql.worker.create_data_source")
    assert is_worker("/usr/bin/python3 -m pyspark.sql.streaming.python_streaming_source_runner")
    jvm = "java -cp /jars org.apache.spark.deploy.SparkSubmit --conf spark.python.daemon.module=nadi.pipeline.daemon pyspark-shell"
    assert not is_worker(jvm)
