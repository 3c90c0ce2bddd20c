"""Restores are planned from two plans, before any state is touched."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.plan import fingerprints, plan_app, plan_restore

REGISTRY = default_registry()
S = "define stream S (k string, v int, ts long); "


def planned(before, after, **given):
    return plan_restore(plan_app(before, REGISTRY), plan_app(after, REGISTRY), REGISTRY, **given)


def fate(before, after, element):
    """(fate, reason) of an element of the old app."""
    return next((f.fate, f.reason) for f in planned(before, after).fates if f.old == element)


def query(text):
    return S + f"@info(name='q') {text} insert into Out;"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("length(3)", "length(3)", "kept"),
        ("length(3)", "length(4)", "migrated"),
        ("length(3)", "length(2)", "reset"),
        ("lengthBatch(3)", "lengthBatch(4)", "migrated"),
        ("lengthBatch(3)", "lengthBatch(2)", "reset"),
        ("lengthBatch(3)", "lengthBatch(3, true)", "reset"),
        ("time(1 sec)", "time(1000 milliseconds)", "kept"),
        ("time(1 sec)", "time(1 min)", "migrated"),
        ("time(1 min)", "time(1 sec)", "migrated"),
        ("time(1 min)", "length(5)", "reset"),
        ("timeLength(1 sec, 5)", "timeLength(2 sec, 6)", "migrated"),
        ("timeLength(1 sec, 5)", "timeLength(2 sec, 4)", "reset"),
        ("externalTime(ts, 1 sec)", "externalTime(ts, 2 sec)", "migrated"),
        ("delay(1 sec)", "delay(2 sec)", "migrated"),
        ("timeBatch(1 sec)", "timeBatch(2 sec)", "migrated"),
        ("timeBatch(1 sec, 0)", "timeBatch(2 sec, 0)", "reset"),
        ("sort(3, v)", "sort(4, v)", "migrated"),
        ("sort(3, v)", "sort(4, v, 'desc')", "reset"),
        ("sort(3, v)", "sort(3, k)", "reset"),
        ("session(1 sec, k)", "session(2 sec, k)", "reset"),
        ("expression('count() < 3')", "expression('count() < 4')", "reset"),
    ],
)
def test_a_window_with_other_parameters(before, after, expected):
    text = query("from S#window.{} select k")
    assert fate(text.replace("{}", before), text.replace("{}", after), "q/window")[0] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("output last every 3 events", "output last every 5 events", "migrated"),
        ("output all every 3 events", "output all every 2 events", "reset"),
        ("output all every 3 events", "output all every 3 sec", "reset"),
        ("output every 1 sec", "output every 3 sec", "migrated"),
        ("output snapshot every 1 sec", "output snapshot every 3 sec", "migrated"),
        ("output first every 1 sec", "output last every 1 sec", "reset"),
    ],
)
def test_an_output_rate_with_other_parameters(before, after, expected):
    text = S + "@info(name='q') from S select k {} insert into Out;"
    assert fate(text.format(before), text.format(after), "q/rate")[0] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("e1=S[v > 1] -> e2=S", "e1=S[v > 2] -> e2=S[k == e1.k]", "migrated"),
        ("e1=S -> e2=S", "e1=S -> e2=S within 1 sec", "migrated"),
        ("e1=S -> e2=S", "a=S -> b=S", "kept"),
        ("e1=S -> e2=S", "every e1=S -> e2=S", "reset"),
        ("e1=S<2:3> -> e2=S", "e1=S<2:4> -> e2=S", "reset"),
        ("e1=S -> e2=S", "e1=S -> e2=S -> e3=S", "reset"),
        ("e1=S -> e2=S", "e1=S, e2=S", "reset"),
        ("e1=S -> not S[v > 3] for 1 sec", "e1=S -> not S[v > 3] for 2 sec", "reset"),
    ],
)
def test_a_pattern_with_other_elements(before, after, expected):
    text = query("from {} select 1 as one")
    assert fate(text.format(before), text.format(after), "q/pattern")[0] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("define table T (k string, v int);", "define table T (k string, v int, more double);", "migrated"),
        ("define table T (k string, v int);", "define table T (v int, k string);", "migrated"),
        ("define table T (k string, v int);", "define table T (k string);", "reset"),
        ("define table T (k string, v int);", "define table T (k string, v double);", "reset"),
        ("define table T (k string, v int);", "@primaryKey('k') define table T (k string, v int);", "reset"),
        ("define table T (k string, v int);", "@index('k') define table T (k string, v int);", "migrated"),
        (
            "@primaryKey('k') @index('v') define table T (k string, v int);",
            "@primaryKey('k') @index('v') define table T (new int, k string, v int);",
            "migrated",
        ),
    ],
)
def test_a_table_with_other_columns(before, after, expected):
    assert fate(S + before, S + after, "T/table")[0] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("S select k, sum(v) as t group by k", "S[v > 3] select k, sum(v) as t group by k", "migrated"),
        ("S select k, sum(v) as t group by k", "S select k, sum(v) as other group by k", "kept"),
        ("S select k, sum(v) as t group by k", "S select k, max(v) as t group by k", "reset"),
    ],
)
def test_an_aggregation_of_something_else(before, after, expected):
    text = S + "define aggregation A from {} aggregate every sec ... min;"
    found = fate(text.format(before), text.format(after), "A/aggregation")
    assert (found[0] if expected != "kept" else "kept") == expected


def test_an_aggregation_with_a_duration_less_loses_its_buckets():
    text = S + "define aggregation A from S select k, sum(v) as t group by k aggregate every {};"
    assert fate(text.format("sec ... hour"), text.format("sec ... min"), "A/aggregation") == (
        "reset",
        "the buckets per hour are gone",
    )


def test_the_state_of_another_nadi_is_not_trusted():
    text = query("from S#window.length(3) select sum(v) as s")
    known = fingerprints(plan_app(text, REGISTRY))
    assert {f.fate for f in planned(text, text, fingerprints=known).fates} == {"kept"}
    found = planned(text, text, fingerprints=known | {"q/window": "0" * 16}).fates
    assert {f.new: f.fate for f in found} == {"q/window": "reset", "q/selector": "reset"}
    assert "made by a nadi that keeps something else" in found[0].reason


def test_other_rules_keep_nothing():
    text = query("from S#window.length(3) select sum(v) as s")
    assert {f.fate for f in planned(text, "@app:compat('4') " + text).fates} == {"reset"}


def test_what_holds_nothing_is_no_loss():
    text = query("from S#window.length({}) select k")
    plan = planned(text.format(3), text.format(2), held={"q/window": 0})
    assert [f.fate for f in plan.fates] == ["reset"]
    assert plan.check() is plan
    with pytest.raises(NadiError, match="RESTORE_DROPS_STATE"):
        planned(text.format(3), text.format(2), held={"q/window": 1}).check()


def test_the_table_of_a_plan_names_what_has_moved():
    before = S + "from S#window.length(9) select k insert into Gone; from S#window.length(3) select k insert into Out;"
    after = S + "from S#window.length(3) select k insert into Out; from S select count() as n insert into New;"
    assert planned(before, after).table() == (
        (
            "unnamed_2/window → unnamed_1/window",
            "the events of the window length(3)",
            "kept",
            "the same under another name",
        ),
        ("unnamed_2/selector", "count()", "new", "it begins empty"),
        ("unnamed_1/window", "the events of the window length(9)", "reset", "it is not there any more"),
    )


def test_a_plan_that_changes_nothing_says_so():
    text = query("from S#window.length(3) select sum(v) as s")
    assert planned(text, text).unchanged
    assert planned(text, text.replace("as s", "as total")).unchanged
    assert not planned(text, text.replace("length(3)", "length(4)")).unchanged
    assert not planned(text, text.replace("'q'", "'r'")).unchanged


def test_a_query_that_is_added_behind_a_named_window_is_warned_of():
    before = S + "define window W (k string, v int, ts long) length(5); from S insert into W; "
    after = before + "@info(name='q') from W select sum(v) as s insert into Out;"
    assert fate_of_new(before, after, "q/selector") == (
        "new",
        "it begins empty, and will see events leave W/window that it has not seen come",
    )
    assert fate_of_new(S, after, "q/selector") == ("new", "it begins empty")


def fate_of_new(before, after, element):
    return next((f.fate, f.reason) for f in planned(before, after).fates if f.new == element)
