"""Starting Spark: what dies on the way is started again, a few times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from nadi.pipeline.session import SessionOptions, java_options, python_of

START = """
import sys
from pathlib import Path
from nadi.errors import NadiError
from nadi.pipeline import session
from nadi.pipeline.stoprequest import StopRequest
session.STARTS_AGAIN = (0.0, 0.0)
stop = StopRequest()
if sys.argv[2] == "stopped":
    stop.set()
try:
    session.start_session(session.SessionOptions("local[1]", Path(sys.argv[1])), stop)
except NadiError as failure:
    print(failure.condition)
"""


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """A Java whose `java` dies by kill -9; -> the file with a line for each start of it."""
    told = tmp_path / "starts"
    told.touch()
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho once >> {told}\nkill -9 $$\n")
    script.chmod(0o700)
    return told


def start(java_home: Path, how: str) -> tuple[str, int]:
    """(condition, further attempts): what becomes of starting Spark with this Java, in a process of its own: PySpark leaves things open when it fails."""
    command = [sys.executable, "-c", START, str(java_home / "logs"), how]
    done = subprocess.run(command, env={**os.environ, "JAVA_HOME": str(java_home)}, capture_output=True, check=True)
    told = done.stdout.decode()
    return told.splitlines()[-1], told.count("once more")


def test_a_jvm_that_dies_at_its_start_is_started_twice_more(starts: Path, tmp_path: Path) -> None:
    assert start(tmp_path, "running") == ("SPARK_NOT_STARTED", 2)
    assert len(starts.read_text().split()) == 3


KILLED = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext, java_gateway
from nadi.pipeline import session
from nadi.pipeline.stoprequest import StopRequest
session.STARTS_AGAIN = (0.0, 0.0)
launch, quicken, killed = java_gateway.launch_gateway, session.quicken, []

def kill(process):
    if len(killed) < 2:
        killed.append(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

def launched(*args):
    gateway = launch(*args)
    if sys.argv[2] == "its port is known":
        kill(gateway.proc)
    return gateway

def quickened(made):
    if sys.argv[2] == "the session is there":
        kill(SparkContext._gateway.proc)
    quicken(made)

java_gateway.launch_gateway, session.quicken = launched, quickened
made = session.start_session(session.SessionOptions("local[1]", Path(sys.argv[1])), StopRequest())
print("lived", session.driver_jvm(made) not in killed, len(killed))
session.end_driver(15.0)
"""


@pytest.mark.spark
@pytest.mark.parametrize("when", ["its port is known", "the session is there"])
def test_a_jvm_that_is_killed_while_its_session_is_made_is_started_again(tmp_path: Path, when: str) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), when]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "lived True 2"
    assert done.stdout.count("once more") == 2


def test_who_is_to_stop_does_not_try_again(starts: Path, tmp_path: Path) -> None:
    assert start(tmp_path, "stopped") == ("SPARK_NOT_STARTED", 0)
    assert len(starts.read_text().split()) == 1


def test_without_java_there_is_one_attempt(starts: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "java").rename(tmp_path / "bin" / "jawa")
    assert start(tmp_path, "running") == ("SPARK_NOT_STARTED", 0)
    assert starts.read_text() == ""


STRAYS = """
import logging, sys
from pathlib import Path
from nadi.pipeline.session import keep_strays

keep_strays(Path(sys.argv[1]))
keep_strays(Path(sys.argv[1]))
logging.getLogger("somebody").warning("told by name")
try:
    raise ConnectionResetError("the JVM is gone")
except ConnectionResetError:
    logging.exception("while sending")
"""


def test_what_a_library_logs_of_a_killed_jvm_is_in_a_file_and_not_on_the_screen(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STRAYS, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == "told by name\n"
    kept = (tmp_path / "node.log").read_text()
    assert kept.count("while sending") == kept.count("Traceback") == kept.count("the JVM is gone") == 1
    assert "told by name" not in kept


def _path_of(python: str, path: str) -> str:
    code = "import os, pyspark, sys; print(os.environ['PYTHONPATH'], sys.executable, pyspark.__file__, sys.argv[1:], sep='|')"
    asked = [python, "-c", code, "a b", "*"]
    return subprocess.run(asked, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout.strip()


def test_pythons_of_spark_import_pyspark_from_where_it_is_installed_and_nothing_else_is_changed(tmp_path: Path) -> None:
    logs = tmp_path / "with a space"
    logs.mkdir()
    home = Path(pyspark.__file__).parent
    archives = [str(p) for p in (home / "python" / "lib").glob("*.zip")]
    assert len(archives) == 2
    found = _path_of(python_of(SessionOptions(logs=logs)), ":".join([*archives, "/some/where", "/else *"]))
    assert found == f"/some/where:/else *|{sys.executable}|{pyspark.__file__}|['a b', '*']"


def test_a_cluster_and_a_spark_of_ones_own_run_the_interpreter_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert python_of(SessionOptions("spark://host:7077", tmp_path)) == sys.executable
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert python_of(SessionOptions(logs=tmp_path)) == sys.executable


def test_a_small_heap_keeps_the_sizes_of_java(tmp_path: Path) -> None:
    assert "-Xms" in java_options(tmp_path, tmp_path, memory="2g")
    assert "-Xm" not in java_options(
        tmp_path, tmp_path, memory="900m"
    )  # Java does not start with more than it may have
    assert "-Xm" not in java_options(tmp_path, tmp_path, "-XX:+UseZGC")
