"""Starting Spark: what dies on the way is started again, a few times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import sys, threading
from pathlib import Path
from nadi.errors import NadiError
from nadi.pipeline import session
session.STARTS_AGAIN = (0.0, 0.0)
stop = threading.Event()
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


def test_who_is_to_stop_does_not_try_again(starts: Path, tmp_path: Path) -> None:
    assert start(tmp_path, "stopped") == ("SPARK_NOT_STARTED", 0)
    assert len(starts.read_text().split()) == 1


def test_without_java_there_is_one_attempt(starts: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "java").rename(tmp_path / "bin" / "jawa")
    assert start(tmp_path, "running") == ("SPARK_NOT_STARTED", 0)
    assert starts.read_text() == ""
