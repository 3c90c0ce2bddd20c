"""Which transport properties (headers, topic, …) a mapping reads: only these are kept and handed on."""

from __future__ import annotations

from nadi.io.contract import Connector


def transport_names(connector: Connector) -> tuple[str, ...]:
    """The names that the mapping reads as `trp:name`, as written there."""
    values = [e.value.strip() for nested in connector.map.all("attributes") for e in nested.elements]
    return tuple(sorted({v[4:] for v in values if v.startswith("trp:")}))
