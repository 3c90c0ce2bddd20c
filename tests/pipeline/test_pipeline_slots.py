"""How many tasks Spark may run at a time."""

from __future__ import annotations

import os

import pytest

from nadi.pipeline.slots import with_slots
from nadi.pipeline.spec import AppSpec


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("tasks", "copies", "wanted"),
    [(1, False, "local[2,4]"), (2, True, "local[3,4]"), (4, False, "local[4,4]"), (100, False, "local[8,4]")],
)
def test_one_app_has_a_slot_for_each_of_its_tasks_and_no_more_than_four_a_core(
    tasks: int, copies: bool, wanted: str
) -> None:
    app = AppSpec("A", "", "", buckets=100, tasks=tasks, hosts=2)
    assert with_slots("local[*,4]", [app], copies) == wanted


def test_a_number_that_the_master_says_holds_for_one_app_and_is_the_least_for_several() -> None:
    app = AppSpec("A", "", "", buckets=3, hosts=1)
    assert with_slots("local[1]", [app], copies=False) == "local[1]"
    assert with_slots("local[1]", [app, app], copies=False) == "local[6]"
