"""The brokers of a source or sink that has several data centres: `bootstrap.servers='west:9092,east:9092'`, one address per centre, in an order that stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nadi.errors import NOWHERE, Span, error
from nadi.io.contract import Connector
from nadi.plan.connectortraits import Divided, SourceTraits

LEAST, MOST = 2, 8

OF_CENTRES = SourceTraits(
    endless=True,
    divided=Divided.WHOLE,
    centres=True,
    owned=True,
    listens=None,
    journal=True,
    parted=False,
    local=False,
    header=False,
    topics=None,
    moved="",
)
"""Those of sources of several data centres, whatever brokers they have."""


def addresses(connector: Connector, span: Span = NOWHERE) -> tuple[str, ...]:
    """The address of each centre. A centre with several brokers has them with `|` between them. Errors: OPTION_INVALID.

    The number of a centre is its place: positions in its log go by it.
    """
    name = "bootstrap.servers"
    text = connector.options[name]
    found = tuple(address.strip().replace("|", ",") for address in text.split(","))
    if not LEAST <= len(found) <= MOST or not all(found) or len(set(found)) < len(found):
        where = f"{connector.type} of {connector.stream}"
        wanted = "the addresses of two centres or more, with commas between them"
        raise error("OPTION_INVALID", span, where=where, name=name, value=text, wanted=wanted)
    return found


def check_centres(connector: Connector, span: Span) -> None:
    """Errors: OPTION_INVALID."""
    addresses(connector, span)


def at_centre(connector: Connector, kind: str, address: str, options: Mapping[str, str]) -> Connector:
    """The connector of one centre: of another kind, with options of its own, and the address of that centre."""
    return replace(connector, type=kind, options={**options, "bootstrap.servers": address})
