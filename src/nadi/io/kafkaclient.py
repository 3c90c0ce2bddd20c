"""What the source and the sink for Kafka share: configuration from an app's options, and errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from weakref import WeakValueDictionary

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from nadi.errors import NOWHERE, NadiError, Span, error, placed
from nadi.io import kafkaproperties
from nadi.io.contract import Connector
from nadi.io.kafkatrust import brokers_of
from nadi.io.loops import Loops
from nadi.io.retry import failed
from nadi.plan.options import Option

Setting = str | int | float | bool

WITHIN = 10.0  # seconds that a call may take

OPTIONS = (
    Option(
        "bootstrap.servers",
        required=True,
        doc="the brokers, with commas between them; [with TLS](distributed.md#tls-to-kafka) `ssl://host:9093,ssl://host:9093?authority=…`",
    ),
    Option(
        "optional.configuration",
        doc="[settings of the client](#settings-of-the-kafka-client): `name:value,name:value`",
        secret=True,
    ),
    Option("is.binary.message", kind="bool", doc="Siddhi's, without effect: the mapper decides"),
)

KAFKA_LOOPS = Loops("kafka", "nadi.io.kafkaloops", ("nadi.io.kafkaloops",))
"""The loops of whatever reads or writes topics."""

# Short delays: a host's task waits for the answer. librdkafka itself reconnects, with back-off up to a second.
COMMON: Mapping[str, Setting] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 5_000,
    "log_level": 0,
    "topic.metadata.propagation.max.ms": 2_000,
}

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_AWAY = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._WAIT_COORD,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._NOENT,  # "No leaders found": a broker that has just come back
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._STATE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,  # what the client knows of the leader is old: a broker that was started again
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


def settings(
    connector: Connector, own: Mapping[str, Setting], usual: Mapping[str, Setting] | None = None
) -> dict[str, Setting]:
    """The client's configuration: nadi's and the usual, the brokers and how they are known, `optional.configuration` ("name:value,name:value"), and what
    must be as it is.

    Errors: OPTION_INVALID, CLIENT_PROPERTY_REFUSED.
    """
    brokers = brokers_of(connector.options["bootstrap.servers"])
    trust = {"bootstrap.servers": brokers.addresses, **brokers.properties}
    return {**COMMON, **(usual or {}), **trust, **kafkaproperties.given(connector), **own}


_NO_PROPERTY = "nadi.makes.no.client"


def check_settings(connector: Connector, span: Span) -> None:
    """Whether the client takes the values of `optional.configuration`. It looks at them in their order, and does not start where one does not exist.

    Errors: OPTION_INVALID, without the value where it may be a secret; those of `given`.
    """
    found = kafkaproperties.given(connector, span)
    for name, value in found.items():
        try:
            AdminClient({name: value, _NO_PROPERTY: ""})
        except KafkaException as reason:
            said = reason.args[0].str().strip()
        if _NO_PROPERTY not in said:
            secret = name in kafkaproperties.SECURITY
            wanted = f"a value that the client takes for {name}" + ("" if secret else f" ({said})")
            raise kafkaproperties.invalid(connector, f"{name}:{'…' if secret else value}", wanted, span)
    mechanism = found.get("sasl.mechanism") or found.get("sasl.mechanisms") or "GSSAPI"
    if found.get("security.protocol", "").lower().startswith("sasl") and mechanism not in _MECHANISMS:
        wanted = f"sasl.mechanism:{', or '.join(_MECHANISMS)}, where security.protocol is SASL"
        raise kafkaproperties.invalid(connector, f"sasl.mechanism:{mechanism}", wanted, span)
    if not kafkaproperties.FILES & found.keys() and (said := _refused_of_tls(found)):
        raise _no_tls(connector, said, span)


def read(connector: Connector) -> None:
    """Have the client look into the certificates and keys that are named. Errors: CERTIFICATE_UNUSABLE, with its place."""
    name, given = "bootstrap.servers", kafkaproperties.given(connector)
    for brokers in map(brokers_of, connector.options.get(name, "").split(",")):  # each centre names its own
        found = {**brokers.properties, **given}
        files = {one: path for one, path in found.items() if one in kafkaproperties.FILES and one.startswith("ssl.")}
        said = _refused_of_tls(found) if files else ""
        if not said:
            continue
        wrong = next((one for one in files if one in said), None)
        if wrong is None:
            raise _no_tls(connector, said, connector.place("optional.configuration") or NOWHERE)
        option = "optional.configuration" if wrong in given else name
        told = said if os.path.exists(files[wrong]) else "there is no such file"
        raise placed(error("CERTIFICATE_UNUSABLE", path=files[wrong], reason=told), connector.place(option))


def _refused_of_tls(properties: Mapping[str, Setting]) -> str:
    """Why a client with these properties would not begin to speak TLS, "" where it would, or does not speak it."""
    if not str(properties.get("security.protocol", "")).lower().endswith("ssl"):
        return ""
    tls = {name: value for name, value in properties.items() if name.startswith("ssl.")}
    try:
        AdminClient({**tls, "security.protocol": "ssl", "log_level": 0})
    except KafkaException as reason:
        return str(reason.args[0].str()).rpartition("client: ")[2].strip()
    return ""


def _no_tls(connector: Connector, said: str, span: Span) -> NadiError:
    return kafkaproperties.invalid(connector, "…", f"what the client can speak TLS with ({said})", span)


_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_ADMINS: WeakValueDictionary[frozenset[tuple[str, Setting]], AdminClient] = WeakValueDictionary()
_LOCK = threading.Lock()


def admin_of(connector: Connector) -> AdminClient:
    """The client for questions, shared by all logs of this process with the same settings; it goes with the last one who has it."""
    given = settings(connector, {})
    key = frozenset({**given, "process": os.getpid()}.items())
    with _LOCK:
        found = _ADMINS.get(key)
        if found is None:
            found = _ADMINS[key] = AdminClient(given)
        return found


def name_of(connector: Connector) -> str:
    """How a connector is called in messages and among the unavailable ones."""
    return (
        f"Kafka {brokers_of(connector.options['bootstrap.servers']).addresses} ({connector.type} of {connector.stream})"
    )


def fenced(reason: KafkaException) -> bool:
    """Whether another producer has taken over."""
    return reason.args[0].code() in _FENCED


def translated(reason: KafkaException | KafkaError, who: str) -> NadiError:
    """The condition for an error of the client: CONNECTION_UNAVAILABLE where trying again may help, else REFUSED."""
    found = reason.args[0] if isinstance(reason, KafkaException) else reason
    if found.code() in _AWAY or found.retriable() or found.txn_requires_abort():
        failed(who, found.str())
        return error("CONNECTION_UNAVAILABLE", connector=who, reason=found.str())
    return error("REFUSED", connector=who, reason=found.str())
