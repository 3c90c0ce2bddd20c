"""Output rates on columns: in partitions key by key, and of what windows hold."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.generate.apps import Generated
from tests.generate.columnar import columnar, keyed_rates, shown
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.kernel.columns.comparing import (
    CHOSEN,
    RESTARTS,
    everywhere,
    runs_on_columns,
    same_as_rows,
    same_for_each_key_group,
)


@CHOSEN
@given(made=columnar(shapes=(keyed_rates,)), sent=messages, parts=cuts, every=RESTARTS)
def test_rates_in_a_partition_are_those_of_each_key(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    runs_on_columns(plan)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


@CHOSEN
@given(made=columnar(shapes=(keyed_rates,)), sent=messages, parts=cuts, buckets=st.sampled_from((1, 3)))
def test_rates_of_each_key_group_are_the_same_in_any_number_of_buckets(
    made: Generated, sent: list[Message], parts: list[Cut], buckets: int
) -> None:
    same_for_each_key_group(made, sent, parts, buckets)


@CHOSEN
@given(made=columnar(shapes=(shown,)), sent=messages, parts=cuts, every=RESTARTS)
def test_a_snapshot_shows_what_the_window_holds(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    runs_on_columns(plan)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))
