"""Three apps whose cutting is written down in full: groups, strategies, names on both transports, instances."""

from __future__ import annotations

import pytest
from reading import annotations, assigned, inputs, outputs, publishing, shape

from nadi.plan.distribution import Holder

W1 = """@app:name('W1')
@source(type='http', @map(type='json')) define stream Temp (dev string, room int, t double);
define stream Ctl (dev string, open bool);
@sink(type='log') define stream Alert (dev string, peak double);
@store(type='rdbms', jdbc.url='jdbc:x') define table Hist (dev string, peak double);

@dist(execGroup='flt', parallel='2') @info(name='q1') from Temp[t > 1.0] select * insert into Good;
@dist(execGroup='win', parallel='3') @info(name='q2') partition with (dev of Good) begin
  from Good#window.time(1 sec) join Ctl#window.length(1) on Good.dev == Ctl.dev
  select Good.dev as dev, max(Good.t) as peak insert into Peak;
end;
@dist(execGroup='out') @info(name='q3') from Peak[peak > 5.0] select dev, peak insert into Alert;
@dist(execGroup='out') @info(name='q4') from Peak select dev, peak insert into Hist;
@info(name='q5') from Good select dev insert into Audit;
"""


def test_the_groups_of_an_app_with_a_shared_source_a_partition_and_a_default_group(cut):
    topology = cut(W1)
    assert shape(topology) == [("passthrough-Temp-1", 1), ("flt", 2), ("win", 3), ("out", 1), ("default", 1)]
    assert [g.receiver for g in topology.groups] == [True, False, False, False, False]
    assert [g.elements for g in topology.groups] == [(), ("q1",), ("q2",), ("q3", "q4"), ("q5",)]
    assert publishing(topology.group("flt"), "Good") == ["ALL 1", "FIELD_GROUPING dev 3"]
    assert [i.name for i in topology.instances] == [
        "W1-passthrough-Temp-1-1",
        *("W1-flt-1", "W1-flt-2"),
        *("W1-win-1", "W1-win-2", "W1-win-3"),
        "W1-out-1",
        "W1-default-1",
    ]


def test_their_channels_on_nats(cut):
    topology = cut(W1)
    assert inputs(topology.group("flt")) == {"Temp": "ROUND_ROBIN W1_Temp/2"}
    assert outputs(topology.group("flt")) == {"Good": ["W1_Good", "W1_Good_dev_0", "W1_Good_dev_1", "W1_Good_dev_2"]}
    assert inputs(topology.group("win")) == {"Ctl": "ALL W1_Ctl/1", "Good": "FIELD_GROUPING W1_Good_dev/3"}
    assert outputs(topology.group("win")) == {"Peak": ["W1_Peak"]}
    assert inputs(topology.group("out")) == {"Peak": "ALL W1_Peak/1"}
    assert outputs(topology.group("out")) == {}
    assert inputs(topology.group("default")) == {"Good": "ALL W1_Good/1"}
    assert assigned(topology, "win", "W1_Good_dev") == ["0", "1", "2"]
    assert assigned(topology, "win", "W1_Ctl") == ["all", "all", "all"]


def test_their_channels_on_kafka_where_who_needs_all_of_a_stream_reads_the_keyed_topic(cut):
    topology = cut(W1, "kafka")
    assert inputs(topology.group("flt")) == {"Temp": "ROUND_ROBIN W1.Temp/2"}
    assert outputs(topology.group("flt")) == {"Good": ["W1.Good.dev"]}
    assert inputs(topology.group("win")) == {"Ctl": "ALL W1.Ctl/1", "Good": "FIELD_GROUPING W1.Good.dev/3"}
    assert inputs(topology.group("default")) == {"Good": "ALL W1.Good.dev/3"}
    assert {c.name: c.partitions for c in topology.channels} == {
        "W1.Ctl": 1,
        "W1.Good.dev": 3,
        "W1.Peak": 1,
        "W1.Temp": 2,
    }


def test_what_has_no_reader_is_not_published_and_a_table_in_a_store_is_copied(cut):
    topology = cut(W1)
    out = topology.group("out")
    assert out.output("Alert").user_given
    assert not out.output("Alert").channels
    assert out.output("Hist").holder is Holder.TABLE
    (text,) = (i.text for i in out.instances)
    assert "@store(type='rdbms', jdbc.url='jdbc:x')\ndefine table Hist" in text
    assert annotations(text, "sink") == [{"type": "log"}]
    (audit,) = (i.text for i in topology.group("default").instances)
    assert "Audit" not in audit.split("@info")[0]
    assert annotations(audit, "sink") == []


P41 = """@app:name('P41')
@source(type='http') define stream S (id string, k int);
@dist(execGroup='a') @info(name='qa') from S select * insert into M;
@dist(execGroup='b', parallel='7') @info(name='qb') partition with (id of M) begin
  from M select id, count() as n insert into B; end;
@dist(execGroup='c', parallel='3') @info(name='qc') partition with (id of M) begin
  from M select id, count() as n insert into C; end;
@dist(execGroup='d', parallel='2') @info(name='qd') from M[k > 1] select * insert into D;
@dist(execGroup='e') @info(name='qe') from M[k > 2] select * insert into E;
"""


def test_a_stream_that_is_read_by_key_by_turns_and_whole(cut):
    nats, kafka = cut(P41), cut(P41, "kafka")
    for topology in (nats, kafka):
        assert publishing(topology.group("a"), "M") == ["ROUND_ROBIN 2", "ALL 1", "FIELD_GROUPING id 7"]
    assert outputs(kafka.group("a")) == {"M": ["P41.M.id"]}
    assert outputs(nats.group("a")) == {"M": ["P41_M", "P41_M_by-turns", *(f"P41_M_id_{i}" for i in range(7))]}
    assert assigned(nats, "b", "P41_M_id") == list("0123456")
    assert assigned(kafka, "c", "P41.M.id") == assigned(nats, "c", "P41_M_id") == ["0,1", "2,3", "4,5,6"]
    assert assigned(kafka, "d", "P41.M.id") == ["0,1,2", "3,4,5,6"]
    assert assigned(nats, "d", "P41_M_by-turns") == ["0", "1"]
    assert assigned(kafka, "e", "P41.M.id") == assigned(nats, "e", "P41_M") == ["all"]
    assert inputs(nats.group("d")) == {
        "M": "ROUND_ROBIN P41_M_by-turns/2"
    }  # e gets the events of one moment in their order


def test_a_source_that_one_group_of_one_instance_reads_stays_there(cut):
    topology = cut(P41)
    assert shape(topology) == [("a", 1), ("b", 7), ("c", 3), ("d", 2), ("e", 1)]
    (text,) = (i.text for i in topology.group("a").instances)
    assert [s["type"] for s in annotations(text, "source")] == ["http"]


def test_of_several_keys_the_last_by_name_brings_the_whole_stream_on_kafka(cut):
    text = (
        P41.replace("P41", "MK")
        .replace("parallel='7'", "parallel='2'")
        .replace(
            "(id of M) begin\n  from M select id, count() as n insert into C",
            "(k of M) begin\n  from M select k, count() as n insert into C",
        )
    )
    topology = cut(text, "kafka")
    assert {c.name: c.partitions for c in topology.channels if c.stream == "M"} == {"MK.M.id": 2, "MK.M.k": 3}
    assert inputs(topology.group("e")) == {"M": "ALL MK.M.k/3"}


AP = """@app:name('AP')
@source(type='http') define stream S1 (sym string, v double, ts long);
define stream Ask (sym string);
@store(type='rdbms') define aggregation A1 from S1 select sym, sum(v) as total group by sym aggregate by ts every sec ... day;
@dist(execGroup='x', parallel='2') @info(name='q')
from Ask join A1 on Ask.sym == A1.sym within 0L, 100000L per 'seconds' select Ask.sym, A1.total insert into Out;
"""


def test_an_aggregation_in_a_store_has_a_group_and_who_joins_it_reads_the_store(cut):
    topology = cut(AP)
    assert shape(topology) == [("x", 2), ("aggregation-A1", 1)]
    assert inputs(topology.group("x")) == {"Ask": "ROUND_ROBIN AP_Ask/2"}
    text = topology.group("x").instances[0].text
    assert "define stream S1_AP_x (sym string, v double, ts long);" in text
    assert "from S1_AP_x" in text
    assert all(s.get("name", s.get("destination")) != "AP_S1" for s in annotations(text, "source"))
    (fed,) = (i.text for i in topology.group("AP_aggregation-A1").instances)
    assert "from S1\n" in fed
    assert annotations(fed, "source") == [{"type": "http", "receiver.url": "http://127.0.0.1:9763/AP/S1"}]


def test_that_nodes_keep_no_aggregation_in_a_store_yet_is_told(cut):
    assert cut(AP).notes[-1].startswith("'A1' is an aggregation with a @store, which nodes do not run yet")


def test_what_joins_an_aggregation_without_store_runs_where_it_is(cut):
    text = AP.replace("@store(type='rdbms') ", "").replace(", parallel='2'", "")
    topology = cut(text)
    assert shape(topology) == [("aggregation-A1", 1)]
    (app,) = topology.instances
    assert app.name == "AP_aggregation-A1-1"
    assert topology.groups[0].elements == ("q", "A1")


@pytest.mark.parametrize("spelling", ["@store(type='in-memory')", "@Store(type='inMemory')"])
def test_a_store_in_memory_is_no_store_and_any_spelling_of_store_is_one(cut, spelling):
    assert shape(cut(AP.replace("@store(type='rdbms')", spelling).replace(", parallel='2'", ""))) == [
        ("aggregation-A1", 1)
    ]
    assert shape(cut(AP.replace("@store", "@Store")))[0] == ("x", 2)
