"""The fault log: what targets refused, once per cut, and read only as far as it is committed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from log_contract import check_log

from nadi.io import faultlog, staging
from nadi.io.faultlog import Fault, fault_log
from nadi.io.linelog import LINES_PER_PIECE, LineLog


def fault(cut: int, number: int, bucket: int = 0) -> Fault:
    return Fault(cut * 100, "Out", 0, cut, bucket, 0, number, "no", [(cut, ["x", number])])


def put(state: Path, cut: int, *numbers: int, bucket: int = 0) -> None:
    faultlog.stage(state, cut, bucket, [fault(cut, n, bucket) for n in numbers])


def numbers(log: LineLog) -> list[int]:
    pieces = log.read(0, 0, log.end(0))
    return [msgspec.json.decode(line, type=Fault).number for piece in pieces for line in piece.payloads]


def test_a_cut_gets_what_its_buckets_staged_last_in_their_order_and_once(tmp_path: Path) -> None:
    log = fault_log(tmp_path)
    assert (log.end(0), log.finished()) == (0, False)
    put(tmp_path, 3, 1, 2, bucket=1)
    put(tmp_path, 3, 7, bucket=0)
    put(tmp_path, 3, 1, bucket=1)  # the task was tried again, and the target answered otherwise
    assert log.end(0) == 0
    faultlog.commit(tmp_path, 3, [0, 1])
    assert numbers(log) == [7, 1]
    put(tmp_path, 3, 7, 8, bucket=0)  # Spark did not come to its own commit: the batch is made again
    faultlog.commit(tmp_path, 3, [0])
    assert numbers(log) == numbers(fault_log(tmp_path)) == [7, 1]
    put(tmp_path, 5, 9)
    faultlog.commit(tmp_path, 5, [0])
    assert numbers(log) == [7, 1, 9]
    assert list(log.times(0, 0, 3)) == [300, 300, 500]
    check_log(log)


def test_a_bucket_without_refusals_leaves_nothing(tmp_path: Path) -> None:
    assert faultlog.stage(tmp_path, 1, 0, []) == 0
    faultlog.commit(tmp_path, 1, [])
    assert list(tmp_path.iterdir()) == []


def test_what_a_commit_that_died_has_written_is_not_read_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, 1, 1)
    faultlog.commit(tmp_path, 1, [0])
    put(tmp_path, 2, 2, 3)
    with monkeypatch.context() as dying:

        def die(path: Path, data: bytes) -> None:
            raise KeyboardInterrupt

        dying.setattr(staging, "write_atomically", die)  # the lines are in the file, the ledger is not
        with pytest.raises(KeyboardInterrupt):
            faultlog.commit(tmp_path, 2, [0])
    log = fault_log(tmp_path)
    assert len((tmp_path / "faults.jsonl").read_bytes().splitlines()) == 3
    assert numbers(log) == [1]
    put(tmp_path, 2, 4)
    faultlog.commit(tmp_path, 2, [0])
    assert numbers(log) == [1, 4]


def test_a_long_log_is_read_in_pieces(tmp_path: Path) -> None:
    put(tmp_path, 1, *range(LINES_PER_PIECE * 2 + 5))
    faultlog.commit(tmp_path, 1, [0])
    log = fault_log(tmp_path)
    assert [len(piece) for piece in log.read(0, 3, log.end(0))] == [1_000, 1_000, 2]
    assert numbers(log) == list(range(LINES_PER_PIECE * 2 + 5))
