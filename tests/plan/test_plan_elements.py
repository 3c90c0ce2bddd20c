"""Ids and fingerprints of stateful elements: stable under edits elsewhere, changed by what shapes the state."""

from __future__ import annotations

import pytest

from nadi.plan import fingerprints, stateful

S = "define stream S (k string, v int); define stream R (k string, w int); "
QUERY = "@info(name='q') from S#window.length({n}) select {what} as s group by k insert into O; "


def test_every_stateful_element_has_an_id(plan):
    app = plan(
        S
        + "define table T (k string); define window W (k string) time(1 sec); define trigger X at every 1 sec; "
        + "define aggregation A from S select sum(v) as t aggregate every sec; "
        + "@info(name='a') from S#window.length(2)#log() select k, sum(v) as s output every 2 events insert into O1; "
        + "@info(name='b') from S#window.time(1 sec) join R#window.length(1) select v insert into O2; "
        + "partition with (k of S) begin from e1=S -> not S for 1 sec select e1.v insert into O3; "
        + "from S#unique:deduplicate(k) select v insert into O4; end;"
    )
    assert {e.id: e.timed for e in stateful(app)} == {
        "T/table": False,
        "W/window": True,
        "X/trigger": True,
        "A/aggregation": True,
        "a/window": False,
        "a/selector": False,
        "a/rate": False,
        "b/left.window": True,
        "b/right.window": False,
        "partition_1/keys": False,
        "unnamed_1/pattern": True,
        "unnamed_2/deduplicate_1": True,
    }


def test_ids_and_fingerprints_survive_edits_elsewhere(plan):
    query = QUERY.format(n=2, what="sum(v)")
    before = fingerprints(plan(S + query))
    after = fingerprints(
        plan("define table T (x int); " + S + "from R#window.length(9) select w insert into P; " + query)
    )
    assert before.items() <= after.items()
    assert set(before) == {"q/window", "q/selector"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (S + QUERY.format(n=3, what="sum(v)"), {"q/window"}),
        (S + QUERY.format(n=2, what="max(v)"), {"q/selector"}),
        (S.replace("v int", "v long") + QUERY.format(n=2, what="sum(v)"), {"q/window", "q/selector"}),
        (S + QUERY.format(n=2, what="sum(v)").replace("as s", "as total"), set()),
    ],
)
def test_a_fingerprint_changes_with_what_shapes_the_state(plan, text, changed):
    before, after = fingerprints(plan(S + QUERY.format(n=2, what="sum(v)"))), fingerprints(plan(text))
    assert {e for e in before if before[e] != after[e]} == changed


def test_the_key_of_a_partition_shapes_the_state_of_all_its_queries(plan):
    text = S + "partition with ({} of S) begin @info(name='q') from S select sum(v) as s insert into O; end;"
    by_k, by_v = fingerprints(plan(text.format("k"))), fingerprints(plan(text.format("v")))
    assert by_k.keys() == by_v.keys() == {"partition_1/keys", "q/selector"}
    assert all(by_k[e] != by_v[e] for e in by_k)


def test_fingerprints_do_not_depend_on_the_process(plan):
    app = plan(S + QUERY.format(n=2, what="sum(v)"))
    assert fingerprints(app) == {"q/window": "46d01a8cc359940b", "q/selector": "ec4aed13a3f141c1"}


def test_a_query_may_be_called_like_a_window_and_keeps_its_own_state(plan):
    app = plan(
        S + "define window W (k string, v int) length(1); @info(name='W') from S#window.length(2) insert into O;"
    )
    assert [q.name for q in app.queries] == ["W"]
    assert {e.id for e in stateful(app)} == {"W/window", "W~2/window"}


def test_windows_are_shown_as_written(plan):
    app = plan(S + "from S#window.sort(2, v, coalesce(k), v + 1) insert into O;")
    assert [e.what for e in stateful(app)] == ["the events of the window sort(2, v, coalesce(…), …)"]


def test_absence_in_a_logical_element_is_timed(plan):
    app = plan(S + "from every (e1=S -> not R for 1 sec and e2=S) -> e3=S<2> select e1.v insert into O;")
    assert [e.timed for e in stateful(app)] == [True]


def test_windows_that_wait_are_timed_and_counting_ones_are_not(plan):
    windows = ("time(1 sec)", "timeBatch(1 sec)", "length(2)")
    app = plan(S + "".join(f"from S#window.{window} select v insert into O;" for window in windows))
    assert [e.timed for e in stateful(app)] == [True, True, False]
