"""The telling cases of the product that apps with `@dist` were written for, run: each app is cut, its channels are made on real servers, and all of its partial
apps run; what its sinks get is known by heart, and is what the app gives in one piece.

What each case is cut into is in tests/plan/distribution/test_distribution_cases.py, case 16 (what is refused) in test_distribution_errors.py there. Where that
product was wrong, the test says which of its weaknesses it is (the numbers of docs/internals/topology.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from channels_cluster import Clock, LocalCluster, Row, whole
from reading import inputs, outputs, publishing, shape

from nadi.channels import administration
from nadi.channels.options import Channel
from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.plan import plan_app
from nadi.plan.distribution import Topology, distribute
from nadi.server.distributed.channelplace import ChannelPlace

TEMP = "@source(type='http') define stream Temp (dev string, room int, temp double);\n"
REG = "define stream Reg (dev string, room int, temp double);\n"
INT = "@dist(execGroup='001') from Temp select dev, room, temp insert into Int;\n"

Deploy = Callable[[str], LocalCluster]


@pytest.fixture(params=["nats", pytest.param("kafka", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> ChannelPlace:
    """Where channels are."""
    server = request.getfixturevalue(request.param)
    return ChannelPlace(request.param, server if request.param == "kafka" else server.url)


@pytest.fixture
def deploy(place: ChannelPlace, tmp_path: Path) -> Iterator[Deploy]:
    """Cuts an app, makes its channels, starts it, and ends all of that. In the end its sinks must have got what the app gives in one piece."""
    with ExitStack() as stack, Clock().kept() as clock:

        def deployed(text: str) -> LocalCluster:
            topology = distribute(
                text, default_registry(), connectors, transport=place.transport, servers=place.servers
            )
            place.create(topology)
            stack.callback(place.remove, topology)
            cluster = LocalCluster(topology, tmp_path / topology.app, clock, place.servers)
            stack.callback(cluster.close)
            return cluster

        yield deployed


def gives(cluster: LocalCluster, text: str, stream: str, *rows: Row, wait: int = 1_000) -> None:
    """The sinks of a stream get these events, in some order, and per key in that of the app in one piece."""
    cluster.advance(wait)
    assert sorted(cluster.rows(stream)) == sorted(rows)
    assert cluster.per_key(stream) == whole(text, cluster.happened, stream)


def feed(cluster: LocalCluster, stream: str, *rows: Row) -> None:
    """One event after the other, 10 ms between them."""
    for row in rows:
        cluster.send(stream, row)
        cluster.clock.now += 10
    cluster.advance(0)


def on(cluster: LocalCluster, nats: object, kafka: object) -> object:
    """What differs by transport."""
    return nats if cluster.topology.transport == "nats" else kafka


def made_by_hand(place: ChannelPlace, topology: Topology) -> None:
    """The channels of an app that says that somebody else makes them."""
    for channel in topology.channels:
        administration.create(Channel(place.transport, channel.name, channel.partitions, place.servers))


def test_1_a_filter_in_three_instances_passes_each_event_once_over_channels_that_were_made_before(deploy, place):
    text = (
        "@app:name('Case1') @app:transportChannelCreationEnabled('false')\n"
        + TEMP
        + "@sink(type='log') define stream Hi (dev string, room int, temp double);\n"
        + INT
        + "@dist(execGroup='002', parallel='3') from Int[room >= 100 and room < 210 and temp > 40.0] select * insert into Hi;"
    )
    made_by_hand(place, distribute(text, default_registry(), connectors, transport=place.transport))
    cluster = deploy(text)
    assert inputs(cluster.topology.group("002")) == {
        "Int": on(cluster, "ROUND_ROBIN Case1_Int/3", "ROUND_ROBIN Case1.Int/3")
    }
    feed(cluster, "Temp", ("a", 110, 80.0), ("b", 120, 60.0), ("c", 140, 70.0), ("d", 140, 30.0))
    gives(cluster, text, "Hi", ("a", 110, 80.0), ("b", 120, 60.0), ("c", 140, 70.0))


def test_13_by_turns_all_instances_get_something_to_do(deploy):
    """Weakness 13: on Kafka one of several instances got everything."""
    text = (
        "@app:name('Turns')\n"
        + TEMP
        + "@sink(type='log') define stream Hi (dev string, room int, temp double);\n"
        + "@dist(execGroup='a', parallel='3') from Temp select * insert into Hi;"
    )
    cluster = deploy(text)
    events = [(f"d{n}", n, 1.0) for n in range(30)]
    feed(cluster, "Temp", *events)
    gives(cluster, text, "Hi", *events)
    assert all(len(rows) >= 5 for rows in cluster.by_instance("Hi").values())


def partitioned(name: str, query: str, sink: str, more: str = "", parallel: int = 2) -> str:
    return (
        f"@app:name('{name}')\n{TEMP}{more}{sink}{INT}"
        f"@dist(execGroup='002', parallel='{parallel}') partition with (dev of Int) begin {query} end;"
    )


def test_2_a_window_in_a_partition_is_one_for_each_key(deploy):
    text = partitioned(
        "Case2",
        "from Int#window.lengthBatch(2) select dev, max(temp) as most insert into Max;",
        "@sink(type='log') define stream Max (dev string, most double);\n",
    )
    cluster = deploy(text)
    (int_,) = inputs(cluster.topology.group("002")).values()
    assert int_ == on(cluster, "FIELD_GROUPING Case2_Int_dev/2", "FIELD_GROUPING Case2.Int.dev/2")
    feed(cluster, "Temp", ("dev1", 1, 70.0), ("dev2", 1, 60.0), ("dev1", 1, 80.0), ("dev2", 1, 30.0))
    gives(cluster, text, "Max", ("dev1", 80.0), ("dev2", 60.0))
    assert sorted(map(len, cluster.by_instance("Max").values())) == [1, 1]


def test_3_a_sequence_in_a_partition_follows_the_events_of_its_key(deploy):
    text = partitioned(
        "Case3",
        "from every e1=Int, e2=Int[ifThenElse(e2[last].temp is null, e1.temp <= temp, e2[last].temp <= temp)]+, "
        "e3=Int[e2[last].temp > temp] select e1.dev as dev, e2[last].temp as peak insert into Peak;",
        "@sink(type='log') define stream Peak (dev string, peak double);\n",
    )
    cluster = deploy(text)
    for dev1, dev2 in zip((40.0, 60.0, 80.0, 30.0), (20.0, 60.0, 100.0, 30.0), strict=True):
        feed(cluster, "Temp", ("dev1", 1, dev1), ("dev2", 1, dev2))
    gives(cluster, text, "Peak", ("dev1", 80.0), ("dev2", 100.0))


def test_4_a_pattern_in_a_partition_hears_a_stream_from_outside_in_all_instances_and_gives_each_match_once(deploy):
    text = partitioned(
        "Case4",
        "from every e1=Reg -> e2=Int[e1.room == room]<1:> -> e3=Reg[e1.room == room] "
        "select e2[last].dev as dev, e2[last].temp - e2[0].temp as diff insert into Diff;",
        "@sink(type='log') define stream Diff (dev string, diff double);\n",
        REG,
    )
    cluster = deploy(text)
    outside = cluster.topology.group("002").input("Reg").channel
    assert (outside.outside, outside.name) == (True, on(cluster, "Case4_Reg", "Case4.Reg"))
    feed(cluster, "Temp", ("dev1", 9, 0.0), ("dev2", 9, 0.0))  # from now on there are these keys
    feed(cluster, "Reg", ("r", 1, 0.0), ("r", 2, 0.0))
    feed(cluster, "Temp", ("dev1", 1, 20.0), ("dev2", 2, 30.0), ("dev1", 1, 45.0), ("dev2", 2, 33.0))
    feed(cluster, "Reg", ("r", 1, 0.0), ("r", 2, 0.0))
    gives(cluster, text, "Diff", ("dev1", 25.0), ("dev2", 3.0))


def test_5_a_join_in_a_partition_meets_what_is_given_to_all_instances(deploy):
    text = partitioned(
        "Case5",
        "from Int#window.time(5 sec) join Reg#window.length(1) on Int.room == Reg.room "
        "select Int.dev as dev, Int.temp as temp, Reg.temp as set insert into Out;",
        "@sink(type='log') define stream Out (dev string, temp double, set double);\n",
        REG,
    )
    cluster = deploy(text)
    assert cluster.topology.group("002").input("Int").offered == 2
    feed(cluster, "Temp", ("dev1", 1, 20.0), ("dev2", 2, 30.0))
    feed(cluster, "Reg", ("r", 1, 22.0), ("r", 2, 25.0))
    gives(cluster, text, "Out", ("dev1", 20.0, 22.0), ("dev2", 30.0, 25.0))
    cluster.advance(5_000)  # the temperatures are too old now
    feed(cluster, "Reg", ("r", 1, 23.0))
    gives(cluster, text, "Out", ("dev1", 20.0, 22.0), ("dev2", 30.0, 25.0))


def test_6_a_plain_query_beside_a_partition_of_its_group_gets_each_event_once(deploy):
    text = (
        "@app:name('Case6')\n"
        + TEMP
        + "@sink(type='log') define stream Hot (dev string, temp double);\n"
        + "@sink(type='log') define stream Count (dev string, n long);\n"
        + INT
        + "@dist(execGroup='002', parallel='2') from Int[temp > 10.0] select dev, temp insert into Hot;\n"
        + "@dist(execGroup='002', parallel='2') partition with (dev of Int) begin from Int select dev, count() as n insert into Count; end;"
    )
    cluster = deploy(text)
    assert cluster.topology.group("002").input("Int").strategy.value == "FIELD_GROUPING"
    feed(cluster, "Temp", ("dev1", 1, 20.0), ("dev2", 1, 5.0), ("dev1", 1, 30.0))
    gives(cluster, text, "Hot", ("dev1", 20.0), ("dev1", 30.0))
    gives(cluster, text, "Count", ("dev1", 1), ("dev2", 1), ("dev1", 2))


IN = "@source(type='http') define stream In (symbol string, tier string, price double);\n"
F = "@dist(execGroup='000') from In select * insert into F;\n"


def test_7_two_groups_that_divide_a_stream_alike_each_get_all_of_it(deploy):
    text = (
        f"@app:name('Case7')\n{IN}"
        "@sink(type='log') define stream High (symbol string, most double);\n"
        "@sink(type='log') define stream Sum (symbol string, total double);\n"
        f"{F}@dist(execGroup='001', parallel='2') partition with (symbol of F) begin "
        "from F#window.lengthBatch(2) select symbol, max(price) as most insert into High; end;\n"
        "@dist(execGroup='002', parallel='3') partition with (symbol of F) begin "
        "from F#window.length(2) select symbol, sum(price) as total insert into Sum; end;"
    )
    cluster = deploy(text)
    assert publishing(cluster.topology.group("000"), "F") == ["FIELD_GROUPING symbol 3"]
    feed(cluster, "In", ("WSO2", "a", 100.0), ("WSO2", "a", 150.0), ("IBM", "a", 75.0))
    gives(cluster, text, "High", ("WSO2", 150.0))
    gives(cluster, text, "Sum", ("WSO2", 100.0), ("WSO2", 250.0), ("IBM", 75.0))


def test_8_a_stream_is_divided_by_each_key_that_is_asked_for(deploy):
    text = (
        f"@app:name('Case8')\n{IN}"
        "@sink(type='log') define stream Count (symbol string, n long);\n"
        "@sink(type='log') define stream Mean (tier string, n long, mean double);\n"
        f"{F}@dist(execGroup='002', parallel='2') partition with (symbol of F) begin "
        "from F select symbol, count() as n insert into Count; end;\n"
        "@dist(execGroup='003', parallel='3') partition with (tier of F) begin "
        "from F#window.lengthBatch(2) select tier, count() as n, avg(price) as mean insert into Mean; end;"
    )
    cluster = deploy(text)
    assert publishing(cluster.topology.group("000"), "F") == ["FIELD_GROUPING symbol 2", "FIELD_GROUPING tier 3"]
    feed(cluster, "In", ("WSO2", "mid", 100.0), ("IBM", "top", 200.0), ("IBM", "mid", 250.0), ("WSO2", "top", 150.0))
    gives(cluster, text, "Mean", ("mid", 2, 175.0), ("top", 2, 175.0))
    gives(cluster, text, "Count", ("WSO2", 1), ("WSO2", 2), ("IBM", 1), ("IBM", 2))


def test_9_the_sink_of_a_stream_that_two_groups_make_gets_the_events_of_all_their_instances(deploy):
    """There the plain query of group 003 took an average over what its instance happened to see (weakness 11): that is refused."""
    text = (
        f"@app:name('Case9')\n{IN}"
        "@sink(type='log') define stream K (symbol string, price double);\n"
        f"{F}@dist(execGroup='002', parallel='2') partition with (symbol of F) begin "
        "from F#window.lengthBatch(2) select symbol, avg(price) as price insert into K; end;\n"
        "@dist(execGroup='003', parallel='2') from F[price > 900.0] select symbol, price insert into K;"
    )
    cluster = deploy(text)
    assert publishing(cluster.topology.group("000"), "F") == ["ROUND_ROBIN 2", "FIELD_GROUPING symbol 2"]
    feed(cluster, "In", ("WSO2", "a", 100.0), ("IBM", "a", 200.0), ("WSO2", "a", 200.0), ("IBM", "a", 400.0))
    feed(cluster, "In", ("ORCL", "a", 1_000.0))
    gives(cluster, text, "K", ("WSO2", 150.0), ("IBM", 300.0), ("ORCL", 1_000.0))
    assert len(cluster.by_instance("K")) == 4


def test_10_a_stream_with_a_sink_goes_to_it_and_on_to_another_group(deploy):
    text = (
        f"@app:name('Case10')\n{IN}"
        "@sink(type='log') define stream K (symbol string, price double);\n"
        "@sink(type='log') define stream L (symbol string, price double);\n"
        "@dist(execGroup='003') from In select symbol, price * 2 as price insert into K;\n"
        "@dist(execGroup='004') from K select symbol, price + 1 as price insert into L;"
    )
    cluster = deploy(text)
    assert list(cluster.by_instance("K")) == ["Case10-003-1"]
    feed(cluster, "In", ("WSO2", "a", 100.0), ("IBM", "a", 200.0))
    gives(cluster, text, "K", ("WSO2", 200.0), ("IBM", 400.0))
    gives(cluster, text, "L", ("WSO2", 201.0), ("IBM", 401.0))


SHARED = (
    "@source(type='http') define stream X (symbol string, price double);\n"
    "@source(type='http') define stream Y (symbol string, n int);\n"
)


def test_11_sources_that_several_groups_read_are_taken_in_by_groups_of_their_own(deploy):
    text = (
        f"@app:name('Case11')\n{SHARED}"
        "@sink(type='log') define stream A (symbol string, price double);\n"
        "@sink(type='log') define stream C (symbol string, mean double);\n"
        "@dist(execGroup='001', parallel='3') from X[price > 150.0] select * insert into A;\n"
        "@dist(execGroup='001', parallel='3') from Y[n > 99] select symbol, 0.0 as price insert into A;\n"
        "@dist(execGroup='002', parallel='3') partition with (symbol of Y) begin "
        "from Y#window.length(5) unidirectional join X#window.length(2) on X.symbol == Y.symbol "
        "select Y.symbol as symbol, avg(X.price) as mean insert into C; end;"
    )
    cluster = deploy(text)
    assert shape(cluster.topology) == [("passthrough-X-1", 1), ("passthrough-Y-1", 1), ("001", 3), ("002", 3)]
    feed(cluster, "Y", ("WSO2", 0))  # from now on there is this key
    feed(cluster, "X", ("WSO2", 200.0), ("WSO2", 250.0), ("IBM", 100.0))
    cluster.advance(1_000)
    feed(cluster, "X", ("WSO2", 250.0))
    feed(cluster, "Y", ("WSO2", 1))
    cluster.advance(1_000)
    assert cluster.per_key("A", "C") == whole(text, cluster.happened, "A", "C")
    assert sorted(cluster.rows("A")) == [("WSO2", 200.0), ("WSO2", 250.0), ("WSO2", 250.0)]


def test_12_each_of_several_sources_of_a_stream_is_taken_in_once(deploy):
    """Weakness 4: there each receiver group had all sources of the stream, and each event came five times."""
    text = (
        "@app:name('Case12')\n"
        "@source(type='http', @dist(parallel='2')) @source(type='nats', @dist(parallel='3')) define stream X (symbol string, price double);\n"
        "@source(type='http') define stream Y (symbol string, price double);\n"
        "@sink(type='log') define stream A (symbol string, price double);\n"
        "@dist(execGroup='001', parallel='2') from X select * insert into A;\n"
        "@dist(execGroup='002', parallel='2') from Y select * insert into A;\n"
    )
    cluster = deploy(text)
    assert [g.parallel for g in cluster.topology.groups if g.receiver] == [2, 3, 1]
    events = [(f"s{n}", float(n)) for n in range(10)]  # each of the five instances takes two of them in
    feed(cluster, "X", *events)
    feed(cluster, "Y", ("y", 1.0))
    gives(cluster, text, "A", *events, ("y", 1.0))


def test_13_who_reads_a_source_whole_and_who_reads_it_by_key_both_get_all_of_it(deploy):
    text = (
        "@app:name('Case13')\n"
        "@source(type='http') define stream X (name string, amount double);\n"
        "@sink(type='log') define stream A (name string, amount double);\n"
        "@sink(type='log') define stream B (name string, total double);\n"
        "@dist(execGroup='001') from X select * insert into A;\n"
        "@dist(execGroup='002', parallel='3') partition with (name of X) begin from X select name, sum(amount) as total insert into B; end;"
    )
    cluster = deploy(text)
    keyed = [f"Case13_X_name_{part}" for part in range(3)]
    assert outputs(cluster.topology.groups[0]) == {"X": on(cluster, ["Case13_X", *keyed], ["Case13.X.name"])}
    events = [(f"n{n % 7}", 1.0) for n in range(21)]
    feed(cluster, "X", *events)
    gives(cluster, text, "A", *events)
    gives(cluster, text, "B", *[(f"n{n}", float(total)) for n in range(7) for total in (1, 2, 3)])
    assert len([rows for rows in cluster.by_instance("B").values() if rows]) > 1


def test_14_a_source_that_one_group_divides_is_taken_in_by_another_one(deploy):
    text = (
        "@app:name('Case14')\n"
        "@source(type='http') define stream X (name string, amount double);\n"
        "@sink(type='log') define stream B (name string, total double);\n"
        "@dist(execGroup='001', parallel='3') partition with (name of X) begin from X select name, sum(amount) as total insert into B; end;"
    )
    cluster = deploy(text)
    assert shape(cluster.topology) == [("passthrough-X-1", 1), ("001", 3)]
    feed(cluster, "X", *[(f"n{n % 7}", 1.0) for n in range(21)])
    gives(cluster, text, "B", *[(f"n{n}", float(total)) for n in range(7) for total in (1, 2, 3)])


def test_17_a_trigger_fires_once_for_all_groups(deploy):
    """Weakness 11: there it fired in each instance."""
    text = (
        "@app:name('Case17')\n"
        + TEMP
        + "define trigger Clock at every 5 sec;\n"
        + "@sink(type='log') define stream A (t long);\n"
        + "@sink(type='log') define stream B (dev string, t long);\n"
        + "@dist(execGroup='001', parallel='2') from Clock select triggered_time as t insert into A;\n"
        + "@dist(execGroup='002') from Clock join Temp#window.length(1) select Temp.dev as dev, triggered_time as t insert into B;"
    )
    cluster = deploy(text)
    assert shape(cluster.topology) == [("001", 2), ("002", 1)]
    feed(cluster, "Temp", ("dev1", 1, 20.0))
    cluster.advance(5_000)
    feed(cluster, "Temp", ("dev2", 1, 30.0))
    begin = cluster.happened[0][0]
    gives(cluster, text, "B", ("dev1", begin + 5_000), ("dev2", begin + 10_000), wait=5_000)
    gives(cluster, text, "A", (begin + 5_000,), (begin + 10_000,))


def test_17_a_trigger_of_the_start_fires_once_though_only_wide_groups_read_it(deploy):
    text = (
        "@app:name('Start')\ndefine trigger Begin at 'start';\n"
        "@sink(type='log') define stream A (t long);\n"
        "@dist(execGroup='001', parallel='3') from Begin select triggered_time as t insert into A;"
    )
    cluster = deploy(text)
    gives(cluster, text, "A", (cluster.happened[0][0],))


def test_18_groups_that_share_a_stream_by_turns_each_get_all_of_it(deploy):
    """Weakness 10: there the queues of groups were numbered one way by who wrote and another way by who read."""
    text = (
        "@app:name('Case18')\n@source(type='http') define stream S (name string, n int);\n"
        + "".join(f"@sink(type='log') define stream Out{i} (name string, n int);\n" for i in (2, 3, 4))
        + "@dist(execGroup='001') from S select * insert into S2;\n"
        + "".join(
            f"@dist(execGroup='00{i}', parallel='{wide}') from S2[n != {i}] select * insert into Out{i};\n"
            for i, wide in ((2, 4), (3, 3), (4, 2))
        )
    )
    cluster = deploy(text)
    feed(cluster, "S", ("a", 1), ("b", 2), ("c", 3), ("d", 4))
    gives(cluster, text, "Out2", ("a", 1), ("c", 3), ("d", 4))
    gives(cluster, text, "Out3", ("a", 1), ("b", 2), ("d", 4))
    gives(cluster, text, "Out4", ("a", 1), ("b", 2), ("c", 3))


def test_18_groups_that_share_a_stream_from_outside_by_turns_each_get_all_of_it(deploy):
    text = (
        "@app:name('Case18Outside')\ndefine stream S2 (name string, n int);\n"
        + "".join(f"@sink(type='log') define stream Out{i} (name string, n int);\n" for i in (2, 3))
        + "@dist(execGroup='002', parallel='4') from S2[n != 2] select * insert into Out2;\n"
        + "@dist(execGroup='003', parallel='3') from S2[n != 3] select * insert into Out3;\n"
    )
    cluster = deploy(text)
    events = [(f"a{n}", n) for n in range(24)]
    feed(cluster, "S2", *events)
    gives(cluster, text, "Out2", *[event for event in events if event[1] != 2])
    gives(cluster, text, "Out3", *[event for event in events if event[1] != 3])
    assert all(len(rows) >= 2 for rows in cluster.by_instance("Out2").values())


AGGREGATION = (
    "define aggregation {name} from {stream} select symbol, sum(price) as total, avg(price) as mean group by symbol "
    "aggregate every sec ... day;\n"
)
JOIN = (
    "from {stream} join {name} on {stream}.symbol == {name}.symbol within 0L, 9999999999999L per 'days' "
    "select {stream}.symbol as symbol, {name}.total as total, {name}.mean as mean insert into {to};"
)


def test_20_aggregations_in_memory_are_joined_where_they_are(deploy):
    text = (
        f"@app:name('Case20')\n{SHARED.replace('n int', 'price double')}"
        "@source(type='http') define stream AskX (symbol string);\n@source(type='http') define stream AskY (symbol string);\n"
        + "".join(
            f"@sink(type='log') define stream {to} (symbol string, total double, mean double);\n"
            for to in ("O1", "O2", "O3")
        )
        + "".join(
            AGGREGATION.format(name=name, stream=stream) for name, stream in (("A1", "X"), ("A2", "X"), ("A3", "Y"))
        )
        + "@dist(execGroup='001') partition with (symbol of AskX) begin "
        + JOIN.format(stream="AskX", name="A1", to="O1")
        + JOIN.format(stream="AskX", name="A3", to="O2")
        + " end;\n@dist(execGroup='002') "
        + JOIN.format(stream="AskY", name="A2", to="O3")
    )
    cluster = deploy(text)
    assert shape(cluster.topology) == [("passthrough-X-1", 1), ("aggregation-A1_A3", 1), ("aggregation-A2", 1)]
    feed(cluster, "X", ("WSO2", 60.0), ("WSO2", 100.0), ("IBM", 100.0), ("IBM", 300.0))
    feed(cluster, "Y", ("WSO2", 50.0), ("WSO2", 70.0))
    cluster.advance(2_000)
    feed(cluster, "AskX", ("WSO2",), ("IBM",))
    feed(cluster, "AskY", ("IBM",))
    gives(cluster, text, "O1", ("WSO2", 160.0, 80.0), ("IBM", 400.0, 200.0))
    gives(cluster, text, "O2", ("WSO2", 120.0, 60.0))
    gives(cluster, text, "O3", ("IBM", 400.0, 200.0))


def test_who_reads_all_of_a_stream_gets_the_events_of_one_moment_in_their_order_though_others_share_it_by_turns(deploy):
    text = """@app:name('Moment')
@source(type='http') define stream S (id string, n int);
@sink(type='log') define stream D (id string, n int);
@sink(type='log') define stream E (id string, n int, before int);
@dist(execGroup='a') from S select * insert into M;
@dist(execGroup='d', parallel='3') from M[n > 5] select * insert into D;
@dist(execGroup='e') from every one=M, two=M select two.id as id, two.n as n, one.n as before insert into E;
"""
    cluster = deploy(text)
    for n in range(12):
        cluster.send("S", ("x", n))
    gives(cluster, text, "E", *[("x", n, n - 1) for n in range(1, 12)])
    assert sorted(cluster.rows("D")) == [("x", n) for n in range(6, 12)]


# ---- the three worked examples -------------------------------------------------------------------------------------


def test_a_worked_example_with_a_shared_source_a_partition_and_a_default_group(deploy):
    """What it is cut into is in tests/plan/distribution/test_distribution_examples.py. Audit has a sink here, so that something comes of it, and so has Hist,
    which is a table in a store there: nodes have none yet."""
    text = """@app:name('Worked1')
@source(type='http', @map(type='json')) define stream Temp (dev string, room int, t double);
define stream Ctl (dev string, open bool);
@sink(type='log') define stream Alert (dev string, peak double);
@sink(type='log') define stream Audit (dev string);
@sink(type='rdbms') define stream Hist (dev string, peak double);

@dist(execGroup='flt', parallel='2') @info(name='q1') from Temp[t > 1.0] select * insert into Good;
@dist(execGroup='win', parallel='3') @info(name='q2') partition with (dev of Good) begin
  from Good#window.time(1 sec) join Ctl#window.length(1) on Good.dev == Ctl.dev
  select Good.dev as dev, max(Good.t) as peak insert into Peak;
end;
@dist(execGroup='out') @info(name='q3') from Peak[peak > 5.0] select dev, peak insert into Alert;
@dist(execGroup='out') @info(name='q4') from Peak select dev, peak insert into Hist;
@info(name='q5') from Good select dev insert into Audit;
"""
    cluster = deploy(text)
    assert shape(cluster.topology) == [("passthrough-Temp-1", 1), ("flt", 2), ("win", 3), ("out", 1), ("default", 1)]
    feed(cluster, "Temp", ("a", 1, 4.0), ("b", 1, 7.0), ("a", 1, 0.5), ("a", 1, 6.0), ("d", 1, 3.0))
    feed(cluster, "Ctl", ("d", True), ("a", True), ("b", True))
    feed(cluster, "Temp", ("c", 1, 9.0), ("b", 1, 8.0))
    gives(cluster, text, "Audit", ("a",), ("b",), ("a",), ("d",), ("c",), ("b",))
    gives(cluster, text, "Alert", ("a", 6.0), ("b", 7.0), ("b", 8.0))
    gives(cluster, text, "Hist", ("a", 6.0), ("b", 7.0), ("b", 8.0), ("d", 3.0))


def test_a_worked_example_of_a_stream_that_is_read_by_key_by_turns_and_whole(deploy):
    text = """@app:name('Worked2')
@source(type='http') define stream S (id string, k int);
@sink(type='log') define stream B (id string, n long);
@sink(type='log') define stream C (id string, n long);
@sink(type='log') define stream D (id string, k int);
@sink(type='log') define stream E (id string, k int);
@sink(type='log') define stream G (k int, n long);
@dist(execGroup='a') from S select * insert into M;
@dist(execGroup='b', parallel='7') partition with (id of M) begin from M select id, count() as n insert into B; end;
@dist(execGroup='c', parallel='3') partition with (id of M) begin from M select id, count() as n insert into C; end;
@dist(execGroup='d', parallel='2') from M[k > 1] select * insert into D;
@dist(execGroup='e') from M[k > 2] select * insert into E;
@dist(execGroup='g', parallel='3') partition with (k of M) begin from M select k, count() as n insert into G; end;
"""
    cluster = deploy(text)
    assert publishing(cluster.topology.group("a"), "M") == [
        "ROUND_ROBIN 2",
        "ALL 1",
        "FIELD_GROUPING id 7",
        "FIELD_GROUPING k 3",
    ]
    events = [(f"i{n % 6}", n % 4) for n in range(24)]
    feed(cluster, "S", *events)
    counts = [(f"i{i}", n) for i in range(6) for n in range(1, 5)]
    gives(cluster, text, "B", *counts)
    gives(cluster, text, "C", *counts)
    gives(cluster, text, "D", *[e for e in events if e[1] > 1])
    gives(cluster, text, "E", *[e for e in events if e[1] > 2])
    gives(cluster, text, "G", *[(k, n) for k in range(4) for n in range(1, 7)])


def test_a_worked_example_of_an_aggregation_that_is_joined_where_it_is(deploy):
    """(b) of the third one. In (a) and (c) aggregations are in stores, which nodes do not run yet."""
    text = f"""@app:name('Worked3')
@source(type='http') define stream X (symbol string, price double);
@source(type='http') define stream Ask (symbol string);
@sink(type='log') define stream Out (symbol string, total double, mean double);
{AGGREGATION.format(name="A1", stream="X")}
@dist(execGroup='a') {JOIN.format(stream="Ask", name="A1", to="Out")}
"""
    cluster = deploy(text)
    assert shape(cluster.topology) == [("aggregation-A1", 1)]
    feed(cluster, "X", ("WSO2", 60.0), ("WSO2", 100.0))
    feed(cluster, "Ask", ("WSO2",))
    gives(cluster, text, "Out", ("WSO2", 160.0, 80.0))


@pytest.mark.parametrize("transport", ["nats", "kafka"])
def test_19_partial_apps_with_an_aggregation_in_a_store_say_that_nodes_do_not_run_it(transport):
    text = (
        "@app:name('Case19')\n@source(type='http') define stream X (symbol string, price double);\n"
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x.db') " + AGGREGATION.format(name="A1", stream="X")
    )
    topology = distribute(text, default_registry(), connectors, transport=transport)
    assert topology.notes[-1].startswith("'A1' is an aggregation with a @store, which nodes do not run yet")
    with pytest.raises(NadiError, match=r"NOT_SUPPORTED.*@store on an aggregation"):
        plan_app(topology.instances[0].text, default_registry())
