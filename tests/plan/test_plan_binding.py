"""From text to plan: what the nodes say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.lang.tree import Events, JoinKind, Type
from nadi.plan import bind
from nadi.plan.aggregatortraits import ON_ROWS
from nadi.plan.nodes import (
    OUTPUT,
    TABLE,
    Aggregate,
    Arithmetic,
    Attr,
    Call,
    Column,
    Comparison,
    Const,
    DeleteFromTable,
    FilterStep,
    FunctionStep,
    InsertIntoStream,
    InsertIntoTable,
    InTable,
    Partition,
    Playback,
    RangeKey,
    Rate,
    Schema,
    UpdateOrInsertTable,
    UpdateTable,
    ValueKey,
    WindowCall,
    WindowStep,
)
from nadi.plan.types import assignable, comparable, promoted
from nadi.plan.windowtraits import OF_BATCH

S = "define stream S (k string, v int, p double); "
R = "define stream R (k string, w long); "
T = "define table T (k string, v int); "
K, V, P = Attr(0, 0, Type.STRING, None, "k"), Attr(0, 1, Type.INT, None, "v"), Attr(0, 2, Type.DOUBLE, None, "p")


def query(app, position=-1):
    return app.queries[position]


# ---- types ---------------------------------------------------------------------------------------------------------


@given(st.sampled_from(Type), st.sampled_from(Type), st.sampled_from(Type))
def test_promotion_is_commutative_associative_and_gives_one_of_the_operands(a, b, c):
    assert promoted(a, b) == promoted(b, a)
    assert promoted(a, b) in (a, b, None)
    ab, bc = promoted(a, b), promoted(b, c)
    if ab is not None and bc is not None:
        assert promoted(ab, c) == promoted(a, bc)


@given(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.sampled_from(Type), st.sampled_from(Type))
def test_comparison_is_symmetric_and_objects_compare_with_nothing(op, a, b):
    assert comparable(op, a, b) == comparable(op, b, a)
    if Type.OBJECT in (a, b):
        assert not comparable(op, a, b)


def test_a_number_fits_every_number_column_and_no_string_column():
    assert assignable(Type.FLOAT, Type.DOUBLE)
    assert not assignable(Type.STRING, Type.INT)


# ---- single streams ------------------------------------------------------------------------------------------------


def test_filters_functions_and_the_window_become_steps_in_order(plan):
    q = query(plan(S + "from S[v > 1]#pol2Cart(p, p)#window.length(3)[cartX > p] select k, cartY insert into O;"))
    widened = (Column("cartX", Type.DOUBLE), Column("cartY", Type.DOUBLE))
    assert q.input.steps == (
        FilterStep(Comparison(">", V, Const(1, Type.INT), Type.INT)),
        FunctionStep("unnamed_1/pol2Cart_1", "pol2Cart", (P, P), widened),
        WindowStep(WindowCall("unnamed_1/window", "length", (Const(3, Type.INT),), OF_BATCH)),
        FilterStep(Comparison(">", Attr(0, 3, Type.DOUBLE, None, "cartX"), P, Type.DOUBLE)),
    )
    assert q.input.schema.names == ("k", "v", "p", "cartX", "cartY")
    assert q.selection.values[1].position == 4


def test_arithmetic_is_done_in_the_wider_type(plan):
    q = query(plan(S + "from S select v + 1L as a, v * p as b, v / 2 as c insert into O;"))
    assert q.selection.schema.types == (Type.LONG, Type.DOUBLE, Type.INT)
    assert q.selection.values[0] == Arithmetic("+", V, Const(1, Type.LONG), Type.LONG)


def test_a_time_is_a_long_in_milliseconds(plan):
    q = query(plan(S + "from S select 1 min 30 sec as t insert into O;"))
    assert q.selection.values == (Const(90_000, Type.LONG),)


def test_no_select_and_select_star_take_everything(plan):
    for select in ("", "select * "):
        q = query(plan(S + f"from S {select}insert into O;"))
        assert q.selection.schema.names == ("k", "v", "p")
        assert q.selection.values == (K, V, P)


def test_a_star_argument_means_all_attributes(plan):
    q = query(plan(S + "from S select coalesce(*) as c insert into O;"))
    assert q.selection.values == (Call("coalesce", (K, V, P), Type.STRING),)


def test_aggregators_are_numbered_through_select_and_having(plan):
    q = query(
        plan(S + "from S select k, sum(v) as s, avg(p) as a group by k having count() > 2 and s > 1 insert into O;")
    )
    assert q.selection.aggregated
    assert [(a.function, a.number) for a in q.selection.aggregates] == [("sum", 0), ("avg", 1), ("count", 2)]
    assert q.selection.group_by == (K,)
    assert q.selection.having.right.left == Attr(OUTPUT, 1, Type.LONG, None, "s")


def test_a_star_in_having_means_the_attributes_of_the_input_found_in_the_output(plan):
    text = "define stream L (k string); from L select k, 1 as one having count(*) > 1 insert into O;"
    (aggregate,) = query(plan(text)).selection.aggregates
    assert [a.name for a in aggregate.args] == ["k"]


def test_an_aggregator_in_having_reads_what_is_behind_the_columns_of_its_expression(plan):
    q = query(plan(S + "from S select k, v * 2 as x having max(x + 1) > 2 insert into O;"))
    assert q.selection.aggregates[0].args[0].left == q.selection.values[1]


def test_an_aggregator_in_having_reads_what_is_behind_the_output_column(plan):
    q = query(plan(S + "from S select v as x having max(x) > 2 insert into O;"))
    assert q.selection.aggregates == (Aggregate("max", (V,), Type.INT, 0, ON_ROWS),)


def test_order_limit_and_offset(plan):
    q = query(plan(S + "from S#window.lengthBatch(4) select k, v order by v desc, k limit 2 offset 1 insert into O;"))
    assert q.selection.order_by == (
        (Attr(OUTPUT, 1, Type.INT, None, "v"), False),
        (Attr(OUTPUT, 0, Type.STRING, None, "k"), True),
    )
    assert (q.selection.limit, q.selection.offset) == (2, 1)


def test_after_the_select_of_a_single_stream_its_name_means_the_output(plan):
    q = query(plan(S + "from S select k, v having S.v > 1 order by S.k insert into O;"))
    assert q.selection.having.left == Attr(OUTPUT, 1, Type.INT, None, "v")
    assert q.selection.order_by == ((Attr(OUTPUT, 0, Type.STRING, None, "k"), True),)


def test_a_tree_with_an_expression_without_a_name_is_refused(catalog):
    tree = parse(S + "from S select v + 1 as x insert into O;")
    (item,) = tree.elements[0].selection.items
    unnamed = replace(tree.elements[0].selection, items=(replace(item, alias=None),))
    with pytest.raises(NadiError, match="an expression in a selection needs a name"):
        bind(replace(tree, elements=(replace(tree.elements[0], selection=unnamed),)), catalog)


def test_a_script_wins_over_a_function_of_the_same_name(plan):
    script = "define function coalesce[python] return int { return 1 }; "
    q = query(plan(S + script + "from S select coalesce(k) as c insert into O;"))
    assert q.selection.values == (Call("coalesce", (K,), Type.INT),)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("output every 5 events", Rate("unnamed_1/rate", "all", None, 5)),
        ("output last every 2 sec", Rate("unnamed_1/rate", "last", 2000, None)),
        ("output snapshot every 1 sec", Rate("unnamed_1/rate", "snapshot", 1000, None)),
    ],
)
def test_rates(plan, rate, expected):
    assert query(plan(S + f"from S select v {rate} insert all events into O;")).rate == expected


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("insert into O;", False),
        ("insert expired events into O;", True),
        ("insert all events into O;", True),
        ("output snapshot every 1 sec insert into O;", True),
        ("output all every 1 sec insert into O;", False),
    ],
)
def test_expired_events_are_kept_where_the_output_or_a_snapshot_needs_them(plan, tail, expected):
    assert query(plan(S + "from S select v " + tail)).keeps_expired is expected


def test_a_snapshot_is_of_all_events_or_it_is_refused(plan):
    text = S + "from S#window.length(1) select v output snapshot every 1 sec insert"
    assert query(plan(f"{text} into O;")).output.events is Events.ALL
    assert query(plan(f"@app:compat('4') {text} into O;")).output.events is Events.CURRENT
    for events in ("expired", "current"):
        plan(f"@app:compat('4') {text} {events} events into O;")
        with pytest.raises(NadiError, match="it needs 'all events'"):
            plan(f"{text} {events} events into O;")


# ---- streams and definitions ---------------------------------------------------------------------------------------


def test_the_first_insert_defines_a_stream_and_later_ones_must_agree(plan):
    app = plan(S + "from S select k, v insert into O; from S select k, v insert into O; from O insert into Q;")
    assert app.streams["O"].schema == Schema((Column("k", Type.STRING), Column("v", Type.INT)))
    assert not app.streams["O"].defined
    assert app.streams["S"].defined


def test_definitions_may_be_repeated_exactly(plan):
    assert list(plan(S + S + "from S insert into O;").streams) == ["S", "O"]


def test_definitions_may_refer_to_later_ones_of_other_kinds(plan):
    aggregation = "define aggregation A from S select sum(v) as t aggregate every sec, hour; "
    app = plan(aggregation + S + "from S insert into O;")
    assert app.aggregations["A"].durations == ("sec", "hour")


def test_a_fault_stream_has_the_error_as_last_attribute(plan):
    app = plan("@OnError(action='STREAM') " + S + "from !S select k, _error insert into O;")
    assert app.streams["!S"].schema.columns[-1] == Column("_error", Type.OBJECT)
    assert query(app).input.source == "!S"


def test_a_trigger_is_a_stream_of_its_time(plan):
    app = plan("define trigger X at every 5 sec; define trigger Y at 'start'; define trigger Z at '0 * * * * ?'; "
               "define stream X (triggered_time long); from X insert into O;")  # fmt: skip
    assert (app.triggers["X"].every, app.triggers["Y"].start, app.triggers["Z"].cron) == (5000, True, "0 * * * * ?")
    assert app.streams["O"].schema.names == ("triggered_time",)


def test_keys_and_indexes_of_tables_are_positions(plan):
    app = plan("@primaryKey('v', 'k') @index('v') " + T + S + "from S select k, v insert into T;")
    assert (app.tables["T"].primary_key, app.tables["T"].indexes) == ((1, 0), (1,))
    assert query(app).output == InsertIntoTable("T", Events.CURRENT)


def test_a_named_window_is_fed_by_inserts_and_read_like_a_stream(plan):
    app = plan(S + "define window W (k string) time(1 sec) output expired events; "
               "from S select k insert into W; from W select k insert into O;")  # fmt: skip
    window = app.windows["W"]
    assert (window.output, window.window) == (
        Events.EXPIRED,
        WindowCall("W/window", "time", (Const(1000, Type.LONG),), OF_BATCH),
    )
    assert query(app, 0).output == InsertIntoStream("W", Events.CURRENT)
    assert query(app).input.source == "W"


def test_an_aggregation_has_the_bucket_as_first_column_and_all_its_durations(plan):
    app = plan(S + "define aggregation A from S[v > 0] select k, sum(v) as t group by k aggregate every min...day;")
    a = app.aggregations["A"]
    assert (a.durations, a.schema.names, a.id) == (("min", "hour", "day"), ("AGG_TIMESTAMP", "k", "t"), "A/aggregation")


def test_an_aggregation_may_have_a_time_attribute(plan):
    app = plan(
        "define stream S (v int, ts long); define aggregation A from S select sum(v) as t aggregate by ts every sec;"
    )
    assert app.aggregations["A"].timestamp == Attr(0, 1, Type.LONG, None, "ts")


def test_app_annotations(plan):
    app = plan("@app:name('X') @app:compat('4') @app:playback(idle.time='100 millisec', increment='1 min 2 sec') " + S)
    assert (app.name, app.compat, app.playback) == ("X", 4, Playback(100, 62_000))
    assert plan("@app:playback " + S).playback == Playback()
    assert [plan(f"@app:spark(pool='{pool}') " + S).pool for pool in ("own", "Shared")] == ["own", "shared"]
    assert plan("@app:spark(buckets='4') " + S).buckets == 4
    assert (plan("@app:spark(pool='own', buckets='128') " + S).pool, plan(S).buckets) == ("own", 0)
    assert plan(S).pool == ""
    assert (plan(S).name, plan(S).compat, plan(S).playback) == ("SiddhiApp", 5, None)


# ---- tables --------------------------------------------------------------------------------------------------------


def test_update_sees_the_output_by_bare_names_and_the_table_by_its_name(plan):
    q = query(plan(S + T + "from S select k as key, v update T set T.v = T.v + v on T.k == key;"))
    assert q.output == UpdateTable(
        "T",
        Events.CURRENT,
        ((1, Arithmetic("+", Attr(TABLE, 1, Type.INT, None, "v"), V, Type.INT)),),
        Comparison("==", Attr(TABLE, 0, Type.STRING, None, "k"), Attr(0, 0, Type.STRING, None, "key")),
    )


def test_without_set_every_output_column_is_assigned(plan):
    q = query(plan(S + T + "from S select v, k update or insert into T for all events on T.k == k;"))
    v0, k1 = Attr(0, 0, Type.INT, None, "v"), Attr(0, 1, Type.STRING, None, "k")
    condition = Comparison("==", Attr(TABLE, 0, Type.STRING, None, "k"), k1)
    assert q.output == UpdateOrInsertTable("T", Events.ALL, ((1, v0), (0, k1)), condition, (1, 0))


def test_a_delete_says_for_which_events_it_is(plan):
    assert query(plan(S + T + "from S select v delete T for expired events on true;")).output == DeleteFromTable(
        "T", Events.EXPIRED, Const(True, Type.BOOL)
    )


def test_a_condition_in_a_table_sees_the_event_first_and_the_row_by_name(plan):
    q = query(plan(S + T + "from S[T.k == k in T] insert into O;"))
    row = Attr(TABLE, 0, Type.STRING, None, "k")
    assert q.input.steps == (FilterStep(InTable("T", Comparison("==", row, K))),)


# ---- joins ---------------------------------------------------------------------------------------------------------


def test_a_join_has_two_slots_and_ids_for_both_windows(plan):
    q = query(plan(S + R + "@info(name='j') from S[v > 1]#window.length(2) as a left outer join R#window.time(1 sec) as b "
                   "on a.k == b.k select a.k, w, v insert into O;"))  # fmt: skip
    join = q.input
    assert (join.id, join.kind) == ("j/join", JoinKind.LEFT)
    assert (join.left.input.window.id, join.right.input.window.id) == ("j/left.window", "j/right.window")
    assert (join.left.outer, join.right.outer, join.left.triggers, join.right.triggers) == (True, False, True, True)
    assert join.on == Comparison("==", K, Attr(1, 0, Type.STRING, None, "k"))
    assert q.selection.values[1] == Attr(1, 1, Type.LONG, None, "w")


@pytest.mark.parametrize(
    ("text", "triggers"),
    [
        ("from S unidirectional join R on S.k == R.k select v insert into O;", (True, False)),
        ("from S join R unidirectional on S.k == R.k select v insert into O;", (False, True)),
        ("from S join T on S.k == T.k select p insert into O;", (True, False)),
        ("from T join S on S.k == T.k select p insert into O;", (False, True)),
        ("from S join W on S.k == W.k select p insert into O;", (True, True)),
    ],
)
def test_which_sides_trigger(plan, text, triggers):
    app = plan(S + R + T + "define window W (k string) length(2); " + text)
    join = query(app).input
    assert (join.left.triggers, join.right.triggers) == triggers


def test_having_falls_back_to_the_input_of_a_join(plan):
    q = query(plan(S + R + "from S join R select v as k having R.k == 'a' and w > 1L order by p insert into O;"))
    assert q.selection.having.left.left == Attr(1, 0, Type.STRING, None, "k")
    assert q.selection.order_by == ((P, True),)


def test_a_join_with_an_aggregation_has_a_range_and_a_duration(plan):
    q = query(plan(S + "define aggregation A from S select k, sum(v) as t group by k aggregate every sec...hour; "
                   "define stream Q (k string, f long, u long); "
                   "from Q join A on Q.k == A.k within Q.f, Q.u per 'hours' select A.k, t insert into O;"))  # fmt: skip
    assert q.input.right.kind == "aggregation"
    assert q.input.within == (Attr(0, 1, Type.LONG, None, "f"), Attr(0, 2, Type.LONG, None, "u"))
    assert q.input.per == Const("hour", Type.STRING)


# ---- partitions, anonymous streams, names --------------------------------------------------------------------------


def test_a_partition_has_keys_queries_and_inner_streams_of_its_own(plan):
    app = plan(S + R + "@purge(enable='true', interval='10 sec', idle.period='1 hour') "
               "partition with (k of S, w > 5L as 'high' or w <= 5L as 'low' of R) begin "
               "from S#window.length(2) select k, sum(v) as s insert into #I; from #I insert into O; end;")  # fmt: skip
    partition = app.elements[0]
    assert isinstance(partition, Partition)
    value, ranges = partition.keys
    assert value == ValueKey("S", K)
    assert isinstance(ranges, RangeKey)
    assert [label for label, _ in ranges.ranges] == ["high", "low"]
    assert (partition.purge_idle, partition.purge_interval) == (3_600_000, 10_000)
    assert app.streams["#I@partition_1"].partition == "partition_1"
    assert query(app).input.source == "#I@partition_1"
    assert {q.partition for q in app.queries} == {"partition_1"}


def test_two_partitions_may_have_inner_streams_of_one_name(plan):
    part = "partition with (k of S) begin from S select k insert into #I; from #I insert into O; end; "
    assert {k for k in plan(S + part + part).streams if k.startswith("#")} == {"#I@partition_1", "#I@partition_2"}


def test_an_anonymous_stream_becomes_a_query_of_its_own(plan):
    app = plan(S + "@info(name='q') from (from S select k, v insert expired events into X)[v > 1] insert into O;"
               .replace("insert expired events into X", "return expired events"))  # fmt: skip
    first, second = app.queries
    assert (first.name, first.id, second.name) == ("q_anonymous", "q/anonymous", "q")
    assert first.output == InsertIntoStream("anonymous_1", Events.EXPIRED)
    assert second.input.source == "anonymous_1"


def test_an_anonymous_stream_in_a_partition_stays_inside(plan):
    app = plan(S + "partition with (k of S) begin from (from S select v return) select v insert into O; end;")
    assert app.queries[1].input.source == "#anonymous_1@partition_1"


def test_an_anonymous_stream_takes_no_name_that_is_taken(plan):
    app = plan("define stream anonymous_1 (v int); from (from anonymous_1 select v as w return) insert into O;")
    assert app.queries[1].input.source == "anonymous_2"


def test_names_count_all_queries_and_ids_only_the_unnamed_ones(plan):
    app = plan(S + "from S insert into A1; @info(name='x') from S insert into A2; from S insert into A3; "
               "partition with (k of S) begin from S insert into A4; @info(name='x') from S insert into A5; end;")  # fmt: skip
    assert [q.name for q in app.queries] == ["query_1", "x", "query_3", "query_4", "x"]
    assert [q.id for q in app.queries] == ["unnamed_1", "x", "unnamed_2", "unnamed_3", "x~2"]


@pytest.mark.parametrize(
    "twice",
    [
        "@info(name='x') from S insert into A; @info(name='x') from S insert into B;",
        "@info(name='x') from S insert into A; @info(name='x') partition with (k of S) begin from S insert into B; end;",
        "partition with (k of S) begin @info(name='x') from S insert into A; @info(name='x') from S insert into B; end;",
    ],
)
def test_two_queries_or_partitions_of_one_place_have_different_names(plan, twice):
    with pytest.raises(NadiError, match="has the name 'x' already") as caught:
        plan(S + twice)
    assert (caught.value.condition, caught.value.siddhi_class) == ("DUPLICATE_NAME", "SiddhiAppValidationException")
    assert caught.value.diagnostic.span.start == (S + twice).rindex("@info")


def test_queries_may_feed_their_own_input(plan):
    assert query(plan("define stream S (v int); from S[v < 5] select v + 1 as v insert into S;")).output.target == "S"


def test_the_annotations_and_the_text_are_kept(plan):
    text = S + "@info(name='q') @dist(execGroup='g') from S insert into O;"
    app = plan(text)
    assert app.text == text
    assert [a.name for a in query(app).annotations] == ["info", "dist"]
