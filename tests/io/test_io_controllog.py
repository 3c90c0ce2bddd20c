"""The control log: durable records, one after the other, whatever a crash has left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from log_contract import check_log

from nadi.errors import NadiError
from nadi.io import linefile
from nadi.io.controllog import Again, ControlMapper, append, append_again, control_path, sent_again, trim
from nadi.io.rotatedlog import RotatedLog
from nadi.kernel.control import CONTROL_SCHEMA

APPENDER = """
import sys
from pathlib import Path
from nadi.io import linefile
from nadi.io.controllog import append
linefile.FILE_BYTES = int(sys.argv[3])
for n in range(50):
    append(Path(sys.argv[1]), f"{sys.argv[2]}-{n}", "delete T")
"""


def rows(log: RotatedLog, start: int = 0) -> list[dict[str, str]]:
    return [
        row for messages in log.read(0, start, log.end(0)) for row in ControlMapper().decode(messages).batch.to_pylist()
    ]


def test_records_are_read_in_the_order_in_which_they_were_appended_with_their_times(tmp_path: Path):
    path = control_path(tmp_path)
    log = RotatedLog(path)
    assert (log.beginning(0), log.end(0), log.finished()) == (0, 0, False)
    assert [append(path, f"r{n}", f"delete T{n}", now) for n, now in enumerate((1_000, 3_000, 2_000))] == [0, 1, 2]
    assert log.end(0) == 3
    assert rows(log, 1) == [{"id": "r1", "query": "delete T1"}, {"id": "r2", "query": "delete T2"}]
    assert list(log.times(0, 0, 3)) == [1_000, 3_000, 3_000]  # time does not go back, whatever the machine's clock does
    assert ControlMapper().decode(next(log.read(0, 0, 3))).batch.schema.names == list(CONTROL_SCHEMA.names)
    check_log(log)


def test_a_line_that_a_crash_has_torn_is_no_record_and_the_next_one_takes_its_place(tmp_path: Path):
    path = control_path(tmp_path)
    append(path, "a", "one")
    with path.open("ab") as file:
        file.write(b'{"time": 1, "id": "torn", "que')
    log = RotatedLog(path)
    assert log.end(0) == 1
    assert append(path, "b", "two") == 1
    assert [row["id"] for row in rows(log)] == ["a", "b"]
    assert log.end(0) == 2


@pytest.mark.parametrize("size", [1, 1_000, 1_000_000], ids=["a file a record", "some files", "one file"])
def test_processes_that_append_at_the_same_time_do_not_lose_a_record(tmp_path: Path, size: int):
    path = control_path(tmp_path)
    running = [subprocess.Popen([sys.executable, "-c", APPENDER, str(path), who, str(size)]) for who in "xyz"]
    followed = RotatedLog(path)
    while any(process.poll() is None for process in running):  # who reads meanwhile finds a beginning of it
        end = followed.end(0)
        assert sum(map(len, followed.read(0, 0, end))) == end
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert rows(followed) == rows(RotatedLog(path))
    found = [row["id"] for row in rows(RotatedLog(path))]
    assert sorted(found) == sorted(f"{who}-{n}" for who in "xyz" for n in range(50))
    for who in "xyz":
        mine = [id_ for id_ in found if id_.startswith(who)]
        assert mine == [f"{who}-{n}" for n in range(50)]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is long with its first record."""
    monkeypatch.setattr(linefile, "FILE_BYTES", 1)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.usefixtures("short")
def test_a_long_file_is_set_aside_and_positions_and_times_go_on(tmp_path: Path):
    path = control_path(tmp_path)
    reader = RotatedLog(path)
    for n, now in enumerate((1_000, 3_000, 2_000)):
        assert append(path, f"r{n}", "delete T", now) == n
        assert reader.end(0) == n + 1
    assert names(tmp_path) == [
        "control-000000000000-000000000001.jsonl",
        "control-000000000001-000000000002.jsonl",
        "control.jsonl",
    ]
    for log in (reader, RotatedLog(path)):
        assert [row["id"] for row in rows(log)] == ["r0", "r1", "r2"]
        assert [row["id"] for row in rows(log, 1)] == ["r1", "r2"]
        assert list(log.times(0, 0, 3)) == [1_000, 3_000, 3_000]
        check_log(log)


@pytest.mark.usefixtures("short")
def test_what_a_crash_left_of_a_long_file_is_dropped_before_it_is_set_aside(tmp_path: Path):
    path = control_path(tmp_path)
    append(path, "a", "one")
    with path.open("ab") as file:
        file.write(b'{"time": 1, "id": "torn')
    assert append(path, "b", "two") == 1
    assert [row["id"] for row in rows(RotatedLog(path))] == ["a", "b"]


@pytest.mark.usefixtures("short")
def test_a_crash_between_two_files_leaves_no_gap(tmp_path: Path):
    path = control_path(tmp_path)
    reader = RotatedLog(path)
    append(path, "a", "one", 5_000)
    assert reader.end(0) == 1
    path.rename(tmp_path / "control-000000000000-000000000001.jsonl")
    assert (reader.end(0), RotatedLog(path).end(0)) == (1, 1)
    assert append(path, "b", "two", 4_000) == 1
    assert list(reader.times(0, 0, 2)) == [5_000, 5_000]


@pytest.mark.usefixtures("short")
def test_what_nobody_needs_is_forgotten_and_the_last_file_that_was_set_aside_stays(tmp_path: Path):
    path = control_path(tmp_path)
    reader = RotatedLog(path)
    for n in range(5):
        append(path, f"r{n}", "delete T")
    assert len(rows(reader)) == 5
    trim(path, 2)
    for log in (reader, RotatedLog(path)):
        assert (log.beginning(0), log.oldest(0), log.end(0)) == (2, 2, 5)
        assert [row["id"] for row in rows(log, 2)] == ["r2", "r3", "r4"]
        with pytest.raises(NadiError, match="LOG_TRUNCATED"):
            list(log.read(0, 1, 5))
    trim(path, 100)
    assert names(tmp_path) == ["control-000000000003-000000000004.jsonl", "control.jsonl"]
    assert append(path, "r5", "delete T") == 5


@pytest.mark.usefixtures("short")
def test_what_was_sent_again_stays_known_when_its_record_is_forgotten(tmp_path: Path):
    path = control_path(tmp_path)
    append_again(path, [Again("e1", "query", "S"), Again("e2", "query", "S")], now=1_000)
    for n in range(3):
        append(path, f"r{n}", "delete T", 2_000)
    trim(path, 4)
    assert "again" not in "".join(p.read_text() for p in tmp_path.glob("*.jsonl"))
    assert sent_again(path) == {"e1": 1_000, "e2": 1_000}
    with pytest.raises(NadiError, match="ERROR_REPLAYED"):
        append_again(path, [Again("e1", "query", "S")])
    assert append_again(path, [Again("e1", "query", "S"), Again("e3", "query", "S")], skip=True).before == ("e1",)


def test_a_log_that_is_one_file_of_a_version_before_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = control_path(tmp_path)
    for n in range(3):
        append(path, f"r{n}", "delete T")
    assert names(tmp_path) == ["control.jsonl"]
    monkeypatch.setattr(linefile, "FILE_BYTES", 1)
    assert append(path, "r3", "delete T") == 3
    assert names(tmp_path) == ["control-000000000000-000000000003.jsonl", "control.jsonl"]
    assert len(rows(RotatedLog(path))) == 4
