"""Windows, aggregators and rates on columns: the corners that generated apps rarely meet, and what stays on rows."""

from __future__ import annotations

import sys
from ast import literal_eval
from math import nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.functions.registry import default_registry
from nadi.kernel.columns import ring
from nadi.kernel.keys import key_group
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA, Maker
from tests.generate.columnar import columnar
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Cut, Message, cuts
from tests.generate.late import late_messages
from tests.kernel.columns.comparing import CHOSEN, RESTARTS, ColumnsFeeding, everywhere, same_as_rows

STREAMS = f"define stream S ({SCHEMA});\ndefine stream R ({SCHEMA});\n"
LONG_AGO = -(2**63)


def event(
    k: str | None = "a", v: int | None = 1, at: int | None = 0, f: float = 0.0, d: float = 0.0, b: bool = True
) -> Any:
    return (k, v, at, f, d, b)


SHOWN = "output snapshot every 1 sec insert all events into Out;"


def both(query: str, *messages: tuple[int, list[Any]], until: int = 5000) -> list[str]:
    """What a query gives on columns, which is what it gives on rows."""
    made = Generated(STREAMS + query, ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why
    sent = [Message(order, "S", tuple((order, row) for row in rows)) for order, rows in messages]
    runs = [kind(made, plan) for kind in (Feeding, ColumnsFeeding)]
    for run in runs:
        run.feed(sent, until)
    assert runs[1].rows == runs[0].rows
    return runs[0].rows.get("Out", [])


def why(query: str, streams: str = STREAMS) -> str:
    """Why a query stays on rows."""
    return islands(plan_app(streams + query, default_registry())).why


# ---- timers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selected", ["k, v", "k, sum(v) as v group by k"])
def test_a_batch_comes_out_at_its_boundary_and_not_before(selected: str) -> None:
    made = Generated(f"{STREAMS}from S#window.timeBatch(30 millisec) select {selected} insert into Out;", ("Out",), ())
    run = ColumnsFeeding(made, planned(made))
    run.feed([Message(5, "S", ((5, event()),))], 5)
    assert run.next_timer() == 35
    run.feed([], 34)
    assert run.rows == {}
    run.feed([], 35)
    assert len(run.rows["Out"]) == 1
    assert run.next_timer() is None


def test_rows_wait_for_the_next_tick_of_a_rate() -> None:
    made = Generated(f"{STREAMS}from S select k, v output every 30 millisec insert into Out;", ("Out",), ())
    run = ColumnsFeeding(made, planned(made))
    run.feed([Message(30, "S", ((30, event()),))], 59)
    assert run.next_timer() == 60
    assert run.rows == {}
    run.feed([], 60)
    assert len(run.rows["Out"]) == 1


def test_a_delayed_event_goes_on_when_it_is_due_and_a_late_one_with_the_next_event() -> None:
    made = Generated(f"{STREAMS}from S#window.delay(30 millisec) select v insert into Out;", ("Out",), ())
    rows, run = Feeding(made, planned(made)), ColumnsFeeding(made, planned(made))
    late = [Message(50, "S", ((50, event(v=1)),)), Message(81, "S", ((10, event(v=2)),))]
    for one in (rows, run):
        one.feed(late[:1], 50)
    assert run.next_timer() == 80
    for one in (rows, run):
        one.feed(late[1:], 200)
    assert len(run.rows["Out"]) == 1
    assert run.next_timer() is None
    for one in (rows, run):
        one.feed([Message(300, "S", ((300, event(v=3)),))], 300)
    assert [row[:3] for row in run.rows["Out"]] == ["(1,", "(2,"]
    assert run.rows == rows.rows


def test_sessions_that_a_timer_finds_late_leave_in_the_order_of_their_ends_also_after_a_restart() -> None:
    query = "from S#window.session(100 millisec, k) select k, v insert all events into Out;"
    made = Generated(STREAMS + query, ("Out",), ())
    given = [("y", 0, 0), ("z", 200, 700), ("a", 201, 201), ("b", 202, 202), ("a", 250, 250)]  # z holds up the others
    sent = [Message(now, "S", ((ts, event(k)),)) for k, now, ts in given]
    runs = [Feeding(made, planned(made)) for _ in range(2)]
    for run, how in zip(runs, ("", "dump")):
        run.feed(sent, 250)
        run.restart(how)
        run.feed([], 1000)
    assert [row[2] for row in runs[0].rows["Out"][6:]] == ["b", "a", "a", "z"]
    assert runs[1].rows == runs[0].rows


def test_a_late_event_opens_its_session_earlier_or_is_dropped_and_the_sums_say_so_until_the_session_ends() -> None:
    made = Generated(
        f"{STREAMS}from S#window.session(30 millisec, k) select v, sum(d) as s insert into Out;", ("Out",), ()
    )
    given = [
        (50, 50, 0.1),
        (51, 20, 0.7),
        (52, -10, 0.4),
        (53, -41, 0.3),
        (54, 53, 0.9),
        (90, 90, 1e9),
        (130, 130, 0.2),
    ]
    sent = [Message(now, "S", ((ts, event(v=n, d=d)),)) for n, (now, ts, d) in enumerate(given)]
    runs = [kind(made, planned(made)) for kind in (Feeding, ColumnsFeeding, ColumnsFeeding)]
    for run, every in zip(runs, ("", "", "dump")):
        for message in sent:
            run.feed([message], message.order)
            run.restart(every)
    assert [row[1] for row in runs[0].rows["Out"]] == list("012456")
    assert runs[1].rows == runs[0].rows
    assert runs[2].rows == runs[0].rows


def test_a_session_without_a_key_and_that_of_the_text_null_are_two() -> None:
    rows = [(n, [event(k=k)]) for n, k in enumerate((None, "null", "=", "", None))]
    found = both("from S#window.session(30 millisec, k) select k, count() as n insert into Out;", *rows)
    assert len(found) == 5


def test_a_snapshot_shows_the_last_row_of_each_group_at_every_tick() -> None:
    query = "from S select k, sum(v) as s group by k output snapshot every 30 millisec insert into Out;"
    found = both(query, (0, [event("a", 1)]), (10, [event("b", 2), event("a", 3)]), (70, [event("b", 5)]), until=120)
    assert [row[2] + row[6] for row in found] == ["a4", "b2"] * 2 + ["a4", "b7"] * 2


def test_the_last_of_each_group_comes_in_the_order_in_which_groups_came() -> None:
    query = "from S select k, v group by k output last every {} insert into Out;".replace("v g", "count() as v g")
    sent = [(n, [event(k)]) for n, k in enumerate("abacbbacc")]
    assert [row[2] + row[6] for row in both(query.format("4 events"), *sent)] == ["a2", "b1", "c1", "b3", "a3", "c2"]
    found = both(query.format("4 millisec"), *sent)
    assert [row[2] + row[6] for row in found] == ["a2", "b1", "c1", "b3", "a3", "c2", "c3"]


@pytest.mark.parametrize("every", ["2 events", "3 millisec"])
def test_keys_without_number_are_forgotten_by_a_rate_and_nothing_else_changes(every: str) -> None:
    query = f"from S select k, count() as n group by k output first every {every} insert into Out;"
    names = [f"key {n % 1500}" for n in range(4500)]
    both(query, *((n // 100, [event(k) for k in names[n : n + 100]]) for n in range(0, 4500, 100)))


# ---- values ----------------------------------------------------------------------------------------------------------


def test_of_zeros_that_differ_in_sign_the_first_one_is_shown_as_long_as_one_is_held() -> None:
    rows = [(n, [event(d=d)]) for n, d in enumerate((0.0, -0.0, 1.0, -0.0, 0.0, -1.0, 0.0, -0.0, 2.0, 3.0, 4.0))]
    found = both("from S#window.length(3) select min(d) as m, max(d) as x insert into Out;", *rows)
    assert found[1].startswith("(0.0, 0.0")
    assert found[4].startswith("(0.0, 1.0")  # -0.0 came while a 0.0 was held


NANS = {
    "first": ((nan, 5.0, 3.0, 4.0), ("nan, nan", "nan, nan", "3.0, 5.0", "3.0, 4.0")),
    "between numbers": ((5.0, nan, 3.0, 7.0, 6.0), ("5.0, 5.0", "5.0, 5.0", "nan, nan", "3.0, 7.0", "6.0, 7.0")),
    "several": ((1.0, nan, nan, nan, 3.0, 2.0), ("1.0, 1.0", "1.0, 1.0", *["nan, nan"] * 3, "2.0, 3.0")),
}


@pytest.mark.parametrize("window", ["length(2)", "timeLength(1 sec, 2)", "unique:length(l, 2)"])
@pytest.mark.parametrize("kind", ["d", "f"])
@pytest.mark.parametrize("where", NANS)
def test_nan_is_an_extreme_until_it_leaves_where_no_number_was_held_before(where: str, kind: str, window: str) -> None:
    values, expected = NANS[where]
    assert _extremes(kind, window, values) == list(expected)


def test_a_number_that_comes_before_another_one_leaves_is_the_extreme_and_not_nan() -> None:
    values = (5.0, nan, 3.0, nan, nan, 6.0, 7.0)  # each is shown with what leaves after it, as `sort` lets go last
    shown = ("5.0, 5.0", "5.0, 5.0", "3.0, 5.0", "3.0, 3.0", "3.0, 3.0", "nan, nan", "6.0, 7.0")
    assert _extremes("d", "sort(2, v)", values) == list(shown)


def _extremes(kind: str, window: str, values: tuple[float, ...]) -> list[str]:
    rows = [(n, [event(v=-n, at=n, **{kind: value})]) for n, value in enumerate(values)]
    window = f"S[not (v is null)]#window.{window}"
    found = both(f"from {window} select min({kind}) as m, max({kind}) as x insert into Out;", *rows)
    return [", ".join(row[1:].split(", ")[:2]).split(")")[0] for row in found]


@pytest.mark.parametrize("window", ["length(2)", "externalTime(l, 2 millisec)"])
def test_nan_leaves_an_extreme_also_where_expired_events_come_out(window: str) -> None:
    values = (1.0, nan, nan, nan, 3.0, 2.0, nan, 0.0, nan, nan, -0.0, 4.0)
    rows = [(n, [event(at=n, d=value)]) for n, value in enumerate(values)]
    query = f"from S[not (l is null)]#window.{window} select min(d) as m, max(d) as x insert all events into Out;"
    assert any(row.startswith("(2.0, 3.0") for row in both(query, *rows))


@pytest.mark.parametrize("function", ["min", "max"])
def test_nan_leaves_the_extremes_of_a_join(function: str) -> None:
    query = f"from S#window.length(2) as a join S#window.length(1) as b on a.k == b.k select {function}(a.d) as m insert into Out;"
    values = (1.0, nan, nan, nan, 3.0, 2.0, nan, 0.0, nan, nan, 4.0, 4.0)
    found = both(query, *((n, [event(d=value)]) for n, value in enumerate(values)))
    assert found[-1].startswith("(4.0")


@pytest.mark.parametrize("window", ["length(2)", "sort(2, v)"])
@pytest.mark.parametrize("inside", [False, True])
def test_the_nans_of_an_extreme_are_state(window: str, inside: bool) -> None:
    query = f"from S[not (v is null)]#window.{window} select k, min(d) as m, max(d) as x insert into Out;"
    made = Generated(STREAMS + (f"partition with (k of S) begin {query} end;" if inside else query), ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns
    values = (nan, 1.0, nan, nan, 3.0, 2.0, nan)
    sent = [Message(n, "S", ((n, event(v=-n, d=value)),)) for n, value in enumerate(values)]
    same_as_rows(made, plan, sent, [], everywhere(sent, "dump"), everywhere(sent, "deltas"))


def test_events_behind_one_that_leaves_for_its_length_stay_although_they_are_old() -> None:
    made = Generated(
        f"{STREAMS}from S#window.timeLength(30 millisec, 2) select count() as n insert into Out;", ("Out",), ()
    )
    sent = [Message(0, "S", ((1, event()), (0, event()))), Message(30, "S", ((30, event()),))]
    rows, columns = Feeding(made, planned(made)), ColumnsFeeding(made, planned(made))
    for run in (rows, columns):
        run.feed(sent, 30)
    assert columns.rows == rows.rows
    assert columns.rows["Out"][-1].startswith("(2,")


def test_nan_and_texts_beyond_16_bits_are_ordered_as_on_rows() -> None:
    names = ("\U0001f600", "\uf900", "a", None, "é")
    values = (2.0, nan, 1.0, nan, 0.5, 3.0, nan, 0.0)
    batch = [event(k=names[n % 5], d=d) for n, d in enumerate(values)]
    both("from S select d, k order by d desc, k insert into Out;", (0, batch))
    found = both("from S select k order by k desc insert into Out;", (0, batch[:5]))
    assert [row.split(",")[0] for row in found] == ["('\uf900'", "('😀'", "('é'", "('a'", "(None"]


def test_an_external_clock_may_be_as_old_as_a_long() -> None:
    rows = [(n, [event(at=time)]) for n, time in enumerate((LONG_AGO, LONG_AGO + 5, LONG_AGO + 40, 0))]
    both("from S[not (l is null)]#window.externalTime(l, 30 millisec) select count() as n insert into Out;", *rows)


# ---- sessions --------------------------------------------------------------------------------------------------------

SESSIONS = {
    "an end that moves back waits for the timer that was set before": ((100, 100), (101, 110), (102, 103), (136, 132)),
    "late events join the session before, and then both": (
        (100, 100),
        (120, 120),
        (121, 113),
        (122, 100),
        (123, 105),
        (125, 125),
        (140, 132),
    ),
}


@pytest.mark.parametrize("what", SESSIONS)
@pytest.mark.parametrize(
    "window", ["30 millisec", "30 millisec, k", "30 millisec, k, 9 millisec", "12 millisec, k, 12 millisec"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_session_leaves_as_on_rows_wherever_state_is_taken(what: str, window: str, inside: bool) -> None:
    query = f"from S#window.session({window}) select k, sum(v) as s, min(v) as least insert into Out;"
    text = f"partition with (b of S) begin {query} end;" if inside else query
    made = Generated(STREAMS + text, ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns
    moments = (*SESSIONS[what], (300, 300))
    sent = [Message(order, "S", ((ts, event("a", 2**n)),)) for n, (order, ts) in enumerate(moments)]
    same_as_rows(made, plan, sent, [], everywhere(sent, "dump"), everywhere(sent, "deltas"))


@pytest.mark.parametrize("window", ["12 millisec, k", "12 millisec, k, 1 millisec", "12 millisec, k, 12 millisec"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_timer_that_is_due_when_it_is_set_ends_all_sessions_that_are_over_by_the_clock(
    window: str, inside: bool
) -> None:
    query = f"from S#window.session({window}) select k, sum(v) as s insert into Out;"
    text = f"partition with (b of S) begin {query} end;" if inside else query
    made = Generated(STREAMS + text, ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns
    old, going_on, held_up = (38, event("a", 1)), (108, event("b", 2)), (70, event("c", 4))  # timers for 50, 120, 82
    sent = [Message(100, "S", (old, going_on, held_up)), Message(101, "S", ((101, event("d", 8)),))]
    rows = same_as_rows(made, plan, sent, [], everywhere(sent, "dump"), everywhere(sent, "deltas"))
    assert rows["Out"][-1].startswith("('d', 10,")  # of "b" and "d"


@pytest.mark.parametrize("inside", [False, True])
def test_a_timer_that_ends_several_sessions_does_so_at_one_time_though_one_of_them_sets_a_timer_for_before(
    inside: bool,
) -> None:
    query = "from S#window.session(12 millisec, k, 1 millisec) select k, sum(v) as s insert into Out;"
    text = f"partition with (b of S) begin {query} end;" if inside else query
    made = Generated(STREAMS + text, ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns
    moments = ((100, 88, event("a", 1)), (100, 40, event("b", 2)), (101, 41, event("a", 4)))
    sent = [Message(order, "S", ((ts, row),)) for order, ts, row in moments]
    rows = same_as_rows(made, plan, sent, [], everywhere(sent, "dump"), everywhere(sent, "deltas"))
    assert rows["Out"][-1].startswith("('a', 4,")  # the timer of 101 has ended all that came before


def _session(m: Maker, source: str, target: str) -> str:
    gap = m.one(12, 30, 75)
    window = m.one(
        f"{gap} milliseconds", f"{gap} milliseconds, k", f"{gap} milliseconds, k, {m.one(1, 5, 12)} milliseconds"
    )
    group = m.one("", " group by v")
    made = f"from {source}#window.session({window}) select k, sum(d) as s, max(v) as m{group} insert into {target};"
    return made if m.maybe() else f"partition with ({m.one('k', 'v', 'b')} of {source}) begin {made} end;"


@CHOSEN
@given(made=columnar(shapes=(_session,)), sent=late_messages, parts=cuts, every=RESTARTS)
def test_sessions_of_events_that_come_late_are_those_of_rows(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = planned(made)
    assume(islands(plan).columns)  # in playback it stays on rows
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every))


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["'a' == 'b'", "'a' != 'b'", "'a' == 'a'"])
def test_two_constant_texts_are_compared_once_and_for_all(test: str) -> None:
    both(f"from S[ifThenElse({test}, k, 'b') == 'b'] select v insert into Out;", (0, [event("a"), event("b", 2)]))


# ---- sets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["", "#window.length(2)", "#window.timeBatch(9 millisec)", "#window.unique:ever(k)"])
def test_how_many_values_a_set_holds_is_known_without_the_set(window: str) -> None:
    chosen = (
        "sizeOfSet(unionSet(createSet(k))) as n, ifThenElse(sizeOfSet(unionSet(createSet(v))) > 1, 'more', 'one') as t"
    )
    rows = [(n, [event(k, v)]) for n, (k, v) in enumerate((("a", 1), ("b", 1), (None, 2), ("b", None), ("c", 2)))]
    both(
        f"from S{window} select b, {chosen}, sizeOfSet(unionSet(createSet(l))) + 1 as m group by b insert into Out;",
        *rows,
    )
    both(f"from S{window} select k having sizeOfSet(unionSet(createSet(k))) > 1 insert into Out;", *rows)


@pytest.mark.parametrize("window", ["", "#window.length(2)", "#window.lengthBatch(3)", "#window.unique:ever(k)"])
@pytest.mark.parametrize("group", ["", "group by b "])
def test_null_and_the_text_null_are_two_different_values(window: str, group: str) -> None:
    texts = (None, "null", None, "null", "a", None)
    both(
        f"from S{window} select distinctCount(k) as n, distinctCount(v) as m {group}insert into Out;",
        *((n, [event(k, None if n % 3 else n)]) for n, k in enumerate(texts)),
    )


def test_the_greatest_value_ever_is_that_of_its_batch() -> None:
    for kind in ("lengthBatch(2)", "batch()", "timeBatch(9 millisec)"):
        both(
            f"from S#window.{kind} select k, maxForever(v) as m group by k insert into Out;",
            *((10 * n, [event("a", v), event("b", v + 1)]) for n, v in enumerate((9, 2, 5))),
        )


# ---- what leaves -----------------------------------------------------------------------------------------------------


def test_what_leaves_stands_before_the_event_in_its_chunk_and_is_stamped_with_the_clock() -> None:
    both(
        "from S#window.time(30 millisec) select k, v, eventTimestamp() as at, currentTimeMillis() as now insert all events into Out;",
        (0, [event("a", 1), event("b", 2)]),
        (30, [event("c", 3)]),
        (200, [event("d", 4)]),
    )


@pytest.mark.parametrize("events", ["all", "expired"])
def test_of_a_chunk_with_aggregators_the_last_row_that_is_wanted_comes_out(events: str) -> None:
    both(
        f"from S#window.length(1) select k, sum(v) as s, min(v) as m, distinctCount(k) as n insert {events} events into Out;",
        *((n, [event(k, v)]) for n, (k, v) in enumerate((("a", 1), ("b", 2), ("b", 3), ("c", None)))),
    )


def test_an_event_that_comes_late_leaves_with_the_next_one_or_timer() -> None:
    rows = [Message(n, "S", ((ts, event("a", n)),)) for n, ts in ((0, 0), (40, 40), (41, 5), (60, 50), (200, 200))]
    made = Generated(
        f"{STREAMS}from S#window.time(30 millisec) select v, l insert expired events into Out;", ("Out",), ()
    )
    found = same_as_rows(made, planned(made), rows, [], everywhere(rows, "deltas"))
    assert len(found["Out"]) == 5


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["", "#window.time(1 sec)", "#window.timeBatch(1 sec, 0)"])
def test_groups_in_a_partition_lie_in_the_key_groups_of_its_keys(window: str) -> None:
    inner = f"from S{window} select k, v, sum(l) as s, distinctCount(v) as n, min(d) as m group by v insert into Out;"
    made = Generated(f"{STREAMS}partition with (k of S) begin {inner} end;", ("Out",), ())
    plan = planned(made)
    assert plan.sharding.kind == "key"
    names = [f"key {n}" for n in range(40)]
    first = [Message(n, "S", ((n, event(k, v, n, d=float(n % 7))),)) for n, k in enumerate(names) for v in (1, 2)]
    second = [Message(60, "S", ((60, event(k, v, 5)),)) for k in names for v in (2, 3)]
    whole, half = ColumnsFeeding(made, plan), ColumnsFeeding(made, plan)
    whole.feed(first, 50)
    before = len(whole.rows.get("Out", []))
    segments = [s for s in whole.kernels[0].dump() if s.group < 64]
    half.kernels[0].load(segments)
    whole.feed(second, 3000)
    half.feed([m for m in second if key_group(str(m.events[0][1][0])) < 64], 3000)
    expected = [row.split(",")[:5] for row in whole.rows["Out"][before:] if key_group(row[2:].split("'")[0]) < 64]
    assert [row.split(",")[:5] for row in half.rows["Out"]] == expected
    assert 0 < len(expected) < len(whole.rows["Out"][before:])


# ---- what stays on rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("from S#window.sort(2, v) select v insert into Out;", "fails where v is null"),
        (
            "from S#window.lengthBatch(2) select v insert all events into Out;",
            "expired events of the window 'lengthBatch'",
        ),
        (
            "from S#window.timeLength(9, 2) select v insert all events into Out;",
            "expired events of the window 'timeLength'",
        ),
        ("from S select unionSet(createSet(k)) as n insert into Out;", "unionSet() gives an object"),
        ("from S select v insert expired events into Out;", "has expired events, for which"),
        (
            "from S#window.length(2) select v output every 2 events insert all events into Out;",
            "an output rate of expired",
        ),
        ("from S#window.length(2) select v order by v insert all events into Out;", "order by of expired events"),
        ("from S#window.length(2) select v limit 1 insert all events into Out;", "limit and offset of expired events"),
        ("from S#window.sort(2, k) select v insert into Out;", "'sort' by strings"),
        ("from S#window.unique:ever(d) select count() as n insert into Out;", "no attribute of a type"),
        ("from S#window.unique:length(k, 0) select count() as n insert into Out;", "a number of at least 1"),
        ("from S#window.timeBatch(1 sec, true) select v insert into Out;", "stream.current.event"),
        ("from S#window.lengthBatch(0) select v insert into Out;", "no number of at least 1"),
        ("from S#window.externalTime(l, 1 sec) select sum(v) as s insert into Out;", "a filter such as [l > 0L]"),
        ("from S[l != 3L]#window.externalTime(l, 1 sec) select sum(v) as s insert into Out;", "a filter such as"),
        ("from S[l > 3L or v > 1]#window.externalTimeBatch(l, 1 sec) select v insert into Out;", "a filter such as"),
        ("from S[l > 0L]#window.externalTimeBatch(l, 1 sec, 0, 1 sec) select v insert into Out;", "so many parameters"),
        ("from S#window.timeBatch(1 sec) select currentTimeMillis() as t insert into Out;", "currentTimeMillis()"),
        ("from S#window.time(1 sec)[eventTimestamp() > 3L] select sum(v) as s insert into Out;", "looks at a clock"),
        ("from S select and(b) as s insert into Out;", "fails where b is null"),
        ("from S select distinctCount(d) as s insert into Out;", "no attribute of a type"),
        (f"from S#window.timeLength(1 sec, 2) select k {SHOWN}", "'timeLength' has no operator yet"),
        (f"from S#window.time(1 sec) select eventTimestamp() as t {SHOWN}", "looks at a clock"),
        (f"from S#window.time(1 sec) select v + sum(v) as s {SHOWN}", "at an aggregator and at the event"),
        (f"from S#window.time(1 sec) select k, sum(v) as s having s > 1L {SHOWN}", "having with aggregators"),
        (f"from S#window.time(1 sec) select k limit 1 {SHOWN}", "of each event"),
        (f"from S#window.batch(2) select k {SHOWN}", "'batch' of a length"),
        (f"from S#window.lengthBatch(2) select distinctCount(v) as n {SHOWN}", "of distinctCount()"),
        (f"from S#window.lengthBatch(2) select maxForever(v) as n {SHOWN}", "of maxForever()"),
        (f"from S#window.length(2) select str:concat('x', sum(v)) as t, 'b' as u {SHOWN}", "aggregators and constants"),
        (f"from S#window.length(2) select str:concat(k, sum(v)) as t {SHOWN}", "at an aggregator and at the event"),
        ("from S select k, sum(v) as s limit 1 output snapshot every 1 sec insert into Out;", "of each event"),
        ("from S#window.timeBatch(1 sec) select v output first every 2 events insert into Out;", "ends of batches"),
    ],
)
def test_what_stays_on_rows_says_why(query: str, reason: str) -> None:
    assert reason in why(query)


def test_a_delay_stays_on_rows_in_playback_and_behind_what_makes_several_chunks_of_one() -> None:
    query = "from S#window.delay(1 sec) select v insert into Out;"
    assert "in playback what the window 'delay' lets go" in why(query, "@app:playback\n" + STREAMS)
    batches = "from S#window.lengthBatch(1) select v insert into Mid;"
    found = islands(plan_app(f"{STREAMS}{batches}{query.replace('from S', 'from Mid')}", default_registry()))
    assert any("query_1 makes several chunks of one" in one.why for one in found.queries.values())


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "from S[v > 0]#window.sort(101, v) select count() as n insert into Out;",
            "of more than 100 events has no operator inside",
        ),
        (f"from S#window.length(2) select k {SHOWN}", "'length' inside a partition has no operator"),
        ("from S select v insert into #In; from #In select v output every 1 sec insert into Out;", "when a key comes"),
        (
            "from S as a join S as b on a.v == b.v select a.v output every 2 events insert into Out;",
            "of joins and matches",
        ),
    ],
)
def test_what_stays_on_rows_in_a_partition_says_why(query: str, reason: str) -> None:
    found = islands(plan_app(f"{STREAMS}partition with (k of S) begin {query} end;", default_registry()))
    assert any(reason in one.why for one in found.queries.values())


def test_sums_over_matches_stay_on_rows_where_the_key_of_one_stream_has_no_loop() -> None:
    query = "from every e1=S -> e2=R select e1.k as k, count() as n insert into Out;"
    text = f"partition with (str:length(default(k, '')) of R, v of S) begin {query} end;"
    assert "str:length() has no loop yet" in why(text)


def test_queries_that_both_have_timers_stay_on_rows_where_one_reads_the_other() -> None:
    chained = (
        "@info(name='one') from S#window.timeBatch(1 sec) select k, sum(v) as s group by k insert into Mid;"
        "from Mid[s > 1L] select k, s insert into Next;"
        "from Next select k, s output every 1 sec insert into Out;"
    )
    assert "one and it both put out something by themselves" in why(chained)
    read = chained[: chained.rindex("from Next")]
    assert why(read) == ""
    found = islands(plan_app("@app:playback " + STREAMS + read, default_registry())).queries
    assert any("travels at a time that it does not know" in one.why for one in found.values())


@pytest.mark.parametrize("between", ["", "from Mid select k insert into Next;"])
def test_a_session_of_what_comes_by_timers_stays_on_rows_which_know_who_is_first(between: str) -> None:
    late = "@info(name='one') from S#window.delay(12 millisec) select k insert into Mid;"
    query = f"from {'Next' if between else 'Mid'}#window.session(30 millisec) select k, count() as n insert into Out;"
    found = islands(plan_app(f"{STREAMS}{late}{between}{query}", default_registry())).queries
    assert any("one puts out something by itself, before the end of a session" in one.why for one in found.values())
    assert why(late.replace("#window.delay(12 millisec)", "") + between + query) == ""


@pytest.mark.parametrize(
    "maker",
    [
        "from S select k, eventTimestamp() as t insert into Mid;",
        "from S select k, default(l, 0L) as t insert into Mid;",
        "from S[l > 0L and v > 1] select k, l as t insert into Mid;",
    ],
)
def test_a_time_that_is_never_null_may_come_from_another_query(maker: str) -> None:
    assert why(f"{maker} from Mid#window.externalTime(t, 1 sec) select k, count() as n insert into Out;") == ""


# ---- partitions ------------------------------------------------------------------------------------------------------


def shown(rows: list[str]) -> list[Any]:
    """The two values of rows."""
    return [literal_eval(row)[:2] for row in rows]


SUMS = "from S#window.length(2) select k, sum(v) as s insert into Out; end;"


def test_an_event_takes_part_in_every_range_that_holds_for_it_in_their_order() -> None:
    ranges = "v > 1 as 'more' or v > 3 as 'many' or b as 'more' of S"
    made = both(
        f"partition with ({ranges}) begin {SUMS}",
        (0, [event("a", 4), event("b", 2), event("c", 0), event("d", None, b=False)]),
        (1, [event("e", 5, b=False)]),
    )
    assert shown(made) == [("a", 4), ("a", 4), ("c", 2), ("e", 5), ("e", 9)]


def test_a_computed_key_splits_events_and_null_takes_no_part() -> None:
    made = both(
        f"partition with (v % 2 of S) begin {SUMS}",
        (0, [event("a", 1), event("b", 3), event("c", 2), event("d", None), event("e", 5)]),
        (1, [event("f", 4)]),
    )
    assert shown(made) == [("b", 4), ("c", 2), ("e", 8), ("f", 6)]


def test_an_inner_stream_has_the_keys_of_what_it_is_made_from() -> None:
    made = both(
        "partition with (k of S) begin from S[v > 0]#window.lengthBatch(2) select v, max(d) as m insert into #In;"
        " from #In#window.length(2) select sum(v) as s, max(m) as m insert into Out; end;",
        (0, [event("a", 1), event("b", 10), event("a", 2, d=3.0), event("b", 20)]),
        (1, [event("a", 4), event("a", 8), event("b", 30), event("b", 40, d=1.0)]),
    )
    assert shown(made) == [(2, 3.0), (20, 0.0), (10, 3.0), (60, 1.0)]


def test_an_inner_stream_that_is_read_on_rows_is_made_there() -> None:
    said = islands(
        plan_app(
            STREAMS + "partition with (k of S) begin @info(name='q') from S select k, v insert into #In;"
            " from S#window.length(2) as a join #In#window.length(2) as c on a.v == c.v select a.k as k insert into Out; end;",
            default_registry(),
        )
    ).queries["q"]
    assert said.runs_on == "rows"
    assert "inner stream" in said.why


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["length(3)", "time(3 millisec)"])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_events_take_the_places_of_those_that_have_left(monkeypatch: Any, window: str, size: int) -> None:
    monkeypatch.setattr(ring, "_FEWEST", 2)
    text = f"from S#window.{window} select k, sum(v) as s, min(v) as low group by k insert into Out;"
    made = Generated(STREAMS + text, ("Out",), ())
    plan = planned(made)
    rows, columns = Feeding(made, plan), ColumnsFeeding(made, plan)
    sent = [Message(at, "S", ((at, event("abc"[at % 3], at * 7 % 11)),)) for at in range(60)]
    for start in range(0, len(sent), size):
        for run in (rows, columns):
            run.feed(sent[start : start + size], start + size - 1)
        if start % (3 * size) == 2 * size:  # what the deltas of several batches tell
            columns.restart("deltas")
    assert columns.rows == rows.rows
