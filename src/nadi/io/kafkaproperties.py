"""Which properties of the Kafka client an app may set in `optional.configuration`.

librdkafka takes more than an app's author should say: `plugin.library.paths` and `ssl.engine.location` load native code, `sasl.kerberos.kinit.cmd` is run by a
shell, and properties with a path read any file that the node can read. So those that tune and those that secure a connection are listed here, and every other
one is refused. A file is read only in the folder that the node's operator names for it (`nadi.connector.files`).
"""

from __future__ import annotations

from nadi.errors import NOWHERE, NadiError, Span, did_you_mean, error
from nadi.io.addresses import HTTP, KAFKA, check_addresses, servers
from nadi.io.contract import Connector
from nadi.io.kafkatrust import WANTED, brokers_of
from nadi.io.reach import Reached

TUNING = frozenset(
    [
        "acks",
        "api.version.request",
        "api.version.request.timeout.ms",
        "auto.offset.reset",
        "batch.num.messages",
        "batch.size",
        "broker.address.family",
        "broker.address.ttl",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.codec",
        "compression.level",
        "compression.type",
        "connections.max.idle.ms",
        "coordinator.query.interval.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "heartbeat.interval.ms",
        "isolation.level",
        "linger.ms",
        "log.connection.close",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "message.copy.max.bytes",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "sticky.partitioning.linger.ms",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
        "transaction.timeout.ms",
    ]
)
SECURITY = frozenset(
    [
        "enable.ssl.certificate.verification",
        "https.ca.pem",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.certificate.stores",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "ssl.sigalgs.list",
    ]
)
PORT = 9092
FILES = frozenset(
    [
        "https.ca.location",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.key.location",
        "ssl.keystore.location",
    ]
)
"""Those whose value is the path of a file that the client reads."""

KNOWN = TUNING | SECURITY | FILES

_WHY = {
    "plugin.": "it loads native code into the node",
    "ssl.engine.": "it loads native code into the node",
    "ssl.providers": "it loads native code into the node",
    "sasl.kerberos.": "a shell runs its values",
    "bootstrap.servers": "it is an option of its own",
    "group.id": "it is an option of its own in a source, and nadi's in a sink",
    "transactional.id": "nadi chooses it",
    "debug": "it fills the node's log",
    "log_level": "it fills the node's log",
}
"""Why a property is not among them, by how its name begins; others are for nadi to set, or have no use here."""


def given(connector: Connector, span: Span = NOWHERE) -> dict[str, str]:
    """The properties in `optional.configuration="name:value,name:value"`, all of them known. Errors: OPTION_INVALID, CLIENT_PROPERTY_REFUSED."""
    text = connector.options.get("optional.configuration", "")
    at = connector.place("optional.configuration")
    span = span if at == NOWHERE else at
    found: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        if not colon or not name:
            raise invalid(connector, "…", "name:value,…", span)  # it is not shown: a password may stand in it
        if name not in KNOWN:
            raise error("CLIENT_PROPERTY_REFUSED", span, where=_where(connector), name=name, hint=_hint(name))
        found[name] = value
    return found


def check_brokers(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID, where brokers can be none, or what is said of their certificates means nothing."""
    name = "bootstrap.servers"
    check_addresses(connector, _where(connector), name, KAFKA, span)
    if unknown := brokers_of(connector.options.get(name, "")).unknown:
        place = connector.place(name) or span
        raise error("OPTION_INVALID", place, where=_where(connector), name=name, value=unknown[0], wanted=WANTED)


def invalid(connector: Connector, value: str, wanted: str, span: Span) -> NadiError:
    """OPTION_INVALID, for the settings of the client."""
    where = _where(connector)
    return error("OPTION_INVALID", span, where=where, name="optional.configuration", value=value, wanted=wanted)


def reaches(connector: Connector) -> tuple[Reached, ...]:
    """The brokers, and the files that are named (`probe`: where OpenSSL looks for certificates). Errors: those of `given`."""
    name = "bootstrap.servers"
    found = [
        brokers_of(each) for each in connector.options.get(name, "").split(",")
    ]  # each centre names its own certificates
    trusted = (Reached(name, trusted=str(file)) for brokers in found for file in brokers.files)
    reached = (one for brokers in found for one in servers(name, brokers.addresses, KAFKA, PORT))
    return (*_files(connector), *_token_servers(connector), *trusted, *reached)


def _token_servers(connector: Connector) -> tuple[Reached, ...]:
    """Where the client asks for a token."""
    name = "sasl.oauthbearer.token.endpoint.url"
    url = given(connector).get(name, "")
    schemes, port = (HTTP, 80) if url.startswith("http:") else (HTTP[::-1], 443)
    return servers(name, url, schemes, port)


def _files(connector: Connector) -> tuple[Reached, ...]:
    return tuple(
        Reached(name, named=value)
        for name, value in given(connector).items()
        if name in FILES and not (name == "ssl.ca.location" and value == "probe")
    )


def _hint(name: str) -> str:
    why = next((why for beginning, why in _WHY.items() if name.startswith(beginning)), "")
    return why or did_you_mean(name, KNOWN)


def _where(connector: Connector) -> str:
    return f"@{connector.type} of {connector.stream}"
