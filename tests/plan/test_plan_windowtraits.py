"""Each window says all that planning must know of it, and what it says fits together."""

from __future__ import annotations

from dataclasses import fields

import pytest

from nadi.functions.entries import WindowSpec
from nadi.functions.registry import default_registry
from nadi.kernel.columns.endings import ENDINGS
from nadi.kernel.columns.windows import HELD as IN_AN_ORDER_OF_THEIR_OWN
from nadi.kernel.rows.windows import WINDOWS as ON_ROWS
from nadi.plan.windowtraits import (
    BATCHES,
    DELAYS,
    OF_BATCH,
    OF_TIME_BATCH,
    SLIDING,
    TIMED,
    UNIQUE_BATCHES,
    UNORDERED,
    OnColumns,
    WindowTraits,
)

SPECS = [spec for name in default_registry().names("window") if (spec := default_registry().window(name)) is not None]
HELD = SLIDING | BATCHES | UNIQUE_BATCHES | UNORDERED | DELAYS


def test_a_window_without_traits_is_no_window():
    with pytest.raises(TypeError, match="traits"):
        WindowSpec("sample", lambda _arguments: None, "Every n-th event.")  # type: ignore[call-arg]


@pytest.mark.parametrize("left_out", [f.name for f in fields(WindowTraits)])
def test_no_trait_can_be_left_out(left_out):
    given = {f.name: getattr(OF_BATCH, f.name) for f in fields(WindowTraits) if f.name != left_out}
    with pytest.raises(TypeError, match=left_out):
        WindowTraits(**given)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_one_family_of_operators_holds_a_window_or_none(spec):
    assert len(spec.traits.columns & HELD) <= 1
    assert spec.traits.columns & HELD or spec.traits.columns is OnColumns.NOTHING


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_puts_out_something_by_itself_or_before_any_event_is_woken_by_timers(spec):
    if TIMED in spec.traits.columns or spec.traits.first or spec.traits.phase:
        assert spec.traits.timed


def test_the_windows_that_operators_put_in_the_place_of_others_are_those_of_the_registry():
    found = {spec.name: spec.traits for spec in SPECS}
    assert (found["batch"], found["timeBatch"]) == (OF_BATCH, OF_TIME_BATCH)


def test_each_window_has_a_class_on_rows():
    assert {spec.name for spec in SPECS} == set(ON_ROWS)


def test_windows_that_say_so_have_an_operator_of_their_own_on_columns_and_no_others():
    assert {spec.name for spec in SPECS if UNORDERED in spec.traits.columns} == set(IN_AN_ORDER_OF_THEIR_OWN)
    assert {spec.name for spec in SPECS if BATCHES in spec.traits.columns} <= set(ENDINGS)
