"""How many tasks Spark may run at a time."""

from __future__ import annotations

import os

import pytest

from nadi.pipeline.slots import with_slots


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize("apps", [0, 1, 2, 100])
def test_a_node_has_four_slots_a_core_however_many_apps_it_starts_with_as_more_may_be_added(apps: int) -> None:
    assert with_slots("local[*,4]", apps) == "local[8,4]"


def test_a_number_that_the_master_says_holds_for_one_app_and_is_the_least_for_several() -> None:
    assert with_slots("local[1]", 1) == "local[1]"
    assert with_slots("local[1]", 2) == "local[8]"
    assert with_slots("local[9]", 2) == "local[9]"
