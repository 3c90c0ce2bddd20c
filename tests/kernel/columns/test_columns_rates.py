"""Output rates on columns: in partitions key by key, and of what windows hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.columnar import columnar, keyed_rates, shown
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.late import late_messages
from tests.kernel.columns import comparing
from tests.kernel.columns.comparing import (
    CHOSEN,
    OF_ONE_APP,
    RESTARTS,
    everywhere,
    same_as_rows,
    same_for_each_key_group,
    some_of,
)


@CHOSEN
@given(made=columnar(shapes=(keyed_rates,)), sent=messages, parts=cuts, every=RESTARTS)
def test_rates_in_a_partition_are_those_of_each_key(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    assume(islands(plan).columns)
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
    assume(islands(plan).columns)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


_LATE = {
    "rows": "select k, v",
    "rows and sums": "select k, sum(v) as s group by k",
    "sums alone": "select sum(v) as s, count() as n",
}


@pytest.mark.parametrize("name", _LATE)
def test_what_comes_late_stays_in_a_snapshot_until_a_timer_fires_or_an_event_comes(name: str) -> None:
    window, shows = (
        "from S#window.time(12 milliseconds)",
        "output snapshot every 5 milliseconds insert all events into Out;",
    )
    made = Generated(
        f"define stream S ({SCHEMA});\ndefine stream R (k string);\n{window} {_LATE[name]} {shows}", ("Out",), ()
    )
    plan = planned(made)

    @OF_ONE_APP
    @given(sent=late_messages, parts=cuts, every=RESTARTS)
    def holds(sent: list[Message], parts: list[Cut], every: str) -> None:
        sent = [Message(m.order, "S", m.events) for m in sent]
        same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))

    holds()


# ---- plain cases -----------------------------------------------------------------------------------------------------


def _both(query: str, sent: list[Message], *parts: list[Cut]) -> list[str]:
    """What a query over S gives on columns, in whatever parts, which is what it gives on rows."""
    made = Generated(f"define stream S ({SCHEMA});\ndefine stream R (k string);\n{query}", ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why
    found: list[str] = same_as_rows(made, plan, sent, [], *parts).get("Out", [])
    return found


def _events(*given: tuple[int, str, int]) -> list[Message]:
    return [Message(now, "S", ((now, (k, v, now, 0.0, 0.0, True)),)) for now, k, v in given]


def test_the_ticks_of_a_key_begin_with_its_first_event_even_if_a_filter_drops_it() -> None:
    query = "partition with (k of S) begin from S[v > 0] select k, v output last every 100 milliseconds insert into Out; end;"
    sent = _events((0, "a", 0), (30, "b", 1), (60, "a", 2), (101, "a", 3), (131, "b", 4))
    found = _both(query, sent, everywhere(sent, "deltas"), everywhere(sent, "dump"))
    assert [row[1:7] for row in found] == ["'a', 2", "'b', 1", "'a', 3", "'b', 4"]


def test_keys_whose_ticks_come_at_once_follow_each_other_by_their_texts() -> None:
    query = "partition with (k of S) begin from S select k, v output every 100 milliseconds insert into Out; end;"
    sent = _events((0, "b", 1), (0, "c", 2), (0, "a", 3), (50, "b", 4))
    found = _both(query, sent, everywhere(sent, "deltas"))
    assert [row[1:7] for row in found] == ["'a', 3", "'b', 1", "'b', 4", "'c', 2"]


@pytest.mark.slow  # it compiles eight loops
def test_many_keys_hold_what_has_not_come_out() -> None:
    names = [f"key {n % 450}" for n in range(1800)]
    sent = [Message(n // 30, "S", ((n, (names[n], n % 7, n, 0.0, 0.0, True)),)) for n in range(1800)]
    for rate in (
        "all every 3 events",
        "last every 3 events",
        "all every 20 milliseconds",
        "last every 20 milliseconds",
    ):
        inside = f"from S select k, v, count() as n group by v output {rate} insert into Out;"
        assert _both(
            f"partition with (k of S) begin {inside} end;", sent, [Cut(600, 0, "dump"), Cut(1200, 0, "deltas")]
        )


def test_a_snapshot_comes_before_what_leaves_the_window_at_its_time() -> None:
    query = "from S#window.time(100 milliseconds) select k, v output snapshot every 100 milliseconds insert all events into Out;"
    sent = _events((0, "a", 1), (50, "b", 2))
    found = _both(query, sent, everywhere(sent, "deltas"))
    assert [row[1:7] for row in found] == ["'a', 1", "'b', 2"]


def test_aggregators_alone_are_no_more_shown_when_their_groups_have_left() -> None:
    query = "from S#window.length(1) select sum(v) as s group by k output snapshot every 10 milliseconds insert all events into Out;"
    sent = _events((0, "a", 1), (5, "b", 2), (12, "a", 4), (28, "b", 8))
    found = _both(query, sent, everywhere(sent, "dump"), everywhere(sent, "deltas"))
    assert [row.split(",")[0] for row in found[:3]] == ["(2", "(4", "(8"]


def test_aggregators_alone_are_not_shown_between_what_leaves_and_what_comes() -> None:
    query = "from S#window.time(15 milliseconds) select sum(v) as s output snapshot every 10 milliseconds insert all events into Out;"
    sent = _events((0, "a", 1), (5, "b", 2), (18, "a", 4), (26, "b", 8), (60, "b", 16), (75, "c", 16))
    found = _both(query, sent, everywhere(sent, "dump"), everywhere(sent, "deltas"))
    assert [row.split(",")[0] for row in found] == ["(3", "(6", "(12", "(16", "(16", "(16"]


SHOWN = "output snapshot every 12 milliseconds insert all events into Out;"
COMPILED = {
    "all of keys": "partition with (k of S) begin from S select k, f, b, v output every 3 events insert into Out; end;",
    "all of keys by time": "partition with (v of S) begin from S select k, d, b output every 40 milliseconds insert into Out; end;",
    "last of keys": "partition with (k of S) begin from S select k, f, sum(d) as s group by v output last every 4 events insert into Out; end;",
    "last of keys by time": "partition with (k of S) begin from S select k, b, f output last every 12 milliseconds insert into Out; end;",
    "snapshots of keys": "partition with (k of S) begin from S select k, max(d) as m group by b output snapshot every 75 milliseconds insert into Out; end;",
    "time": f"from S#window.time(30 milliseconds)[v > 1] select k, v, sum(f) as s, min(d) as m, stdDev(l) as e group by k {SHOWN}",
    "rows": f"from S#window.time(30 milliseconds) select k, f, b, v * 2 as w having w > 2 {SHOWN}",
    "length": f"from S#window.length(3) select max(d) as m, distinctCount(k) as n, and(v > 1) as a, count() * 2L as c {SHOWN}",
    "external": f"from S[l > -9L]#window.externalTime(l, 30 milliseconds) select k, avg(d) as a, minForever(v) as o {SHOWN}",
    "time batch": f"from S#window.timeBatch(30 milliseconds) select sum(d) as s, max(v) as o group by k {SHOWN}",
    "length batch": f"from S#window.lengthBatch(3) select k, d, min(v) as m, avg(f) as a group by k {SHOWN}",
    "sums of matches": "from every e1=S -> e2=S[v > e1.v] select e1.k as k, sum(e2.d) as s group by e1.k output last every 12 milliseconds insert into Out;",
    "absence": "from every e1=S -> not S[v > e1.v] for 20 milliseconds select e1.k as k, e1.d as d output every 2 events insert into Out;",
}


@pytest.mark.parametrize("name", some_of(COMPILED))
def test_compiled_loops_give_exactly_what_rows_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "COMPILED", True)
    made = Generated(f"define stream S ({SCHEMA});\ndefine stream R (k string);\n{COMPILED[name]}", ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why

    @OF_ONE_APP
    @given(sent=messages, parts=cuts)
    def holds(sent: list[Message], parts: list[Cut]) -> None:
        sent = [Message(m.order, "S", m.events) for m in sent]
        same_as_rows(made, plan, sent, parts)

    holds()
