"""Which apps may be split, by what, and what is said of those that may not."""

from __future__ import annotations

import pytest

from nadi.lang.tree import Type
from nadi.plan import groups, input_streams, shard
from nadi.plan.nodes import Attr
from nadi.plan.render import written

S = "define stream S (k string, v int, ts long); "
R = "define stream R (g string, w int); "
T = "define table T (k string, v int); "
WINDOW = "from S#window.length(2) select k, sum(v) as s insert into O; "


def inside(query, keys="k of S"):
    return f"partition with ({keys}) begin {query} end; "


def keys_of(app):
    return {stream: written(key) for stream, key in app.sharding.keys}


@pytest.mark.parametrize(
    "text",
    [
        S + "from S[v > 1] select k insert into O;",
        S + R + "from S[v > 1] select k insert into O; from R#log() insert into P; from O insert into Q;",
        S + inside("from S[v > 1] select k insert into O;"),
        S + "from S[v > 1] insert into S;",
    ],
)
def test_stateless_apps_are_split_by_input_partition(plan, text):
    assert plan(text).sharding.kind == "partition"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (S + inside(WINDOW), {"S": "k"}),
        (S + inside("from S select count() as n insert into O;", "v % 10 of S"), {"S": "v % 10"}),
        # through projections that pass the key on, under another name and through several streams
        (S + "from S[v > 1] select v, k as key insert into M; from M select key as kk, v insert into N; "
         + inside("from N#window.length(2) select kk insert into O;", "kk of N"), {"S": "k"}),
        # a key that is computed on the way
        (S + "from S select v + 1 as w insert into M; " + inside("from M select sum(w) as s insert into O;", "w of M"),
         {"S": "v + 1"}),
        # two inputs, a join and a pattern by one key each
        (S + R + inside("from S#window.length(2) join R#window.length(2) on S.v == R.w select S.k insert into O;",
                        "k of S, g of R"), {"R": "g", "S": "k"}),
        (S + R + inside("from every e1=S -> e2=R[w > e1.v] select e1.k, e2.w insert into O;", "k of S, g of R"),
         {"R": "g", "S": "k"}),
        # the output of a partition keyed again by the same value, also of a pattern and through an inner stream
        (S + inside(WINDOW) + inside("from O select max(s) as m insert into P;", "k of O"), {"S": "k"}),
        (S + inside("from every e1=S -> e2=S select e2.k as key insert into O;")
         + inside("from O select count() as n insert into P;", "key of O"), {"S": "k"}),
        (S + inside("from S#window.length(2) select k as a, v insert into #I; from #I select a as b, sum(v) as s insert into O;")
         + inside("from O select count() as n insert into P;", "b of O"), {"S": "k"}),
        # a stateless query beside the partition, on the same and on another input
        (S + R + inside(WINDOW) + "from S[v > 1] insert into A1; from R insert into A2;", {"S": "k"}),
        # two streams into one
        (S + R + "from S select k insert into M; from R select g as k insert into M; "
         + inside("from M select count() as n insert into O;", "k of M"), {"R": "g", "S": "k"}),
        # streams that feed themselves
        (S + inside("from S select k, v, ts having count() < 3 insert into S;"), {"S": "k"}),
        # a stream with a source is an input even where a query feeds it too
        ("@source(type='kafka') define stream M (k string); " + S + "from S select k insert into M; "
         + inside("from M select count() as n insert into O;", "k of M"), {"M": "k", "S": "k"}),
        # fault streams have the key of their stream
        ("@OnError(action='STREAM') " + S + "from !S select k as kk insert into M; " + inside(WINDOW)
         + inside("from M select count() as n insert into P;", "kk of M"), {"S": "k"}),
        # streams that feed each other: both may be fed from outside
        (S.replace("S", "A1") + S.replace("S", "A2") + "from A1 insert into A2; from A2[v > 1] insert into A1; "
         + inside("from A2 select count() as n insert into O;", "k of A2"), {"A1": "k", "A2": "k"}),
        # past a partition that keeps nothing, whatever its key
        (S + inside("from S[v > 1] select k, ts insert into M;") + inside("from M select count() as n insert into O;", "k of M"),
         {"S": "k"}),
        (S + inside("from S[v > 1] select v as w insert into M;") + inside("from M select count() as n insert into O;", "w of M"),
         {"S": "v"}),
        # a key made by a function and by 'not', through a projection
        (S + "from S select k as a, v insert into M; "
         + inside("from M select count() as n insert into O;", "coalesce(a, 'x') of M"), {"S": "coalesce(k, 'x')"}),
        (S + "from S select v > 1 as big insert into M; "
         + inside("from M select count() as n insert into O;", "not big of M"), {"S": "not (v > 1)"}),
        (S + "from S select v as w insert into M; "
         + inside("from M select count() as n insert into O;", "w is null of M"), {"S": "v is null"}),
        # a batch with a start time has the same phase in every bucket
        (S + inside("from S#window.timeBatch(1 sec, 0) select sum(v) as s insert into O;"), {"S": "k"}),
        # a trigger that only partitions read
        (S + "define trigger X at every 1 sec; "
         + inside("from X join S#window.length(2) select v insert into O;"), {"S": "k"}),
    ],
)  # fmt: skip
def test_apps_whose_state_lies_in_partitions_are_split_by_key(plan, text, keys):
    app = plan(text)
    assert app.sharding.kind == "key", app.sharding.reasons
    assert keys_of(app) == keys


def test_the_key_is_an_expression_over_the_event_of_the_input(plan):
    app = plan(
        S + "from S select ts, v, k insert into M; " + inside("from M select sum(v) as s insert into O;", "k of M")
    )
    assert app.sharding.keys == (("S", Attr(0, 0, Type.STRING, None, "k")),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (S + "@info(name='q') " + WINDOW,
         "query 'q' stands outside a partition and keeps the events of the window length(2); to lift it, put it into a "
         "partition by a key of its input"),
        (S + "from S select sum(v) as s insert into O;", "query 'query_1' stands outside a partition and keeps sum();"),
        (S + "from S select k, sum(v) as s group by k insert into O;", "keeps sum() per group"),
        (S + inside(WINDOW) + "@info(name='all') from O select max(s) as m insert into P;",
         "query 'all' stands outside a partition and keeps max(); to lift it, put the query into an execution group of its own"),
        (S + "from S select k, v order by v insert into O;", "orders or limits the events of a chunk"),
        (S + "from S select k limit 1 insert into O;", "orders or limits the events of a chunk"),
        (S + "from S select k group by k insert into O;", "groups the events of a chunk"),
        (S + "from S select k output every 2 events insert into O;", "keeps what waits for the next output"),
        (S + "from S#unique:deduplicate(k) select k insert into O;", "keeps what #unique:deduplicate keeps"),
        (S + R + "from S join R select k insert into O;", "joins over all events"),
        (S + R + "from S -> R select S.v insert into O;", "matches a pattern over all events"),
        (S + R + "from S, R select S.v insert into O;", "matches a sequence over all events"),
        (S + T + "from S select k, v insert into T;",
         "the table 'T' is shared by all keys; to lift it, put the queries that use it into an execution group of its own"),
        (S + T + inside("from S[T.k == k in T] select count() as n insert into O;"), "the table 'T' is shared"),
        (S + "define window W (k string) length(2); from S select k insert into W;", "the window 'W' is shared"),
        (S + "define aggregation A from S select sum(v) as t aggregate every sec;", "'A' adds up 'S' over all keys"),
        (S + "define trigger X at 'start'; from X insert into O;", "the trigger 'X' fires outside partitions"),
        (S + "define trigger X at 'start'; from S insert into O;", "the trigger 'X' fires outside partitions"),
        (S + inside(WINDOW, "v > 1 as 'a' or v > 2 as 'b' of S"), "partition_1 splits 'S' by ranges"),
        (S + R + inside("from S#window.length(2) join R#window.length(2) select v insert into O;"),
         "reads 'R', which has no key there, for all keys; to lift it, add a key for 'R' to the partition"),
        (S + inside("from S#window.timeBatch(1 sec) select sum(v) as s insert into O;"),
         "the window timeBatch(1000) of query 'query_1' shares its phase over all keys; to lift it, give it a start time"),
        (S + inside("from S#window.timeBatch(1 sec, true) select sum(v) as s insert into O;"), "shares its phase"),
        ("define trigger X at every 1 sec; " + inside("from X select count() as n insert into O;", "triggered_time of X"),
         "takes its key from the trigger 'X'"),
        ("@app:playback " + S + inside(WINDOW), "the clock of @app:playback is moved by the events of all keys"),
        (S + inside(WINDOW) + inside("from S select sum(v) as s insert into P;", "ts of S"),
         "the input 'S' would have to be split by k (partition_1) and ts (partition_2) at once"),
        (S + "define window W (k string) length(2); " + inside("from W select count() as n insert into O;", "k of W"),
         "the window 'W' is shared"),
        (S + inside(WINDOW) + inside("from O select max(s) as m insert into P;", "s of O"),
         "the key s of 'O' in partition_2 is computed from several events by query 'query_1'"),
        (S + inside("from S#window.length(2) select v insert into O;")
         + inside("from O select count() as n insert into P;", "v of O"),
         "the key v of 'O' in partition_2 passes query 'query_1', which is keyed by something else"),
        (S + "from S select currentTimeMillis() as t insert into M; "
         + inside("from M select count() as n insert into O;", "t of M"), "is computed from no event by query 'query_1'"),
        (S + T + inside(WINDOW, "(T.k == k in T) of S"), "depends on 'T'"),
        ("@OnError(action='STREAM') define stream S (k string); from !S select _error as e insert into M; "
         + inside("from M select count() as n insert into O;", "e of M"), "depends on the error of a fault stream"),
        (S + inside("from S#window.length(2) select v as a insert into #I; from #I select a as b insert into O;")
         + inside("from O select count() as n insert into P;", "b of O"), "which is keyed by something else"),
        (S + inside("from S select count() as a insert into #I; from #I#window.length(2) select a as b insert into O;")
         + inside("from O select count() as n insert into P;", "b of O"), "which is keyed by something else"),
        (S + inside(WINDOW, "currentTimeMillis() + ts of S"), "uses currentTimeMillis()"),
        ("define function f[py] return int { 1 }; " + S + inside(WINDOW, "f(v) of S"), "uses f()"),
        ("define stream S (v double); from S#pol2Cart(v, v) select cartX insert into M; "
         + inside("from M select count() as n insert into O;", "cartX of M"), "is made by a stream function of query 'query_1'"),
        (S + R + inside("from every e1=S -> e2=R select coalesce(e1.k, e2.g) as kk insert into O;", "k of S, g of R")
         + inside("from O select count() as n insert into P;", "kk of O"), "is computed from several events"),
    ],
)  # fmt: skip
def test_everything_else_has_one_bucket_and_says_why(plan, text, reason):
    app = plan(text)
    assert app.sharding.kind == "single"
    assert any(reason in r for r in app.sharding.reasons), app.sharding.reasons


def test_all_obstacles_are_told_at_once(plan):
    app = plan(S + T + WINDOW + "from S select k, v insert into T; from S select k, v, ts order by v insert into P;")
    assert len(app.sharding.reasons) == 3


def test_each_execution_group_is_split_for_itself(plan):
    app = plan(
        S
        + "@dist(execGroup='keyed', parallel='4') "
        + inside(WINDOW)
        + "@dist(execGroup='all') from O select max(s) as m insert into P; from S insert into Q;"
    )
    assert app.sharding.kind == "single"
    assert {name: shard(app, elements).kind for name, elements in groups(app).items()} == {
        "keyed": "key",
        "all": "single",
        "": "partition",
    }


def test_a_group_of_its_own_lifts_what_the_reason_says(plan):
    text = S + T + inside(WINDOW) + "{} from O select k, v insert into T; ".replace("v", "1 as v")
    together = plan(text.format(""))
    assert together.sharding.kind == "single"
    apart = plan(text.format("@dist(execGroup='tables')"))
    assert shard(apart, groups(apart)[""]).kind == "key"


def test_input_streams_have_a_source_or_no_query_that_feeds_them(plan):
    app = plan(
        "@source(type='kafka') define stream A1 (k string); define stream A2 (k string); define stream A3 (k string); "
        "@OnError(action='STREAM') define stream A4 (k string); define stream A5 (k string); "
        "define trigger X at 'start'; "
        "from A2 insert into A3; from A3 insert into O; from A4[k == 'a'] insert into A4; from !A4 insert into P; "
        "from X insert into Q;"
    )
    assert input_streams(app) == ("A1", "A2", "A4")
    assert input_streams(app, app.elements[1:2]) == ("A3",)


def test_a_key_is_traced_through_a_long_chain_and_through_many_paths(plan):
    chain = "".join(
        f"from A{i} select k, v insert into A{i + 1}; from A{i} select k, v insert into A{i + 1}; " for i in range(300)
    )
    start = "define stream A0 (k string, v int); "
    app = plan(start + chain + inside("from A300 select count() as n insert into O;", "k of A300"))
    assert keys_of(app) == {"A0": "k"}
