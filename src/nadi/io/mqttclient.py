"""MQTT: which broker a connector means, and clients of it (paho)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nadi.config.loopback import with_port
from nadi.errors import NOWHERE, Span, error
from nadi.io.contract import Connector, Place
from nadi.io.reach import Reached
from nadi.plan.options import Option, integer

SECURE = {"ssl": True, "mqtts": True, "tcp": False, "mqtt": False}
PORTS = {True: 8883, False: 1883}
LONGEST = 65_535  # bytes of a text in a packet
FOREVER = 0xFFFFFFFF  # a session that the broker keeps until it is told to forget it
UNACKNOWLEDGED = 1_000  # messages that a broker may send ahead; those of 3.1.1 decide for themselves

OPTIONS = (
    Option(
        "url",
        required=True,
        doc=("the broker: `tcp://host:1883` or `ssl://host:8883` (its certificate must be one that the system trusts)"),
    ),
    Option("topic", required=True, doc="what to subscribe to; `+` stands for a level, `#` for all that follow"),
    Option(
        "client.id",
        doc=(
            "`nadi-<app>-in-<number of the source>`: the broker knows the session by it, so it is the "
            "same at each start"
        ),
    ),
    Option("username", doc="the user of the connection", secret=True),
    Option("password", doc="its password; take it from the environment", secret=True),
    Option(
        "quality.of.service",
        choices=("0", "1", "2"),
        doc="`1`; with `0` the broker forgets what it has sent. `2` counts as `1`: see below",
        default="1",
    ),
    Option(
        "clean.session",
        kind="bool",
        doc=("`false`, unless the quality is 0. With `true` what is published while the node is away is lost"),
    ),
    Option("keep.alive", kind="int", doc="60 seconds of silence, after which the node checks the connection"),
    Option("connection.timeout", kind="int", doc="30 seconds to connect"),
    Option("protocol.version", choices=("5", "3.1.1"), doc="`5`, or `3.1.1` for an older broker", default="5"),
)
"""Options of source and sink: Siddhi's, and `protocol.version`."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and how to come to it; `keep_alive` and `within` in seconds."""

    host: str
    port: int
    secure: bool
    version: MQTTProtocolVersion
    keep_alive: int = 60
    within: int = 30
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return f"MQTT broker {self.host}:{self.port}"

    def client(self, client_id: str, clean: bool, manual_ack: bool) -> Client:
        """A client that has not connected yet; it never connects again by itself."""
        common: dict[str, Any] = {} if self.version == MQTTv5 else {"clean_session": clean}
        made = Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=self.version,
            reconnect_on_failure=False,
            manual_ack=manual_ack,
            **common,
        )
        made.connect_timeout = self.within
        if self.user:
            made.username_pw_set(self.user, self.password)
        if self.secure:
            made.tls_set()
        return made

    def connect(self, client: Client, clean: bool) -> None:
        """Connect; what the broker says to it comes with `on_connect`. Errors: OSError, ValueError."""
        if self.version != MQTTv5:
            client.connect(self.host, self.port, self.keep_alive)
            return
        asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types there
        asked.SessionExpiryInterval = 0 if clean else FOREVER
        asked.ReceiveMaximum = UNACKNOWLEDGED
        client.connect(self.host, self.port, self.keep_alive, clean_start=clean, properties=asked)


def broker(connector: Connector, span: Span = NOWHERE) -> Broker:
    """The broker of a connector. Errors: OPTION_INVALID."""
    options = connector.options
    try:
        parts = urlsplit(options["url"])
        host, port, secure = parts.hostname, parts.port, SECURE.get(parts.scheme)
    except ValueError:  # no port, or no address in [brackets]
        host, port, secure = None, None, None
    if secure is None or not host:
        raise _invalid(connector, span, "url", options["url"], "tcp://host:port or ssl://host:port")
    numbers = {
        name: integer(options, name, default) for name, default in (("keep.alive", 60), ("connection.timeout", 30))
    }
    for name, value in numbers.items():
        if not 0 < value <= 65_535:
            raise _invalid(connector, span, name, str(value), "a number of seconds from 1 to 65535")
    version = MQTTv311 if options.get("protocol.version") == "3.1.1" else MQTTv5
    return Broker(
        host,
        port or PORTS[secure],
        secure,
        version,
        numbers["keep.alive"],
        numbers["connection.timeout"],
        options.get("username", ""),
        options.get("password", ""),
    )


def reaches(connector: Connector) -> tuple[Reached, ...]:
    """The broker; none where it is not said. Errors: OPTION_INVALID."""
    if not connector.options.get("url"):
        return ()
    found = broker(connector)
    return (Reached("url", host=with_port(found.host, found.port)),)


def check_broker(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID."""
    broker(connector, span)


def check_texts(connector: Connector, span: Span) -> None:
    """Whether the protocol has room for what is said to a broker. Errors: OPTION_INVALID."""
    for name in ("topic", "client.id", "username", "password"):
        text = connector.options.get(name, "")
        if "\0" in text or len(text.encode(errors="replace")) > LONGEST or (name == "topic" and not text):
            shown = "…" if name == "password" else text[:80]
            wanted = f"at most {LONGEST} bytes in UTF-8, without a null character"
            raise _invalid(connector, span, name, shown, f"a topic of {wanted}" if name == "topic" else wanted)


def client_id(connector: Connector, place: Place, of: str) -> str:
    """The name of a client, the same at each start: by it the broker knows what it has kept for it, and ends an older connection. `of` is "in" or "out"."""
    made = re.sub(r"[^0-9A-Za-z_-]", "_", f"nadi-{place.app}-{of}-{connector.ordinal}")
    return connector.options.get("client.id") or made


def says_no(code: ReasonCode) -> bool:
    """Whether an answer is a refusal."""
    return bool(code.is_failure)


def user_properties(packet: int, given: Mapping[str, str]) -> Properties:
    """Names and values that travel with a message (MQTT 5)."""
    made = Properties(packet)  # type: ignore[no-untyped-call]
    made.UserProperty = list(given.items())
    return made


def _invalid(connector: Connector, span: Span, name: str, value: str, wanted: str) -> Exception:
    where = f"a connector of {connector.stream} (mqtt)"
    return error("OPTION_INVALID", span, where=where, name=name, value=value, wanted=wanted)
