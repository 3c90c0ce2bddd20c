"""Patterns on columns give what rows give: for generated chains, inputs, splits and restarts.

`NADI_GENERATE=2000` runs so many examples instead of the few that every run can afford.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.generate.apps import Generated
from tests.generate.chains import absences, chain, led, matching, run, summed
from tests.generate.choices import SCHEMA
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.late import late_messages
from tests.kernel.columns.test_columns_invariant import CHOSEN, ColumnsFeeding, _split, runs_on_columns


@CHOSEN
@given(made=matching(chain), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_patterns_give_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


@CHOSEN
@given(made=matching(run), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_sequences_give_exactly_what_rows_give_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


@CHOSEN
@given(made=matching(led), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_patterns_that_begin_with_two_at_once_give_exactly_what_rows_give(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


@CHOSEN
@given(made=matching(summed), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_sums_over_matches_are_exactly_those_of_rows(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


@CHOSEN
@given(made=absences(), sent=messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_what_stays_away_is_told_at_the_times_of_rows(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


@CHOSEN
@given(made=absences(), sent=late_messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
def test_what_stays_away_is_told_at_the_times_of_rows_where_events_are_late(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    _compare(made, sent, parts, every)


def _compare(made: Generated, sent: list[Message], parts: list[Cut], every: str) -> None:
    plan = planned(made)
    runs_on_columns(plan)
    rows = _split(Feeding(made, plan), sent, [])
    assert _split(ColumnsFeeding(made, plan), sent, []) == rows
    assert _split(ColumnsFeeding(made, plan), sent, parts) == rows
    everywhere = [Cut(i, 0, every) for i in range(len(sent))]
    assert _split(ColumnsFeeding(made, plan), sent, everywhere) == rows


_LATE = {
    "every pair": "from every (e1=S and e2=R[v != e1.v or e1.v is null]) -> e3=S[v >= e1.v] within 30 milliseconds",
    "one pair": "from e1=S[v > 0] and e2=R -> e3=S within 40 milliseconds",
    "every whole": "from every (e1=S and e2=R -> e3=R) within 30 milliseconds",
    "both of one stream": "from every (e1=S and e2=S[k == 'a']) -> e3=R within 25 milliseconds",
}


@pytest.mark.parametrize("name", _LATE)
def test_both_times_of_a_pair_count_for_within(name: str) -> None:
    chosen = "select e1.v as v, e2.k as k, e3.v as w insert into Out;"
    made = Generated(f"define stream S ({SCHEMA});\ndefine stream R ({SCHEMA});\n{_LATE[name]} {chosen}", ("Out",), ())

    @CHOSEN
    @given(sent=late_messages, parts=cuts, every=st.sampled_from(("", "dump", "deltas")))
    def holds(sent: list[Message], parts: list[Cut], every: str) -> None:
        _compare(made, sent, parts, every)

    holds()
