"""What has to be created before an app can be deployed: channels, by comparison with what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nadi.errors import error
from nadi.lang import tree
from nadi.lang.tree import Annotation
from nadi.plan.annotations import found
from nadi.plan.connectortraits import ConnectorCatalog
from nadi.plan.distribution.model import Channel, Topology


@dataclass(frozen=True, slots=True)
class Provision:
    """A channel that is to be created (`existing` 0), or to get more partitions than it has.

    More partitions bring keys to other ones: that is done at an aligned cut.
    """

    channel: Channel
    existing: int = 0


def provisions(topology: Topology, existing: Mapping[str, int]) -> tuple[Provision, ...]:
    """The channels that are missing or too narrow, in the order of the topology. `existing` has the partitions of topics by their names; on NATS, of channels.

    Nothing is ever removed: a keyed channel with more partitions than wanted holds events that would be lost.

    Raises:
        DIST_SOURCE_TOPIC_MISSING, DIST_CHANNEL_MISSING: the app says that all channels exist, and one does not.
        DIST_CHANNEL_TOO_WIDE: a keyed channel has more partitions.
    """
    wanting = [t for t in topology.topics if t not in existing]
    if wanting and not topology.creates_channels:
        raise error("DIST_SOURCE_TOPIC_MISSING", names=", ".join(wanting))
    return tuple(p for c in topology.channels if (p := _provision(topology, c, existing.get(c.name, 0))) is not None)


def _provision(topology: Topology, channel: Channel, has: int) -> Provision | None:
    if not has and not topology.creates_channels:
        raise error("DIST_CHANNEL_MISSING", name=channel.name, partitions=channel.partitions)
    if has > channel.partitions and channel.key is not None and not channel.outside:
        raise error("DIST_CHANNEL_TOO_WIDE", name=channel.name, partitions=channel.partitions, found=has)
    wanted = 1 if channel.outside else channel.partitions  # who fills it decides
    return Provision(channel, has) if has < wanted else None


def source_topics(app: tree.SiddhiApp, types: ConnectorCatalog, servers: str = "") -> tuple[str, ...]:
    """The topics that sources of an app read on Kafka; with `servers`, those of sources there only."""
    sources = [s for d in app.definitions for s in found(d.annotations, "source") if _is_on(s, servers)]
    named = [_topics(source, types) for source in sources]
    return tuple(dict.fromkeys(t.strip() for names in named for t in names.split(",") if t.strip()))


def _topics(source: Annotation, types: ConnectorCatalog) -> str:
    traits = types.source_traits((source.get("type") or "").lower())
    return "" if traits is None or traits.topics is None else traits.topics.named(source)


def _is_on(source: Annotation, servers: str) -> bool:
    return not servers or source.get("bootstrap.servers") in (None, servers)
