"""`@source(type='kafkaMultiDC', topic='t', bootstrap.servers='west:9092,east:9092')`: one topic of two Kafka clusters, each message once.

See `nadi.io.sources.centres` for what happens, and `nadi.io.sources.centre_marks` for what a message is known by. Only committed transactions are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nadi.errors import Span, error
from nadi.io import kafkaclient, kafkaproperties
from nadi.io.addresses import check_topics
from nadi.io.centreoptions import OF_CENTRES, addresses, at_centre, check_centres
from nadi.io.contract import Connector, Ingress, Log, Place
from nadi.io.kafkaclient import KAFKA_LOOPS, OPTIONS, check_settings
from nadi.io.registry import SourceKind
from nadi.io.sources import centres
from nadi.io.sources.centre_marks import NAMES
from nadi.io.sources.kafka import KafkaLog, check_start
from nadi.plan.connectortraits import Topics
from nadi.plan.options import LARGEST, Option, described

PASSED_ON = ("optional.configuration", "group.id", "enable.offsets.commit", "start.position")


def _where(connector: Connector) -> str:
    return f"@source of {connector.stream} (kafkaMultiDC)"


def _log(connector: Connector, place: Place) -> Log:
    return KafkaLog(connector, place, NAMES)


def _at(connector: Connector, address: str) -> Connector:
    options = {name: connector.options[name] for name in PASSED_ON if name in connector.options}
    options |= {
        "topic.list": connector.options["topic"],
        "partition.no.list": connector.options.get("partition.no", "0"),
    }
    return at_centre(connector, "kafka", address, options)


def _ingress(connector: Connector, place: Place) -> Ingress:
    found = [centres.Centre(address, partial(_log, _at(connector, address), place)) for address in addresses(connector)]
    return centres.ingress(connector, place, found)


def _open(connector: Connector, place: Place) -> Log:
    return centres.open_centres_log(connector, place)


def _check_topic(connector: Connector, span: Span) -> None:
    check_topics(_where(connector), "topic", [connector.options["topic"].strip()], span)


def _check_partition(connector: Connector, span: Span) -> None:
    where, number = _where(connector), connector.options.get("partition.no", "0")
    if not number.strip().isdecimal() or int(number) > LARGEST:
        raise error("OPTION_INVALID", span, where=where, name="partition.no", value=number, wanted="a whole number")


KIND = SourceKind(
    (
        *described(
            OPTIONS,
            {
                "bootstrap.servers": "one address per centre, with commas between them; several brokers of a centre with `|` between them. "
                "Keep the order of centres: nadi knows by the place how far it has read each",
                "is.binary.message": "`true`: messages of Siddhi's sinks begin with four bytes, the length of what says their number",
            },
        ),
        *centres.OPTIONS,
        Option("topic", required=True, doc="one topic, the same in all centres"),
        Option("partition.no", doc="the partition; 0", default="0"),
        Option("group.id", doc="as of `kafka`"),
        Option(
            "start.position",
            doc="where a new app begins: `beginning` (default), `end`, `time:<ms>`",
            default="beginning",
        ),
        Option("enable.offsets.commit", kind="bool", doc="as of `kafka`"),
    ),
    _open,
    _ingress,
    identity=("topic", "partition.no"),
    begins=lambda _source: "with the first message that it takes",
    checks=(check_centres, kafkaproperties.check_brokers, check_settings, check_start, _check_topic, _check_partition),
    reaches=kafkaproperties.reaches,
    reads=kafkaclient.read,
    traits=replace(OF_CENTRES, topics=Topics(("topic",))),
    loops=(KAFKA_LOOPS,),
)
