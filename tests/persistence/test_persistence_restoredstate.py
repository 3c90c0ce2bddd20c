"""A dump of one version of an app is restored into another one: what is kept gives what an uninterrupted run gives."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from tests.persistence.restorerig import Message, Node, fates

S = "define stream S (k string, v int); define stream R (k string, v int); "
DEALS = [("S", 100 * i, (f"k{i % 7}", (i * 37) % 50)) for i in range(1, 61)]


def halves(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    return messages[: len(messages) // 2], messages[len(messages) // 2 :]


def after_restore(before: str, after: str, messages: list[Message] = DEALS, until: int = 20_000) -> Node:
    """The node that goes on as `after`, fed with the second half."""
    first, second = halves(messages)
    node = Node(before).feed(first, first[-1][1])
    made = node.goes_on_as(after)
    return made.feed(second, until)


def uninterrupted(text: str, messages: list[Message] = DEALS, until: int = 20_000) -> Node:
    first, second = halves(messages)
    node = Node(text).feed(first, first[-1][1])
    node.taken()
    return node.feed(second, until)


EVERYTHING = (
    S
    + "define window W (k string, v int) time(1 sec) output all events; define trigger X at every 700 milliseconds; "
    + "@primaryKey('k') define table T (k string, v int); "
    + "define aggregation A from S select k, sum(v) as t group by k aggregate every sec ... min; "
    + "@info(name='in') from S insert into W; "
    + "@info(name='a') from S[v > 3]#window.time(900) select k, sum(v) as v group by k insert all events into Out1; "
    + "@info(name='b') from W select k, max(v) as v insert into Out2; "
    + "@info(name='c') from S#window.lengthBatch(7) select k, min(v) as v insert all events into Out3; "
    + "@info(name='d') from e1=S[v > 20] -> e2=S[v > e1.v] within 2 sec select e2.k as k, e1.v as v insert into Out4; "
    + "@info(name='e') from every not S[v > 40] for 500 milliseconds select 'none' as k, 1 as v insert into Out5; "
    + "@info(name='f') from S select k, sum(v) as v group by k output last every 1 sec insert into Out6; "
    + "@info(name='g') from X select 'tick' as k, 0 as v insert into Out7; "
    + "@info(name='h') from S select k, v update or insert into T set T.v = v on T.k == k; "
    + "@info(name='i') from S#window.length(3) join T on S.v < T.v select S.k as k, T.v as v insert into Out8; "
    + "partition with (k of S) begin @info(name='p') from S#window.length(2) select k, sum(v) as v insert into Out9; "
    + "@info(name='q') from S select k, count() as n output every 3 events insert into #I; "
    + "@info(name='r') from #I#unique:deduplicate(k, 1 sec) select k, 1 as v insert into Out10; end;"
)


def test_the_same_app_goes_on_as_if_nothing_had_happened():
    assert after_restore(EVERYTHING, EVERYTHING).taken() == uninterrupted(EVERYTHING).taken()


def test_a_state_of_a_base_and_deltas_goes_on_likewise():
    first, second = halves(DEALS)
    node = Node(EVERYTHING).feed(first[:5], first[4][1])
    node.base()
    for message in first[5:]:
        node.feed([message], message[1])
    made = node.goes_on_as()
    assert made.feed(second, 20_000).taken() == uninterrupted(EVERYTHING).taken()


# ---- queries added, removed, reordered, renamed -------------------------------------------------------------------------

SUMS = "from S#window.time(2 sec) select k, sum(v) as v group by k insert into Out; "
PEAK = "from S#window.length(4) select max(v) as v insert into OutPeak; "
PAIR = "from every e1=S -> e2=S[v > e1.v and k == e1.k] select e1.v as a, e2.v as b insert into OutPairs; "


def test_an_unnamed_query_keeps_its_state_wherever_it_stands():
    after = S + PEAK + "from R#window.length(4) select max(v) as v insert into OutPeak; " + SUMS
    made = after_restore(S + SUMS + PEAK, after)
    assert made.taken() == uninterrupted(S + SUMS + PEAK).taken()


def test_queries_that_differ_in_their_stream_only_are_not_mixed_up():
    other = SUMS.replace("from S", "from R")
    plan = Node(S + SUMS + other).plan(S + other)
    assert {(f.old, f.new): f.fate for f in plan.fates} == {
        ("unnamed_2/window", "unnamed_1/window"): "kept",
        ("unnamed_2/selector", "unnamed_1/selector"): "kept",
        ("unnamed_1/window", ""): "reset",
        ("unnamed_1/selector", ""): "reset",
    }


def test_a_query_that_was_added_begins_empty_and_leaves_the_others_alone():
    before = S + "@info(name='s') " + SUMS
    after = before + "@info(name='n') from S select count() as n output last every 1 sec insert into OutCounts; "
    first, second = halves(DEALS)
    node = Node(before).feed(first, 3_050)
    made = node.goes_on_as(after).feed(second, 20_000)
    rows = made.taken()
    assert [r for r in rows if r[0] == "Out"] == uninterrupted(before).taken()
    # its ticks began with the restore at 3,050 ms
    assert [(r[3], r[4][0]) for r in rows if r[0] == "OutCounts"] == [(4_000, 10), (5_000, 20), (6_000, 30)]


def test_a_query_that_is_gone_is_a_loss_and_the_others_go_on():
    before, after = S + "@info(name='s') " + SUMS + "@info(name='p') " + PEAK, S + "@info(name='s') " + SUMS
    plan = Node(before).plan(after)
    assert fates(plan) == {"s/window": "kept", "s/selector": "kept", "p/window": "reset", "p/selector": "reset"}
    with pytest.raises(NadiError) as caught:
        plan.check()
    assert (caught.value.condition, caught.value.siddhi_class) == (
        "RESTORE_DROPS_STATE",
        "CannotRestoreSiddhiAppStateException",
    )
    assert "p/window" in str(caught.value)
    assert "s/window" not in str(caught.value)
    plan.check(reset=True)
    assert after_restore(before, after).taken() == uninterrupted(after).taken()


def test_a_query_may_be_renamed():
    before, after = S + "@info(name='old') " + SUMS, S + "@info(name='new') " + SUMS
    assert fates(Node(before).plan(after)) == {"new/window": "kept", "new/selector": "kept"}
    assert after_restore(before, after).taken() == uninterrupted(before).taken()


def test_a_query_of_the_same_name_that_reads_something_else_is_another_one():
    before, after = S + "@info(name='s') " + SUMS, S + "@info(name='s') " + SUMS.replace("from S", "from R")
    assert {(f.old, f.new, f.fate) for f in Node(before).plan(after).fates} == {
        ("", "s/window", "new"),
        ("", "s/selector", "new"),
        ("s/window", "", "reset"),
        ("s/selector", "", "reset"),
    }


def test_partitions_are_known_by_their_queries():
    one = "partition with (k of S) begin from S select k, sum(v) as v insert into #I; "
    one += "from #I#window.length(2) select k, max(v) as v insert into Out; end; "
    other = "partition with (v of S) begin from S select v, count() as n insert into OutCounts; end; "
    plan = Node(S + other + one).plan(S + one)
    kept = {f.old: f.new for f in plan.fates if f.fate == "kept"}
    assert kept == {
        "partition_2/keys": "partition_1/keys",
        "unnamed_2/selector": "unnamed_1/selector",
        "unnamed_3/window": "unnamed_2/window",
        "unnamed_3/selector": "unnamed_2/selector",
    }
    # what is left can be split by key, and its outputs are numbered by key-group from here on
    assert after_restore(S + other + one, S + one).values() == uninterrupted(S + one).values()


# ---- constants ------------------------------------------------------------------------------------------------------------


def test_another_constant_in_a_filter_keeps_the_window_behind_it():
    text = S + "@info(name='s') from S[v > {}]#window.length(5) select sum(v) as v insert into Out; "
    made = after_restore(text.format(10), text.format(25))
    held = [r[2][1] for r in halves(DEALS)[0] if r[2][1] > 10][-5:]
    expected = []
    for _stream, _ts, (_k, v) in halves(DEALS)[1]:
        if v > 25:
            held = [*held, v][-5:]
            expected.append((sum(held),))
    assert made.values() == expected


@pytest.mark.parametrize("to", [3_000, 400])
def test_events_of_a_time_window_leave_after_the_new_time(to):
    text = S + "@info(name='s') from S#window.time({}) select v insert expired events into Out; "
    first, second = halves(DEALS)
    made = Node(text.format(1_000)).feed(first, 3_000).goes_on_as(text.format(to))
    rows = made.feed(second, 20_000).taken()
    still_held = [m for m in first if m[1] > 2_000]
    expected = [(max(ts + to, 3_000), v) for _s, ts, (_k, v) in still_held + second]
    # those that are older than a shorter time leave with the first event that comes
    assert [(max(ts, 3_000), values[0]) for _s, _g, _n, ts, values in rows] == expected


def test_a_longer_length_window_fills_up_first():
    text = S + "@info(name='s') from S#window.length({}) select count() as n insert into Out; "
    assert after_restore(text.format(3), text.format(5)).values()[:4] == [(4,), (5,), (5,), (5,)]


def test_a_shorter_length_window_does_not_fit():
    text = S + "@info(name='s') from S#window.length({}) select count() as n insert into Out; "
    plan = Node(text.format(5)).plan(text.format(3))
    assert fates(plan) == {"s/window": "reset", "s/selector": "reset"}
    assert "length(5)" in next(f.reason for f in plan.fates if f.new == "s/window")


def test_partial_matches_stay_when_conditions_and_within_change():
    text = S + "@info(name='s') from every e1=S[v > {}] -> e2=R[k == e1.k] within {} select e1.v as v insert into Out; "
    node = Node(text.format(1, "1 sec")).feed([("S", 100, ("a", 5)), ("S", 200, ("b", 6))], 300)
    plan = node.plan(text.format(9, "5 sec"))
    assert fates(plan) == {"s/pattern": "migrated"}
    made = node.goes_on_as(text.format(9, "5 sec"))
    made.feed([("S", 400, ("c", 8)), ("R", 4_000, ("a", 0)), ("R", 4_001, ("c", 0)), ("R", 5_300, ("b", 0))], 6_000)
    assert made.values() == [(5,)]


# ---- attributes -----------------------------------------------------------------------------------------------------------


WIDE = "define stream S (new double, k string, v int, more string); define stream R (k string, v int); "


def wide(messages: list[Message]) -> list[Message]:
    return [(s, ts, (1.5, *row, "x") if s == "S" else row) for s, ts, row in messages]


ATTRIBUTES = {
    "time": "from S#window.time(1 sec) select k, sum(v) as v group by k insert all events into Out; ",
    "batch": "from S#window.timeBatch(1 sec) select k, sum(v) as v group by k insert all events into Out; ",
    "sort": "from S#window.sort(5, v) select k, v insert all events into Out; ",
    "session": "from S#window.session(300 milliseconds, k) select k, v insert all events into Out; ",
    "pattern": "from every e1=S[v > 20] -> e2=S[v > e1.v and k == e1.k] select e1.k as k, e2.v as v insert into Out; ",
    "count": "from every e1=S[v > 20]<2:3> -> e2=S[v < 10] select e1[0].k as k, e1[last].v as v insert into Out; ",
    "join": "from S#window.length(4) join S#window.length(2) as b on S.k == b.k select S.k, b.v insert into Out; ",
}


@pytest.mark.parametrize("what", ATTRIBUTES)
def test_added_attributes_are_null_in_what_was_kept(what):
    query = "@info(name='s') " + ATTRIBUTES[what]
    first, second = halves(DEALS)
    node = Node(S + query).feed(first, first[-1][1])
    plan = node.plan(WIDE + query)
    assert set(fates(plan).values()) <= {"kept", "migrated"}
    assert "migrated" in fates(plan).values()
    made = node.goes_on_as(WIDE + query).feed(wide(second), 20_000)
    assert made.taken() == uninterrupted(S + query).taken()


def test_the_rows_of_a_table_get_the_new_attribute():
    before = S + "@primaryKey('k') define table T (k string, v int); @info(name='i') from S insert into T; "
    after = S + "@primaryKey('k') @index('v') define table T (extra string, k string, v int); "
    after += "@info(name='i') from S select 'x' as extra, k, v insert into T; "
    after += "@info(name='o') from R join T on R.k == T.k select T.extra as extra, T.k as k, T.v as v insert into Out; "
    node = Node(before).feed([("S", 1, ("a", 1)), ("S", 2, ("b", 2))], 10)
    assert fates(node.plan(after))["T/table"] == "migrated"
    made = node.goes_on_as(after).feed([("S", 20, ("c", 3)), ("R", 21, ("a", 0)), ("R", 22, ("c", 0))], 30)
    assert made.values() == [(None, "a", 1), ("x", "c", 3)]


@pytest.mark.parametrize("change", ["v int|v long", "k string, v int|v int"])
def test_an_attribute_of_another_type_or_none_is_not_guessed(change):
    here, there = change.split("|")
    query = "@info(name='s') from S#window.length(3) select v insert into Out; "
    plan = Node(S + query).plan(S.replace(here, there, 1) + query)
    assert fates(plan)["s/window"] == "reset"


# ---- what goes together ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("select sum(v) as v", "select sum(v) as v, avg(v) as w"),
        ("select sum(v) as v", "select sum(v) as v group by k"),
        ("select k, v", "select k, sum(v) as v"),
    ],
)
def test_a_sum_goes_with_its_window(before, after):
    text = S + "@info(name='s') from S#window.length(3) {} insert into Out; "
    plan = Node(text.format(before)).plan(text.format(after))
    assert fates(plan)["s/window"] == "reset"
    made = after_restore(text.format(before), text.format(after))
    fresh = Node(text.format(after)).feed(halves(DEALS)[1], 20_000)
    assert made.values() == fresh.values()


def test_a_sum_over_a_named_window_goes_with_it():
    text = S + "define window W (k string, v int) length({}); from S insert into W; "
    text += "@info(name='s') from W select sum(v) as v insert into Out; "
    plan = Node(text.format(5)).plan(text.format(3))
    assert fates(plan) == {"W/window": "reset", "s/selector": "reset"}
    assert "W/window" in next(f.reason for f in plan.fates if f.new == "s/selector")


def test_the_sum_behind_a_batch_stays_when_the_batch_does_not():
    text = S + "@info(name='s') from S#window.lengthBatch({}) select sum(v) as v insert into Out; "
    assert fates(Node(text.format(5)).plan(text.format(3))) == {"s/window": "reset", "s/selector": "kept"}


def test_expired_events_that_are_wanted_now_change_what_the_aggregates_keep():
    text = S + "@info(name='s') from S#window.lengthBatch(3) select min(v) as v insert {} into Out; "
    plan = Node(text.format("")).plan(text.format("all events"))
    assert fates(plan)["s/selector"] == "reset"


# ---- what begins ------------------------------------------------------------------------------------------------------------


def test_new_queries_in_a_partition_begin_under_the_keys_that_are_known():
    text = S + "partition with (k of S) begin @info(name='p') from S select k, sum(v) as v insert into Sums; {}end; "
    new = "@info(name='n') from S select k, count() as n output snapshot every 1 sec insert into Out; "
    new += "@info(name='m') from not R[v > 0] for 2 sec select 'silent' as k, 1L as n insert into Out; "
    node = Node(text.format("")).feed([("S", 10, ("a", 1)), ("S", 20, ("b", 1))], 500)
    made = node.goes_on_as(text.format(new)).feed([("S", 600, ("a", 1))], 2_600)
    assert [(r[3], r[4]) for r in made.rows if r[4][0] == "silent"] == [(2_500, ("silent", 1))] * 2
    assert ("a", 1) in [r[4] for r in made.rows]


def test_a_new_trigger_begins_and_one_at_the_start_does_not_fire_again():
    before = S + "define trigger Begin at 'start'; @info(name='b') from Begin select 'start' as k insert into Out; "
    after = before.replace("@info", "define trigger Tick at every 1 sec; @info", 1)
    after += "@info(name='t') from Tick select 'tick' as k insert into Out; "
    node = Node(before).feed([], 2_500)
    assert node.values() == [("start",)]
    made = node.goes_on_as(after).feed([], 5_000)
    assert [(r[3], r[4][0]) for r in made.rows] == [(3_500, "tick"), (4_500, "tick")]


def test_a_trigger_with_another_period_fires_once_more_in_the_old_one():
    text = "define trigger Tick at every {} sec; from Tick select triggered_time as t insert into Out; "
    made = Node(text.format(2)).feed([], 3_000).goes_on_as(text.format(3)).feed([], 10_000)
    assert [r[3] for r in made.rows] == [4_000, 7_000, 10_000]


def test_purging_begins_with_an_annotation_that_was_added():
    text = S + "{}partition with (k of S) begin @info(name='p') from S select k, count() as n insert into Out; end; "
    purge = "@purge(enable='true', interval='1 sec', idle.period='1 sec') "
    node = Node(text.format("")).feed([("S", 10, ("a", 1))], 100)
    node.values()
    made = node.goes_on_as(text.format(purge))
    made.feed([("S", 50, ("a", 1))], 100).feed([("S", 5_000, ("a", 1))], 6_000)
    assert made.values() == [("a", 2), ("a", 1)]


def test_purging_that_goes_on_does_not_begin_a_second_time():
    text = S + "define aggregation A from S select k, sum(v) as t group by k aggregate every {}; "
    node = Node(text.format("sec ... min")).feed([("S", 10, ("a", 1))], 100)
    assert fates(node.plan(text.format("sec ... hour"))) == {"A/aggregation": "migrated"}
    made = node.goes_on_as(text.format("sec ... hour"))
    assert made.waiting("A/aggregation/purge") == node.waiting("A/aggregation/purge")
    assert len(made.waiting("A/aggregation/purge")[0]) == 1


# ---- other clocks -----------------------------------------------------------------------------------------------------------


def test_nothing_is_kept_when_time_is_measured_otherwise():
    text = S + "@info(name='s') from S#window.time(1 sec) select count() as n insert into Out; "
    for before, after in ((text, "@app:playback " + text), ("@app:playback " + text, text)):
        assert set(fates(Node(before).plan(after)).values()) == {"reset"}
        made = after_restore(before, after)
        assert made.values()[:3] == [(1,), (2,), (3,)]


# ---- buckets ----------------------------------------------------------------------------------------------------------------

KEYED = (
    "@app:name('Keyed') "
    + S
    + "define trigger X at every 900 milliseconds; "
    + "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (k of S) begin "
    + "@info(name='a') from S#window.time(1 sec) select k, sum(v) as v insert all events into Out; "
    + "@info(name='b') from every e1=S -> e2=S[v > e1.v] within 3 sec select e1.k as k, e2.v as v insert into Out1; "
    + "@info(name='c') from S select k, count() as v output last every 700 milliseconds insert into Out2; "
    + "@info(name='d') from S#window.timeBatch(1 sec, 0) select k, max(v) as v insert into Out3; end; "
)
MANY = [("S", 20 * i, (f"key {i % 97}", (i * 37) % 101)) for i in range(1, 301)]


@pytest.mark.parametrize("route", [(1, 4), (4, 1), (4, 4), (3, 5), (1, 16), (1, 4, 1), (4, 1, 4)])
@pytest.mark.parametrize("deltas", [False, True])
def test_keys_move_between_buckets(route, deltas):
    app = KEYED.replace("define trigger X at every 900 milliseconds; ", "")
    size = len(MANY) // len(route)
    node = Node(app, route[0])
    assert node.app.sharding.kind == "key"
    rows = []
    for i, buckets in enumerate(route):
        if i:
            rows += node.taken()
            node = node.goes_on_as(buckets=buckets)
            assert len({tuple(due) for due in node.waiting("partition_1/keys/purge")}) == 1
        assert all(len(due) == 1 for due in node.waiting("partition_1/keys/purge"))
        part = MANY[i * size : (i + 1) * size]
        if deltas:
            node.base()
        for start in range(0, size, 25):
            node.feed(part[start : start + 25], part[min(start + 24, size - 1)][1])
    rows += node.taken()
    alone = Node(app, 1).feed(MANY[: size * len(route)], MANY[size * len(route) - 1][1])
    assert sorted(rows, key=repr) == sorted(alone.taken(), key=repr)


def test_each_bucket_holds_its_own_key_groups_and_nothing_else():
    node = Node(KEYED.replace("define trigger X at every 900 milliseconds; ", ""), 1).feed(MANY, 5_000)
    made = node.goes_on_as(buckets=4)
    groups = [{s.group for s in kernel.dump() if s.group} for kernel in made.kernels]
    assert [sorted(g // 32 for g in found)[:: max(1, len(found) - 1)] for found in groups] == [[n, n] for n in range(4)]


def test_an_app_that_was_sharded_is_no_more_and_becomes_so_again():
    sharded = S + "partition with (k of S) begin @info(name='p') from S select k, sum(v) as v insert into Out; end; "
    single = sharded + "@info(name='all') from S select count() as n insert into OutCounts; "
    messages = MANY[:90]
    node = Node(sharded, 4).feed(messages[:30], 600)
    alone = Node(sharded, 1).feed(messages, 1_800)
    rows = node.rows
    one = node.goes_on_as(single, 1).feed(messages[30:60], 1_200)
    rows += one.rows
    four = one.goes_on_as(sharded, 4).feed(messages[60:], 1_800)
    rows += four.rows
    assert sorted(r[4] for r in rows if r[0] == "Out") == sorted(r[4] for r in alone.rows)


def test_numbers_of_an_app_without_state_never_go_back():
    app = S + "from S[v > 0] select k insert into Out; "
    node = Node(app, 4)
    assert node.app.sharding.kind == "partition"
    node.feed([MANY[i] for i in range(31) if i % 4 != 2], 600)
    node.position = 2
    node.feed(MANY[:1], 650)
    for message in MANY[:20]:
        node.position = 2  # one partition has more than the others
        node.feed([message], 660)
    one = node.goes_on_as(buckets=1)
    one.feed(MANY[30:31], 700)
    greatest = max(r[2] for r in node.rows)
    assert one.rows[0][2] == greatest + 1
    four = one.goes_on_as(buckets=4)
    four.feed(MANY[31:60], 1_300)
    assert min(r[2] for r in four.rows) > greatest
