"""What Spark keeps for a while is for this user's eyes only, and goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nadi.pipeline import scratch
from nadi.pipeline.scratch import make_scratch, remove_scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scratch, "own_folder", lambda: tmp_path)
    return tmp_path


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_it_begins_empty_and_goes_with_spark(place: Path) -> None:
    folder = make_scratch()
    (folder / "blockmgr").mkdir()
    assert make_scratch() == folder  # a JVM was killed, and another one starts
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    remove_scratch()
    assert list(place.iterdir()) == []


def test_what_processes_that_were_killed_have_left_goes_and_nothing_else(place: Path) -> None:
    lives = [place / f"spark-{os.getppid()}", place / "spark-other", place / str(gone())]
    left = place / f"spark-{gone()}"
    for folder in (*lives, left):
        (folder / "shuffle").mkdir(parents=True)
    made = make_scratch()
    assert sorted(place.iterdir()) == sorted([*lives, made])


def test_what_spark_shuffles_is_where_nobody_else_can_read_it(spark: SparkSession) -> None:
    folder = Path(spark.sparkContext.getConf().get("spark.local.dir", ""))
    assert spark.range(1000).repartition(3).count() == 1000
    assert [file for file in folder.rglob("shuffle_*.data") if file.stat().st_size]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == str(folder)
