"""The fault log: what targets refused, once per cut, and read only as far as it is committed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from io_sabotage import Crash, Saboteur
from log_contract import check_log

from nadi.errors import NadiError
from nadi.io import durablefiles, faultlog, segmentedlines
from nadi.io.faultlog import Fault, fault_log
from nadi.io.linelog import LINES_PER_PIECE
from nadi.io.segmentedlines import SegmentLog


def fault(cut: int, number: int, bucket: int = 0) -> Fault:
    return Fault(cut * 100, "Out", 0, cut, bucket, 0, number, "no", [(cut, ["x", number])])


def put(state: Path, cut: int, *numbers: int, bucket: int = 0) -> None:
    faultlog.stage(state, cut, bucket, [fault(cut, n, bucket) for n in numbers])


def numbers(log: SegmentLog) -> list[int]:
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

        dying.setattr(durablefiles, "write_atomically", die)  # the lines are in the file, the ledger is not
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


# ---- files of bounded size, forgotten with revisions ---------------------------------------------------------------------


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit begins a file, but the first."""
    monkeypatch.setattr(segmentedlines, "FILE_BYTES", 1)


def commit(state: Path, cut: int, *given: int) -> None:
    put(state, cut, *given)
    faultlog.commit(state, cut, [0])


def files(state: Path) -> list[str]:
    return sorted(path.name for path in state.glob("faults*.jsonl"))


def test_positions_stay_over_files_and_over_what_is_forgotten(tmp_path: Path, small_files: None) -> None:
    log = fault_log(tmp_path)
    for cut, given in enumerate(([1, 2], [3], [4, 5, 6], [7])):
        commit(tmp_path, cut, *given)
    assert files(tmp_path) == [
        "faults-000000000002.jsonl",
        "faults-000000000003.jsonl",
        "faults-000000000006.jsonl",
        "faults.jsonl",
    ]
    assert (log.end(0), numbers(log), numbers(fault_log(tmp_path))) == (7, [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7])
    check_log(log)
    faultlog.trim(tmp_path, 2)
    assert files(tmp_path) == ["faults-000000000002.jsonl", "faults-000000000003.jsonl", "faults-000000000006.jsonl"]
    faultlog.trim(tmp_path, 5)  # a part of a file is needed
    assert files(tmp_path) == ["faults-000000000003.jsonl", "faults-000000000006.jsonl"]
    for each in (log, fault_log(tmp_path)):
        assert (each.oldest(0), each.end(0)) == (3, 7)
        (piece,) = each.read(0, 4, 6)
        assert list(piece.positions) == [4, 5]
        assert list(each.times(0, 3, 7)) == [200, 200, 200, 300]
        with pytest.raises(NadiError, match=r"LOG_TRUNCATED.*position 2, it starts at 3"):
            list(each.read(0, 2, 7))
    faultlog.trim(tmp_path, 1_000)
    assert files(tmp_path) == ["faults-000000000006.jsonl"]  # the one that is appended to stays
    commit(tmp_path, 4, 8)
    assert [list(p.positions) for p in log.read(0, 6, 8)] == [[6], [7]]


def test_a_log_of_one_file_that_was_never_counted_goes_on(tmp_path: Path, small_files: None) -> None:
    commit(tmp_path, 0, 1, 2)
    ledger = tmp_path / "faults" / "append.json"
    known = msgspec.json.decode(ledger.read_bytes())
    ledger.write_bytes(msgspec.json.encode({"cut": known["cut"], "length": known["length"]}))
    log = fault_log(tmp_path)
    assert numbers(log) == [1, 2]
    commit(tmp_path, 1, 3)
    assert (numbers(log), files(tmp_path)) == ([1, 2, 3], ["faults-000000000002.jsonl", "faults.jsonl"])


@pytest.mark.parametrize("how", ["before", "half", "after", "full"])
def test_a_commit_that_begins_a_file_counts_once_wherever_it_is_killed(
    tmp_path: Path, small_files: None, how: str
) -> None:
    at = 0
    while True:
        at += 1
        state = tmp_path / str(at)
        commit(state, 0, 1, 2)
        put(state, 1, 3)
        beside = fault_log(state)
        assert beside.end(0) == 2
        with pytest.MonkeyPatch.context() as patch:
            saboteur = Saboteur(patch, at, how)
            with contextlib.suppress(Crash, NadiError):
                faultlog.commit(state, 1, [0])
        assert numbers(beside) == numbers(fault_log(state)) in ([1, 2], [1, 2, 3])
        put(state, 1, 3)  # the batch is made again
        faultlog.commit(state, 1, [0])
        commit(state, 2, 4)
        assert numbers(beside) == numbers(fault_log(state)) == [1, 2, 3, 4]
        assert not list((state / "faults" / "stage").iterdir())
        if saboteur.count < at:
            return


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_trim_that_is_killed_leaves_no_gap_and_the_next_one_ends_it(
    tmp_path: Path, small_files: None, how: str
) -> None:
    at = 0
    while True:
        at += 1
        state = tmp_path / str(at)
        for cut in range(5):
            commit(state, cut, cut)
        with pytest.MonkeyPatch.context() as patch:
            saboteur = Saboteur(patch, at, how)
            with contextlib.suppress(Crash):
                faultlog.trim(state, 3)
        log = fault_log(state)
        first = log.oldest(0)
        assert first <= 3
        assert [list(p.positions) for p in log.read(0, first, 5)] == [[n] for n in range(first, 5)]
        faultlog.trim(state, 3)
        assert log.oldest(0) == 3
        commit(state, 5, 5)
        assert [list(p.positions) for p in log.read(0, 3, 6)] == [[3], [4], [5]]
        if saboteur.count < at:
            return


KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from nadi.io import faultlog, segmentedlines
from nadi.io.faultlog import Fault
segmentedlines.FILE_BYTES = 400
state, first = Path(sys.argv[1]), int(sys.argv[2])
for cut in itertools.count(first):
    faultlog.stage(state, cut, 0, [Fault(cut, "Out", 0, cut, 0, 0, cut, "no", [(cut, [])])])
    faultlog.commit(state, cut, [0])
    faultlog.trim(state, cut - 20)
    print(cut, flush=True)
"""


def test_after_kill_9_every_line_that_is_not_forgotten_is_there_once(tmp_path: Path) -> None:
    cut = 0
    for life in range(4):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), str(cut)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(30 + 7 * life):
            cut = int(process.stdout.readline())
        process.kill()
        cut = max([cut, *(int(line) for line in process.stdout.read().splitlines())])
        process.stdout.close()
        process.wait()
        log = fault_log(tmp_path)
        held = [
            msgspec.json.decode(line, type=Fault).number
            for p in log.read(0, log.oldest(0), log.end(0))
            for line in p.payloads
        ]
        assert held == list(range(log.oldest(0), log.end(0)))
        assert log.end(0) in (cut + 1, cut + 2)  # of the last one nothing was heard
        assert log.oldest(0) > cut - 40
        cut = log.end(0) - 1  # the batch under way is made again
