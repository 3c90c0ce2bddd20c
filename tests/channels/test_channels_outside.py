"""Channels that others fill with XML: a manager makes them, partial apps read them by ordinary sources, on real servers."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from nadi.channels import outside
from nadi.channels.options import Channel
from nadi.channels.transport import Bounds
from nadi.errors.exceptions import ConnectionUnavailableException, NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connector_types
from nadi.io.contract import Connector, Messages, Place
from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import NatsServer
from nadi.io.registry import connectors, make_source_mapper, open_log
from nadi.plan import plan_app
from nadi.plan.distribution import Topology, distribute
from nadi.server.distributed.channelplace import ChannelPlace

TEXT = """@app:name('{name}')
define stream Reg (dev string, v int);
define stream Seen (dev string, v int);
@dist(execGroup='turns', parallel='2') from Reg select * insert into Turns;
@dist(execGroup='whole', parallel='2') partition with (dev of Seen) begin from every a=Seen -> b=Reg select b.dev as dev, b.v as v insert into Whole; end;
"""


class Server:
    """NATS or Kafka, as somebody outside uses it."""

    def __init__(self, transport: str, address: str) -> None:
        self.transport = transport
        self.address = address

    def publish(self, name: str, texts: list[str]) -> None:
        if self.transport == "nats":
            client = NatsClient(self.address)
            client.call(lambda nc: publish_all(nc, [Outgoing(name, t.encode(), {}) for t in texts]))
            client.close()
            return
        producer = Producer({"bootstrap.servers": self.address})
        for i, text in enumerate(texts):
            producer.produce(name, text, partition=i % 2)
        assert producer.flush(10) == 0


@pytest.fixture(params=["nats", pytest.param("kafka", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest) -> Server:
    given = request.getfixturevalue(request.param)
    return Server(request.param, given if request.param == "kafka" else given.url)


def cut(server: Server, text: str) -> Topology:
    return distribute(text, default_registry(), connector_types, transport=server.transport, servers=server.address)


def events(topology: Topology, instance: str, stream: str) -> list[tuple[object, ...]]:
    """What an instance reads of a stream, from the beginning."""
    (text,) = (i.text for i in topology.instances if i.name == instance)
    sources = [c for c in connectors(plan_app(text, default_registry()), "source") if c.stream == stream]
    return [row for source in sources for row in rows(source, instance)]


def rows(source: Connector, instance: str) -> list[tuple[object, ...]]:
    """What a source has to give."""
    log = open_log(source, Place(instance, Path("/nowhere")))
    mapper = make_source_mapper(source)
    found: list[Messages] = []
    for partition in range(log.partitions()):
        found += log.read(partition, log.beginning(partition), log.end(partition))
    log.close()
    return [tuple(row.values()) for messages in found for row in mapper.decode(messages).batch.to_pylist()]


def test_who_shares_an_outside_channel_gets_each_event_once_and_who_needs_all_of_it_all(server: Server) -> None:
    name = f"A{uuid4().hex[:8]}"
    topology = cut(server, TEXT.format(name=name))
    ChannelPlace(server.transport, server.address).create(topology)
    (reg,) = (c for c in topology.channels if c.outside and c.stream == "Reg")
    assert reg.name == (f"{name}.Reg" if server.transport == "kafka" else f"{name}_Reg")
    sent = [("d", i) for i in range(40)]
    server.publish(reg.name, [f"<events><event><dev>{d}</dev><v>{v}</v></event></events>" for d, v in sent])
    one, two = (events(topology, f"{name}-turns-{i}", "Reg") for i in (1, 2))
    assert sorted(one + two) == sent
    assert min(len(one), len(two)) >= 10
    assert [sorted(events(topology, f"{name}-whole-{i}", "Reg")) for i in (1, 2)] == [sent, sent]


def test_who_divides_a_stream_by_itself_is_heard_as_well(server: Server) -> None:
    name = f"A{uuid4().hex[:8]}"
    for parallel in (2, 3):  # the app gets wider
        wide = TEXT.format(name=name).replace(
            "execGroup='whole', parallel='2'", f"execGroup='whole', parallel='{parallel}'"
        )
        topology = cut(server, wide)
        seen = [c for c in topology.channels if c.outside and c.stream == "Seen"]
        for channel in seen:
            outside.create(
                Channel(server.transport, channel.name, channel.partitions, server.address), Bounds(), channel.places
            )
    places = [place for channel in seen for place in channel.places]
    assert len(places) == (2 if server.transport == "kafka" else 4)
    for v, place in enumerate(places):
        server.publish(place, [f"<events><event><dev>d</dev><v>{v}</v></event></events>"])
    assert events(topology, f"{name}-passthrough-Seen-1-1", "passthroughSeen") == [("d", v) for v in range(len(places))]


def test_what_is_there_stays_as_it_is_also_when_the_app_goes(server: Server) -> None:
    name = f"A{uuid4().hex[:8]}"
    topology = cut(server, TEXT.format(name=name))
    place = ChannelPlace(server.transport, server.address)
    place.create(topology)
    (reg,) = (c.name for c in topology.channels if c.outside and c.stream == "Reg")
    server.publish(reg, ["<events><event><dev>x</dev><v>1</v></event></events>"])
    place.create(topology)
    place.remove(topology)
    assert outside.parts(Channel(server.transport, reg, 1, server.address)) > 0
    assert events(topology, f"{name}-whole-1", "Reg") == [("x", 1)]


def test_on_nats_an_app_that_lets_nothing_be_created_has_its_own_channels_with_their_bounds_as_long_as_it_is_there(
    nats: NatsServer,
) -> None:
    """Who first used one made it before: without a bound, on one server, and for good."""
    name = f"A{uuid4().hex[:8]}"
    off = f"@app:name('{name}') @app:transportChannelCreationEnabled('false')\ndefine stream S (k string);\n"
    off += "@dist(execGroup='a') from S select k insert into T; @dist(execGroup='b') from T select k insert into U;"
    topology = cut(Server("nats", nats.url), off)
    place = ChannelPlace("nats", nats.url, Bounds(bytes=123_456))
    place.create(topology)
    stream, client = f"nadi-channel-{name}_T", NatsClient(nats.url)
    made = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream}"))
    assert made["config"]["max_bytes"] == 123_456
    assert outside.parts(Channel("nats", f"{name}_S", 1, nats.url)) == 0, "who fills it makes it"
    place.remove(topology)
    assert client.call(lambda nc: api(nc, f"STREAM.INFO.{stream}")) == {}
    client.close()


def test_a_subject_that_a_stream_holds_gets_no_other_one(nats: NatsServer) -> None:
    name = f"t{uuid4().hex[:8]}"
    client = NatsClient(nats.url)
    client.call(lambda nc: ensure_stream(nc, stream_config(name, [f"{name}_x"])))
    client.close()
    outside.create(Channel("nats", f"{name}_x", 1, nats.url), Bounds())
    outside.create(Channel("nats", f"{name}_x", 1, nats.url), Bounds())
    assert outside.parts(Channel("nats", f"{name}_x", 1, nats.url)) == 1


def test_at_its_bound_an_outside_channel_refuses_whoever_publishes(nats: NatsServer) -> None:
    name = f"t{uuid4().hex[:8]}"
    outside.create(Channel("nats", name, 1, nats.url), Bounds(bytes=2_000))
    with pytest.raises(NadiError, match="maximum bytes"):
        Server("nats", nats.url).publish(name, ["x" * 500] * 10)


def test_a_server_that_is_away_is_told() -> None:
    with pytest.raises(ConnectionUnavailableException):
        outside.create(Channel("nats", "x", 1, "nats://127.0.0.1:1"), Bounds())


@pytest.mark.slow
def test_15_an_app_that_lets_nothing_be_created_needs_its_topics(kafka: str) -> None:
    name = f"A{uuid4().hex[:8]}"
    server = Server("kafka", kafka)
    off = TEXT.format(name=name).replace("')\n", "') @app:transportChannelCreationEnabled('false')\n", 1)
    with pytest.raises(NadiError, match=rf"Topic {name}\.Reg creation failed"):
        ChannelPlace("kafka", kafka).create(cut(server, off))
    ChannelPlace("kafka", kafka).create(cut(server, TEXT.format(name=name)))
    ChannelPlace("kafka", kafka).create(cut(server, off))
    source = "@source(type='kafka', topic.list='none', bootstrap.servers='{where}', @map(type='xml'))"
    definition = source + " define stream S (v int);\n"

    def with_source(where: str) -> str:
        """Definitions stand before the first query."""
        return off.replace("@dist", definition.format(where=where) + "@dist", 1) + "from S select v insert into T;\n"

    ChannelPlace("kafka", kafka).create(cut(server, with_source("127.0.0.1:1")))
    with pytest.raises(NadiError, match=r"Topic\(s\) none creation failed"):
        ChannelPlace("kafka", kafka).create(cut(server, with_source(kafka)))
