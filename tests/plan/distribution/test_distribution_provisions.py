"""What is created before an app is deployed."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.io import registry as types
from nadi.lang import parse
from nadi.plan.distribution import provisions
from nadi.plan.distribution.provisions import source_topics

APP = """@app:name('P') {off}
@source(type='kafka', topic.list='in') define stream S (k string, v int);
define stream Ask (k string);
@dist(execGroup='a') from S select * insert into M;
@dist(execGroup='b', parallel='3') partition with (k of M) begin from M select k, count() as n insert into O; end;
@dist(execGroup='c') from Ask select * insert into Answer;
"""
OFF = "@app:transportChannelCreationEnabled('false')"


def _wanted(topology, existing):
    return [(p.channel.name, p.existing, p.channel.partitions) for p in provisions(topology, existing)]


def test_missing_channels_are_created_and_narrow_ones_widened(cut):
    topology = cut(APP.format(off=""), "kafka")
    assert _wanted(topology, {}) == [("P.Ask", 0, 1), ("P.M.k", 0, 3)]
    assert _wanted(topology, {"P.M.k": 2, "P.Ask": 4}) == [("P.M.k", 2, 3)]
    assert _wanted(topology, {"P.M.k": 3, "P.Ask": 1}) == []


def test_a_channel_that_holds_more_partitions_is_left_alone_and_told(cut):
    topology = cut(APP.format(off=""), "kafka")
    with pytest.raises(
        NadiError, match=r"DIST_CHANNEL_TOO_WIDE.*higher number of partitions than the expected count 3"
    ):
        provisions(topology, {"P.M.k": 7, "P.Ask": 1})
    wide = cut(APP.format(off=""), "kafka", least_partitions=7)
    assert _wanted(wide, {"P.M.k": 7, "P.Ask": 1}) == []


def test_15_an_app_that_lets_nothing_be_created_needs_all_channels(cut):
    topology = cut(APP.format(off=OFF), "kafka")
    message = (
        "Topic P.M.k creation failed. User has disabled topic creation by setting transportChannelCreationEnabled "
        "property to false. Hence Siddhi App deployment will be aborted."
    )
    with pytest.raises(NadiError) as told:
        provisions(topology, {"in": 1, "P.Ask": 1})
    assert message in str(told.value)
    assert told.value.siddhi_class == "SiddhiAppCreationException"
    assert _wanted(topology, {"in": 1, "P.Ask": 1, "P.M.k": 2}) == [("P.M.k", 2, 3)]


def test_15_and_the_topics_of_its_sources(cut):
    topology = cut(APP.format(off=OFF), "kafka")
    message = (
        "Topic(s) in creation failed. User has disabled topic creation by setting transportChannelCreationEnabled "
        "property to false"
    )
    with pytest.raises(NadiError) as told:
        provisions(topology, {})
    assert message in str(told.value)
    assert told.value.siddhi_class == "SiddhiAppCreationException"


def test_the_topics_of_sources_are_those_on_the_servers_of_the_channels():
    app = parse(
        "@source(type='kafka', topic.list='a, b') @source(type='Kafka', topic.list='c', bootstrap.servers='k:9092')"
        "@source(type='kafka', topic.list='d', bootstrap.servers='elsewhere:9092') @source(type='http') define stream S (x int);"
        "@source(type='kafkaMultiDC', topic='e', bootstrap.servers='k:9092,l:9092') @source(type='ours') define stream T (x int);"
    )
    assert source_topics(app, types, "k:9092") == ("a", "b", "c")
    assert source_topics(app, types) == ("a", "b", "c", "d", "e")


def test_a_channel_keeps_the_partitions_that_it_has(cut):
    text = APP.format(off="").replace("@dist(execGroup='c')", PARTITION + "@dist(execGroup='c')")
    has = {"P.M.k": 7, "P.Ask": 1}
    topology = cut(text, "kafka", existing=has)
    assert {c.name: c.partitions for c in topology.channels} == {"P.M.k": 7, "P.N.k": 7, "P.Ask": 1}
    assert _wanted(topology, has) == [("P.N.k", 0, 7)]


PARTITION = """@dist(execGroup='a') from S[v > 1] select * insert into N;
@dist(execGroup='b', parallel='3') partition with (k of N) begin from N select k, count() as n insert into O; end;
"""
