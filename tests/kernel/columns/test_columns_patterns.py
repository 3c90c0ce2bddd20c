"""Patterns on columns give what rows give: for generated chains, inputs, splits and restarts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from tests.generate.apps import Generated
from tests.generate.chains import PATTERNS
from tests.generate.choices import SCHEMA
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.late import late_messages
from tests.kernel.columns.comparing import (
    CHOSEN,
    OF_ONE_APP,
    RESTARTS,
    MixedFeeding,
    everywhere,
    same_as_rows,
)

SHAPES = {what: (apps, messages) for what, apps in PATTERNS.items()} | {
    f"{what}, events being late": (PATTERNS[what], late_messages)
    for what in ("sequences that wait for absences", "chains whose last element stays away")
}


@pytest.mark.parametrize("what", SHAPES)
def test_patterns_give_exactly_what_rows_give_for_every_split_and_restart(what: str) -> None:
    apps, sendings = SHAPES[what]

    @CHOSEN
    @given(made=apps, sent=sendings, parts=cuts, every=RESTARTS)
    def hold(made: Generated, sent: list[Message], parts: list[Cut], every: str) -> None:
        _compare(made, sent, parts, every)

    hold()


def _compare(made: Generated, sent: list[Message], parts: list[Cut], every: str) -> None:
    plan = planned(made)
    assume(islands(plan).columns)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


@pytest.mark.parametrize("value", ["e1.k != 'b'", "e1.k == 'b' and e2.b", "ifThenElse('b' == e2.k, 1, 2)"])
def test_a_match_whose_texts_are_compared_with_constants_runs_on_rows_beside_others(value: str) -> None:
    text = f"define stream S ({SCHEMA}); from every e1=S -> e2=S select {value} as x insert into Out1;"
    made = Generated(text, ("Out1",), ())
    rows = [("a", 1, 0, 0.0, 0.0, True), ("b", 2, 0, 0.0, 0.0, None), (None, 3, 0, 0.0, 0.0, False)]
    sent = [Message(n, "S", ((n, row),)) for n, row in enumerate(rows)]
    assert same_as_rows(made, planned(made), sent, [], on=MixedFeeding)["Out1"]


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

    @OF_ONE_APP
    @given(sent=late_messages, parts=cuts, every=RESTARTS)
    def holds(sent: list[Message], parts: list[Cut], every: str) -> None:
        _compare(made, sent, parts, every)

    holds()


_CHUNKS = {
    "a sequence that collects": "from every e1=R, e2=R[v > e1.v]*, e3=S within 30 milliseconds",
    "a sequence that collects first": "from every e1=R+, e2=S within 30 milliseconds",
    "a sequence that ends with either": "from every e1=R, e2=R[v > 1]*, e3=S or e4=R[v > 2] within 30 milliseconds",
    "a pattern that collects": "from every e1=R -> e2=R<1:3> -> e3=S[v > 1] within 30 milliseconds",
    "a pattern that ends with either": "from every e1=R[v > 1] -> e2=R[v > 0] -> e3=S or e4=R[v > 2] within 30 milliseconds",
    "a pattern that waits": "from every e1=R -> e2=R<1:3> -> not R[v > 2] for 5 milliseconds -> e3=S within 30 milliseconds",
}


@pytest.mark.parametrize("name", _CHUNKS)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_complete_match_that_runs_out_of_within_elsewhere_by_a_later_event_of_its_chunk_is_not_put_out(
    name: str, keyed: bool
) -> None:
    query = f"{_CHUNKS[name]} select {'e1[0]' if 'R+' in _CHUNKS[name] else 'e1'}.v as v insert into Out;"
    query = f"partition with (k of S, k of R) begin {query} end;" if keyed else query
    made = Generated(f"define stream S ({SCHEMA});\ndefine stream R ({SCHEMA});\n{query}", ("Out",), ())

    @OF_ONE_APP
    @given(sent=late_messages, parts=cuts, every=RESTARTS)
    def holds(sent: list[Message], parts: list[Cut], every: str) -> None:
        _compare(made, sent, parts, every)

    holds()


def test_a_sequence_is_not_put_out_if_the_next_event_of_the_chunk_is_too_late_for_what_it_still_collects() -> None:
    query = _CHUNKS["a sequence that collects"]
    text = f"define stream S ({SCHEMA}); define stream R ({SCHEMA}); {query} select e1.v as v insert into Out;"
    made = Generated(text, ("Out",), ())
    row = ("a", 1, 0, 0.0, 0.0, True)
    first = Message(0, "R", ((0, row),))
    together = [first, Message(75, "S", ((25, row), (75, row)))]
    assert not same_as_rows(made, planned(made), together, [])
    apart = [first, Message(75, "S", ((25, row),)), Message(75, "S", ((75, row),))]
    assert same_as_rows(made, planned(made), apart, [])["Out"]
