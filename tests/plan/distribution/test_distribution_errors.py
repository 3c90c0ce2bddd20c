"""What cannot be cut, with the words of the product that such apps were written for."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.plan.distribution import Placement, provisions

HEAD = """@app:name('P')
@source(type='http') define stream S (k string, v int);
@source(type='http') define stream R (k string, v int);
define table T (k string, v int);
define window W (k string, v int) length(5);
"""
PARTITION = "partition with (k of {s}) begin from {s} select k, count() as n insert into {to}; end;"


def _dist(group: str, parallel: int | str | None, body: str) -> str:
    wide = "" if parallel is None else f", parallel='{parallel}'"
    return f"@dist(execGroup='{group}'{wide}) {body}\n"


CASES = {
    "V1": (
        _dist("a", 2, "from S select * insert into A;") + _dist("a", None, "from S select * insert into B;"),
        "execGroup = P-a not assigned constant @dist(parallel)",
    ),
    "V1 default group": (
        "@dist(parallel='2') from S select * insert into A;\nfrom S select * insert into B;",
        "execGroup = P-default not assigned constant @dist(parallel)",
    ),
    "V2": (
        _dist("a", 2, "from S#window.length(1) join R#window.length(1) on S.k == R.k select S.k insert into A;"),
        "P-aJoin queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V2 though the group divides the streams": (
        _dist("a", 2, PARTITION.format(s="S", to="N"))
        + _dist("a", 2, "from S#window.length(1) join R#window.length(1) on S.k == R.k select S.k insert into A;"),
        "P-aJoin queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V3 pattern": (
        _dist("a", 2, "from every e1=S -> e2=R select e1.k insert into A;"),
        "P-aPATTERN queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V3 sequence": (
        _dist("a", 2, "from every e1=S, e2=R select e1.k insert into A;"),
        "P-aSEQUENCE queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V4": (
        _dist("a", 2, "from S#window.length(2) select k insert into A;"),
        "P-a Window queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V4 though the group divides the stream": (
        _dist("a", 2, PARTITION.format(s="S", to="N")) + _dist("a", 2, "from S#window.length(2) select k insert into A;"),
        "P-a Window queries used with parallel greater than 1 outside partitioned stream",
    ),
    "V5": (
        _dist("a", 2, "from S select * insert into T;"),
        "Unsupported: P-a with In-Memory Table  having parallel > 1 ",
    ),
    "V5 in a condition": (
        _dist("a", 2, "from S[T.k == k in T] select * insert into A;"),
        "Unsupported: P-a with In-Memory Table  having parallel > 1 ",
    ),
    "V5 in a join": (
        _dist("a", 2, "from S join T on S.k == T.k select S.k insert into A;"),
        "Unsupported: P-a with In-Memory Table  having parallel > 1 ",
    ),
    "V6": (
        _dist("a", 1, "from S select * insert into T;") + _dist("b", 1, "from S select k delete T on T.k == k;"),
        "Unsupported:Event Table T In-Memory Table referenced from more than one execGroup: execGroup P-b && P-a",
    ),
    "V6 in a condition": (
        _dist("a", 1, "from S select * insert into T;") + _dist("b", 1, "from S[T.k == k in T] select * insert into A;"),
        "Unsupported:Event Table T In-Memory Table referenced from more than one execGroup: execGroup P-b && P-a",
    ),
    "V7": (
        _dist("a", 2, "from S select * insert into W;"),
        "Unsupported: P-a with (Defined) Window  having parallel >1",
    ),
    "V8": (
        _dist("a", 1, "from S select * insert into W;") + _dist("b", 1, "from W select k insert into A;"),
        "Unsupported:(Defined) Window W In-Memory window referenced from more than one execGroup: execGroup P-b && P-a",
    ),
    "V9": (
        _dist("a", 1, PARTITION.format(s="S", to="A")) + _dist("a", 1, PARTITION.format(s="S", to="B")),
        "Unsupported in distributed setup :More than 1 partition residing on the same execGroup P-a for S k",
    ),
    "V10": (
        _dist("a", 2, "partition with (v > 1 as 'much' or v <= 1 as 'few' of S) begin from S select k insert into A; end;"),
        "Unsupported: P-a Range PartitionType not Supported in Distributed SetUp",
    ),
    "V11": (
        "partition with (k of S) begin @dist(execGroup='a') from S select k insert into A; end;",
        "Unsupported:@dist annotation inside partition queries",
    ),
    "V12": (
        _dist("a", 2, "from R select k insert into A;")
        + _dist("a", 2, "partition with (k of S) begin from S#window.length(1) join R#window.length(1) select S.k insert into B; end;"),
        "Unsupported: R in execGroup P-a having conflicting strategies.",
    ),
    "V12 in the other order": (
        _dist("a", 2, "partition with (k of S) begin from S#window.length(1) join R#window.length(1) select S.k insert into B; end;")
        + _dist("a", 2, "from R select k insert into A;"),
        "Unsupported: R in execGroup P-a having conflicting strategies.",
    ),
    "V13": (
        _dist("a", 2, "from S select * insert into M;") + _dist("a", 2, PARTITION.format(s="M", to="A")),
        "Partial Siddhi App P-a has a partition which consumes from another query inside the same query group with "
        "parallelism greater than one.",
    ),
    "V13 though another group reads the stream too": (
        _dist("a", 2, "from S select * insert into M;")
        + _dist("a", 2, PARTITION.format(s="M", to="A"))
        + _dist("b", 1, "from M select * insert into B;"),
        "Partial Siddhi App P-a has a partition which consumes from another query inside the same query group",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_is_told_with_the_words_known_from_there_and_its_place(cut, case):
    body, message = CASES[case]
    with pytest.raises(NadiError) as told:
        cut(HEAD + body)
    said = told.value.diagnostic.message
    assert said == message or (case.startswith("V13") and said.startswith(message))  # of that one the rest is ours
    assert told.value.siddhi_class == "SiddhiAppValidationException"
    assert told.value.diagnostic.span.line > HEAD.count("\n")
    assert "@dist" in told.value.diagnostic.excerpt or "from S" in told.value.diagnostic.excerpt


def test_v9_is_about_groups_that_a_name_makes_and_not_about_those_that_a_cycle_joins(cut):
    partition = "partition with (k of S) begin from S select k, v insert into {to}; end;"
    text = _dist("a", 1, partition.format(to="X1")) + _dist("b", 1, partition.format(to="X2"))
    text += _dist("a", 1, "from X2 select k, v insert into X1;") + _dist("b", 1, "from X1 select k, v insert into X2;")
    assert [group.name for group in cut(HEAD + text).groups] == ["P-a_b"]


@pytest.mark.parametrize("parallel", ["two", "", "0", "-1", "1.5", "129", "²"])
def test_v15_parallel_is_a_number_from_1_to_128(cut, parallel):
    with pytest.raises(NadiError, match=r"DIST_PARALLEL_INVALID.*a number from 1 to 128 is wanted") as told:
        cut(HEAD + _dist("a", parallel, "from S select * insert into A;"))
    assert told.value.diagnostic.excerpt.count("^") == len(f"parallel='{parallel}'")


def test_v15_parallel_in_a_source_too(cut):
    text = HEAD.replace("type='http')", "type='http', @dist(parallel='none'))", 1)
    with pytest.raises(NadiError, match="DIST_PARALLEL_INVALID"):
        cut(text + _dist("a", 2, "from S select * insert into A;"))


QUERY = "from S select * insert into A;"


OTHER_OPTIONS = {
    "group": (HEAD + f"@dist(execGruop='a', parallel='2') {QUERY}", "execGruop='a'", "did you mean 'execGroup'?"),
    "parallel": (HEAD + f"@dist(execGroup='a', paralel='2') {QUERY}", "paralel='2'", "did you mean 'parallel'?"),
    "no name": (HEAD + f"@dist('a') {QUERY}", "'a'", "known: execGroup, parallel"),
    "partition": (HEAD + f"@dist(copies='2') {PARTITION.format(s='S', to='A')}", "copies='2'", "known: execGroup, parallel"),
    "source": (HEAD.replace("type='http')", "type='http', @dist(paralel='2'))", 1) + QUERY, "paralel='2'", "did you mean 'parallel'?"),
    "aggregation": (HEAD + "@dist(paralell='2') define aggregation G from S select sum(v) as s aggregate every sec;",
        "paralell='2'", "did you mean 'parallel'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_OPTIONS)
def test_an_option_that_dist_does_not_have_is_refused_with_the_nearest_one_and_its_place(cut, case):
    text, given, hint = OTHER_OPTIONS[case]
    with pytest.raises(NadiError) as told:
        cut(text)
    name = given.partition("=")[0].strip("'")
    assert told.value.condition == "OPTION_UNKNOWN"
    assert told.value.diagnostic.message == f"@dist has no option '{name}'"
    assert told.value.diagnostic.next_step == hint
    assert told.value.diagnostic.excerpt.count("^") == len(given)


def test_options_of_dist_may_be_written_in_any_case_and_stand_in_sources_and_before_aggregations(cut):
    text = HEAD.replace("type='http')", "type='http', @dist(ExecGroup='x', Parallel='2'))", 1)
    text += "@DIST(PARALLEL='3') define aggregation G from R select k, sum(v) as s group by k aggregate every sec;\n"
    groups = {g.name: g.parallel for g in cut(text + f"@Dist(EXECGROUP='a', parallel='2') {QUERY}").groups}
    assert groups == {"P-passthrough-S-1": 2, "P-a": 2, "P_aggregation-G": 1}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("UUID()", "no function of the event's attributes alone"),
        ("convert(eventTimestamp(), 'string')", "no function of the event's attributes alone"),
        ("f(k)", "a script"),
    ],
)
def test_v15_a_key_is_a_function_of_the_event(cut, key, reason):
    script = "define function f[javascript] return string { return data[0]; };\n"
    with pytest.raises(NadiError, match=f"DIST_KEY_INVALID.*{reason}") as told:
        cut(HEAD + script + _dist("a", 2, f"partition with ({key} of S) begin from S select k insert into A; end;"))
    assert told.value.siddhi_class == "SiddhiAppValidationException"


def test_one_instance_may_have_any_key(cut):
    script = "define function f[javascript] return string { return data[0]; };\n"
    partition = "partition with (f(k) of S, ifThenElse(T.k == k in T, k, 'none') of R) begin from S select k insert into A; end;"
    (app,) = cut(HEAD + script + _dist("a", 1, partition)).group("a").instances
    assert "define function f" in app.text
    assert "define table T" in app.text


AGGREGATION = "define aggregation Total from S select k, sum(v) as s group by k aggregate every sec ... day;\n"
JOIN = "from S join Total on S.k == Total.k within 0L, 1L per 'days' select S.k as k insert into A;"


@pytest.mark.parametrize(
    ("element", "body"),
    [
        ("asks", f"@info(name='asks') {JOIN}"),
        ("Query", JOIN),
        ("asks", f"@info(name='asks') partition with (k of S) begin {JOIN} end;"),
        ("Partition", f"partition with (k of S) begin {JOIN} end;"),
    ],
)
def test_v14_what_joins_an_aggregation_in_memory_has_one_instance(cut, element, body):
    with pytest.raises(NadiError) as told:
        cut(HEAD + AGGREGATION + _dist("a", 2, body))
    message = f"Query element : {element} has parallelism > 1 while joining with an in-memory aggregation : Total"
    assert told.value.diagnostic.message == message
    assert told.value.siddhi_class == "SiddhiAppValidationException"


def test_v16_topics_that_nobody_may_create_are_told_with_the_words_known_from_there(cut):
    text = HEAD.replace("@app:name('P')", "@app:name('P') @app:transportChannelCreationEnabled('false')")
    text = text.replace("@source(type='http')", "@source(type='kafka', topic.list='none')", 1)
    topology = cut(text + _dist("a", 2, PARTITION.format(s="S", to="A")), "kafka")
    with pytest.raises(NadiError) as told:
        provisions(topology, {"P.S.k": 2})
    assert told.value.diagnostic.message == (
        "Topic(s) none creation failed. User has disabled topic creation by setting "
        "transportChannelCreationEnabled property to false"
    )
    assert told.value.siddhi_class == "SiddhiAppCreationException"
    with pytest.raises(NadiError) as told:
        provisions(topology, {"none": 1})
    assert told.value.diagnostic.message == (
        "Topic P.S.k creation failed. User has disabled topic creation by setting "
        "transportChannelCreationEnabled property to false. Hence Siddhi App deployment will be aborted."
    )
    assert told.value.siddhi_class == "SiddhiAppCreationException"


def test_v16_what_makes_no_app_makes_no_topology(cut):
    with pytest.raises(NadiError, match="STREAM_NOT_DEFINED"):
        cut(HEAD + "from Nowhere select * insert into A;")


NO_STATE = {
    "an aggregator": ("from S select k, sum(v) as s insert into A;", "keeps sum()"),
    "groups": ("from S select k group by k insert into A;", "groups the events of a chunk"),
    "an output rate": ("from S select k output first every 2 events insert into A;", "keeps what waits"),
    "a stream function": ("from S#unique:deduplicate(k, 5 sec) select k insert into A;", "keeps what #unique"),
    "an order": ("from S select k order by k insert into A;", "orders or limits"),
}


@pytest.mark.parametrize("case", NO_STATE)
def test_state_outside_of_partitions_is_not_divided(cut, case):
    query, what = NO_STATE[case]
    with pytest.raises(NadiError) as told:
        cut(HEAD + _dist("a", 2, query))
    assert told.value.condition == "DIST_STATE_PARALLEL"
    assert what in str(told.value)
    assert cut(HEAD + _dist("a", 1, query)).groups
    inside = f"partition with (k of S) begin {query} end;"
    assert cut(HEAD + _dist("a", 2, inside)).groups


def test_timers_of_a_playback_clock_are_not_divided(cut):
    partition = "partition with (k of S) begin from S#window.time(1 sec) select k insert into A; end;"
    text = "@app:playback " + HEAD + _dist("a", 2, partition)
    with pytest.raises(NadiError, match=r"DIST_STATE_PARALLEL.*clock of @app:playback"):
        cut(text.replace("@app:playback @app:name('P')", "@app:name('P') @app:playback"))


def test_what_instances_make_is_not_given_to_all_of_them_inside_of_the_group(cut):
    text = (
        HEAD
        + _dist("a", 2, "from R select * insert into M;")
        + _dist(
            "a",
            2,
            "partition with (k of S) begin from S#window.length(1) join M#window.length(1) select S.k insert into B; end;",
        )
    )
    with pytest.raises(NadiError, match="DIST_BROADCAST_OF_OWN_STREAM"):
        cut(text)


def test_failures_are_read_where_they_arise(cut):
    head = HEAD.replace("@source(type='http') define stream S", "@OnError(action='STREAM') define stream S", 1)
    fails = _dist("a", 1, "from S[v / 0 > 1] select * insert into A;")
    assert cut(head + fails + _dist("a", 1, "from !S select k insert into Failed;")).groups
    with pytest.raises(NadiError, match=r"DIST_FAULT_STREAM.*P-b reads '!S', and events may also fail in P-a"):
        cut(head + fails + _dist("b", 1, "from !S select k insert into Failed;"))


def test_two_channels_of_one_name_are_refused(cut):
    text = HEAD + (
        _dist("a", 1, "from S select * insert into M;")
        + _dist("a", 1, "from S select * insert into M_k;")
        + _dist("b", 2, PARTITION.format(s="M", to="A"))
        + _dist("c", 1, "from M_k select * insert into B;")
    )
    with pytest.raises(NadiError, match=r"DIST_CHANNEL_NAMES.*'M' and 'M_k' would both be called P.M_k"):
        cut(text, "kafka")
    assert cut(text, "nats").channels


def test_a_group_whose_name_leads_out_of_its_folder_is_refused(cut):
    with pytest.raises(NadiError, match="APP_NAME_UNSAFE"):
        cut(HEAD + _dist("../x", 1, "from S select * insert into A;"))


FILED = """@app:name('F')
@source(type='http') define stream S (k string, v double);
@source(type='http') define stream R (k string, v double);
@sink(type='file', file.uri='/out/rows.jsonl', @map(type='json')) define stream O (k string, v double);
@sink(type='file', file.uri='/out/more.jsonl', @map(type='json')) define stream P (k string, v double);
"""
MADE = "@dist(execGroup='{group}', parallel='{wide}') from {source}[v > 0.0] select k, v insert into {to};\n"


def made(*groups: tuple[str, int, str, str]) -> str:
    return FILED + "".join(MADE.format(group=g, wide=n, source=s, to=t) for g, n, s, t in groups)


@pytest.mark.parametrize(
    ("groups", "instances", "names"),
    [
        ((("g", 2, "S", "O"),), 2, "F-g"),
        ((("g", 1, "S", "O"), ("h", 1, "R", "O")), 2, "F-g, F-h"),
        ((("g", 1, "S", "O"), ("h", 3, "R", "O")), 4, "F-g, F-h"),
    ],
)
def test_a_file_is_not_filled_by_several_instances_each_of_which_would_cut_off_what_the_others_wrote(
    cut, groups, instances, names
):
    with pytest.raises(NadiError, match="DIST_SINK_SHARED") as refused:
        cut(made(*groups))
    told = f"{instances} instances of {names} would have a sink with file.uri='/out/rows.jsonl'"
    assert told in refused.value.diagnostic.message
    assert refused.value.diagnostic.span.line == 4


def test_nor_by_two_sinks_of_two_groups(cut):
    text = made(("g", 1, "S", "O"), ("h", 1, "R", "P"))
    assert len(cut(text).instances) == 2
    with pytest.raises(NadiError, match="2 instances of F-g, F-h would have a sink with"):
        cut(text.replace("more.jsonl", "rows.jsonl"))


def test_several_instances_fill_a_folder_and_one_group_of_one_instance_fills_a_file(cut):
    wide = made(("g", 2, "S", "O"), ("h", 3, "R", "P"))
    folders = wide.replace("file.uri", "dir.uri")
    assert len(cut(folders).group("g").instances) == 2
    assert len(cut(made(("g", 1, "S", "O"), ("g", 1, "R", "O"))).group("g").instances) == 1


def test_on_a_spark_cluster_a_group_of_several_buckets_fills_a_file(cut):
    assert len(cut(made(("g", 2, "S", "O")), placement=Placement.SPARK).group("g").instances) == 1
    with pytest.raises(NadiError, match="DIST_SINK_SHARED"):
        cut(made(("g", 1, "S", "O"), ("h", 1, "R", "O")), placement=Placement.SPARK)


def test_instances_do_not_come_to_a_broker_under_one_name(cut):
    sink = "@sink(type='mqtt', url='tcp://h:1883', topic='t', client.id='me', @map(type='json'))"
    text = made(("g", 2, "S", "O")).replace(FILED.splitlines()[3], sink + " define stream O (k string, v double);")
    with pytest.raises(NadiError, match=r"with client\.id='me': the broker would end the connection of each"):
        cut(text)
    assert cut(text.replace("client.id='me', ", ""))
