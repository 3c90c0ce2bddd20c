"""The cut log: durable, without gaps, one appender."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut


def cut(n: int, epoch: int = 1) -> Cut:
    return Cut(n, epoch, n * 10, 0, {(0, 0): n})


def filled(folder: Path, count: int) -> CutLog:
    log = CutLog(folder, take_over(folder))
    for n in range(count):
        log.append(cut(n))
    return log


def only_file(folder: Path) -> Path:
    return next(iter(folder.glob("cuts-*.jsonl")))


def test_what_was_appended_is_read_by_the_next_run(tmp_path: Path):
    filled(tmp_path, 3)
    again = CutLog(tmp_path, 2)
    assert again.last() == cut(2)
    assert [again.at(n) for n in range(4)] == [cut(0), cut(1), cut(2), None]


def test_a_run_that_was_taken_over_cannot_append(tmp_path: Path):
    old = filled(tmp_path, 1)
    new = CutLog(tmp_path, take_over(tmp_path))
    with pytest.raises(NadiError) as caught:
        old.append(cut(1))
    assert caught.value.condition == "CUT_FENCED"
    new.append(cut(1, 2))
    assert CutLog(tmp_path, 2).last() == cut(1, 2)


def test_a_gap_is_refused(tmp_path: Path):
    with pytest.raises(NadiError) as caught:
        filled(tmp_path, 1).append(cut(2))
    assert caught.value.condition == "CUT_LOG_MISMATCH"


@pytest.mark.parametrize("torn", [1, 5, 30])
def test_a_crash_inside_an_append_leaves_the_cuts_before_it_and_room_for_the_next(tmp_path: Path, torn: int):
    filled(tmp_path, 3)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-torn])
    log = CutLog(tmp_path, 1)
    assert log.last() == cut(1)
    log.append(cut(2))
    assert CutLog(tmp_path, 1).at(2) == cut(2)


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path: Path):
    filled(tmp_path, 3)
    path = only_file(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"rubbish\n" + lines[2])
    with pytest.raises(NadiError) as caught:
        CutLog(tmp_path, 1)
    assert (caught.value.condition, caught.value.parameters["line"]) == ("CUT_LOG_DAMAGED", 2)


def test_old_cuts_are_found_in_files_before_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 4)
    filled(tmp_path, 10)
    assert len(list(tmp_path.glob("cuts-*.jsonl"))) == 3
    log = CutLog(tmp_path, 1)
    assert [log.at(n) for n in (9, 0, 5)] == [cut(9), cut(0), cut(5)]


def test_a_crash_between_a_new_file_and_its_first_cut_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 2)
    filled(tmp_path, 2)
    (tmp_path / "cuts-000000000002.jsonl").touch()
    log = CutLog(tmp_path, 1)
    assert log.last() == cut(1)
    log.append(cut(2))
    assert CutLog(tmp_path, 1).last() == cut(2)


def test_trimming_removes_files_of_older_cuts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 2)
    log = filled(tmp_path, 7)
    log.trim(5)
    assert [p.name for p in sorted(tmp_path.glob("cuts-*"))] == ["cuts-000000000004.jsonl", "cuts-000000000006.jsonl"]
    log.append(cut(7))
    again = CutLog(tmp_path, 1)
    assert [again.at(n) for n in (3, 4, 7)] == [None, cut(4), cut(7)]


def test_messages_of_the_newest_cut_are_set_aside_for_whoever_reads_it(tmp_path: Path):
    log = filled(tmp_path, 3)
    log.amend(cut(2).without((0, 0), 1))
    log.amend(cut(2).without((0, 0), 1).without((0, 0), 0))
    log.append(cut(3))
    wanted = [cut(1), cut(2).without((0, 0), 1).without((0, 0), 0), cut(3), None]
    assert [log.at(n) for n in (1, 2, 3, 4)] == wanted
    again = CutLog(tmp_path, 1)
    assert [again.at(n) for n in (1, 2, 3, 4)] == wanted
    assert again.last() == cut(3)


def test_a_cut_that_another_one_follows_stays_as_it_is(tmp_path: Path):
    log = filled(tmp_path, 3)
    with pytest.raises(NadiError) as caught:
        log.amend(cut(1).without((0, 0), 0))
    assert caught.value.condition == "CUT_LOG_MISMATCH"
    CutLog(tmp_path, take_over(tmp_path))
    with pytest.raises(NadiError) as fenced:
        log.amend(cut(2).without((0, 0), 1))
    assert fenced.value.condition == "CUT_FENCED"


def test_the_newest_cut_of_a_full_file_is_amended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cutlog, "CUTS_PER_FILE", 2)
    filled(tmp_path, 4)
    log = CutLog(tmp_path, 1)
    log.amend(cut(3).without((0, 0), 2))
    log.append(cut(4))
    assert [CutLog(tmp_path, 1).at(n) for n in (3, 4)] == [cut(3).without((0, 0), 2), cut(4)]
