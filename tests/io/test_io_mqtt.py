"""MQTT against a real broker: the journal first, then the acknowledgement; numbers beside what is published."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from log_contract import payloads
from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from sample import connector, delivery
from servers.mosquitto import Mosquitto, NotPossible, mosquitto

from nadi.errors import NOWHERE, NadiError
from nadi.io.contract import Place
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log, open_sink, source_kind
from nadi.io.retry import unavailable
from nadi.io.sources.mqtt import MqttIngress


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    try:
        made = mosquitto(tmp_path / "mosquitto")
    except NotPossible as reason:
        pytest.skip(str(reason))
    yield made
    made.kill()


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path, nats.url)


class Publisher:
    """Somebody else's client."""

    def __init__(self, broker: Mosquitto) -> None:
        self.client = Client(CallbackAPIVersion.VERSION2, "publisher")
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def send(self, topic: str, *bodies: bytes) -> None:
        for told in [self.client.publish(topic, body, qos=1) for body in bodies]:
            told.wait_for_publish(10)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def publisher(broker: Mosquitto) -> Iterator[Publisher]:
    made = Publisher(broker)
    yield made
    made.close()


def source(broker: Mosquitto, place: Place, **more: str) -> MqttIngress:
    """A source that the broker knows."""
    options = {"url": broker.url, "topic": "plant/+/heat", **{k.replace("_", "."): v for k, v in more.items()}}
    made = MqttIngress(connector("mqtt", options), place)
    made.start()
    assert made.subscribed.wait(60)
    return made


def kept(place: Place) -> list[Any]:
    return payloads(open_log(connector("mqtt", {}), place))


def event(n: int) -> bytes:
    return json.dumps({"event": {"name": "a", "size": n}}).encode()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_is_published_to_a_topic_that_matches_is_in_the_log(
    broker: Mosquitto, publisher: Publisher, place: Place, version: str
) -> None:
    ingress = source(broker, place, protocol_version=version)
    publisher.send("plant/a/heat", event(1), event(2))
    publisher.send("plant/a/cold", event(3))
    publisher.send("plant/b/heat", event(4))
    eventually(lambda: kept(place) == [event(1), event(2), event(4)])
    ingress.stop()


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_what_is_published_while_the_source_is_away_comes_when_it_is_back(
    broker: Mosquitto, publisher: Publisher, place: Place, version: str
) -> None:
    source(broker, place, protocol_version=version).stop()
    publisher.send("plant/a/heat", event(1), event(2))
    ingress = source(broker, place, protocol_version=version)
    eventually(lambda: kept(place) == [event(1), event(2)])
    ingress.stop()
    again = source(broker, place, protocol_version=version)
    publisher.send("plant/a/heat", event(3))
    eventually(lambda: kept(place) == [event(1), event(2), event(3)])  # what was acknowledged does not come again
    again.stop()


def test_nothing_is_acknowledged_before_it_is_in_the_journal(
    broker: Mosquitto, publisher: Publisher, own_nats: NatsServer, place: Place
) -> None:
    own = replace(place, journal=own_nats.url)
    ingress = source(broker, own)
    publisher.send("plant/a/heat", event(1))
    eventually(lambda: kept(own) == [event(1)])
    own_nats.stop()
    publisher.send("plant/a/heat", event(2), event(3))
    eventually(lambda: any("nothing can be kept" in one.last_error for one in unavailable()), 60)
    ingress.stop()
    with NatsServer(place.state / "nats") as back:
        own = replace(place, journal=back.url)
        ingress = source(broker, own)
        eventually(lambda: kept(own) == [event(1), event(2), event(3)])
        ingress.stop()


def test_a_broker_that_goes_away_is_connected_to_again_and_nothing_is_lost(
    broker: Mosquitto, publisher: Publisher, place: Place
) -> None:
    ingress = source(broker, place)
    publisher.send("plant/a/heat", event(1))
    eventually(lambda: kept(place) == [event(1)])
    broker.kill()
    eventually(lambda: not ingress.subscribed.is_set())
    broker.start()
    eventually(ingress.subscribed.is_set)
    other = Publisher(broker)
    other.send("plant/a/heat", event(2))
    other.close()
    eventually(lambda: kept(place)[-1:] == [event(2)])
    ingress.stop()


def test_a_source_that_is_stopped_while_it_connects_ends(
    broker: Mosquitto, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingress = MqttIngress(connector("mqtt", {"url": broker.url, "topic": "t"}), place)
    known = type(ingress._broker)
    connect, connecting, go = known.connect, threading.Event(), threading.Event()

    def slowly(*given: Any) -> None:
        connecting.set()
        assert go.wait(60)
        connect(*given)

    monkeypatch.setattr(known, "connect", slowly)
    ingress.start()
    assert connecting.wait(60)
    stopping = threading.Thread(target=ingress.stop)
    stopping.start()
    eventually(lambda: ingress._stopping)
    stopping.join(0.2)  # it has told the client, which has no connection yet
    go.set()
    ingress._thread.join(5)
    assert not ingress._thread.is_alive()
    stopping.join()


def test_topic_and_properties_of_the_sender_travel_with_a_message_where_the_mapping_reads_them(
    broker: Mosquitto, publisher: Publisher, place: Place
) -> None:
    options = {"url": broker.url, "topic": "plant/#"}
    reads = connector("mqtt", options, attributes={"name": "trp:topic", "size": "$.size"})
    ingress = MqttIngress(reads, place)
    ingress.start()
    assert ingress.subscribed.wait(60)
    publisher.send("plant/x", b'{"size":3}')
    log = open_log(reads, place)
    eventually(lambda: log.end(0) == 1)
    (piece,) = log.read(0, 0, 1)
    assert list(piece.properties) == [{"topic": "plant/x"}]
    ingress.stop()


def test_wrong_credentials_are_told_and_tried_again(tmp_path: Path, place: Place) -> None:
    file = tmp_path / "passwords"
    file.write_text("")
    try:
        broker = mosquitto(tmp_path / "closed", f"allow_anonymous false\npassword_file {file}\n")
    except NotPossible as reason:
        pytest.skip(str(reason))
    options = {"url": broker.url, "topic": "t", "username": "u", "password": "p"}
    ingress = MqttIngress(connector("mqtt", options), place)
    ingress.start()
    eventually(lambda: any("authori" in one.last_error.lower() for one in unavailable()))
    ingress.stop()
    broker.kill()
    assert not [one for one in unavailable() if str(broker.port) in one.connector]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"url": "http://h:1", "topic": "t"}, "url"),
        ({"url": "tcp://h:x", "topic": "t"}, "url"),
        ({"url": "tcp://h", "topic": "a/#/b"}, "topic"),
        ({"url": "tcp://h", "topic": "a/b+"}, "topic"),
        ({"url": "tcp://h", "topic": "t", "keep.alive": "0"}, "keep.alive"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_name(options: dict[str, str], name: str) -> None:
    with pytest.raises(NadiError, match=name) as found:
        source_kind("mqtt").check(connector("mqtt", options), NOWHERE)
    assert found.value.condition == "OPTION_INVALID"


class Reader:
    """What somebody else reads of a topic."""

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self.got: list[tuple[str, bytes, dict[str, str]]] = []
        ready = threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2, "reader", protocol=MQTTv5)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.on_message = self._note
        self.client.connect("127.0.0.1", broker.port)
        self.client.subscribe(topic, 1)
        self.client.loop_start()
        assert ready.wait(60)

    def _note(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        about = dict(getattr(message.properties, "UserProperty", ()))
        self.got.append((message.topic, message.payload, about))

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_payloads_are_published_in_order_with_their_numbers(broker: Mosquitto, place: Place) -> None:
    reader = Reader(broker, "out/#")
    sink = open_sink(connector("mqtt", {"url": broker.url, "topic": "out/{{name}}"}), place)
    sink.write(delivery(0, ["a", "b", "a"], first=7, bucket=1, group=5))
    eventually(lambda: len(reader.got) == 3)
    assert [(topic, body) for topic, body, _ in reader.got] == [("out/a", b"a"), ("out/b", b"b"), ("out/a", b"a")]
    assert [about["Nadi-Number"] for _, _, about in reader.got] == ["7", "8", "9"]
    assert reader.got[0][2]["Nadi-Producer"] == f"{place.app}/S/0/1"
    sink.close()
    reader.close()


def test_many_payloads_are_all_there_when_write_returns(broker: Mosquitto, place: Place) -> None:
    reader = Reader(broker, "out")
    sink = open_sink(connector("mqtt", {"url": broker.url, "topic": "out"}), place)
    names = [f"n{i}" for i in range(2_000)]
    sink.write(delivery(0, names))
    eventually(lambda: len(reader.got) == len(names))
    assert [body.decode() for _, body, _ in reader.got] == names
    sink.close()
    reader.close()


def test_a_broker_that_is_away_makes_the_sink_unavailable_until_it_is_back(broker: Mosquitto, place: Place) -> None:
    sink = open_sink(connector("mqtt", {"url": broker.url, "topic": "out"}), place)
    sink.write(delivery(0, ["a"]))
    broker.kill()
    with pytest.raises(NadiError) as found:
        sink.write(delivery(1, ["b"]))
    assert found.value.condition == "CONNECTION_UNAVAILABLE"
    broker.start()
    reader = Reader(broker, "out")

    def goes() -> bool:
        try:
            sink.write(delivery(1, ["b"]))
        except NadiError:
            return False
        return True

    eventually(goes)
    eventually(lambda: [body for _, body, _ in reader.got][-1:] == [b"b"])
    sink.close()
    reader.close()


@pytest.mark.parametrize("on_error", ["", "LOG"])
def test_a_topic_that_an_event_makes_invalid_is_refused(broker: Mosquitto, place: Place, on_error: str) -> None:
    options = {"url": broker.url, "topic": "out/{{name}}"} | ({"on.error": on_error} if on_error else {})
    sink = open_sink(connector("mqtt", options), place)
    if on_error:
        receipt = sink.write(delivery(0, ["a", "b#", "c"]))
        assert [one.index for one in receipt.refused] == [1]
    else:
        with pytest.raises(NadiError) as found:
            sink.write(delivery(0, ["a", "b#", "c"]))
        assert found.value.condition == "REFUSED"
    sink.close()
