"""Addresses of brokers, subjects of NATS and topics of Kafka, as options name them: whether they can be ones. Asks nobody."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from nadi.config.loopback import with_port
from nadi.errors import NOWHERE, NadiError, Span, error
from nadi.io.contract import Connector
from nadi.io.natsidentity import parted, replicas_of
from nadi.io.reach import Reached

NATS, KAFKA, HTTP = ("nats", "tls"), ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), ("http", "https")
SERVERS = ("bootstrap.servers", "url")
"""Options that name the servers of NATS."""
UNREADABLE = "?"
"""Stands for a server whose address is none: it is on no list of servers."""
LONGEST_SUBJECT = 2_048  # bytes; a line of the protocol has 4,096
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def check_addresses(connector: Connector, where: str, name: str, schemes: Sequence[str], span: Span = NOWHERE) -> None:
    """Whether an option that is there has addresses with commas between them; in a type of several centres, `|` stands between those of one.

    Errors: OPTION_INVALID, with its place.
    """
    text = connector.options.get(name)
    inner = "|" if connector.type.endswith("multidc") else ","
    if text and any(not is_address(each, schemes) for each in text.replace(inner, ",").split(",")):
        wanted = f"host:port or {schemes[0]}://host:port; several with commas between them"
        raise error(
            "OPTION_INVALID", connector.place(name) or span, where=where, name=name, value=_safe(text), wanted=wanted
        )


def check_servers(connector: Connector, span: Span = NOWHERE) -> None:
    """Whether the options that name servers of NATS have addresses, and whether their parameters can be ones. Errors: OPTION_INVALID, with its place."""
    where = f"{connector.type} of {connector.stream}"
    for name in SERVERS:
        check_addresses(connector, where, name, NATS, span)
        text = connector.options.get(name, "")
        for url in text.split(",") if connector.type.endswith("multidc") else [text]:
            try:
                parted(url)
                replicas_of(url)
            except NadiError as reason:
                wanted, place = reason.parameters["wanted"], connector.place(name) or span
                raise error(
                    "OPTION_INVALID", place, where=where, name=name, value=_safe(text), wanted=f"a URL with {wanted}"
                ) from None


def is_address(text: str, schemes: Sequence[str]) -> bool:
    """Whether a text is `host`, `host:port`, or one of these with a scheme before it.

    >>> [is_address(a, NATS) for a in ("localhost:4222", "nats://[::1]:4222", "http://localhost", "a b", "host:99999", "")]
    [True, True, False, False, False, False]
    """
    return _parsed(text, schemes) is not None


def _parsed(text: str, schemes: Sequence[str]) -> tuple[str, int | None] | None:
    """Host and port of an address; None where it is none."""
    given = text.strip()
    try:
        parts = urlsplit(given if "://" in given else f"{schemes[0]}://{given}")
        host, port = parts.hostname, parts.port
    except ValueError:  # no port, or no address in [brackets]
        return None
    plain = all(c.isprintable() and not c.isspace() for c in given)
    return (host, port) if parts.scheme in schemes and host and plain else None


def servers(name: str, text: str, schemes: Sequence[str], port: int) -> tuple[Reached, ...]:
    """The servers that an option `name` has, whatever separates them; one without a port has that one.

    >>> [one.host for one in servers("bootstrap.servers", "a:1,SSL://B|[::1]:3", KAFKA, 9092)]
    ['a:1', 'b:9092', '[::1]:3']
    """
    given = filter(None, (part.strip() for part in text.replace("|", ",").split(",")))
    return tuple(Reached(name, host=_server_of(each, schemes, port)) for each in given)


def _server_of(address: str, schemes: Sequence[str], port: int) -> str:
    found = _parsed(address, schemes)
    return UNREADABLE if found is None else with_port(found[0], found[1] or port)


def _safe(text: str) -> str:
    """Addresses without what may be a user and a password.

    >>> _safe("nats://me:secret@host:x")
    'nats://…@host:x'
    """
    return ",".join(
        f"{each.partition('://')[0]}://…@{each.rpartition('@')[2]}" if "@" in each else each for each in text.split(",")
    )


def is_topic(text: str) -> bool:
    """Whether Kafka takes a text as the name of a topic.

    >>> [is_topic(t) for t in ("orders.v1", "a b", "..", "", "x" * 250)]
    [True, False, False, False, False]
    """
    return _TOPIC.fullmatch(text) is not None


def check_topics(where: str, name: str, topics: Sequence[str], span: Span = NOWHERE) -> None:
    """Whether Kafka takes each of these as the name of a topic, and whether there is one. Errors: OPTION_INVALID."""
    wrong = next((topic for topic in topics or [""] if not is_topic(topic)), None)
    if wrong is not None:
        what = "names of topics, each" if name.endswith(".list") else "the name of one topic,"
        wanted = f"{what} of at most 249 letters without accents, digits, '.', '_' and '-'"
        raise error("OPTION_INVALID", span, where=where, name=name, value=wrong[:300], wanted=wanted)


def wrong_subject(subject: str) -> str:
    """Why nothing can be published to a subject, "" where it can.

    >>> wrong_subject("plant.hot.m1"), wrong_subject("plant..m1")
    ('', "'plant..m1' is no subject: a part of it is empty")
    >>> wrong_subject("$JS.API.STREAM.PURGE.Orders")
    "'$JS.API.STREAM.PURGE.Orders' is no subject for events: the server has it for itself"
    """
    return _misformed(subject) or _for_many(subject)


def wrong_filter(subject: str) -> str:
    """Why nothing can be read from a subject, "" where it can: `*` stands for a part, `>` for all that follow.

    >>> wrong_filter("plant.*.>"), wrong_filter("plant.>.m1")
    ('', "'plant.>.m1' is no subject to read: '>' stands for all that follow, at the end")
    """
    if found := _misformed(subject):
        return found
    if ">" in subject.split(".")[:-1]:
        return f"{_shown(subject)} is no subject to read: '>' stands for all that follow, at the end"
    return ""


def _misformed(subject: str) -> str:
    if len(subject.encode(errors="replace")) > LONGEST_SUBJECT:
        return f"{_shown(subject)}… is no subject: it is longer than {LONGEST_SUBJECT} bytes"
    if any(c.isspace() or not c.isprintable() for c in subject):
        return f"{_shown(subject)} is no subject: there is white space or a control character in it"
    parts = subject.split(".")
    if "" in parts:
        return f"{_shown(subject)} is no subject: a part of it is empty"
    if subject.startswith("$") or parts[0] == "_INBOX":
        return f"{_shown(subject)} is no subject for events: the server has it for itself"
    return ""


def _for_many(subject: str) -> str:
    if {"*", ">"}.isdisjoint(subject.split(".")):
        return ""
    return f"{_shown(subject)} is no subject to publish to: '*' and '>' stand for many"


def _shown(subject: str) -> str:
    return f"'{subject[:80]}'"


def invalid_subject(where: str, subject: str, reason: str, span: Span) -> NadiError:
    """OPTION_INVALID, for the option that names a subject."""
    return error("OPTION_INVALID", span, where=where, name="destination", value=subject, wanted=f"a subject ({reason})")
