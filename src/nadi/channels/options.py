"""`@source(type='channel', …)` and `@sink(type='channel', …)`: what a partial app says of a channel. A user writes none of it: partial apps are generated.

Both ends:

| option | meaning |
|---|---|
| `transport` | `nats` or `kafka` |
| `name` | the channel |
| `partitions` | of how many parts it consists, 1 if left out |
| `bootstrap.servers` or `url` | where its servers are; if left out, what the node says (`nadi.channels.nats`, `nadi.channels.kafka`) |
| `username`, `password` | of NATS |
| `optional.configuration` | of Kafka, as for its sources and sinks |
| `group` | the execution group that reads or writes |
| `key` | of a sink: the expression over the stream's attributes that the channel is split by |

Source: `assigned` (the parts that this instance reads, as numbers with commas; all if left out), `strategy` (ALL, ROUND_ROBIN, FIELD_GROUPING: why it reads
these), `producers` (the partial apps that fill the channel, with commas: a cut goes no further than the least progress of these).

Sink: `producer` (what this one is called, by default the name of the app), `strategy` (FIELD_GROUPING where there is a key, else ROUND_ROBIN or, with one part,
ALL), `numbers` (`group` where key-groups move between the instances of the group and their numbers go on; `instance`, the default, where each has its own),
`channel.idle` (ms after which a producer with nothing to say says so, 500).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nadi.errors import NOWHERE, Span, error
from nadi.io import kafkaproperties
from nadi.io.addresses import KAFKA, SERVERS, check_addresses, check_servers
from nadi.io.contract import Connector, Place
from nadi.plan.distribution.model import Strategy
from nadi.plan.options import Option, described, integer

IDLE_MS = 500
MOST = "bytes"
"""What a node says, beside the servers of transports, of how many bytes a channel may have."""
_TRANSPORTS = ("nats", "kafka")

_COMMON = (
    Option("transport", required=True, choices=_TRANSPORTS, doc="`nats` or `kafka`"),
    Option("name", required=True, doc="the channel"),
    Option("partitions", kind="int", doc="of how many parts it consists (1)"),
    Option(
        "bootstrap.servers",
        doc="its servers; otherwise what the node has in `nadi.channels.nats` or `nadi.channels.kafka`",
    ),
    Option("url", doc="another name of `bootstrap.servers`"),
    Option("username", doc="for NATS", secret=True),
    Option("password", doc="for NATS", secret=True),
    Option(
        "optional.configuration", doc="for Kafka: [settings of the client](#settings-of-the-kafka-client)", secret=True
    ),
    Option("group", doc="the execution group of the app"),
    Option("key", doc="the expression by which events are spread over the parts"),
    Option(
        "strategy",
        choices=tuple(s.value for s in Strategy),
        doc="why it reads these parts: `ALL`, `ROUND_ROBIN` or `FIELD_GROUPING`",
    ),
)
SOURCE_OPTIONS = (
    *_COMMON,
    Option("assigned", doc="the parts that this instance reads, with commas (all)"),
    Option(
        "producers",
        required=True,
        doc=("the partial apps that fill the channel, with commas; a batch goes no further than the slowest of them"),
    ),
)
SINK_OPTIONS = (
    *described(
        _COMMON,
        {
            "strategy": "how rows are spread: `FIELD_GROUPING` by the key, `ROUND_ROBIN` without one, `ALL` into one part"
        },
    ),
    Option("producer", doc="what readers know this end by (the name of the app)"),
    Option(
        "numbers",
        choices=("group", "instance"),
        doc=(
            "`instance` (default): rows are numbered by this instance; `group`: key-groups keep their "
            "numbers when they move to another instance"
        ),
    ),
    Option("channel.idle", kind="int", doc="ms after which an end with nothing to send says so (500)"),
)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as both ends know it; `options` are those that its transport reads. `most` are the bytes it may have
    where the servers refuse nothing; 0: no bound."""

    transport: str
    name: str
    parts: int = 1
    servers: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    most: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source reads: parts `assigned` of a channel, as `producers` fill them."""

    channel: Channel
    assigned: tuple[int, ...]
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filling:
    """What a sink writes. `key` is the text of an expression, "" for none; `idle` in ms."""

    channel: Channel
    producer: str
    output: str
    key: str
    moves: bool
    idle: int


def reading(source: Connector, place: Place | None = None, span: Span = NOWHERE) -> Reading:
    """The checked options of a source, for a node, or to be looked at only. Errors: OPTION_MISSING, OPTION_INVALID."""
    channel = _channel(source, "source", place, span)
    given = source.options.get("assigned", "")
    assigned = tuple(int(p) for p in _listed(given) if p.isdecimal())
    if len(assigned) != len(_listed(given)) or any(p >= channel.parts for p in assigned):
        wanted = f"numbers of parts with commas, each less than {channel.parts}"
        raise invalid(source, "source", "assigned", given, wanted, span)
    producers = _listed(source.options["producers"])
    if not producers or len(set(producers)) < len(producers):
        wanted = "names of partial apps with commas, each once"
        raise invalid(source, "source", "producers", source.options["producers"], wanted, span)
    return Reading(channel, assigned or tuple(range(channel.parts)), producers)


def filling(sink: Connector, place: Place | None = None, span: Span = NOWHERE) -> Filling:
    """The checked options of a sink, for a node, or to be looked at only. Errors: OPTION_MISSING, OPTION_INVALID."""
    channel = _channel(sink, "sink", place, span)
    producer = sink.options.get("producer") or (place.app if place is not None else "")
    output = f"{sink.options.get('group', '')}/{sink.stream}"
    moves = sink.options.get("numbers", "instance").lower() == "group"
    idle = integer(sink.options, "channel.idle", IDLE_MS)
    if idle <= 0:
        raise invalid(sink, "sink", "channel.idle", str(idle), "a number of ms above 0", span)
    return Filling(channel, producer, output, sink.options.get("key", "").strip(), moves, idle)


def _channel(connector: Connector, kind: str, place: Place | None, span: Span) -> Channel:
    options = connector.options
    transport = options["transport"].lower()
    known = place.channels.get(transport, "") if place is not None else ""
    check_servers(connector, span) if transport == "nats" else _check_kafka(connector, span)
    servers = options.get("bootstrap.servers") or options.get("url") or known
    if place is not None and not servers:
        raise error("OPTION_MISSING", span, where=_where(connector, kind), name="bootstrap.servers")
    parts = integer(options, "partitions", 1)
    if not 1 <= parts <= 128:
        raise invalid(connector, kind, "partitions", str(parts), "a number from 1 to 128", span)
    most = int(place.channels.get(MOST, 0)) if place is not None else 0
    return Channel(transport, options["name"], parts, servers, options, most)


def _check_kafka(connector: Connector, span: Span) -> None:
    for name in SERVERS:
        check_addresses(connector, f"channel of {connector.stream}", name, KAFKA, span)
    kafkaproperties.given(connector, span)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _where(connector: Connector, kind: str) -> str:
    return f"@{kind} of {connector.stream} (channel)"


def invalid(connector: Connector, kind: str, name: str, value: str, wanted: str, span: Span) -> Exception:
    """OPTION_INVALID, for an end of a channel."""
    return error("OPTION_INVALID", span, where=_where(connector, kind), name=name, value=value, wanted=wanted)
