"""The archive of Java's classes: when it is used, who makes it, and that Java takes Spark's classes from it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from descriptors import is_readable

from nadi.pipeline import archivemaker, classarchive
from nadi.pipeline.classarchive import Later, archive, use
from nadi.pipeline.session import java, java_options

NADI = [sys.executable, "-m", "nadi"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive of this machine's Java would be; it is not there."""
    monkeypatch.setenv("NADI_CACHE", str(tmp_path / "cache"))
    path = archive(java())
    assert path is not None
    assert tmp_path in path.parents
    path.parent.mkdir(parents=True)
    return path


def test_java_gets_the_archive_where_there_is_one_and_the_user_says_nothing_of_it(place: Path, tmp_path: Path) -> None:
    assert use(java(), "") == ""
    place.touch()
    assert use(java(), "-Dx=1") == f"-XX:SharedArchiveFile={place}"
    assert (
        f"-XX:SharedArchiveFile={place}" in java_options(tmp_path, tmp_path, "-Dx=1", 2, use(java(), "-Dx=1")).split()
    )
    assert use(java(), "-XX:ArchiveClassesAtExit=/mine.jsa") == use(java(), "-Xshare:off") == ""


def test_without_java_there_is_no_archive() -> None:
    assert archive(None) is None
    assert use(None, "") == ""


def test_another_java_has_another_archive(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "jdk" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch()
    assert archive(str(other)) != place


def test_a_node_that_ends_sooner_leaves_no_process_that_would_make_one(place: Path, tmp_path: Path) -> None:
    later = Later(java(), tmp_path / "logs")
    process = later._process
    assert process is not None
    assert process.poll() is None
    later.close()
    assert process.returncode == -9
    assert not place.exists()


def test_what_makes_it_ends_with_the_node_and_so_does_its_java(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = tmp_path / "pid"
    os.mkfifo(noted)
    text = f"""import pathlib, subprocess
java = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path({str(noted)!r}).write_text(str(java.pid))
java.wait()"""
    monkeypatch.setattr(classarchive, "_BESIDE", text)
    later = Later(java(), tmp_path / "logs")
    ended = os.pidfd_open(int(noted.read_text()))  # the text is there as soon as it has started
    try:
        assert not is_readable(ended, 0)
        later.close()
        assert is_readable(ended, 20)
    finally:
        os.close(ended)


def test_where_there_is_an_archive_nobody_makes_one(place: Path, tmp_path: Path) -> None:
    place.touch()
    assert Later(java(), tmp_path / "logs")._process is None


def test_archives_that_nobody_has_used_for_a_month_go_when_another_one_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archivemaker, "_make", lambda path: path.touch())
    gone, used = place.with_name("gone.jsa"), place.with_name("used.jsa")
    for other in (gone, used):
        other.touch()
        os.utime(other, (0, time.time() - archivemaker.KEPT + (60 if other is used else -60)))
    assert archivemaker.make(java()) == place
    assert [p.name for p in sorted(place.parent.glob("*.jsa"))] == sorted([place.name, "used.jsa"])
    os.utime(place, (0, 0))
    assert use(java(), "")
    assert time.time() - place.stat().st_mtime < 3600


@pytest.mark.slow
def test_java_takes_the_classes_of_spark_from_the_archive_that_prepare_has_made(tmp_path: Path) -> None:
    own = {**os.environ, "NADI_CACHE": str(tmp_path / "cache")}
    first = subprocess.run([*NADI, "prepare"], env=own, capture_output=True, text=True, timeout=300, check=True)
    assert "was made in" in first.stdout
    again = subprocess.run([*NADI, "prepare"], env=own, capture_output=True, text=True, timeout=60, check=True)
    assert "is there" in again.stdout
    app, seen = tmp_path / "app.siddhi", tmp_path / "classes.log"
    (tmp_path / "in.jsonl").write_text('{"event":{"x":1}}\n')
    app.write_text(f"""@app:name('Small')
        @source(type='file', file.uri='{tmp_path}/in.jsonl', @map(type='json')) define stream In (x int);
        @sink(type='file', file.uri='{tmp_path}/out.jsonl', append='false', @map(type='json')) define stream Out (x int);
        from In select x insert into Out;""")
    options = ["--until-end", "--state-dir", str(tmp_path / "state")]
    conf = ["--conf", f"spark.driver.extraJavaOptions=-Xlog:class+load:file={seen}"]
    subprocess.run([*NADI, "run", str(app), *options, *conf], env=own, capture_output=True, timeout=300, check=True)
    assert (tmp_path / "out.jsonl").read_text() == '{"event":{"x":1}}\n'
    spark = [line for line in seen.read_text().splitlines() if "] org.apache.spark." in line]
    mapped = [line for line in spark if "shared objects file (top)" in line]
    assert (
        len(mapped) > 0.5 * len(spark) > 1_000
    )  # the others are made while it runs, or were not needed by the small app


def test_what_cannot_be_made_is_said_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Exception, match=r"\[ARCHIVE_NOT_MADE\].*no java"):
        archivemaker.make(java())
