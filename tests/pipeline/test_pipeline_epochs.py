"""Who was given an app later wins against who had it before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.cutting import cutlog
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.cuttable import TableCutLog
from nadi.pipeline.cutting.forgotten import forget_cuts

TakeOver = Callable[[int], int]


@pytest.fixture(params=["folder", "table"])
def take_over(request: pytest.FixtureRequest, tmp_path: Path) -> TakeOver:
    if request.param == "folder":
        return lambda owner: cutlog.take_over(tmp_path / "cuts", owner)
    return lambda owner: TableCutLog(f"sqlite:///{tmp_path}/cuts.db", "A", 0).take_over(owner)


def test_runs_of_one_owner_have_growing_epochs(take_over: TakeOver):
    first, second = take_over(3), take_over(3)
    assert first < second


def test_a_later_owner_wins_however_often_the_one_before_starts_again(take_over: TakeOver):
    before = [take_over(3) for _ in range(5)]
    assert take_over(4) > max(before)
    with pytest.raises(NadiError, match="CUT_FENCED"):
        take_over(3)


def test_a_node_of_its_own_goes_on_after_any_owner(take_over: TakeOver):
    assert take_over(4) < take_over(0)


def test_an_app_that_is_forgotten_begins_anew_and_fences_who_had_it(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/cuts.db"
    log = TableCutLog(url, "A", 0)
    log.take_over(2)
    log.append(Cut(0, log.epoch, 0, 0, {}))
    forget_cuts(url, "A")
    assert TableCutLog(url, "A", 0).last() is None
    with pytest.raises(NadiError, match="CUT_FENCED"):
        log.append(Cut(1, log.epoch, 0, 0, {}))
