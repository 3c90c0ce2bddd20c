"""The generators reach what they are for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.functions.registry import default_registry
from tests.generate.apps import FAMILIES, Generated, apps
from tests.generate.budget import GENERATED
from tests.generate.feeding import Feeding
from tests.generate.inputs import Message, messages
from tests.generate.windows import WINDOWS


def test_every_window_is_generated() -> None:
    assert sorted(WINDOWS) == sorted(default_registry().names("window"))


@pytest.mark.parametrize("family", FAMILIES)
def test_many_apps_of_a_family_give_rows_and_all_can_be_planned(family: str) -> None:
    gave = []

    @settings(GENERATED, max_examples=20, derandomize=True, database=None, phases=[Phase.generate])
    @given(made=apps(family), sent=messages)
    def run(made: Generated, sent: list[Message]) -> None:
        feeding = Feeding(made)
        feeding.feed(sent, sent[-1].order + 3000)
        gave.append(bool(feeding.rows))

    run()
    assert sum(gave) >= 5
