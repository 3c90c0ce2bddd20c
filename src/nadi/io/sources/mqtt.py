"""`@source(type='mqtt', url='tcp://host:1883', topic='plant/+/temperature')`: messages of a broker go into the journal, and only then the broker hears so.

A broker keeps a message for a client until that has acknowledged it (quality of service 1), and a session (`clean.session='false'`, the default here) even
while the client is away. So nothing is lost when the node dies: what is not in the journal comes again. What is, but was not acknowledged in time, comes again
as well, and counts twice; MQTT has nothing by which to know it. With quality 0 the broker forgets what it has sent.

A source that asks for quality 2 gets 1: a client that keeps its half of that hand-shake in memory loses messages when it dies.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nadi.errors import NadiError, Span, error
from nadi.io.contract import Connector, Ingress, Log, Place
from nadi.io.journal import open_journal
from nadi.io.journallog import RETENTION_MS, open_journal_log
from nadi.io.journalmessages import Event
from nadi.io.mqttclient import OPTIONS, broker, check_broker, check_texts, client_id, reaches, says_no
from nadi.io.registry import SourceKind
from nadi.io.retry import Policy, failed, succeeded
from nadi.io.sources.properties import transport_names
from nadi.io.wallclock import WALL
from nadi.plan.connectortraits import Divided, SourceTraits
from nadi.plan.options import HOURS, Option, flag, integer

STOP_WITHIN = 10.0  # seconds for what is being appended when the source stops

_LOG = logging.getLogger(__name__)


class MqttIngress:
    """One subscription. A thread of its own connects and listens; paho calls everything below in it but `_stored`, which the journal calls."""

    def __init__(self, connector: Connector, place: Place) -> None:
        options = connector.options
        self._broker = broker(connector)
        self._topic = options["topic"]
        self._quality = min(1, integer(options, "quality.of.service", 1))
        self._clean = flag(options, "clean.session", self._quality == 0)
        self._id = client_id(connector, place, "in")
        self._kept = transport_names(connector)
        self._ordinal = connector.ordinal
        self._journal = open_journal(place.journal, place.identity)
        self._who = f"{self._broker.name}, {self._topic}"
        self._policy = Policy(50, 5_000)
        self._attempt = 0
        self._pending = 0
        self._change = threading.Condition()
        self._stopping = False
        self._client: Client | None = None
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{self._id}", daemon=True)
        self.subscribed = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, acknowledge what is in the journal, and go. What has come and is not in there, the broker still has."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
            self._change.wait_for(lambda: not self._pending, STOP_WITHIN)
            client = self._client
        if client is not None:
            client.disconnect()
        self._thread.join(STOP_WITHIN)
        succeeded(self._who)

    # ---- the thread

    def _run(self) -> None:
        while self._begins():
            client = self._made()
            try:
                self._broker.connect(client, self._clean)
                if not self._begins():
                    client.disconnect()  # `stop` came before there was a connection that it could have ended
                client.loop_forever(retry_first_connection=False)
            except (OSError, ValueError) as reason:
                self._away(str(reason) or type(reason).__name__)
            self.subscribed.clear()
            self._attempt += 1
            with self._change:
                self._client = None
                self._change.wait_for(lambda: self._stopping, self._policy.delay(self._attempt) / 1000)

    def _begins(self) -> bool:
        with self._change:
            return not self._stopping

    def _made(self) -> Client:
        client = self._broker.client(self._id, self._clean, manual_ack=True)
        client.on_connect = self._connected
        client.on_subscribe = self._heard
        client.on_disconnect = self._disconnected
        client.on_message = self._take
        with self._change:
            self._client = client
        return client

    def _away(self, reason: str) -> None:
        if failed(self._who, reason).attempts == 1:
            _LOG.warning("%s is away: %s", self._who, reason)

    def _connected(
        self, client: Client, _data: object, _flags: ConnectFlags, code: ReasonCode, _more: Properties | None
    ) -> None:
        if says_no(code):
            self._away(f"{code}; an older broker wants protocol.version = '3.1.1'" if code == 132 else str(code))
            client.disconnect()
        else:
            client.subscribe(self._topic, self._quality)

    def _heard(
        self, client: Client, _data: object, _mid: int, codes: list[ReasonCode], _more: Properties | None
    ) -> None:
        refused = [code for code in codes if says_no(code)]
        if refused:
            self._away(f"the topic is refused: {refused[0]}")
            client.disconnect()
            return
        self._attempt = 0
        succeeded(self._who)
        self.subscribed.set()

    def _disconnected(
        self, _client: Client, _data: object, _flags: DisconnectFlags, code: ReasonCode, _more: Properties | None
    ) -> None:
        if says_no(code):
            self._away(str(code))

    def _take(self, client: Client, _data: object, message: MQTTMessage) -> None:
        with self._change:
            if self._stopping:
                return  # the broker still has it
            self._pending += 1
        try:
            self._journal.submit(self._ordinal, [self._event(message)]).add_done_callback(
                lambda told: self._stored(client, message, told)
            )
        except NadiError as reason:
            self._not_stored(client, message, reason)
            self._done()

    def _event(self, message: MQTTMessage) -> Event:
        known = {"topic": message.topic, "qos": str(message.qos), "retain": str(message.retain).lower()}
        known |= dict(getattr(message.properties, "UserProperty", ()))
        return (
            WALL.now(),
            bytes(message.payload),
            {name: known[name] for name in self._kept if name in known},
        )

    # ---- the journal's thread

    def _stored(self, client: Client, message: MQTTMessage, told: Future[int]) -> None:
        reason = told.exception()
        if reason is None:
            client.ack(message.mid, message.qos)
        else:
            self._not_stored(client, message, reason)
        self._done()

    def _not_stored(self, client: Client, message: MQTTMessage, reason: BaseException) -> None:
        """Connect anew, and the broker sends what it has no acknowledgement for, in order. A message that fits nowhere would come for ever: it is dropped."""
        if isinstance(reason, NadiError) and reason.condition == "MESSAGE_TOO_LARGE":
            _LOG.error("%s: a message is dropped: %s", self._who, reason)
            client.ack(message.mid, message.qos)
            return
        self._away(f"nothing can be kept: {reason}")
        client.disconnect()

    def _done(self) -> None:
        with self._change:
            self._pending -= 1
            self._change.notify_all()


def _open(connector: Connector, place: Place) -> Log:
    hours = integer(connector.options, "journal.retention.hours", RETENTION_MS // 3_600_000)
    return open_journal_log(place.journal, place.identity, connector.ordinal, hours * 3_600_000)


def _ingress(connector: Connector, place: Place) -> Ingress:
    return MqttIngress(connector, place)


def _check_topic(connector: Connector, span: Span) -> None:
    levels = connector.options["topic"].split("/")
    if "#" in levels[:-1] or any(len(level) > 1 and set(level) & set("+#") for level in levels):
        wanted = "a topic in which + stands for a whole level, and # for all levels at the end"
        where, topic = f"@source of {connector.stream} (mqtt)", connector.options["topic"]
        raise error("OPTION_INVALID", span, where=where, name="topic", value=topic, wanted=wanted)


KIND = SourceKind(
    (*OPTIONS, Option("journal.retention.hours", kind="int", least=0, most=HOURS, doc="as of `http`", default="24")),
    _open,
    _ingress,
    begins=lambda _source: "with the first message that it takes",
    checks=(check_broker, check_texts, _check_topic),
    reaches=reaches,
    traits=SourceTraits(
        endless=True,
        divided=Divided.WHOLE,
        centres=False,
        owned=True,
        listens=None,
        journal=True,
        parted=False,
        local=False,
        header=False,
        topics=None,
        moved="",
    ),
    loops=(),
)
