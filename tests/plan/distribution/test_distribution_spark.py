"""Topologies whose groups a Spark cluster runs: the same channels, one instance of several buckets in place of several instances."""

from __future__ import annotations

from collections import defaultdict

import pytest
from generated import apps, messages
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reading import annotations, assigned
from test_distribution_errors import CASES, HEAD, NO_STATE
from test_distribution_semantics import HEAD as RARE_HEAD
from test_distribution_semantics import RARE, REGISTRY, Generated, cut_rows, whole_rows

from nadi.errors import NadiError
from nadi.io import registry as connectors
from nadi.kernel.keys import bucket_of_group
from nadi.plan import plan_app
from nadi.plan.distribution import Placement, Topology, distribute, drawn, record, svg
from nadi.plan.distribution.shares import partition_of

SPARK = Placement.SPARK
APP = """@app:name('A')
@source(type='http') define stream S (k string, v int);
@source(type='kafka', topic.list='r', @dist(parallel='2')) define stream R (k string, v int);
@dist(execGroup='a', parallel='2') @info(name='first') from S select * insert into M;
@dist(execGroup='b', parallel='3') @info(name='counts') partition with (k of M, k of R) begin
  from M#window.length(9) join R#window.length(9) on M.v == R.v select M.k as k, R.v as v insert into N; end;
@dist(execGroup='c') @info(name='last') from N#window.length(5) select k, sum(v) as v insert into O;
"""


def on_spark(text: str, transport: str = "nats", least_buckets: int = 1) -> Topology:
    return distribute(text, REGISTRY, connectors, transport=transport, placement=SPARK, least_buckets=least_buckets)


def test_a_group_is_one_instance_of_as_many_buckets_as_it_has_parts(cut):
    topology = cut(APP, placement=SPARK)
    found = {i.name: (g.parallel, g.buckets, i.key_groups) for g in topology.groups for i in g.instances}
    assert found == {
        "A-passthrough-R-1-1": (2, 2, range(128)),
        "A-passthrough-S-1-1": (1, 1, range(128)),
        "A-a-1": (2, 2, range(128)),
        "A-b-1": (3, 3, range(128)),
        "A-c-1": (1, 1, range(128)),
    }
    plans = {g.name: plan_app(i.text, REGISTRY) for g in topology.groups for i in g.instances}
    assert {name: (app.pool, app.buckets, app.sharding.kind) for name, app in plans.items()} == {
        "A-passthrough-R-1": ("own", 2, "partition"),
        "A-passthrough-S-1": ("", 1, "partition"),
        "A-a": ("own", 2, "partition"),
        "A-b": ("own", 3, "key"),
        "A-c": ("", 1, "single"),
    }


def test_an_instance_reads_all_parts_of_its_channels_from_one_producer_each(cut):
    topology = cut(APP, placement=SPARK)
    assert [assigned(topology, "b", name) for name in ("A_M_k", "A_R_k")] == [["0,1,2"], ["0,1,2"]]
    read = {s["name"]: s["producers"] for s in annotations(topology.group("b").instances[0].text, "source")}
    assert read == {"A_M_k": "A-a-1", "A_R_k": "A-passthrough-R-1-1"}


def test_the_source_of_a_receiver_is_not_shared_out(cut):
    (receiver,) = cut(APP, placement=SPARK).group("passthrough-R-1").instances
    (source,) = annotations(receiver.text, "source")
    assert source == {"type": "kafka", "topic.list": "r"}


def test_a_group_may_have_more_buckets_than_parts(cut):
    topology = cut(APP, placement=SPARK, least_buckets=8)
    assert {g.name: g.buckets for g in topology.groups} == {
        "A-passthrough-R-1": 8,
        "A-passthrough-S-1": 8,
        "A-a": 8,
        "A-b": 8,
        "A-c": 1,
    }
    assert topology.channels == cut(APP).channels
    named = APP.replace("@app:name('A')", "@app:name('A') @app:spark(pool='shared', buckets='4')")
    assert {g.buckets for g in cut(named, placement=SPARK).groups} == {4, 1}
    app = plan_app(cut(named, placement=SPARK).group("b").instances[0].text, REGISTRY)
    assert (app.pool, app.buckets) == ("shared", 4)


def test_instances_have_one_bucket_whatever_the_app_says_of_itself(cut):
    for instance in cut("@app:spark(pool='own', buckets='4') " + APP).instances:
        app = plan_app(instance.text, REGISTRY)
        assert (app.pool, app.buckets) == ("own", 0)


def test_what_an_app_may_have_left_is_the_same_on_both(cut):
    apart = cut(APP)
    assert apart.every_name == {i.name for i in apart.instances} == cut(APP, placement=SPARK).every_name


def test_it_is_told_and_drawn(cut):
    topology = cut(APP, placement=SPARK)
    told = drawn(topology)
    assert "app A: 5 groups, 5 instances, 4 channels on nats, run by a Spark cluster\n" in told
    assert "group A-b: 1 instance of 3 buckets\n" in told
    assert "  reads M from A_M_k\n" in told
    assert "  A-b-1\n" in told
    assert "3 buckets" in svg(topology)
    kept = record(topology)
    assert (kept["placement"], kept["groups"][3]["buckets"], len(kept["groups"][3]["instances"])) == ("spark", 3, 1)
    plain = record(cut(APP))
    assert (plain["placement"], plain["groups"][3]["buckets"], len(plain["groups"][3]["instances"])) == (
        "instances",
        None,
        3,
    )


# ---- what cannot be divided ----------------------------------------------------------------------------------------

DIVIDED = [case for case in CASES if case.split()[0] in ("V2", "V3", "V4", "V5", "V7", "V10", "V12", "V13")]


@pytest.mark.parametrize("case", DIVIDED)
def test_a_group_that_instances_cannot_share_has_one_bucket(cut, case):
    body, message = CASES[case]
    topology = cut(HEAD + body, placement=SPARK)
    group = topology.group("a")
    assert (group.parallel, group.buckets) == (1, 1)
    assert all(c.partitions == 1 for c in topology.channels)
    (note,) = (n for n in topology.notes if n.startswith("'P-a'"))
    assert note.startswith(f"'P-a' has parallel 2, and one bucket: {message}")


@pytest.mark.parametrize("case", NO_STATE)
def test_so_has_one_that_keeps_state_outside_of_partitions(cut, case):
    query, what = NO_STATE[case]
    topology = cut(HEAD + f"@dist(execGroup='a', parallel='2') {query}", placement=SPARK)
    assert topology.group("a").buckets == 1
    assert what in "\n".join(topology.notes)


def test_and_one_that_joins_an_aggregation(cut):
    text = HEAD + (
        "define aggregation G from S select k, sum(v) as s group by k aggregate every sec;\n"
        "@dist(execGroup='a', parallel='2') from R join G on R.k == G.k within '2020-**-** **:**:**' per 'seconds'\n"
        "select R.k as k, G.s as s insert into A;"
    )
    with pytest.raises(NadiError, match="DIST_AGGREGATION_JOIN"):
        cut(text)
    assert cut(text, placement=SPARK).groups[-1].buckets == 1


@pytest.mark.parametrize("case", [case for case in CASES if case not in DIVIDED])
def test_what_is_wrong_in_any_number_of_parts_is_refused(cut, case):
    body, message = CASES[case]
    with pytest.raises(NadiError) as told:
        cut(HEAD + body, placement=SPARK)
    assert told.value.diagnostic.message.startswith(message)


def test_what_a_node_does_not_split_keeps_its_channels_and_has_one_bucket(cut):
    text = HEAD + (
        "@dist(execGroup='m') from S select * insert into M;\n"
        "@dist(execGroup='a', parallel='2') partition with (k of M) begin\n"
        "from M#window.length(1) join R#window.length(1) select M.k insert into B; end;"
    )
    topology = cut(text, placement=SPARK)
    assert (topology.group("a").parallel, topology.group("a").buckets) == (2, 1)
    assert "'P-a' has parallel 2, and one bucket: query" in topology.notes[0]
    assert "reads 'R', which has no key there, for all keys" in topology.notes[0]
    assert topology.channels == cut(text).channels


def test_a_bucket_has_the_key_groups_of_the_part_with_its_number():
    for parts in range(1, 129):
        assert [bucket_of_group(g, parts) for g in range(128)] == [partition_of(g, parts) for g in range(128)]


# ---- what holds for all --------------------------------------------------------------------------------------------


def without_names(topology: Topology) -> list[tuple[str, int, int]]:
    return [(c.name, c.partitions, len(c.consumers)) for c in topology.channels]


@settings(max_examples=20, deadline=None)
@given(made=apps(scripts=False), transport=st.sampled_from(["nats", "kafka"]), least=st.sampled_from([1, 4]))
def test_channels_are_those_of_instances_and_a_node_gives_as_many_buckets_as_are_told(made, transport, least):
    try:
        apart = distribute(made.text, REGISTRY, connectors, transport=transport)
    except NadiError as refused:
        assume(not refused.condition.startswith("DIST_"))
        raise
    topology = on_spark(made.text, transport, least)
    assert without_names(topology) == without_names(apart)
    for group in topology.groups:
        (instance,) = group.instances
        app = plan_app(instance.text, REGISTRY)
        assert group.buckets == (1 if app.sharding.kind == "single" else max(least, group.parallel))
        assert app.sharding.kind == "single" or app.buckets == group.buckets


@settings(max_examples=20, deadline=None)
@given(made=apps(scripts=False), transport=st.sampled_from(["nats", "kafka"]), sent=messages)
def test_an_app_on_spark_gives_the_same_rows_for_each_key_in_order(made, transport, sent):
    try:
        topology = on_spark(made.text, transport)
    except NadiError as refused:
        assume(not refused.condition.startswith("DIST_"))
        raise
    assume(not [note for note in topology.notes if "two ways" in note])
    assert cut_rows(topology, made, sent) == whole_rows(made, sent)


@pytest.mark.parametrize("case", RARE)
def test_so_do_those_that_are_generated_rarely(case):
    made = Generated((RARE_HEAD,), (RARE[case],), ("S", "R"), ("Out", "Out2"))
    fed = [(1, "SR"[n % 2], "abcdefgh"[n * 5 % 8], n % 6, 1) for n in range(80)]
    assert cut_rows(on_spark(made.text), made, fed) == whole_rows(made, fed) != defaultdict(list)
