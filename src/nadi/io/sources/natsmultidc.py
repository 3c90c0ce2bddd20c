"""`@source(type='natsMultiDC', destination='s', bootstrap.servers='nats://west:4222,nats://east:4222')`: one subject of two NATS servers, each message once.

See `nadi.io.sources.centres` for what happens, and `nadi.io.sources.centre_marks` for what a message is known by.
"""

from __future__ import annotations

from functools import partial

from nadi.io.addresses import check_servers
from nadi.io.centreoptions import OF_CENTRES, addresses, at_centre, check_centres
from nadi.io.contract import Connector, Ingress, Log, Place
from nadi.io.natsreach import reaches_of_centres, read_of_centres
from nadi.io.registry import SourceKind
from nadi.io.sources import centres
from nadi.io.sources.centre_marks import NAMES
from nadi.io.sources.nats import StreamLog, check_filter, check_start, client_of, destination, start_position
from nadi.io.sources.properties import transport_names
from nadi.plan.options import Option


def _where(connector: Connector) -> str:
    return f"@source of {connector.stream} (natsMultiDC)"


def _log(connector: Connector) -> Log:
    where, options = _where(connector), connector.options
    names = (*transport_names(connector), *NAMES)
    return StreamLog(client_of(options), destination(where, options), start_position(where, options), names)


def _ingress(connector: Connector, place: Place) -> Ingress:
    found = [
        centres.Centre(address, partial(_log, at_centre(connector, "nats", address, connector.options)))
        for address in addresses(connector)
    ]
    return centres.ingress(connector, place, found)


def _open(connector: Connector, place: Place) -> Log:
    return centres.open_centres_log(connector, place)


KIND = SourceKind(
    (
        *centres.OPTIONS,
        Option("bootstrap.servers", required=True, doc="one address per centre, as of `kafkaMultiDC`"),
        Option("destination", doc="the subject; required", other="subject"),
        Option("subject", doc="another name of `destination`"),
        Option("username", doc="for the connections", secret=True),
        Option("password", doc="for the connections", secret=True),
        Option("start.position", doc="as of `nats`", default="beginning"),
        Option("is.binary.message", kind="bool", doc="as of `kafkaMultiDC`"),
    ),
    _open,
    _ingress,
    identity=("destination", "subject"),
    begins=lambda _source: "with the first message that it takes",
    checks=(check_centres, check_servers, check_filter, check_start),
    reaches=reaches_of_centres,
    reads=read_of_centres,
    traits=OF_CENTRES,
    loops=(),
)
