"""The telling cases of the product that apps with `@dist` were written for: what nadi makes of each, with the right behaviour where that one's was wrong."""

from __future__ import annotations

import pytest
from reading import annotations, inputs, outputs, publishing, shape

from nadi.errors import NadiError
from nadi.plan.distribution import Holder, Strategy

TEMP = "@source(type='http') define stream Temp (dev string, room int, temp double);\n"
INT = "@dist(execGroup='001') @info(name='one') from Temp select dev, room, temp insert into Int;\n"
REG = "define stream Reg (dev string, room int, temp double);\n"


def _app(body: str, name: str = "Plan") -> str:
    return f"@app:name('{name}')\n{body}"


def test_1_a_filter_shares_its_stream_by_turns(cut):
    text = _app(
        "@app:transportChannelCreationEnabled('false')\n"
        + TEMP
        + INT
        + "@dist(execGroup='002', parallel='3') from Int[room >= 100 and temp > 40.0] select * insert into Hi;"
    )
    topology = cut(text)
    assert not topology.creates_channels
    assert inputs(topology.group("002")) == {"Int": "ROUND_ROBIN Plan_Int/3"}
    assert len(topology.instances) == 4


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("from Int#window.lengthBatch(2) select dev, max(temp) as m insert into Max;", id="2 window"),
        pytest.param(
            "from every e1=Int, e2=Int[e1.temp < temp]+, e3=Int[e2[last].temp > temp] "
            "select e2[last].temp as peak, e1.dev as dev insert into Max;",
            id="3 sequence",
        ),
    ],
)
def test_2_and_3_in_a_partition_state_is_divided_by_key(cut, query):
    text = _app(TEMP + INT + f"@dist(execGroup='002', parallel='2') partition with (dev of Int) begin {query} end;")
    topology = cut(text)
    assert inputs(topology.group("002")) == {"Int": "FIELD_GROUPING Plan_Int_dev/2"}
    assert [i.key_groups for i in topology.group("002").instances] == [range(64), range(64, 128)]


def test_4_a_pattern_with_a_stream_from_outside_reads_that_by_its_public_channel(cut):
    query = (
        "from every e1=Reg -> e2=Int[e1.room == room]<1:> -> e3=Reg[e1.room == room] "
        "select e1.room as room, e2[last].temp - e2[0].temp as diff insert into Out;"
    )
    text = _app(
        TEMP + REG + INT + f"@dist(execGroup='002', parallel='2') partition with (dev of Int) begin {query} end;"
    )
    nats, kafka = cut(text), cut(text, "kafka")
    assert inputs(nats.group("002")) == {"Int": "FIELD_GROUPING Plan_Int_dev/2", "Reg": "ALL Plan_Reg/1"}
    assert inputs(kafka.group("002"))["Reg"] == "ALL Plan.Reg/1"
    assert nats.group("002").input("Reg").channel.outside
    for number, (one, two) in enumerate(zip(nats.group("002").instances, kafka.group("002").instances, strict=True)):
        (reg,) = (s for s in annotations(one.text, "source") if s["type"] == "nats")
        assert reg == {"type": "nats", "destination": "Plan_Reg"}
        (reg,) = (s for s in annotations(two.text, "source") if s["type"] == "kafka")
        servers = "localhost:9092"
        assert reg == {
            "type": "kafka",
            "topic.list": "Plan.Reg",
            "bootstrap.servers": servers,
            "group.id": f"Plan-002-{number}",
        }
        assert "@map(type='xml')" in one.text
        assert "@map(type='xml')" in two.text


def test_1_instances_that_read_an_outside_channel_by_turns_share_its_messages(cut):
    text = _app(
        "define stream Reg (dev string, on bool); @dist(execGroup='f', parallel='2') from Reg[on] select * insert into On;"
    )
    nats, kafka = cut(text, servers="nats://n:4222"), cut(text, "kafka", servers="k:9092")
    assert inputs(nats.group("f")) == {"Reg": "ROUND_ROBIN Plan_Reg/2"}
    assert [annotations(i.text, "source") for i in nats.group("f").instances] == [
        [
            {
                "type": "nats",
                "destination": "Plan_Reg",
                "bootstrap.servers": "nats://n:4222",
                "queue.group.name": "Plan-f",
                "share": share,
            }
        ]
        for share in ("1/2", "2/2")
    ]
    (one, two) = (annotations(i.text, "source")[0] for i in kafka.group("f").instances)
    assert (one["group.id"], one["share"], two["group.id"], two["share"]) == ("Plan-f", "1/2", "Plan-f", "2/2")


def test_5_a_join_in_a_partition_divides_one_side_and_gives_the_other_one_to_all(cut):
    query = "from Int#window.time(5 sec) join Reg#window.length(1) on Int.room == Reg.room select Int.dev as dev insert into Out;"
    text = _app(
        TEMP + REG + INT + f"@dist(execGroup='002', parallel='2') partition with (dev of Int) begin {query} end;"
    )
    topology = cut(text)
    temp = topology.group("001").input("Temp")
    assert (temp.strategy, temp.user_given, temp.channel) == (Strategy.ALL, True, None)
    int_ = topology.group("002").input("Int")
    assert (int_.strategy, int_.offered) == (Strategy.FIELD_GROUPING, 2)
    assert topology.group("002").input("Reg").strategy is Strategy.ALL


def test_6_a_plain_query_gets_its_stream_by_the_key_that_a_partition_of_the_group_has(cut):
    text = _app(
        TEMP
        + INT
        + "@dist(execGroup='002', parallel='2') from Int[temp > 1.0] select * insert into Hi;\n"
        + "@dist(execGroup='002', parallel='2') partition with (dev of Int) begin\n"
        + "  from Int select dev, count() as n insert into N; end;"
    )
    topology = cut(text)
    assert inputs(topology.group("002")) == {"Int": "FIELD_GROUPING Plan_Int_dev/2"}
    (source,) = annotations(topology.group("002").instances[0].text, "source")
    assert source["assigned"] == "0"


F = "@source(type='http') define stream In (symbol string, tier string, price double);\n"
MAKE_F = "@dist(execGroup='000') from In select * insert into F;\n"
BY = "@dist(execGroup='{group}', parallel='{n}') partition with ({key} of F) begin\n  from F select {key}, sum(price) as s insert into {target}; end;\n"


def test_7_two_groups_that_divide_a_stream_by_one_key_share_the_wider_channel(cut):
    text = _app(
        F
        + MAKE_F
        + BY.format(group="001", n=2, key="symbol", target="A")
        + BY.format(group="002", n=3, key="symbol", target="B")
    )
    topology = cut(text)
    assert publishing(topology.group("000"), "F") == ["FIELD_GROUPING symbol 3"]
    assert inputs(topology.group("001")) == {"F": "FIELD_GROUPING Plan_F_symbol/3"}


def test_8_each_key_has_its_channel(cut):
    text = _app(
        F
        + MAKE_F
        + BY.format(group="002", n=2, key="symbol", target="A")
        + BY.format(group="003", n=3, key="tier", target="B")
    )
    assert publishing(cut(text).group("000"), "F") == ["FIELD_GROUPING symbol 2", "FIELD_GROUPING tier 3"]


SINK = "@sink(type='log') define stream K (symbol string, s double);\n"


def test_9_every_group_that_makes_a_stream_has_its_sink(cut):
    partition = BY.format(group="002", n=2, key="symbol", target="K")
    text = _app(
        F
        + SINK
        + MAKE_F
        + partition
        + "@dist(execGroup='003', parallel='2') from F select symbol, price as s insert into K;"
    )
    topology = cut(text)
    assert publishing(topology.group("000"), "F") == ["ROUND_ROBIN 2", "FIELD_GROUPING symbol 2"]
    for group in ("002", "003"):
        for instance in topology.group(group).instances:
            assert annotations(instance.text, "sink") == [{"type": "log"}]


def test_9_an_average_over_all_events_cannot_be_divided(cut):
    text = _app(
        F + SINK + MAKE_F + "@dist(execGroup='003', parallel='2') from F select symbol, avg(price) as s insert into K;"
    )
    with pytest.raises(NadiError, match=r"\[DIST_STATE_PARALLEL\] query 'query_2' of Plan-003 keeps avg\(\)"):
        cut(text)


def test_10_a_stream_with_a_sink_goes_on_to_other_groups_without_it(cut):
    text = _app(
        F
        + SINK
        + "@sink(type='log', prefix='two') define stream L (symbol string, s double);\n"
        + "@dist(execGroup='003') from In select symbol, price as s insert into K;\n"
        + "@dist(execGroup='004') from K select * insert into L;"
    )
    topology = cut(text)
    (three,), (four,) = (topology.group(g).instances for g in ("003", "004"))
    assert [s["type"] for s in annotations(three.text, "sink")] == ["log", "channel"]
    assert annotations(four.text, "sink") == [{"type": "log", "prefix": "two"}]
    assert [s["strategy"] for s in annotations(four.text, "source")] == ["ALL"]


def test_11_shared_sources_get_receiver_groups(cut):
    text = _app(
        "@source(type='http') define stream X (symbol string, price double);\n"
        "@source(type='http') define stream Y (symbol string, n int);\n"
        "@dist(execGroup='001', parallel='3') from X select * insert into A;\n"
        "@dist(execGroup='001', parallel='3') from Y select * insert into B;\n"
        "@dist(execGroup='002', parallel='3') partition with (symbol of Y) begin\n"
        "  from X#window.length(5) join Y#window.length(5) on X.symbol == Y.symbol select avg(X.price) as a insert into C;\n"
        "end;"
    )
    topology = cut(text)
    assert shape(topology) == [("passthrough-X-1", 1), ("passthrough-Y-1", 1), ("001", 3), ("002", 3)]
    assert [g.receiver for g in topology.groups] == [True, True, False, False]
    assert inputs(topology.group("002")) == {"X": "ALL Plan_X/1", "Y": "FIELD_GROUPING Plan_Y_symbol/3"}


def test_12_each_source_has_a_receiver_group_as_wide_as_it_says(cut):
    text = _app(
        "@source(type='http', receiver.url='http://a', @dist(parallel='2')) "
        "@source(type='kafka', topic.list='t', @dist(parallel='3'), @map(type='json')) define stream X (symbol string, price double);\n"
        "@source(type='http') define stream Y (symbol string, price double);\n"
        "@dist(execGroup='001', parallel='2') from X select * insert into A;\n"
        "@dist(execGroup='002', parallel='2') from Y select * insert into A;\n"
    )
    topology = cut(text)
    assert shape(topology)[:3] == [("passthrough-X-1", 2), ("passthrough-X-2", 3), ("passthrough-Y-1", 1)]
    assert len(topology.groups) == 5
    one, two = topology.group("passthrough-X-1"), topology.group("passthrough-X-2")
    assert [annotations(i.text, "source") for i in one.instances] == [
        [{"type": "http", "receiver.url": "http://a"}],
        [{"type": "http", "receiver.url": "http://a"}],
    ]
    # a log is read once: each instance takes its share of the partitions
    assert [annotations(i.text, "source")[0]["share"] for i in two.instances] == ["1/3", "2/3", "3/3"]
    (x,) = (c for c in topology.channels if c.stream == "X")
    assert x.producers == ("Plan-passthrough-X-1", "Plan-passthrough-X-2")


def test_12_a_source_that_cannot_be_divided_has_one_instance(cut):
    text = _app(
        "@source(type='file', file.uri='a', @dist(parallel='3'), @map(type='json')) define stream X (symbol string, price double);\n"
        "@dist(execGroup='001', parallel='2') from X select * insert into A;\n"
    )
    topology = cut(text)
    assert shape(topology)[0] == ("passthrough-X-1", 1)
    assert topology.notes == (
        "the source of 'X' is read by one instance, whatever its @dist says: a source of type file cannot be divided",
    )


def test_13_a_source_that_is_read_whole_and_by_key(cut):
    text = _app(
        "@source(type='http') define stream X (name string, amount double);\n"
        "@dist(execGroup='001') from X select * insert into A;\n"
        "@dist(execGroup='002', parallel='3') partition with (name of X) begin from X select name, sum(amount) as s insert into B; end;"
    )
    nats, kafka = cut(text), cut(text, "kafka")
    assert shape(nats) == [("passthrough-X-1", 1), ("001", 1), ("002", 3)]
    assert publishing(nats.group("passthrough-X-1"), "X") == ["ALL 1", "FIELD_GROUPING name 3"]
    assert outputs(kafka.groups[0]) == {"X": ["Plan.X.name"]}
    assert inputs(kafka.group("001")) == {"X": "ALL Plan.X.name/3"}
    assert outputs(nats.groups[0]) == {"X": ["Plan_X", "Plan_X_name_0", "Plan_X_name_1", "Plan_X_name_2"]}


def test_14_a_source_that_one_group_divides_is_published_by_key_only(cut):
    text = _app(
        "@source(type='http') define stream X (name string, amount double);\n"
        "@dist(execGroup='001', parallel='3') partition with (name of X) begin from X select name, sum(amount) as s insert into B; end;"
    )
    topology = cut(text)
    assert shape(topology) == [("passthrough-X-1", 1), ("001", 3)]
    assert outputs(topology.groups[0]) == {"X": ["Plan_X_name_0", "Plan_X_name_1", "Plan_X_name_2"]}


def test_17_a_trigger_fires_in_one_instance_and_the_others_hear_of_it(cut):
    text = _app(
        TEMP
        + "define trigger Clock at every 1 sec;\n"
        + "@dist(execGroup='001', parallel='2') from Clock select triggered_time as t insert into A;\n"
        + "@dist(execGroup='002') from Clock join Temp#window.length(1) select temp, triggered_time as t insert into B;"
    )
    topology = cut(text)
    assert shape(topology) == [("001", 2), ("002", 1)]
    fires = [i.name for i in topology.instances if "define trigger" in i.text]
    assert fires == ["Plan-002-1"]
    assert inputs(topology.group("001")) == {"Clock": "ROUND_ROBIN Plan_Clock/2"}
    assert topology.group("001").input("Clock").holder is Holder.TRIGGER
    assert "define stream Clock (triggered_time long);" in topology.group("001").instances[0].text


def test_17_a_trigger_that_only_wide_groups_read_has_a_group_of_its_own(cut):
    text = _app(
        "define trigger Clock at 'start';\n"
        "@dist(execGroup='001', parallel='2') from Clock select triggered_time as t insert into A;"
    )
    topology = cut(text)
    assert shape(topology) == [("trigger-Clock", 1), ("001", 2)]
    (text,) = (i.text for i in topology.group("trigger-Clock").instances)
    assert "define trigger Clock at 'start';" in text
    assert "define stream" not in text


def test_18_groups_that_share_a_stream_by_turns_each_get_all_of_it(cut):
    text = _app(
        "@source(type='http') define stream S (name string);\n"
        "@dist(execGroup='001') from S select * insert into S2;\n"
        + "".join(
            f"@dist(execGroup='00{i}', parallel='{n}') from S2[name != '{n}'] select * insert into Out{i};\n"
            for i, n in ((2, 4), (3, 3), (4, 2))
        )
    )
    topology = cut(text)
    for group in ("002", "003", "004"):
        assert inputs(topology.group(group)) == {"S2": "ROUND_ROBIN Plan_S2/4"}
        parts = [s["assigned"] for i in topology.group(group).instances for s in annotations(i.text, "source")]
        assert sorted(",".join(parts).split(",")) == ["0", "1", "2", "3"]


def _aggregation(name: str, stream: str, store: str = "@store(type='rdbms') ") -> str:
    return (
        f"{store}define aggregation {name} from {stream} select symbol, sum(price) as total group by symbol "
        "aggregate every sec ... day;\n"
    )


JOIN = "from {stream} join {aggregation} on {stream}.symbol == {aggregation}.symbol within 0L, 1L per 'days' select {aggregation}.total as t insert into {to};"
X = "@source(type='http') define stream X (symbol string, price double);\n"
Y = "@source(type='http') define stream Y (symbol string, price double);\n"


def test_19_several_aggregations_in_stores(cut):
    text = _app(
        X
        + Y
        + _aggregation("A1", "X")
        + _aggregation("A2", "X")
        + _aggregation("A3", "Y")
        + "@dist(execGroup='001') from X select * insert into Out;\n"
        + "@dist(execGroup='002', parallel='2') "
        + JOIN.format(stream="X", aggregation="A1", to="O1")
        + "@dist(execGroup='003', parallel='2') partition with (symbol of X) begin "
        + JOIN.format(stream="X", aggregation="A2", to="O2")
        + " end;\n@dist(execGroup='004', parallel='3') "
        + JOIN.format(stream="Y", aggregation="A3", to="O3")
    )
    topology = cut(text)
    assert shape(topology) == [
        ("passthrough-X-1", 1),
        ("passthrough-Y-1", 1),
        *(("001", 1), ("002", 2), ("003", 2), ("004", 3)),
        *(("aggregation-A1", 1), ("aggregation-A2", 1), ("aggregation-A3", 1)),
    ]
    assert inputs(topology.group("Plan_aggregation-A3")) == {"Y": "ALL Plan_Y/1"}
    assert "define stream Y_Plan_004 (symbol string, price double);" in topology.group("004").instances[2].text
    assert topology.group("004").input("A3").holder is Holder.AGGREGATION


def test_20_what_joins_aggregations_in_memory_goes_to_their_group_and_joins_them(cut):
    text = _app(
        X
        + Y
        + _aggregation("A1", "X", "")
        + _aggregation("A2", "X", "")
        + _aggregation("A3", "Y", "")
        + "@dist(execGroup='001') from X select * insert into Out;\n"
        + "@dist(execGroup='002') partition with (symbol of X) begin "
        + JOIN.format(stream="X", aggregation="A1", to="O1")
        + JOIN.format(stream="X", aggregation="A3", to="O2")
        + " end;\n@dist(execGroup='003') "
        + JOIN.format(stream="X", aggregation="A2", to="O3")
    )
    topology = cut(text)
    # Y is read by one group of one instance: its source stays there
    assert shape(topology) == [("passthrough-X-1", 1), ("001", 1), ("aggregation-A1_A3", 1), ("aggregation-A2", 1)]
    assert topology.group("Plan_aggregation-A1_A3").elements == ("partition_1", "A1", "A3")


@pytest.mark.parametrize("element", ["query", "partition"])
def test_20_an_aggregation_in_memory_cannot_be_joined_by_several_instances(cut, element):
    join = JOIN.format(stream="X", aggregation="A1", to="O1")
    body = f"partition with (symbol of X) begin {join} end;" if element == "partition" else join
    text = _app(X + _aggregation("A1", "X", "") + "@dist(execGroup='a', parallel='2') @info(name='asks') " + body)
    with pytest.raises(NadiError) as told:
        cut(text)
    message = "Query element : asks has parallelism > 1 while joining with an in-memory aggregation : A1"
    assert message in str(told.value)
    assert told.value.siddhi_class == "SiddhiAppValidationException"
