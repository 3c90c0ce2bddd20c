"""Joins on columns give what rows give: for generated joins, inputs, splits and restarts.

`NADI_GENERATE=2000` runs so many examples instead of the few that every run can afford.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.islands import islands
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.joins import joining
from tests.kernel.columns.test_columns_invariant import CHOSEN, ColumnsFeeding, _split


@CHOSEN
@given(made=joining(), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_joins_give_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    found = islands(plan)
    assert found.columns, found.why
    rows = _split(Feeding(made, plan), sent, [])
    assert _split(ColumnsFeeding(made, plan), sent, []) == rows
    assert _split(ColumnsFeeding(made, plan), sent, parts) == rows
    everywhere = [Cut(i, 0, every) for i in range(len(sent))]
    assert _split(ColumnsFeeding(made, plan), sent, everywhere) == rows


@CHOSEN
@given(made=joining(), sent=messages, parts=cuts, buckets=st.sampled_from((2, 3)))
def test_each_key_group_of_a_join_gets_the_same_from_several_buckets(
    made: Generated, sent: list[Message], parts: list[Cut], buckets: int
) -> None:
    plan = planned(made)
    assume(plan.sharding.kind == "key")
    rows = Feeding(made, plan)
    _split(rows, sent, [])
    several = ColumnsFeeding(made, plan, buckets)
    _split(several, sent, parts)
    assert several.by_group == rows.by_group
