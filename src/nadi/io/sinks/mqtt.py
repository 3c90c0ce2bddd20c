"""`@sink(type='mqtt', url='tcp://host:1883', topic='alerts/{{machine}}')`: one message per payload, at least once, in order within a bucket.

With MQTT 5, the default, user properties tell the numbers (`nadi.io.sinks.numbers`), which are the same when a message is sent again: a receiver may drop
what it has. 3.1.1 has no place for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessageInfo, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nadi.errors import NadiError, Span, error
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.mqttclient import OPTIONS, broker, check_broker, check_texts, client_id, reaches, says_no, user_properties
from nadi.io.registry import SinkKind
from nadi.io.retry import Gate, Policy
from nadi.io.sinks.numbers import headers, numbers, producer, text_option
from nadi.io.sinks.refusals import Refusals
from nadi.plan.connectortraits import AT_LEAST_ONCE, SinkTraits
from nadi.plan.options import Option, described, flag, integer

ANSWER_WITHIN = 30.0  # seconds for all messages of a delivery
REFUSED = {135: "not authorized", 144: "the topic is invalid", 149: "it is too large", 153: "the payload is invalid"}
"""Answers of a broker that will be the same the next time."""
NO_CONNECTION = 4
SENT_AHEAD = 20
"""Messages without an answer: what brokers take where nobody has told them otherwise. One that is sent more ends the connection."""


class MqttSink:
    """A client of one broker, connected when something is written first, and anew after an error."""

    def __init__(self, connector: Connector, place: Place) -> None:
        options = connector.options
        self._connector = connector
        self._place = place
        self._broker = broker(connector)
        self._topic = text_option(connector, "topic", options["topic"])
        self._quality = integer(options, "quality.of.service", 1)
        self._retain = flag(options, "message.retain", False)
        self._clean = flag(options, "clean.session", True)
        self._numbered = self._broker.version == MQTTv5
        self._refusals = Refusals(connector, place)
        self._gate = Gate(self._broker.name, Policy(50, 5_000))
        self._client: Client | None = None
        self._bucket = -1
        self._said = threading.Event()
        self._reason = ""
        self._codes: dict[int, int] = {}

    def write(self, delivery: Delivery) -> Receipt:
        """Publish the payloads, and wait until the broker has them. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        refused = self._refusals.known(delivery)
        client = self._connected(delivery.bucket)
        try:
            self._codes.clear()
            sent = self._publish(client, delivery, refused)
            self._wait(sent, refused)
        except NadiError:
            self._drop()
            raise
        if refused and not self._refusals.goes_on:
            reason = next(iter(refused.values()))
            name = "CONNECTION_UNAVAILABLE" if self._refusals.waits else "REFUSED"
            raise error(name, connector=self._broker.name, reason=reason)
        return Receipt(delivery.bucket, delivery.cut, {}, self._refusals.keep(delivery, refused))

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: what was sent was sent."""

    def close(self) -> None:
        self._drop()

    # ---- messages

    def _publish(self, client: Client, delivery: Delivery, refused: dict[int, str]) -> dict[int, MQTTMessageInfo]:
        """Send what was not refused before; -> what is on its way, by index."""
        made_by = producer(self._connector, self._place, delivery.bucket)
        topics, of = self._topic.values(delivery), numbers(delivery)
        sent: dict[int, MQTTMessageInfo] = {}
        for i, payload in enumerate(delivery.payloads):
            if i in refused:
                continue
            about = user_properties(PacketTypes.PUBLISH, headers(made_by, of[i])) if self._numbered else None
            try:
                sent[i] = client.publish(topics[i], payload, self._quality, self._retain, properties=about)
            except ValueError as reason:  # a topic with + or #, an empty one, a payload of 256 MB
                refused[i] = str(reason)
                continue
            if sent[i].rc == NO_CONNECTION:
                raise self._unavailable("the connection was lost")
        return sent

    def _wait(self, sent: dict[int, MQTTMessageInfo], refused: dict[int, str]) -> None:
        until = time.monotonic() + ANSWER_WITHIN
        for i, info in sent.items():
            while not info.is_published():
                left = until - time.monotonic()
                if left <= 0 or self._reason:
                    raise self._unavailable(self._reason or f"no answer within {ANSWER_WITHIN:g} s")
                info.wait_for_publish(min(left, 0.5))
            code = self._codes.get(info.mid, 0)
            if code in REFUSED:
                refused[i] = REFUSED[code]
            elif code >= 128:
                raise self._unavailable(f"the broker says {code}")
        self._gate.succeeded()

    # ---- the connection

    def _connected(self, bucket: int) -> Client:
        """The client, connected. Errors: CONNECTION_UNAVAILABLE."""
        if self._client is not None and self._bucket == bucket and self._client.is_connected():
            return self._client
        self._drop()
        if self._gate.remaining():
            raise error("CONNECTION_UNAVAILABLE", connector=self._broker.name, reason=self._gate.last_error)
        name = f"{client_id(self._connector, self._place, 'out')}-{bucket}"
        client = self._client = self._broker.client(name, self._clean, manual_ack=False)
        self._bucket, self._reason = bucket, ""
        self._said.clear()
        client.max_inflight_messages_set(integer(self._connector.options, "max.inflight", SENT_AHEAD))
        client.on_connect, client.on_disconnect, client.on_publish = self._heard, self._lost, self._published
        try:
            self._broker.connect(client, self._clean)
        except (OSError, ValueError) as reason:
            self._client = None
            raise self._unavailable(str(reason) or type(reason).__name__) from reason
        client.loop_start()
        if not self._said.wait(self._broker.within) or self._reason:
            said = self._reason or "no answer"
            self._drop()
            raise self._unavailable(said)
        return client

    def _heard(
        self, _client: Client, _data: object, _flags: ConnectFlags, code: ReasonCode, _more: Properties | None
    ) -> None:
        if says_no(code):
            self._reason = f"{code}; an older broker wants protocol.version = '3.1.1'" if code == 132 else str(code)
        self._said.set()

    def _lost(
        self, _client: Client, _data: object, _flags: DisconnectFlags, code: ReasonCode, _more: Properties | None
    ) -> None:
        if not self._reason:
            self._reason = f"the connection was lost: {code}"
        self._said.set()

    def _published(self, _client: Client, _data: object, mid: int, code: ReasonCode, _more: Properties | None) -> None:
        if says_no(code):
            self._codes[mid] = code.value

    def _unavailable(self, reason: str) -> NadiError:
        self._gate.failed(reason)
        return error("CONNECTION_UNAVAILABLE", connector=self._broker.name, reason=reason)

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()


def _open(connector: Connector, place: Place) -> Sink:
    return MqttSink(connector, place)


def _check_topic(connector: Connector, span: Span) -> None:
    topic = connector.options["topic"]
    text_option(connector, "topic", topic, span)
    if set(topic) & set("+#"):
        where = f"@sink of {connector.stream} (mqtt)"
        raise error("OPTION_INVALID", span, where=where, name="topic", value=topic, wanted="a topic without + and #")


KIND = SinkKind(
    (
        *described(
            OPTIONS,
            {
                "topic": "where to; `{{attribute}}` in it becomes the value of the event",
                "client.id": "`nadi-<app>-out-<number of the sink>`; the bucket is put behind it",
                "quality.of.service": "`1`; `0`: the broker acknowledges nothing, and what is lost on the way is lost",
                "clean.session": "`true`",
            },
        ),
        Option(
            "message.retain",
            kind="bool",
            doc="`false`; with `true` the broker keeps the last message of a topic for later subscribers",
        ),
        Option(
            "max.inflight",
            kind="int",
            least=1,
            doc=("20 messages may wait for their acknowledgement; a broker that takes fewer ends the connection"),
        ),
    ),
    _open,
    checks=(check_broker, check_texts, _check_topic),
    reaches=reaches,
    traits=SinkTraits(
        guarantee=AT_LEAST_ONCE,
        why="with MQTT 5 the receiver gets the number of every row and can drop what it has seen",
        refuses="a topic that is none, and what the broker answers with 135, 144, 149 or 153",
        announces=False,
        journal=False,
        local=False,
        header=False,
        topics=None,
        moved="does not refuse a run that was replaced: messages of one cut may come again, with the same numbers",
        alone=(("client.id", "the broker would end the connection of each when the next one comes"),),
    ),
    loops=(),
)
