"""How groups are wired and what partial apps keep: the places where the product that such apps were written for went wrong (the numbers are those of
docs/internals/topology.md)."""

from __future__ import annotations

import pytest
from reading import annotations, assigned, inputs, outputs, shape

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.plan import bind, fingerprints, plan_app
from nadi.plan.distribution.connectors import SINK_OPTIONS, SOURCE_OPTIONS

S = "@source(type='http') define stream S (k string, v int);\n"


def _app(body: str) -> str:
    return f"@app:name('P')\n{body}"


def _dist(group: str, parallel: int, body: str) -> str:
    return f"@dist(execGroup='{group}', parallel='{parallel}') {body}\n"


@pytest.mark.parametrize("transport", ["nats", "kafka"])
def test_1_a_partition_of_one_instance_reads_what_is_published(cut, transport):
    topology = cut(
        _app(
            S
            + _dist("a", 1, "from S select * insert into M;")
            + _dist("b", 1, "partition with (k of M) begin from M select k, count() as n insert into N; end;")
        ),
        transport,
    )
    (m,) = topology.channels
    assert m.key is None
    assert topology.group("a").output("M").channels == (topology.group("b").input("M").channel,)


def test_2_a_stream_that_its_own_group_and_another_one_read_is_published_and_read_on_the_spot(cut):
    topology = cut(
        _app(
            S
            + _dist("a", 1, "from S select * insert into M;")
            + _dist("a", 1, "from M[v > 1] select * insert into Own;")
            + _dist("b", 1, "from M select * insert into Other;")
        )
    )
    assert inputs(topology.group("a")) == {}
    assert outputs(topology.group("a")) == {"M": ["P_M"]}
    assert inputs(topology.group("b")) == {"M": "ALL P_M/1"}


def test_3_who_reads_may_stand_before_who_writes(cut):
    topology = cut(
        _app(
            "define stream M (k string, v int);\n"
            + S
            + _dist("b", 2, "from M select * insert into Out;")
            + _dist("a", 1, "from S select * insert into M;")
        )
    )
    assert shape(topology) == [("b", 2), ("a", 1)]
    assert outputs(topology.group("a")) == {"M": ["P_M"]}
    assert inputs(topology.group("b")) == {"M": "ROUND_ROBIN P_M/2"}


def test_3_groups_that_feed_each_other_become_one(cut):
    topology = cut(
        _app(
            "define stream A (k string, v int);\ndefine stream B (k string, v int);\n"
            + S
            + _dist("x", 1, "from S select * insert into A;")
            + _dist("x", 1, "from B[v < 5] select k, v + 1 as v insert into A;")
            + _dist("y", 2, "from A select * insert into B;")
            + _dist("z", 1, "from B select * insert into Out;")
        )
    )
    assert shape(topology) == [("x_y", 1), ("z", 1)]
    assert topology.notes == ("'P-x', 'P-y' feed each other: they are one group, 'P-x_y', with parallel 1",)
    assert outputs(topology.group("x_y")) == {"B": ["P_B"]}


def test_4_a_receiver_group_has_its_own_source_only(cut):
    topology = cut(
        _app(
            "@source(type='http', receiver.url='a', @dist(parallel='2')) @source(type='http', receiver.url='b') "
            "@sink(type='log') define stream X (k string);\n"
            + _dist("g", 2, "from X select * insert into Out;")
            + _dist("h", 1, "from S select k insert into X;").replace("from S", "from Y")
        ).replace("@app:name('P')\n", "@app:name('P')\ndefine stream Y (k string);\n")
    )
    urls = [s["receiver.url"] for i in topology.instances for s in annotations(i.text, "source") if s["type"] == "http"]
    assert urls == ["a", "a", "b"]
    logs = [i.name for i in topology.instances for s in annotations(i.text, "sink") if s["type"] == "log"]
    assert logs == ["P-passthrough-X-1-1", "P-passthrough-X-1-2", "P-passthrough-X-2-1", "P-h-1"]


def test_5_only_streams_are_renamed_not_what_is_called_like_them(cut):
    topology = cut(
        _app(
            "@source(type='http', receiver.url='http://in.S1/S1', @map(type='json', @attributes(k='S1.k')))\n"
            "define stream S1 (k string);\n" + _dist("g", 2, "from S1[S1.k != 'S1'] select 'S1' as k insert into Out;")
        )
    )
    receiver = topology.groups[0].instances[0].text
    assert "receiver.url='http://in.S1/S1'" in receiver
    assert "@attributes(k='S1.k')" in receiver
    assert "define stream passthroughS1 (k string);" in receiver
    assert "from S1[S1.k != 'S1']\nselect 'S1' as k" in topology.group("g").instances[0].text


TWO_KEYS = "partition with ({key} of S) begin from every e1=S[v > 0] -> e2=S[e1.v < v] select e1.{key} as x, 'S.{key}' as y insert into {to}; end;"


def test_6_two_keys_of_one_stream_in_one_group(cut):
    topology = cut(
        _app(
            S
            + _dist("g", 2, TWO_KEYS.format(key="k", to="A"))
            + _dist("g", 2, TWO_KEYS.format(key="v", to="B"))
            + _dist("g", 2, "from S select k insert into C;")
        )
    )
    group = topology.group("g")
    assert inputs(group) == {"S": "FIELD_GROUPING P_S_k/2, FIELD_GROUPING P_S_v/2"}
    assert [i.read_as for i in group.inputs] == ["S", "S_by_v"]
    text = group.instances[1].text
    assert "partition with (v of S_by_v)" in text
    assert "every e1=S_by_v[v > 0] -> e2=S_by_v[e1.v < v]" in " ".join(text.split())
    assert "select e1.v as x, 'S.v' as y" in text
    assert "partition with (k of S)" in text
    assert "from S\nselect k\ninsert into C" in text


def test_7_partial_apps_keep_functions_tables_and_annotations(cut):
    topology = cut(
        """@app:name('P')
@app:description('what it does') @app:statistics(reporter='jmx') @app:playback
@source(type='http') define stream S (k string, v int);
@OnError(action='STORE') @async(buffer.size='64') define stream M (k string, v int);
@primaryKey('k') define table T (k string);
define function twice[javascript] return int { return data[0] * 2; };
define function thrice[javascript] return int { return data[0] * 3; };
@dist(execGroup='a') from S[T.k == k in T] select k, twice(v) as v insert into M;
@dist(execGroup='a') from M[v > 1] select k insert into Out;
@dist(execGroup='b') from S select k, thrice(v) as v insert into Else;
"""
    )
    (a,), (b,) = (topology.group(g).instances for g in "ab")
    head = ["app:name", "app:description", "app:statistics", "app:playback"]
    assert [x.name for x in parse(a.text).annotations] == head
    assert "@primaryKey('k')\ndefine table T (k string);" in a.text
    assert "@OnError(action='STORE')\n@async(buffer.size='64')\ndefine stream M" in a.text
    assert ("twice[" in a.text, "thrice[" in a.text) == (True, False)
    assert ("twice[" in b.text, "thrice[" in b.text, "table" in b.text) == (False, True, False)


def test_two_ways_from_an_input_to_a_query_over_groups_are_told(cut):
    ways = _dist("a", 1, "from S select * insert into A;") + _dist("b", 1, "from S select * insert into B;")
    join = "from A#window.length(1) join B#window.length(1) select A.k insert into Out;"
    told = cut(_app(S + ways + _dist("c", 1, join))).notes
    assert told == (
        "what comes of 'S' takes two ways to 'A' and 'B', which 'unnamed_3' of 'P-c' reads: "
        "events of one moment may come together in another order than without @dist",
    )
    told = cut(_app(S + ways.replace("into B", "into A") + _dist("c", 1, "from A select * insert into Out;"))).notes
    assert [note.split(":")[0] for note in told] == ["what comes of 'S' takes two ways to 'A', by 'P-a' and by 'P-b'"]
    assert cut(_app(S + (ways + _dist("c", 1, join)).replace("'b'", "'a'").replace("'c'", "'a'"))).notes == ()


def test_a_query_over_all_keys_behind_several_instances_is_told(cut):
    keyed = "@dist(execGroup='a', parallel='2') partition with (k of S) begin from S select k, v insert into A; end;"
    told = cut(
        _app(S + keyed + _dist("b", 1, "@info(name='last') from A#window.length(2) select k insert into Out;"))
    ).notes
    assert told == (
        "'last' of 'P-b' keeps something of 'A', which 2 instances of 'P-a' make: of events of the same millisecond it has those of one instance, "
        "then those of the next one",
    )
    assert cut(_app(S + keyed + _dist("b", 1, "from A[v > 1] select k insert into Out;"))).notes == ()
    one = keyed.replace("parallel='2'", "parallel='1'")
    assert cut(_app(S + one + _dist("b", 1, "from A#window.length(2) select k insert into Out;"))).notes == ()


def test_that_a_query_runs_with_the_aggregation_that_it_joins_is_told(cut):
    aggregation = "define aggregation A from S select k, sum(v) as n group by k aggregate every sec;\n"
    join = "@info(name='asks') from S join A on S.k == A.k within 0L, 1L per 'sec' select A.n insert into O;"
    assert cut(_app(S + aggregation + _dist("g", 1, join))).notes == (
        "'asks' joins what is kept in memory by 'P_aggregation-A': it runs there, and not in the group 'g'",
    )


def test_7_a_table_that_an_aggregation_looks_into_goes_with_it(cut):
    text = _app(
        S
        + "define table T (k string);\n"
        + "define aggregation A from S[S.k == T.k in T] select k, sum(v) as n group by k aggregate every sec;\n"
    )
    (app,) = cut(text).instances
    assert "define table T (k string);" in app.text
    with pytest.raises(NadiError, match="DIST_TABLE_SHARED"):
        cut(text + _dist("g", 1, "from S select k insert into T;"))
    stored = text.replace("define table", "@store(type='rdbms') define table")
    stored = stored.replace("define aggregation", "@store(type='rdbms') define aggregation")
    join = "from S join A on S.k == A.k within 0L, 1L per 'sec' select A.n insert into O;"
    topology = cut(stored + _dist("g", 1, join))
    assert "define table T" in topology.group("P_aggregation-A").instances[0].text
    (joining,) = topology.group("g").instances
    assert "table" not in joining.text


def test_a_trigger_that_queries_elsewhere_feed_too_is_read_with_theirs(cut, registry):
    text = _app(
        S
        + "define trigger T at every 1 sec;\n"
        + _dist("a", 1, "from T select triggered_time as t insert into Out;")
        + _dist("b", 1, "from S select eventTimestamp() as triggered_time insert into T;")
        + _dist("c", 1, "from T select triggered_time as t insert into Out2;")
    )
    topology = cut(text)
    (a,) = topology.group("a").instances
    assert "define stream T_all (triggered_time long);" in a.text
    assert inputs(topology.group("c")) == {"T": "ALL P_T/1"}
    assert topology.group("c").input("T").producers == ("P-a", "P-b")
    for instance in topology.instances:
        assert plan_app(instance.text, registry)


def test_8_aggregations_are_brought_together_however_they_hang_together(cut):
    definitions = "".join(
        f"define aggregation A{i} from S select k, sum(v) as n group by k aggregate every sec;\n" for i in range(1, 7)
    )
    joins = "".join(
        f"partition with (k of S) begin from S join A{i} on S.k == A{i}.k within 0L, 1L per 'sec' select A{i}.n insert into O{i};"
        f" from S join A{j} on S.k == A{j}.k within 0L, 1L per 'sec' select A{j}.n insert into O{i}; end;\n"
        for i, j in ((1, 2), (4, 5), (2, 3), (5, 6))
    )
    topology = cut(_app(S + definitions + joins))
    assert shape(topology)[1:] == [("aggregation-A1_A2_A3", 1), ("aggregation-A4_A5_A6", 1)]


def test_9_apps_that_are_cut_one_after_the_other_know_nothing_of_each_other(cut):
    one = _app(
        S
        + "define aggregation A from S select k, sum(v) as n group by k aggregate every sec;\n"
        + "from S join A on S.k == A.k within 0L, 1L per 'sec' select A.n insert into O;\n"
    )
    two = _app(S + _dist("g", 1, "from S select * insert into Out;"))
    before = cut(two)
    cut(one)
    assert cut(two) == before


@pytest.mark.parametrize("transport", ["nats", "kafka"])
def test_10_each_instance_of_a_group_reads_other_parts_of_a_channel_and_together_all(cut, transport):
    topology = cut(
        _app(
            S
            + _dist("g", 3, "from S select * insert into M2;")
            + _dist("h", 4, "from M2 select * insert into M3;")
            + _dist("i", 2, "from M2 select * insert into M3;")
        ),
        transport,
    )
    separator = "_" if transport == "nats" else "."
    assert assigned(topology, "h", f"P{separator}M2") == ["0", "1", "2", "3"]
    assert assigned(topology, "i", f"P{separator}M2") == ["0,1", "2,3"]


def test_11_a_trigger_does_not_join_groups_to_a_cycle(cut):
    topology = cut(
        _app(
            "define trigger T at every 1 sec;\n"
            + _dist("a", 1, "from T select triggered_time as t insert into M;")
            + _dist("b", 1, "from T join M#window.length(1) select M.t insert into Out;")
        )
    )
    assert shape(topology) == [("a", 1), ("b", 1)]
    assert [i.name for i in topology.instances if "define trigger" in i.text] == ["P-a-1"]
    assert inputs(topology.group("b")) == {"M": "ALL P_M/1", "T": "ALL P_T/1"}


def test_12_stateless_joins_with_tables_in_a_store_are_divided(cut):
    topology = cut(
        _app(
            S
            + "@store(type='rdbms') define table T (k string, v int);\n"
            + _dist("g", 4, "from S join T on S.k == T.k select S.k as k, T.v as v insert into Out;")
        )
    )
    assert inputs(topology.group("g")) == {"S": "ROUND_ROBIN P_S/4"}


def test_12_ranges_are_fine_in_one_instance(cut):
    ranges = (
        "partition with (v > 1 as 'much' or v <= 1 as 'few' of S) begin from S select count() as n insert into N; end;"
    )
    assert shape(cut(_app(S + _dist("g", 1, ranges)))) == [("g", 1)]


def test_12_a_key_may_be_an_expression_over_the_event(cut):
    topology = cut(
        _app(
            S
            + _dist(
                "g",
                2,
                "partition with (str:concat(S.k, 'x') of S) begin from S select count() as n insert into N; end;",
            )
        )
    )
    (channel,) = topology.channels
    assert channel.key.text == "str:concat(k, 'x')"
    assert channel.key.label.startswith("by")
    assert channel.key.label.isalnum()
    (sink,) = annotations(topology.groups[0].instances[0].text, "sink")
    assert sink["key"] == "str:concat(k, 'x')"


def test_streams_that_a_group_divides_are_divided_alike(cut):
    """Else a key would come to one instance by the one stream and to another by the other."""
    topology = cut(
        _app(
            S
            + "@source(type='http') define stream R (k string, v int);\n"
            + _dist("wide", 7, "partition with (k of S) begin from S select k, count() as n insert into A; end;")
            + _dist(
                "both",
                3,
                "partition with (k of S, k of R) begin from S#window.length(1) join R#window.length(1) select S.k insert into B; end;",
            )
        )
    )
    assert {c.stream: c.partitions for c in topology.channels} == {"S": 7, "R": 7}
    assert assigned(topology, "both", "P_R_k") == assigned(topology, "both", "P_S_k") == ["0,1", "2,3", "4,5,6"]


def test_what_a_group_hears_from_others_does_not_go_out_again_by_its_sinks(cut):
    topology = cut(
        _app(
            "@sink(type='log') define stream M (k string, v int);\n"
            + S
            + _dist("a", 1, "from S select * insert into M;")
            + _dist("b", 1, "from S[v > 1] select * insert into M;")
            + _dist("b", 1, "from M select M.k insert into Out;")
        )
    )
    (b,) = topology.group("b").instances
    assert "define stream M_all (k string, v int);" in b.text
    assert "from M\nselect *\ninsert into M_all;" in b.text
    assert "from M_all\nselect M_all.k\ninsert into Out;" in b.text
    (m,) = (d for d in parse(b.text).definitions if d.source.name == "M")
    assert [(a.name, a.get("type")) for a in m.annotations] == [("sink", "log")]


def test_a_stream_with_source_and_sink_and_no_reader_passes_on(cut):
    topology = cut(_app("@source(type='http') @sink(type='log') define stream X (k string);"))
    assert shape(topology) == [("passthrough-X-1", 1)]
    assert [a.get("type") for a in parse(topology.instances[0].text).definitions[1].annotations] == ["log"]


def test_what_comes_from_outside_by_key_is_taken_in_by_a_receiver_group(cut):
    topology = cut(
        _app(
            "define stream X (k string);\n"
            + _dist("a", 2, "partition with (k of X) begin from X select k, count() as n insert into N; end;")
            + _dist("b", 1, "from X select * insert into Out;")
        )
    )
    assert [(c.name, c.outside) for c in topology.channels] == [
        ("P_X", True),
        ("P_passthroughX", False),
        ("P_passthroughX_k", False),
    ]
    assert topology.groups[0].receiver


BY_KEY = (
    "define stream X (k string);\n"
    "@dist(execGroup='a', parallel='2') partition with (k of X) begin from X select k, count() as n insert into N; end;\n"
)


def test_who_fills_a_stream_that_is_read_by_one_key_only_may_divide_it_by_itself(cut):
    nats, kafka = cut(_app(BY_KEY)), cut(_app(BY_KEY), "kafka")
    assert [(c.name, c.places, c.outside) for c in nats.channels] == [
        ("P_X", ("P_X",), True),
        ("P_X_k", ("P_X_k_0", "P_X_k_1"), True),
        ("P_passthroughX_k", ("P_passthroughX_k_0", "P_passthroughX_k_1"), False),
    ]
    (text,) = (i.text for i in nats.groups[0].instances)
    assert [s["destination"] for s in annotations(text, "source")] == ["P_X", "P_X_k_0", "P_X_k_1"]
    assert [(c.name, c.partitions, c.outside) for c in kafka.channels] == [
        ("P.X", 1, True),
        ("P.X.k", 2, True),
        ("P.passthroughX.k", 2, False),
    ]
    (text,) = (i.text for i in kafka.groups[0].instances)
    assert [s["topic.list"] for s in annotations(text, "source")] == ["P.X", "P.X.k"]


def test_an_app_that_lets_nothing_be_created_on_kafka_reads_the_topic_that_siddhi_would(cut):
    off = _app(BY_KEY).replace("@app:name('P')", "@app:name('P') @app:transportChannelCreationEnabled('false')")
    assert [c.name for c in cut(off, "kafka").channels if c.outside] == ["P.X.k"]
    assert [c.name for c in cut(off).channels if c.outside] == ["P_X", "P_X_k"]


def test_two_keys_leave_it_to_the_cluster_to_divide_what_comes_from_outside(cut):
    text = _app(
        "define stream X (k string, l string);\n"
        + _dist("a", 2, "partition with (k of X) begin from X select k, count() as n insert into N; end;")
        + _dist("b", 2, "partition with (l of X) begin from X select l, count() as n insert into M; end;")
    )
    assert [c.name for c in cut(text).channels if c.outside] == ["P_X"]
    assert [c.name for c in cut(text, "kafka").channels if c.outside] == ["P.X"]


def test_a_group_called_default_is_another_one_than_that_of_what_names_none(cut):
    topology = cut(_app(S + _dist("default", 1, "from S select * insert into A;") + "from S select * insert into B;"))
    assert shape(topology)[1:] == [("default", 1), ("default_2", 1)]


def test_elements_keep_the_ids_that_their_state_is_kept_under(cut, registry):
    text = _app(
        S
        + "from S#window.length(2) select k insert into A;\n"
        + _dist(
            "g", 2, "partition with (k of S) begin from S#window.length(3) select k, count() as n insert into B; end;"
        )
        + "from (from S#window.length(1) select k return)#window.length(9) select k insert into C;\n"
    )
    whole = fingerprints(plan_app(text, registry))
    parts = [bind(parse(i.text), registry, text=i.text) for i in cut(text).instances]
    assert {(e, mark) for app in parts for e, mark in fingerprints(app).items()} == set(whole.items())


def test_connections_stay_out_of_partial_apps(cut):
    text = _app(
        "@source(type='http', receiver.url='${URL}') define stream X (k string);\nfrom X select * insert into Y;"
    )
    topology = cut(text, connections={"URL": "http://secret"})
    assert "${URL}" in topology.instances[0].text
    assert "secret" not in topology.instances[0].text


def test_the_servers_of_channels_are_named_where_that_is_asked_for(cut):
    text = _app(S + _dist("g", 2, "from S select * insert into Out;"))
    for asked, named in (("", None), ("nats://n:4222", "nats://n:4222")):
        topology = cut(text, servers=asked)
        (sink,) = annotations(topology.groups[0].instances[0].text, "sink")
        (source,) = annotations(topology.groups[1].instances[0].text, "source")
        assert sink.get("bootstrap.servers") == source.get("bootstrap.servers") == named


def test_the_options_of_channels_are_those_that_are_described(cut):
    topology = cut(
        _app(
            "define stream Ask (k string);\n"
            + S
            + _dist(
                "g",
                2,
                "partition with (k of S) begin from S join Ask#window.length(1) select S.k insert into Out; end;",
            )
        ),
        servers="nats://n:4222",
    )
    for name, described in (("source", SOURCE_OPTIONS), ("sink", SINK_OPTIONS)):
        given = [a for i in topology.instances for a in annotations(i.text, name) if a["type"] == "channel"]
        assert {key for a in given for key in a} - {"type"} == described.keys()


def test_no_partial_app_has_the_dist_of_an_aggregation(cut):
    text = """@app:name('P') @source(type='http') define stream S (k string, v int);
@store(type='rdbms') @dist(parallel='2', execGroup='else')
define aggregation Total from S select k, sum(v) as s group by k aggregate every sec;
from S select k insert into Out;"""
    texts = [instance.text for instance in cut(text).instances]
    assert any("define aggregation" in one for one in texts)
    assert not any("@dist" in one for one in texts)
