"""The control log: durable records, one after the other, whatever a crash has left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from log_contract import check_log

from nadi.io.controllog import ControlMapper, append, control_path, fill
from nadi.io.linelog import LineLog
from nadi.kernel.control import CONTROL_SCHEMA

APPENDER = """
import sys
from pathlib import Path
from nadi.io.controllog import append
for n in range(50):
    append(Path(sys.argv[1]), f"{sys.argv[2]}-{n}", "delete T")
"""


def rows(log: LineLog, start: int = 0) -> list[dict[str, str]]:
    (messages,) = log.read(0, start, log.end(0))
    return ControlMapper().decode(messages).batch.to_pylist()


def test_records_are_read_in_the_order_in_which_they_were_appended_with_their_times(tmp_path: Path):
    path = control_path(tmp_path)
    log = LineLog(path)
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
    log = LineLog(path)
    assert log.end(0) == 1
    assert append(path, "b", "two") == 1
    assert [row["id"] for row in rows(log)] == ["a", "b"]
    assert log.end(0) == 2


def test_a_log_is_filled_up_to_what_a_restored_state_has_taken_and_no_further(tmp_path: Path):
    path = control_path(tmp_path)
    fill(path, 0)
    assert not path.exists()
    append(path, "a", "one", 5)
    fill(path, 3)
    fill(path, 2)
    assert append(path, "b", "two", 4) == 3
    assert [row["query"] for row in rows(LineLog(path))] == ["one", "", "", "two"]
    assert list(LineLog(path).times(0, 0, 4)) == [5, 5, 5, 5]


def test_processes_that_append_at_the_same_time_do_not_lose_a_record(tmp_path: Path):
    path = control_path(tmp_path)
    running = [subprocess.Popen([sys.executable, "-c", APPENDER, str(path), who]) for who in "xyz"]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    found = [row["id"] for row in rows(LineLog(path))]
    assert sorted(found) == sorted(f"{who}-{n}" for who in "xyz" for n in range(50))
    for who in "xyz":
        mine = [id_ for id_ in found if id_.startswith(who)]
        assert mine == [f"{who}-{n}" for n in range(50)]
